mod bounds;

use std::collections::BTreeSet;

use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::Instant;

use super::*;
use crate::clock::SimulatedClock;
use crate::transport::Caller;
use crate::transport::fixtures::{self, Desk, Event, eventually, guard, request};
use crate::transport::frame::Head;

const ONE: NodeId = NodeId(1);
const TWO: NodeId = NodeId(2);

/// Long enough for any answer on loopback.
const SOON: Duration = Duration::from_secs(10);

struct Node {
    config: NodeConfig,
    clock: SimulatedClock,
    guard: Arc<ClockGuard>,
    desk: Arc<Desk>,
    transport: TcpTransport,
}

impl Node {
    fn start(config: NodeConfig, listener: std::net::TcpListener) -> Self {
        let clock = SimulatedClock::new(0);
        let (guard, desk) = (guard(&clock, config.id.0), Desk::new());
        let instance = [config.id.0 as u8; 16];
        let transport =
            TcpTransport::start(&config, instance, listener, guard.clone(), desk.clone()).unwrap();
        Self { config, clock, guard, desk, transport }
    }

    fn call(
        &self,
        to: NodeId,
        kind: u8,
        body: impl Into<Bytes>,
    ) -> BoxFuture<'static, Result<Bytes, CallError>> {
        self.transport.call(to, request(kind, body), SOON)
    }

    async fn connected_to(&self, peer: NodeId) {
        eventually("a connection", || self.transport.connected().contains(&peer)).await;
    }
}

fn listen() -> (std::net::TcpListener, SocketAddr) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    (listener, addr)
}

/// Nodes 1 and 2, and the second one's configuration altered.
fn start_two_with(alter: impl FnOnce(&mut NodeConfig)) -> (Node, Node) {
    let ((first, first_addr), (second, second_addr)) = (listen(), listen());
    let peers = [(1, first_addr), (2, second_addr)];
    let mut config = fixtures::config(2, &peers);
    alter(&mut config);
    (Node::start(fixtures::config(1, &peers), first), Node::start(config, second))
}

async fn start_two() -> (Node, Node) {
    let (one, two) = start_two_with(|_| {});
    tokio::join!(one.connected_to(TWO), two.connected_to(ONE));
    (one, two)
}

/// A node 1 whose peer, node 2, is played by the test: it accepts here.
async fn start_beside(listener: &TcpListener) -> (Node, TcpStream) {
    let (own, addr) = listen();
    let peers = [(1, addr), (2, listener.local_addr().unwrap())];
    let one = Node::start(fixtures::config(1, &peers), own);
    let (mut stream, _) = listener.accept().await.unwrap();
    let (identity, guard) = played(2, &one);
    identity.accept(&mut stream, &guard, &*Desk::new()).await.unwrap();
    one.connected_to(TWO).await;
    (one, stream)
}

/// What the test needs to shake hands as node `id` with `node`.
fn played(id: u64, node: &Node) -> (Identity, Arc<ClockGuard>) {
    let mut config = node.config.clone();
    config.id = NodeId(id);
    (Identity::new(&config, [id as u8; 16]), guard(&SimulatedClock::new(0), id))
}

/// Dials `node` as node `id`, by hand.
async fn dial_as(id: u64, node: &Node) -> TcpStream {
    let own = node.config.peers.iter().find(|peer| peer.id == node.config.id).unwrap();
    let mut stream = TcpStream::connect(own.addr).await.unwrap();
    let (identity, guard) = played(id, node);
    identity.dial(&mut stream, node.config.id, &guard, &*Desk::new()).await.unwrap();
    stream
}

fn framed(kind: u8, call: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    Head { patience_ms: 10_000, ..Head::of(kind, call) }.encode(body, &mut bytes);
    bytes
}

/// Answers everything with its own body.
fn echo(desk: &Arc<Desk>) -> tokio::task::JoinHandle<()> {
    let desk = desk.clone();
    tokio::spawn(async move {
        loop {
            if let Event::Served(_, request, reply) = desk.event().await {
                reply.send(request.body);
            }
        }
    })
}

