use futures_util::FutureExt;

use super::*;
use crate::clock::SimulatedClock;
use crate::transport::fixtures::{self, Desk, Event};
use crate::transport::handshake::Identity;
use crate::transport::refusals::Refusals;

fn local() -> (Arc<Local>, Arc<Desk>) {
    let desk = Desk::new();
    let local = Local {
        identity: Identity::new(&fixtures::config(1, &[]), [1; 16]),
        guard: fixtures::guard(&SimulatedClock::new(0), 1),
        service: desk.clone(),
        refusals: Arc::new(Refusals::default()),
    };
    (Arc::new(local), desk)
}

#[tokio::test]
async fn a_seat_is_free_only_when_its_sitter_has_left_and_the_service_was_told() {
    let (local, desk) = local();
    let seats = Arc::new(Seats::default());
    let first = Seat::take(&seats, NodeId(2), &local).await;
    let other = Seat::take(&seats, NodeId(3), &local).await;
    let mut second = Box::pin(Seat::take(&seats, NodeId(2), &local));
    let mut third = Box::pin(Seat::take(&seats, NodeId(2), &local));
    assert!((&mut second).now_or_never().is_none());
    assert!((&mut third).now_or_never().is_none());
    assert!(first.leave.notified().now_or_never().is_some(), "the sitter is asked to leave");
    assert!(other.leave.notified().now_or_never().is_none(), "another node's sitter is not");

    let caller = first.caller;
    drop(first);
    let Event::Closed(closed) = desk.event().await else { panic!("served") };
    assert_eq!(closed, caller);
    assert!((&mut third).now_or_never().is_none(), "the second comes before the third");
    let second = second.await;
    assert!(second.leave.notified().now_or_never().is_some(), "and has to leave at once");
    drop(second);
    third.await;
}

#[tokio::test]
async fn who_never_sat_down_is_not_told_to_the_service() {
    let (local, desk) = local();
    let seats = Arc::new(Seats::default());
    let first = Seat::take(&seats, NodeId(2), &local).await;
    let mut second = Box::pin(Seat::take(&seats, NodeId(2), &local));
    assert!((&mut second).now_or_never().is_none());
    drop(second);
    assert!(!desk.has_event().await);
    drop(first);
    assert!(matches!(desk.event().await, Event::Closed(_)));
    assert!(seats.lock().is_empty());
}

#[tokio::test]
async fn a_peer_that_reads_nothing_loses_its_connection_before_its_answers_fill_the_memory() {
    let (local, desk) = local();
    let seats = Arc::new(Seats::default());
    let seat = Seat::take(&seats, NodeId(2), &local).await;
    let body = bytes::Bytes::from(vec![0; 1 << 20]);
    let mut answered = 0;
    while !seat.inbound.is_closed() {
        assert!(seat.inbound.serving.begin(1, 0).await);
        let until = Instant::now() + Duration::from_secs(60);
        Reply::new(seat.inbound.clone(), answered, 0, until).send(body.clone());
        answered += 1;
        assert!(answered < 100_000, "the answers have no end");
    }
    assert!(answered > 10_000, "answers that do not fit are told to be lost, and that has room");
    drop(seat);
    assert!(matches!(desk.event().await, Event::Closed(_)));
}
