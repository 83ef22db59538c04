//! Peers that are full, slow, silent, unfit or hostile.

use tokio::io::AsyncReadExt;

use super::*;
use crate::transport::frame::{self, BODY_BYTES_MAX, FrameReader};
use crate::transport::outgoing::WAITING_BYTES_MAX;
use crate::transport::pending::PENDING_MAX;
use crate::transport::{Cause, Reply};

#[tokio::test]
async fn a_full_table_of_calls_refuses_bulk_first_and_then_everything() {
    let (one, two) = start_two().await;
    let bulk: Vec<_> = (0..PENDING_MAX / 4 * 3).map(|_| one.call(TWO, 16, "")).collect();
    assert_eq!(one.call(TWO, 16, "").await, Err(CallError::Full));
    let urgent: Vec<_> = (0..PENDING_MAX / 4).map(|_| one.call(TWO, 15, "")).collect();
    assert_eq!(one.call(TWO, 15, "").await, Err(CallError::Full));
    // The peer serves all of them at a time: its own bound is met by none.
    for _ in 0..PENDING_MAX {
        two.desk.served().await.2.send(Bytes::new());
    }
    for call in bulk.into_iter().chain(urgent) {
        assert_eq!(call.await, Ok(Bytes::new()));
    }
}

#[tokio::test]
async fn a_peer_that_does_not_read_costs_a_bounded_buffer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (one, _unread) = start_beside(&listener).await;
    let body = Bytes::from(vec![0; 1 << 20]);
    let mut taken = 0;
    loop {
        let call = one.call(TWO, 1, body.clone());
        tokio::task::yield_now().await;
        match futures_util::FutureExt::now_or_never(call) {
            None => taken += 1,
            Some(end) => {
                assert_eq!(end, Err(CallError::Full));
                break;
            }
        }
        assert!(taken < 200, "the buffer has no end");
    }
    // One buffer waits, one is in the writer's hands, and the system has its own.
    assert!(taken > WAITING_BYTES_MAX / (1 << 20) / 2, "{taken}");
    assert!(taken < 2 * WAITING_BYTES_MAX / (1 << 20) + 32, "{taken}");
    let too_long = Bytes::from(vec![0; BODY_BYTES_MAX + 1]);
    assert_eq!(one.call(TWO, 1, too_long).await, Err(CallError::Full));
}

#[tokio::test]
async fn more_requests_than_may_be_served_wait_on_the_wire() {
    let (listener, addr) = listen();
    let (_unanswering, silent) = listen();
    let one = Node::start(fixtures::config(1, &[(1, addr), (2, silent)]), listener);
    let mut stream = dial_as(2, &one).await;
    let frames: Vec<_> = (0..80).map(|call| framed(1, call, &[0; 1 << 20])).collect();
    let (mut read, mut write) = stream.split();
    let send = async {
        for frame in frames {
            write.write_all(&frame).await.unwrap();
        }
        std::future::pending::<()>().await;
    };
    let serve = async {
        let mut held: Vec<Reply> = Vec::new();
        for _ in 0..64 {
            held.push(one.desk.served().await.2);
        }
        // 64 MiB are being served: the next ones are read only when some of them end.
        for _ in 0..1000 {
            tokio::task::yield_now().await;
        }
        assert!(!one.desk.has_event().await);
        for _ in 0..16 {
            held.pop().unwrap().send(Bytes::new());
            held.push(one.desk.served().await.2);
        }
    };
    tokio::select! {
        () = send => unreachable!("sends for ever"),
        () = serve => {}
    }
    let mut answers = FrameReader::new(&mut read);
    assert!(answers.fill().await.unwrap());
    assert_eq!(answers.take().unwrap().unwrap().head.kind, frame::ANSWER);
}

#[tokio::test]
async fn what_is_no_request_closes_the_connection_of_a_proven_peer() {
    let (listener, addr) = listen();
    let (_unanswering, silent) = listen();
    let one = Node::start(fixtures::config(1, &[(1, addr), (2, silent)]), listener);
    let hostile = [
        u32::MAX.to_le_bytes().to_vec(),
        (BODY_BYTES_MAX as u32 + 16).to_le_bytes().to_vec(),
        0_u32.to_le_bytes().to_vec(),
        framed(frame::ANSWER, 1, b"an answer to nothing"),
        framed(255, 1, b""),
    ];
    for bytes in hostile {
        let mut stream = dial_as(2, &one).await;
        stream.write_all(&framed(1, 1, b"a good one first")).await.unwrap();
        let (caller, _, _reply) = one.desk.served().await;
        stream.write_all(&bytes).await.unwrap();
        let Event::Closed(closed) = one.desk.event().await else { panic!("served") };
        assert_eq!(closed, caller);
        let mut rest = Vec::new();
        let _ = stream.read_to_end(&mut rest).await;
    }
}

