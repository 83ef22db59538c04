//! An in-process network of nodes, for tests: ways can be cut, slowed down and made lossy.
//!
//! It keeps the promises of [`Transport`] and the bounds of the real one, and runs on tokio's time,
//! so a paused runtime moves it. Meant for current-thread runtimes.

mod connection;

use std::collections::BTreeMap;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, ready};
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::time::Instant;

use self::connection::Connection;
use super::{CallError, Refusal, Request, Service, Transport, deadline};
use crate::clock::ClockGuard;
use crate::config::NodeId;
#[cfg(feature = "testing")]
use crate::simulation::Machine;

/// Nodes and the ways between them. Clones share it.
#[derive(Clone)]
pub(crate) struct MemoryNetwork {
    state: Arc<Mutex<State>>,
}

struct State {
    random: StdRng,
    members: BTreeMap<NodeId, Member>,
    /// By the node that dials and the one that is dialed.
    connections: BTreeMap<(NodeId, NodeId), Arc<Connection>>,
    ways: BTreeMap<(NodeId, NodeId), Way>,
    last_connection: u64,
}

#[derive(Clone)]
struct Member {
    guard: Arc<ClockGuard>,
    service: Arc<dyn Service>,
    /// What the node runs on: it takes nothing off the wire while that stands still.
    #[cfg(feature = "testing")]
    machine: Option<Machine>,
}

impl Member {
    fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        #[cfg(feature = "testing")]
        if let Some(machine) = &self.machine {
            drop(machine.spawn(task));
            return;
        }
        tokio::spawn(task);
    }
}

/// How frames fare from one node to another.
#[derive(Clone)]
struct Way {
    severed: bool,
    cut: bool,
    delay: RangeInclusive<Duration>,
    loss: f64,
}

impl Default for Way {
    fn default() -> Self {
        Self { severed: false, cut: false, delay: Duration::ZERO..=Duration::ZERO, loss: 0.0 }
    }
}

/// A node's access to the network.
pub(crate) struct MemoryTransport {
    own: NodeId,
    network: MemoryNetwork,
}

impl MemoryNetwork {
    /// A network without nodes. Delays and losses follow from `seed`.
    pub(crate) fn new(seed: u64) -> Self {
        let state = State {
            random: StdRng::seed_from_u64(seed),
            members: BTreeMap::new(),
            connections: BTreeMap::new(),
            ways: BTreeMap::new(),
            last_connection: 0,
        };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    /// Adds a node, or starts it again, and connects it with all others in both directions.
    pub(crate) fn join(
        &self,
        own: NodeId,
        guard: Arc<ClockGuard>,
        service: Arc<dyn Service>,
    ) -> MemoryTransport {
        self.leave(own);
        let member = Member {
            guard,
            service,
            #[cfg(feature = "testing")]
            machine: Machine::current(),
        };
        self.lock().members.insert(own, member);
        self.connect_all();
        MemoryTransport { own, network: self.clone() }
    }

    /// Takes a node away, as a crash does: its connections break.
    pub(crate) fn leave(&self, node: NodeId) {
        self.close_where(|dialer, dialed| dialer == node || dialed == node);
        self.lock().members.remove(&node);
    }

    /// Loses every frame from one node to another, those under way too. Nobody is told.
    pub(crate) fn cut(&self, from: NodeId, to: NodeId) {
        self.lock().ways.entry((from, to)).or_default().cut = true;
    }

    /// Breaks the connections between two nodes, and lets them make no new ones.
    pub(crate) fn sever(&self, one: NodeId, other: NodeId) {
        for way in [(one, other), (other, one)] {
            self.lock().ways.entry(way).or_default().severed = true;
        }
        self.close_where(|dialer, dialed| {
            (dialer, dialed) == (one, other) || (dialer, dialed) == (other, one)
        });
    }

    /// Ends every cut and severance between two nodes, in both directions.
    pub(crate) fn heal(&self, one: NodeId, other: NodeId) {
        for way in [(one, other), (other, one)] {
            let mut state = self.lock();
            let way = state.ways.entry(way).or_default();
            (way.cut, way.severed) = (false, false);
        }
        self.connect_all();
    }

    /// Makes every frame from one node to another take a time from this range. Frames do not
    /// overtake each other.
    pub(crate) fn delay(&self, from: NodeId, to: NodeId, delay: RangeInclusive<Duration>) {
        self.lock().ways.entry((from, to)).or_default().delay = delay;
    }

    /// Loses this share of the frames from one node to another: 0 for none, 1 for all.
    pub(crate) fn lose(&self, from: NodeId, to: NodeId, share: f64) {
        self.lock().ways.entry((from, to)).or_default().loss = share;
    }

    fn connect_all(&self) {
        let mut state = self.lock();
        let nodes: Vec<NodeId> = state.members.keys().copied().collect();
        for (dialer, dialed) in nodes.iter().flat_map(|one| nodes.iter().map(|two| (*one, *two))) {
            let severed = state.ways.get(&(dialer, dialed)).is_some_and(|way| way.severed);
            if dialer == dialed || severed || state.connections.contains_key(&(dialer, dialed)) {
                continue;
            }
            state.last_connection += 1;
            let (from, to) = (state.members[&dialer].clone(), state.members[&dialed].clone());
            let number = state.last_connection;
            let connection = Connection::open(self, number, (dialer, from), (dialed, to));
            state.connections.insert((dialer, dialed), connection);
        }
    }

    fn close_where(&self, which: impl Fn(NodeId, NodeId) -> bool) {
        let closed: Vec<_> = {
            let mut state = self.lock();
            state
                .connections
                .extract_if(.., |(dialer, dialed), _| which(*dialer, *dialed))
                .collect()
        };
        for (_, connection) in closed {
            connection.close();
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the network")
    }
}

impl State {
    /// When a frame that leaves now arrives; `None` when it is lost.
    fn arrival(&mut self, from: NodeId, to: NodeId) -> Option<Instant> {
        let way = self.ways.get(&(from, to)).cloned().unwrap_or_default();
        let lost = way.loss > 0.0 && self.random.random_bool(way.loss);
        let delay = self.random.random_range(way.delay);
        (!lost).then(|| Instant::now() + delay)
    }

    fn is_cut(&self, from: NodeId, to: NodeId) -> bool {
        self.ways.get(&(from, to)).is_some_and(|way| way.cut)
    }
}

impl Transport for MemoryTransport {
    fn call(
        &self,
        to: NodeId,
        request: Request,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<Bytes, CallError>> {
        let (deadline, _) = deadline(timeout);
        let connection = self.network.lock().connections.get(&(self.own, to)).cloned();
        let Some(connection) = connection else {
            return Box::pin(ready(Err(CallError::NotSent)));
        };
        match connection.call(request, deadline) {
            Ok(waiting) => Box::pin(waiting.until(deadline)),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn connected(&self) -> Vec<NodeId> {
        let state = self.network.lock();
        let ours = state.connections.keys().filter(|(dialer, _)| *dialer == self.own);
        ours.map(|(_, dialed)| *dialed).collect()
    }

    fn naming_refusals(&self) -> usize {
        0
    }

    fn refusals(&self) -> Vec<Refusal> {
        Vec::new()
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        self.network.leave(self.own);
        Box::pin(ready(()))
    }
}

#[cfg(test)]
mod tests;
