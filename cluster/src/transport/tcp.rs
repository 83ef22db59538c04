//! The transport between machines: one TCP connection for each node that dials and each peer.
//!
//! Every node dials every other one, and calls it over the connection that it dialed. All shards
//! share it: frames that are pushed at about the same time leave with one system call.

use std::collections::BTreeMap;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::{BoxFuture, join, join_all};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio::time::timeout;

use super::accept::{self, Seats};
use super::dial::Link;
use super::handshake::{Identity, ShakeError};
use super::refusals::{Refusal, Refusals};
use super::{CallError, Request, Service, Transport};
use crate::clock::ClockGuard;
use crate::config::{NodeConfig, NodeId, Peer, RemoteConfig};

/// How long [`TcpTransport::stop`] waits for answers to leave; what a peer does not take by then is
/// lost to it.
const FLUSH_TIMEOUT: Duration = Duration::from_millis(500);

/// Connects a node to its peers. Dropping it closes every connection.
pub(crate) struct TcpTransport {
    links: BTreeMap<NodeId, Arc<Link>>,
    seats: Arc<Seats>,
    refusals: Arc<Refusals>,
    tasks: Arc<Tasks>,
}

/// This node as its connections need it.
pub(super) struct Local {
    pub(super) identity: Identity,
    pub(super) guard: Arc<ClockGuard>,
    pub(super) service: Arc<dyn Service>,
    pub(super) refusals: Arc<Refusals>,
}

impl TcpTransport {
    /// Begins to dial the peers of `config` and to serve those who connect to `listener`.
    /// `instance` tells this node's data directory from every other one. Tasks run on the current
    /// tokio runtime.
    ///
    /// # Errors
    /// When the listener cannot be used with tokio.
    pub(crate) fn start(
        config: &NodeConfig,
        instance: [u8; 16],
        listener: std::net::TcpListener,
        guard: Arc<ClockGuard>,
        service: Arc<dyn Service>,
    ) -> io::Result<Self> {
        listener.set_nonblocking(true)?;
        let listener = TcpListener::from_std(listener)?;
        let refusals = Arc::new(Refusals::default());
        let identity = Identity::new(config, instance);
        let local = Arc::new(Local { identity, guard, service, refusals: refusals.clone() });
        let (seats, tasks) = (Arc::new(Seats::default()), Arc::new(Tasks::default()));
        let doorkeeper =
            accept::accept_all(listener, local.clone(), seats.clone(), Arc::downgrade(&tasks));
        tasks.spawn(doorkeeper);
        let peers = config.peers.iter().filter(|peer| peer.id != config.id);
        Ok(Self { links: dial_all(peers, &local, &tasks), seats, refusals, tasks })
    }

    /// Begins to dial the nodes of `config` as the gateway `id`, which nobody dials.
    pub(crate) fn dial_only(
        config: &RemoteConfig,
        id: NodeId,
        guard: Arc<ClockGuard>,
        service: Arc<dyn Service>,
    ) -> Self {
        let refusals = Arc::new(Refusals::default());
        let identity = Identity::of_gateway(config, id);
        let local = Arc::new(Local { identity, guard, service, refusals: refusals.clone() });
        let tasks = Arc::new(Tasks::default());
        let links = dial_all(config.peers.iter(), &local, &tasks);
        Self { links, seats: Arc::default(), refusals, tasks }
    }

    async fn flush_and_stop(&self) {
        let links = join_all(self.links.values().map(|link| link.flushed()));
        if timeout(FLUSH_TIMEOUT, join(links, self.seats.flushed())).await.is_err() {
            tracing::warn!("not everything left before the connections were closed");
        }
        self.tasks.stop().await;
    }
}

/// Keeps up a connection to each of these nodes.
fn dial_all<'a>(
    peers: impl Iterator<Item = &'a Peer>,
    local: &Arc<Local>,
    tasks: &Tasks,
) -> BTreeMap<NodeId, Arc<Link>> {
    let mut links = BTreeMap::new();
    for peer in peers {
        let link = Arc::new(Link::new(peer.id, peer.addr));
        links.insert(peer.id, link.clone());
        let local = local.clone();
        tasks.spawn(async move { link.keep_up(&local).await });
    }
    links
}

impl Transport for TcpTransport {
    fn call(
        &self,
        to: NodeId,
        request: Request,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<Bytes, CallError>> {
        match self.links.get(&to) {
            Some(link) => link.call(request, timeout),
            None => Box::pin(std::future::ready(Err(CallError::NotSent))),
        }
    }

    fn connected(&self) -> Vec<NodeId> {
        let up = self.links.iter().filter(|(_, link)| link.is_connected());
        up.map(|(peer, _)| *peer).collect()
    }

    fn naming_refusals(&self) -> usize {
        self.refusals.naming()
    }

    fn refusals(&self) -> Vec<Refusal> {
        self.refusals.standing()
    }

    fn stop(&self) -> BoxFuture<'_, ()> {
        Box::pin(self.flush_and_stop())
    }
}

impl Local {
    /// Tells operators why a connection came to nothing. `dialed` is the peer that was expected.
    pub(super) fn report(&self, error: ShakeError, addr: SocketAddr, dialed: Option<NodeId>) {
        match (error, dialed) {
            (ShakeError::Refused(refusal), _) => self.refusals.refused(refusal),
            (ShakeError::Stranger(what), _) => self.refusals.stranger(addr, what),
            (ShakeError::TimedOut, None) => self.refusals.stranger(addr, "no proof in time"),
            (ShakeError::Spurned, Some(peer)) => self.refusals.spurned(peer, addr),
            (error, _) => tracing::debug!(%addr, %error, "no connection"),
        }
    }
}

/// The tasks of a transport; dropping it ends them.
#[derive(Default)]
pub(super) struct Tasks(Mutex<Running>);

#[derive(Default)]
struct Running {
    set: JoinSet<()>,
    stopped: bool,
}

impl Tasks {
    /// Runs a task until it ends by itself or the transport stops.
    pub(super) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) {
        let mut running = self.lock();
        // Those that ended are taken out here, so the set is no larger than what runs.
        while let Some(ended) = running.set.try_join_next() {
            if let Err(error) = ended {
                tracing::error!(%error, "task of a connection failed");
            }
        }
        if !running.stopped {
            running.set.spawn(task);
        }
    }

    async fn stop(&self) {
        let mut set = {
            let mut running = self.lock();
            running.stopped = true;
            std::mem::take(&mut running.set)
        };
        set.shutdown().await;
    }

    fn lock(&self) -> MutexGuard<'_, Running> {
        self.0.lock().expect("nothing panics while it holds the tasks")
    }
}

#[cfg(test)]
mod tests;