#[tokio::test]
async fn what_is_no_answer_makes_the_dialer_hang_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    for bytes in
        [u32::MAX.to_le_bytes().to_vec(), framed(1, 1, b"a request"), framed(frame::PONG, 1, b"")]
    {
        let (one, mut stream) = start_beside(&listener).await;
        let call = one.call(TWO, 1, "");
        stream.write_all(&bytes).await.unwrap();
        assert_eq!(call.await, Err(CallError::Lost));
    }
}

#[tokio::test]
async fn nobody_without_proof_holds_more_than_a_place_and_places_are_few() {
    let (listener, addr) = listen();
    let (_unanswering, silent) = listen();
    let one = Node::start(fixtures::config(1, &[(1, addr), (2, silent)]), listener);
    let mut knocking = Vec::new();
    for _ in 0..64 {
        knocking.push(TcpStream::connect(addr).await.unwrap());
    }
    let mut late = TcpStream::connect(addr).await.unwrap();
    let mut nothing = [0];
    let heard = tokio::time::timeout(SOON, late.read(&mut nothing)).await.unwrap();
    assert!(matches!(heard, Ok(0) | Err(_)), "closed without a word: {heard:?}");
    // The others are still there, and make room as soon as they give up.
    knocking.clear();
    let mut stream = loop {
        let (identity, guard) = played(2, &one);
        let mut stream = TcpStream::connect(addr).await.unwrap();
        if identity.dial(&mut stream, ONE, &guard, &*Desk::new()).await.is_ok() {
            break stream;
        }
    };
    stream.write_all(&framed(1, 1, b"")).await.unwrap();
    assert_eq!(one.desk.served().await.0.node, TWO);
}

#[tokio::test]
async fn nodes_that_name_records_differently_refuse_each_other_with_the_reason() {
    let (one, two) = start_two_with(|config| config.naming = [8; 32]);
    for (node, peer) in [(&one, TWO), (&two, ONE)] {
        eventually("a refusal", || !node.transport.refusals().is_empty()).await;
        let refusals = node.transport.refusals();
        assert!(refusals.iter().all(|refusal| refusal.peer == peer), "{refusals:?}");
        let remedy = "give all nodes the same policy file";
        assert!(refusals.iter().any(|refusal| refusal.reason.contains(remedy)), "{refusals:?}");
        assert!(node.transport.connected().is_empty());
        assert_eq!(node.transport.naming_refusals(), 1);
    }
}

#[tokio::test]
async fn a_refusal_is_forgotten_when_the_peer_is_admitted_after_all() {
    let ((first, first_addr), (second, second_addr)) = (listen(), listen());
    let peers = [(1, first_addr), (2, second_addr)];
    let one = Node::start(fixtures::config(1, &peers), first);
    one.desk.refuse([2; 16]);
    let two = Node::start(fixtures::config(2, &peers), second);
    let expected = |peer, by_us| Refusal {
        peer,
        by_us,
        cause: Cause::Other,
        reason: "another data directory; use the old one".to_owned(),
    };
    eventually("both know", || {
        one.transport.refusals() == [expected(TWO, true)]
            && two.transport.refusals() == [expected(ONE, false)]
    })
    .await;
    one.desk.refuse([0; 16]);
    tokio::join!(one.connected_to(TWO), two.connected_to(ONE));
    assert!(one.transport.refusals().is_empty() && two.transport.refusals().is_empty());
}

#[tokio::test]
async fn a_peer_that_says_nothing_is_given_up_and_its_calls_fail() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let (one, _silent) = start_beside(&listener).await;
    let call = one.transport.call(TWO, request(1, ""), Duration::from_secs(60));
    // From here on time only passes when nobody has anything to do.
    tokio::time::pause();
    let started = Instant::now();
    assert_eq!(call.await, Err(CallError::Lost));
    assert!(started.elapsed() <= Duration::from_secs(4), "{:?}", started.elapsed());
}

#[tokio::test]
async fn a_dialer_that_says_nothing_loses_its_seat() {
    let (listener, addr) = listen();
    let (_unanswering, silent) = listen();
    let one = Node::start(fixtures::config(1, &[(1, addr), (2, silent)]), listener);
    let mut stream = dial_as(2, &one).await;
    stream.write_all(&framed(1, 1, b"")).await.unwrap();
    let (caller, _, _reply) = one.desk.served().await;
    tokio::time::pause();
    let Event::Closed(closed) = one.desk.event().await else { panic!("served") };
    assert_eq!(closed, caller);
}