#[tokio::test]
async fn requests_arrive_whole_and_in_the_order_of_the_calls() {
    let (one, two) = start_two().await;
    let sizes = [0, 1, 100, 70_000, 0, 300_000];
    let bodies: Vec<Vec<u8>> = (0..600).map(|n| vec![n as u8; sizes[n % sizes.len()]]).collect();
    let kinds = || (0..16_u8).cycle();
    let calls: Vec<_> =
        kinds().zip(&bodies).map(|(kind, body)| one.call(TWO, kind, body.clone())).collect();
    for (kind, body) in kinds().zip(&bodies) {
        let (caller, served, reply) = two.desk.served().await;
        assert_eq!(caller.node, ONE);
        assert_eq!(served, request(kind, body.clone()));
        reply.send(served.body);
    }
    for (call, body) in calls.into_iter().zip(bodies) {
        assert_eq!(call.await, Ok(body.into()));
    }
}

#[tokio::test]
async fn a_call_is_under_way_before_its_future_is_first_polled() {
    let (one, two) = start_two().await;
    let _never_polled = one.call(TWO, 1, "first");
    let polled = tokio::spawn(one.call(TWO, 1, "second"));
    assert_eq!(two.desk.served().await.1.body, "first");
    let (_, second, reply) = two.desk.served().await;
    reply.send(second.body);
    assert_eq!(polled.await.unwrap(), Ok("second".into()));
}

#[tokio::test]
async fn answers_may_come_in_any_order_and_each_finds_its_call() {
    let (one, two) = start_two().await;
    let (first, second) = (one.call(TWO, 1, "first"), one.call(TWO, 1, "second"));
    let (_, _, reply_first) = two.desk.served().await;
    let (_, _, reply_second) = two.desk.served().await;
    reply_second.send("to the second".into());
    assert_eq!(second.await, Ok("to the second".into()));
    reply_first.send("to the first".into());
    assert_eq!(first.await, Ok("to the first".into()));
}

#[tokio::test]
async fn a_reply_that_is_refused_or_dropped_ends_the_call_at_once() {
    let (one, two) = start_two().await;
    let (refused, dropped) = (one.call(TWO, 1, ""), one.call(TWO, 1, ""));
    two.desk.served().await.2.refuse();
    drop(two.desk.served().await.2);
    assert_eq!(refused.await, Err(CallError::Refused));
    assert_eq!(dropped.await, Err(CallError::Lost));
}

#[tokio::test]
async fn a_call_that_nobody_answers_times_out_and_its_reply_learns_that() {
    let (one, two) = start_two().await;
    let call = one.transport.call(TWO, request(1, ""), Duration::from_millis(30));
    let (_, _, reply) = two.desk.served().await;
    assert!(!reply.is_closed());
    assert_eq!(call.await, Err(CallError::TimedOut));
    eventually("the caller's time is over", || reply.is_closed()).await;
    reply.send("too late, and harmless".into());
    let next = one.call(TWO, 1, "next");
    two.desk.served().await.2.send("still connected".into());
    assert_eq!(next.await, Ok("still connected".into()));
}

#[tokio::test]
async fn unknown_and_unconnected_nodes_cannot_be_called() {
    let (listener, addr) = listen();
    let (_unanswering, silent) = listen();
    let one = Node::start(fixtures::config(1, &[(1, addr), (2, silent)]), listener);
    assert_eq!(one.call(TWO, 1, "").await, Err(CallError::NotSent));
    assert_eq!(one.call(NodeId(9), 1, "").await, Err(CallError::NotSent));
    assert!(one.transport.connected().is_empty());
}

