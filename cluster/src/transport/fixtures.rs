//! What the transport's tests share: nodes on loopback, and a service that a test answers by hand.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::{Caller, PeerHello, Reply, Request, Service};
use crate::clock::{ClockGuard, SimulatedClock};
use crate::config::{NodeConfig, NodeId, Peer, Secret};
use crate::placement::ShardId;

/// How long a test waits for what must happen.
const PATIENCE: Duration = Duration::from_secs(10);

/// More events than any test leaves unread.
const EVENTS_MAX: usize = 1 << 16;

/// What a service was told.
pub(super) enum Event {
    Served(Caller, Request, Reply),
    Closed(Caller),
}

/// A service that hands everything to the test.
pub(super) struct Desk {
    events: mpsc::Sender<Event>,
    received: tokio::sync::Mutex<mpsc::Receiver<Event>>,
    refused_instance: Mutex<Option<[u8; 16]>>,
}

impl Desk {
    pub(super) fn new() -> Arc<Self> {
        let (events, received) = mpsc::channel(EVENTS_MAX);
        Arc::new(Self { events, received: received.into(), refused_instance: Mutex::default() })
    }

    /// Refuses this instance from now on.
    pub(super) fn refuse(&self, instance: [u8; 16]) {
        *self.refused_instance.lock().unwrap() = Some(instance);
    }

    pub(super) async fn event(&self) -> Event {
        let mut received = self.received.lock().await;
        timeout(PATIENCE, received.recv()).await.expect("an event in time").unwrap()
    }

    /// The next event, which must be a request.
    pub(super) async fn served(&self) -> (Caller, Request, Reply) {
        match self.event().await {
            Event::Served(caller, request, reply) => (caller, request, reply),
            Event::Closed(caller) => panic!("{caller:?} closed"),
        }
    }

    /// Whether something was told that nobody has read.
    pub(super) async fn has_event(&self) -> bool {
        !self.received.lock().await.is_empty()
    }
}

impl Service for Desk {
    fn admit(&self, hello: &PeerHello) -> Result<(), String> {
        if *self.refused_instance.lock().unwrap() == Some(hello.instance) {
            return Err("another data directory; use the old one".to_owned());
        }
        Ok(())
    }

    fn serve(&self, from: Caller, request: Request, reply: Reply) {
        assert!(self.events.try_send(Event::Served(from, request, reply)).is_ok());
    }

    fn closed(&self, from: Caller) {
        assert!(self.events.try_send(Event::Closed(from)).is_ok());
    }
}

/// The configuration of node `id` in a cluster of these nodes.
pub(super) fn config(id: u64, peers: &[(u64, SocketAddr)]) -> NodeConfig {
    let peer = |(id, addr): &(u64, SocketAddr)| Peer {
        id: NodeId(*id),
        addr: *addr,
        region: "here".to_owned(),
    };
    NodeConfig {
        cluster: "payments".to_owned(),
        id: NodeId(id),
        data_dir: "unused".into(),
        peers: peers.iter().map(peer).collect(),
        shards: 16,
        secret: secret(1),
        quotas: Default::default(),
        naming: [7; 32],
    }
}

pub(super) fn secret(byte: u8) -> Secret {
    Secret::new(vec![byte; 32]).unwrap()
}

/// A guard of node `own` in a cluster of three.
pub(super) fn guard(clock: &SimulatedClock, own: u64) -> Arc<ClockGuard> {
    let members = [1, 2, 3].map(NodeId).to_vec();
    Arc::new(ClockGuard::new(Arc::new(clock.clone()), NodeId(own), members))
}

pub(super) fn request(kind: u8, body: impl Into<bytes::Bytes>) -> Request {
    Request { kind, shard: ShardId(3), body: body.into() }
}

/// Waits until `holds`; fails the test when it takes too long.
pub(super) async fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let started = Instant::now();
    while !holds() {
        assert!(started.elapsed() < PATIENCE, "in vain: {what}");
        sleep(Duration::from_millis(2)).await;
    }
}
