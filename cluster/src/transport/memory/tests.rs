use super::*;
use crate::clock::SimulatedClock;
use crate::transport::Caller;
use crate::transport::fixtures::{Desk, Event, guard, request};
use crate::transport::pending::PENDING_MAX;

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);
const THREE: NodeId = NodeId(3);

const SOON: Duration = Duration::from_secs(5);

struct Node {
    clock: SimulatedClock,
    guard: Arc<ClockGuard>,
    desk: Arc<Desk>,
    transport: MemoryTransport,
}

impl Node {
    fn join(network: &MemoryNetwork, id: NodeId) -> Self {
        let clock = SimulatedClock::new(0);
        let (guard, desk) = (guard(&clock, id.0), Desk::new());
        let transport = network.join(id, guard.clone(), desk.clone());
        Self { clock, guard, desk, transport }
    }

    fn call(&self, to: NodeId, body: &'static str) -> BoxFuture<'static, Result<Bytes, CallError>> {
        self.transport.call(to, request(1, body), SOON)
    }

    /// Has the next request answered with its own body.
    async fn echo_one(&self) -> Caller {
        let (caller, request, reply) = self.desk.served().await;
        reply.send(request.body);
        caller
    }
}

fn three(seed: u64) -> (MemoryNetwork, [Node; 3]) {
    let network = MemoryNetwork::new(seed);
    let nodes = [ONE, TWO, THREE].map(|id| Node::join(&network, id));
    (network, nodes)
}

#[tokio::test(start_paused = true)]
async fn everybody_reaches_everybody() {
    let (_network, nodes) = three(1);
    for (from, to) in [(0, TWO), (0, THREE), (1, ONE), (1, THREE), (2, ONE), (2, TWO)] {
        let call = nodes[from].call(to, "hello");
        let caller = nodes[to.0 as usize - 1].echo_one().await;
        assert_eq!(caller.node, NodeId(from as u64 + 1));
        assert_eq!(call.await, Ok("hello".into()));
    }
    assert_eq!(nodes[0].transport.connected(), [TWO, THREE]);
    assert_eq!(nodes[0].call(NodeId(9), "").await, Err(CallError::NotSent));
}

#[tokio::test(start_paused = true)]
async fn a_way_that_is_cut_loses_everything_in_its_direction_only() {
    let (network, [one, two, _]) = three(2);
    network.cut(ONE, TWO);
    let started = Instant::now();
    assert_eq!(one.call(TWO, "lost").await, Err(CallError::TimedOut));
    assert_eq!(started.elapsed(), SOON);
    assert!(!two.desk.has_event().await);

    let call = two.call(ONE, "arrives, and its answer does not");
    one.echo_one().await;
    assert_eq!(call.await, Err(CallError::TimedOut));

    network.heal(ONE, TWO);
    let call = one.call(TWO, "healed");
    two.echo_one().await;
    assert_eq!(call.await, Ok("healed".into()));
}

#[tokio::test(start_paused = true)]
async fn severing_two_nodes_breaks_their_connections_until_they_are_healed() {
    let (network, [one, two, three]) = three(3);
    let call = one.call(TWO, "waits");
    let (caller, _, reply) = two.desk.served().await;
    network.sever(TWO, ONE);
    assert_eq!(call.await, Err(CallError::Lost));
    assert!(reply.is_closed());
    let Event::Closed(closed) = two.desk.event().await else { panic!("served") };
    assert_eq!(closed, caller);
    assert_eq!(one.call(TWO, "").await, Err(CallError::NotSent));
    assert_eq!((one.transport.connected(), two.transport.connected()), (vec![THREE], vec![THREE]));
    let around = one.call(THREE, "others are not touched");
    three.echo_one().await;
    assert!(around.await.is_ok());

    network.heal(ONE, TWO);
    let call = one.call(TWO, "again");
    assert_ne!(two.echo_one().await.connection, caller.connection);
    assert!(call.await.is_ok());
    assert!(!two.desk.has_event().await, "closed once");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_leaves_is_gone_and_one_that_joins_again_is_new() {
    let (network, [one, two, _]) = three(4);
    let call = one.call(TWO, "waits");
    two.desk.served().await.2.refuse();
    assert_eq!(call.await, Err(CallError::Refused));
    network.leave(TWO);
    assert_eq!(one.call(TWO, "").await, Err(CallError::NotSent));
    let two = Node::join(&network, TWO);
    let call = one.call(TWO, "back");
    two.echo_one().await;
    assert_eq!(call.await, Ok("back".into()));
}

#[tokio::test(start_paused = true)]
async fn delays_follow_the_seed_and_nothing_overtakes() {
    let mut runs = Vec::new();
    for seed in [7, 7, 8] {
        let (network, [one, two, _]) = three(seed);
        network.delay(ONE, TWO, Duration::from_millis(1)..=Duration::from_millis(100));
        let started = Instant::now();
        let calls: Vec<_> = ["a", "b", "c", "d"].map(|body| one.call(TWO, body)).into();
        let mut arrivals = Vec::new();
        for expected in ["a", "b", "c", "d"] {
            let (_, request, _reply) = two.desk.served().await;
            assert_eq!(request.body, expected);
            arrivals.push(started.elapsed());
        }
        drop(calls);
        runs.push(arrivals);
    }
    assert_eq!(runs[0], runs[1]);
    assert_ne!(runs[0], runs[2]);
    assert!(runs.iter().flatten().all(|at| *at <= Duration::from_millis(101)));
}

#[tokio::test(start_paused = true)]
async fn a_lossy_way_loses_its_share() {
    let (network, [one, two, _]) = three(5);
    network.lose(ONE, TWO, 0.5);
    let calls: Vec<_> = (0..200).map(|_| one.call(TWO, "")).collect();
    let serve = async {
        loop {
            two.echo_one().await;
        }
    };
    let mut answered = 0;
    tokio::select! {
        () = serve => unreachable!("serves for ever"),
        () = async {
            for call in calls {
                answered += usize::from(call.await.is_ok());
            }
        } => {}
    }
    assert!((60..140).contains(&answered), "{answered}");
}

#[tokio::test(start_paused = true)]
async fn the_bounds_are_those_of_the_real_network() {
    let (network, [one, two, _]) = three(6);
    let body = Bytes::from(vec![0; 1 << 20]);
    let mut calls = Vec::new();
    let end = loop {
        let call = one.transport.call(TWO, request(1, body.clone()), SOON);
        match futures_util::FutureExt::now_or_never(call) {
            None => calls.push(()),
            Some(end) => break end,
        }
        assert!(calls.len() < 100, "the way has no end");
    };
    assert_eq!((end, calls.len()), (Err(CallError::Full), 35));
    network.leave(TWO);
    drop(two);

    let _two = Node::join(&network, TWO);
    let calls: Vec<_> = (0..PENDING_MAX).map(|_| one.call(TWO, "")).collect();
    assert_eq!(one.call(TWO, "").await, Err(CallError::Full));
    drop(calls);
}

#[tokio::test(start_paused = true)]
async fn clocks_are_compared_over_the_network() {
    let (network, [one, two, three]) = three(9);
    two.clock.jump_to(2_000);
    network.delay(ONE, TWO, Duration::from_millis(80)..=Duration::from_millis(80));
    tokio::time::sleep(Duration::from_secs(2)).await;
    assert!(one.guard.trusted() && three.guard.trusted());
    assert!(!two.guard.trusted());
    assert_eq!(one.guard.reading().offset_ms, Some(0));
}