#[tokio::test]
async fn a_broken_connection_fails_what_waits_and_is_told_exactly_once() {
    let (one, two) = start_two().await;
    let calls: Vec<_> = (0..10).map(|_| one.call(TWO, 1, "")).collect();
    let mut replies = Vec::new();
    for _ in 0..10 {
        replies.push(two.desk.served().await);
    }
    let caller = replies[0].0;
    let started = Instant::now();
    one.transport.stop().await;
    for call in calls {
        assert_eq!(call.await, Err(CallError::Lost));
    }
    assert!(started.elapsed() < SOON / 2, "not by their time-outs");
    assert_eq!(one.call(TWO, 1, "").await, Err(CallError::NotSent));
    let Event::Closed(closed) = two.desk.event().await else { panic!("served") };
    assert_eq!(closed, caller);
    assert!(replies.iter().all(|(_, _, reply)| reply.is_closed()));
    drop(replies);
    two.transport.stop().await;
    assert!(!two.desk.has_event().await, "told once");
}

#[tokio::test]
async fn a_peer_that_comes_back_is_dialed_again() {
    let (one, two) = start_two().await;
    let config = two.config.clone();
    two.transport.stop().await;
    drop(two);
    eventually("the connection is gone", || one.transport.connected().is_empty()).await;
    let listener = std::net::TcpListener::bind(config.peers[1].addr).unwrap();
    let two = Node::start(config, listener);
    one.connected_to(TWO).await;
    let call = one.call(TWO, 1, "again");
    two.desk.served().await.2.send("welcome back".into());
    assert_eq!(call.await, Ok("welcome back".into()));
}

#[tokio::test]
async fn a_newer_connection_of_a_node_replaces_the_older_one() {
    let (listener, addr) = listen();
    let (_unanswering, silent) = listen();
    let one = Node::start(fixtures::config(1, &[(1, addr), (2, silent)]), listener);
    let mut callers = Vec::new();
    let mut older = Vec::new();
    for round in 0..5 {
        let mut stream = dial_as(2, &one).await;
        stream.write_all(&framed(1, round, b"")).await.unwrap();
        if let Some(former) = callers.last() {
            let Event::Closed(closed) = one.desk.event().await else {
                panic!("served before the former connection was closed");
            };
            assert_eq!(closed, *former);
        }
        callers.push(one.desk.served().await.0);
        older.push(stream);
    }
    let numbers: BTreeSet<u64> = callers.iter().map(|caller| caller.connection).collect();
    assert_eq!(numbers.len(), 5, "each connection has a number of its own");
    one.transport.stop().await;
    let Event::Closed(last) = one.desk.event().await else { panic!("served") };
    assert_eq!(Some(&last), callers.last());
    assert!(!one.desk.has_event().await);
}

#[tokio::test]
async fn pings_tell_how_a_peers_clock_stands() {
    let (one, two) = start_two().await;
    two.clock.jump_to(-3_000);
    let _echo = echo(&two.desk);
    eventually("the offset", || {
        let behind = one.guard.wall().since(one.guard.estimate(TWO)).get();
        (2_900..3_100).contains(&behind)
    })
    .await;
    let offset_ms = two.guard.reading().offset_ms;
    assert!(offset_ms.is_none_or(|offset_ms| offset_ms < -1_000), "{offset_ms:?}");
    assert!(!two.guard.trusted());
}

#[tokio::test]
async fn what_was_answered_before_the_stop_still_arrives() {
    let (one, two) = start_two().await;
    let calls: Vec<_> = (0..50).map(|_| one.call(TWO, 1, vec![1; 10_000])).collect();
    let mut replies = Vec::new();
    for _ in 0..50 {
        let (_, request, reply) = two.desk.served().await;
        replies.push((request.body, reply));
    }
    for (body, reply) in replies {
        reply.send(body);
    }
    two.transport.stop().await;
    for call in calls {
        assert_eq!(call.await, Ok(vec![1; 10_000].into()));
    }
}

#[tokio::test]
async fn dropping_the_transport_closes_its_connections_and_frees_its_port() {
    let (one, two) = start_two().await;
    let call = one.call(TWO, 1, "");
    let (caller, ..) = two.desk.served().await;
    let Node { transport, config, .. } = one;
    drop(transport);
    assert_eq!(call.await, Err(CallError::Lost));
    let Event::Closed(closed) = two.desk.event().await else { panic!("served") };
    assert_eq!(closed, Caller { node: ONE, ..caller });
    eventually("the port", || std::net::TcpListener::bind(config.peers[0].addr).is_ok()).await;
}
