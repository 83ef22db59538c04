//! A node: opens its directory, starts its shards, and stops them again.

mod balance;
mod ground;
mod tend;

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use bytes::Bytes;
use protocol::{Basis, Claim, Command, Decided, RecordName, Timestamp};
use tokio::sync::watch;
use tokio::task::JoinSet;

pub(crate) use self::ground::Ground;
use self::ground::{Stores, start_shards};
use crate::clock::{Clock, ClockGuard};
use crate::config::{NodeConfig, NodeId, Peer};
use crate::error::{StartError, SubmitError};
use crate::formation::{self, Founder};
use crate::placement::ShardId;
use crate::raft::{Checkpoints, Found, Replica, ReplicaStatus, ShardDigest, Unsettled};
use crate::random;
use crate::router::{self, Router};
use crate::shard::{NotMoved, ShardHandle};
use crate::storage::disk::{Disk, OsDisk};
use crate::storage::identity::Directory;
use crate::storage::records::Records;
use crate::storage::space::DiskWatch;
use crate::storage::wal::{Wal, WalOptions};
use crate::task;
use crate::transport::{
    Caller, Cause, PeerHello, Reply, Request, Service, TcpTransport, Transport,
};

/// A running node. Clones share it.
#[derive(Clone)]
pub struct Node {
    inner: Arc<Inner>,
}

struct Inner {
    config: NodeConfig,
    clock: Arc<dyn Clock>,
    guard: Arc<ClockGuard>,
    founder: Arc<Founder>,
    router: Arc<Router>,
    transport: Arc<dyn Transport>,
    files: Arc<dyn Disk>,
    wal: Arc<Wal>,
    records: Records,
    disk: Arc<DiskWatch>,
    failure: watch::Sender<Option<Arc<StartError>>>,
    stopping: AtomicBool,
    /// They hold this too, so only [`Node::stop`] lets go of everything.
    tasks: Mutex<JoinSet<()>>,
}

/// Whether this process can get claims decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Every shard has a leader that this node reaches, and the clock is trusted.
    Ready,
    /// Not now, and why.
    NotReady(String),
}

/// The cluster as one process sees it.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// The node; `None` where a gateway without one was asked.
    pub id: Option<NodeId>,
    /// Every shard as this process sees it.
    pub shards: Vec<ShardStatus>,
    /// How far this node's wall clock is ahead of the cluster's median, in milliseconds; `None`
    /// while no majority was heard.
    pub clock_offset_ms: Option<i64>,
    /// Whether the wall clock may be stamped on the log.
    pub clock_trusted: bool,
    /// The nodes of the cluster, this one among them.
    pub members: Vec<MemberStatus>,
}

/// A member of the cluster as one node sees it.
#[derive(Clone, Debug)]
pub struct MemberStatus {
    /// The node, where it stands and where it is reached.
    pub peer: Peer,
    /// Whether it is connected, or this node itself.
    pub connected: bool,
    /// Whether it said moments ago that it can lead shards: its clock is trusted, its disk has
    /// room, and it is not stopping.
    pub fit: bool,
}

/// A shard as one process sees it.
#[derive(Clone, Debug)]
pub struct ShardStatus {
    /// The shard.
    pub shard: ShardId,
    /// Its leader, where one is known.
    pub leader: Option<NodeId>,
    /// The replica of this node, where it has one.
    pub replica: Option<ReplicaStatus>,
}

impl Node {
    /// Opens the data directory, recovers, and starts to take part in the cluster. `peers` is the
    /// bound listener for the other nodes. Returns once this node's own state is recovered; see
    /// [`Node::readiness`] for the cluster's.
    ///
    /// Must be called within a tokio runtime, on which the node's tasks will run.
    ///
    /// # Errors
    /// See [`StartError`]; nothing was written unless the directory was this node's own.
    pub async fn start(
        config: NodeConfig,
        peers: TcpListener,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let instance = random::draw();
        let directory =
            Directory::open(&config.data_dir, &config.cluster, config.id, config.shards, instance)?;
        let options = WalOptions::new(config.data_dir.join("wal"), directory.may_create_log());
        let wal = Wal::open(Arc::new(OsDisk), options)?;
        let records = Records::open(&config.data_dir.join("records"))?;
        let checkpoints = Checkpoints::default();
        let ground =
            Ground { directory, files: Arc::new(OsDisk), wal, records, clock, checkpoints };
        Self::start_on(ground, config, |config, instance, guard, service| {
            let transport = TcpTransport::start(config, instance, peers, guard, service);
            Ok(Arc::new(
                transport.map_err(|error| StartError::Config(format!("peer listener: {error}")))?,
            ))
        })
        .await
    }

    /// Starts a node on what it is given, and on the transport that `connect` makes.
    pub(crate) async fn start_on(
        ground: Ground,
        config: NodeConfig,
        connect: impl FnOnce(
            &NodeConfig,
            [u8; 16],
            Arc<ClockGuard>,
            Arc<dyn Service>,
        ) -> Result<Arc<dyn Transport>, StartError>,
    ) -> Result<Self, StartError> {
        let Ground { directory, files, wal, records, clock, checkpoints } = ground;
        let wal = Arc::new(wal);
        let members: Vec<_> = config.peers.iter().map(|peer| peer.id).collect();
        let guard = Arc::new(ClockGuard::new(clock.clone(), config.id, members.clone()));
        let founder = Founder::new(config.id, members, directory);
        let service =
            Arc::new(NodeService { founder: founder.clone(), router: watch::Sender::new(None) });
        let instance = founder.instance();
        let transport = connect(&config, instance, guard.clone(), service.clone())?;
        let disk = Arc::new(DiskWatch::default());
        let stores = Stores { wal: wal.clone(), records: records.clone(), checkpoints };
        let shards =
            start_shards(&config, &stores, transport.clone(), &guard, disk.clone()).await?;
        let router = Arc::new(Router::new(&config, shards, transport.clone(), guard.clone()));
        service.router.send_replace(Some(router.clone()));
        let failure = watch::Sender::new(None);
        let inner = Inner {
            config,
            clock,
            guard,
            founder,
            router,
            transport,
            files,
            wal,
            records,
            disk,
            failure,
            stopping: AtomicBool::new(false),
            tasks: Mutex::default(),
        };
        let node = Self { inner: Arc::new(inner) };
        tend::start(&node);
        Ok(node)
    }

    /// Has `command` decided and made durable on a majority, by the leader of its name's shard.
    ///
    /// Definite failures to reach the leader are retried until `deadline`; indefinite ones never. A
    /// record that was forgotten is answered for when no replica replays it any more, which may be
    /// up to two seconds after that.
    ///
    /// # Errors
    /// See [`SubmitError`], in particular its certainty.
    pub async fn submit(
        &self,
        command: Command,
        deadline: Instant,
    ) -> Result<Decided, SubmitError> {
        self.inner.router.submit(command, deadline).await
    }

    /// What a claim is answered from this node's own replica, without the log and without asking
    /// another node: the stored response, or that the key was used by another request. `None`
    /// where only the log can tell, which [`Node::submit`] asks.
    ///
    /// Never newer than the log: a revision of the outcome may be missing.
    pub fn answer_applied(&self, claim: &Claim) -> Option<Decided> {
        self.inner.router.answer_applied(claim)
    }

    /// Reads a record through the log: what is found was current at some moment after this call
    /// began.
    ///
    /// # Errors
    /// See [`SubmitError`]; a read changes nothing, so any error may be retried.
    pub async fn read(&self, name: &RecordName, deadline: Instant) -> Result<Found, SubmitError> {
        self.inner.router.read(name, deadline).await
    }

    /// The first `limit` records behind `after` that wait for an operator, of all shards, those
    /// that wait longest first; at most 100. As the leaders have applied them: a record that is
    /// being settled may still show.
    ///
    /// # Errors
    /// See [`SubmitError`]; any may be retried.
    pub async fn unsettled(
        &self,
        after: Option<(Timestamp, RecordName)>,
        limit: usize,
        deadline: Instant,
    ) -> Result<Vec<Unsettled>, SubmitError> {
        self.inner.router.unsettled(after, limit, deadline).await
    }

    /// Has the leader of a shard let `to` lead instead. No command is lost with the leadership;
    /// those that come meanwhile wait for the new leader. Where nodes are in order, leaderships are
    /// spread again some seconds later.
    ///
    /// # Errors
    /// Why the leadership stayed, or may have.
    pub async fn transfer(&self, shard: ShardId, to: NodeId) -> Result<(), NotMoved> {
        self.inner.router.hand_over(shard, to).await
    }

    /// What a copy of a claim for `name` carries: how far this node has seen the name's shard, and
    /// its estimate of the leader's clock now.
    ///
    /// # Errors
    /// Why this process must not submit claims now: its own clock is not trusted, or its policy is
    /// not the cluster's. Nothing was submitted.
    pub fn seen(&self, name: &RecordName) -> Result<Basis, SubmitError> {
        self.inner.router.seen(name)
    }

    /// The wall clock as this node reads it, for rendering times to users; never for decisions.
    pub fn wall(&self) -> Timestamp {
        self.inner.clock.wall()
    }

    /// Time since a fixed moment on a clock that never jumps and runs while the machine sleeps;
    /// leases are counted by it.
    pub fn boot(&self) -> Duration {
        self.inner.clock.boot()
    }

    /// A secret that every process of the cluster has and no record holds: records keep hashes of
    /// what requests said under it.
    pub fn outline_secret(&self) -> [u8; 32] {
        self.inner.config.secret.outlines(&self.inner.config.cluster)
    }

    /// Whether this process can get claims decided now.
    pub fn readiness(&self) -> Readiness {
        match self.inner.obstacle() {
            None => Readiness::Ready,
            Some(obstacle) => Readiness::NotReady(obstacle),
        }
    }

    /// The node as operators see it.
    pub fn status(&self) -> NodeStatus {
        let reading = self.inner.guard.reading();
        let status = |(index, shard): (usize, &ShardHandle)| {
            let replica = shard.replica();
            ShardStatus {
                shard: ShardId(index as u16),
                leader: replica.leader(),
                replica: Some(replica.status()),
            }
        };
        NodeStatus {
            id: Some(self.inner.config.id),
            shards: self.inner.router.shards().iter().enumerate().map(status).collect(),
            clock_offset_ms: reading.offset_ms,
            clock_trusted: reading.distrust.is_none(),
            members: self.inner.members(),
        }
    }

    /// Digest of what this node holds of a shard; `None` when there is no such shard. Every record
    /// of it is read, so this is for comparing replicas now and then.
    ///
    /// # Errors
    /// `Stopping` when the records cannot be read.
    pub async fn digest(&self, shard: ShardId) -> Result<Option<ShardDigest>, SubmitError> {
        let Some(shard) = self.inner.router.shards().get(usize::from(shard.0)) else {
            return Ok(None);
        };
        shard.replica().digest().await.map(Some).map_err(|_| SubmitError::Stopping)
    }

    /// Resolves when the node can no longer take part: a failed disk, a lost log, a cluster that it
    /// does not belong to.
    pub async fn failed(&self) -> Arc<StartError> {
        let mut failure = self.inner.failure.subscribe();
        loop {
            if let Some(error) = failure.borrow_and_update().clone() {
                return error;
            }
            if failure.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// Hands leaderships over, stops taking part and closes the files. Bounded to a few seconds.
    /// The data directory is free again once every clone of the node is dropped.
    pub async fn stop(&self) {
        self.inner.stopping.store(true, Ordering::Relaxed);
        tend::hand_over(&self.inner).await;
        let mut tasks = std::mem::take(&mut *self.inner.tasks.lock().expect("no holder panics"));
        tasks.shutdown().await;
        for shard in self.inner.router.shards() {
            shard.replica().stop().await;
        }
        self.inner.transport.stop().await;
        let wal = self.inner.wal.clone();
        if task::blocking(move || wal.close()).await.is_err() {
            tracing::error!("log was not closed cleanly");
        }
    }
}

impl Inner {
    /// The first thing that keeps this node from getting claims decided.
    fn obstacle(&self) -> Option<String> {
        if let Some(error) = self.failure.borrow().as_ref() {
            return Some(error.to_string());
        }
        if let Some(reason) = self.outvoted() {
            return Some(reason);
        }
        if !self.founder.is_formed() {
            return Some("the cluster is not formed yet: a first member is missing".to_owned());
        }
        if let Some(distrust) = self.guard.reading().distrust {
            return Some(format!("clock: {distrust}"));
        }
        let connected = self.transport.connected();
        self.router.shards().iter().enumerate().find_map(|(shard, handle)| {
            let replica = handle.replica();
            match replica.leader() {
                None => Some(format!("shard {shard} has no leader")),
                Some(leader) if leader == self.config.id => {
                    replica.quorum_lost().then(|| format!("shard {shard} has lost its majority"))
                }
                Some(leader) => (!connected.contains(&leader))
                    .then(|| format!("shard {shard}: its leader, node {leader}, is not reached")),
            }
        })
    }

    /// With whom this node's policy is at odds, when that keeps it from some shard's leader.
    fn outvoted(&self) -> Option<String> {
        let shards = 0..self.config.shards;
        if !shards.map(ShardId).any(|shard| self.router.is_outvoted(shard)) {
            return None;
        }
        let mut refusals = self.transport.refusals().into_iter();
        refusals.find(|refusal| refusal.cause == Cause::Naming).map(|refusal| refusal.reason)
    }

    fn fail(&self, error: StartError) {
        self.failure.send_if_modified(|failure| {
            let first = failure.is_none();
            if first {
                tracing::error!(%error, "node cannot go on");
                *failure = Some(Arc::new(error));
            }
            first
        });
    }

    /// Whether this node can lead shards now.
    fn is_fit(&self) -> bool {
        let stops = self.stopping.load(Ordering::Relaxed) || self.failure.borrow().is_some();
        !stops && self.guard.trusted() && !self.disk.is_low()
    }

    /// The leader of every shard as far as this node knows.
    fn leaders(&self) -> Vec<Option<NodeId>> {
        self.router.shards().iter().map(|shard| shard.replica().leader()).collect()
    }

    fn members(&self) -> Vec<MemberStatus> {
        let (connected, fit) = (self.transport.connected(), self.router.fit_peers());
        let member = |peer: &Peer| {
            let own = peer.id == self.config.id;
            MemberStatus {
                peer: peer.clone(),
                connected: own || connected.contains(&peer.id),
                fit: if own { self.router.is_fit() } else { fit.contains(&peer.id) },
            }
        };
        self.config.peers.iter().map(member).collect()
    }

    fn replicas(&self) -> Vec<Replica> {
        self.router.shards().iter().map(|shard| shard.replica().clone()).collect()
    }
}

/// What this node does for its peers. Requests that come before the shards are recovered are
/// refused.
struct NodeService {
    founder: Arc<Founder>,
    router: watch::Sender<Option<Arc<Router>>>,
}

impl NodeService {
    fn router(&self) -> Option<Arc<Router>> {
        self.router.borrow().clone()
    }

    fn answer(reply: Reply, body: Option<Bytes>) {
        match body {
            Some(body) => reply.send(body),
            None => reply.refuse(),
        }
    }
}

impl Service for NodeService {
    fn admit(&self, hello: &PeerHello) -> Result<(), String> {
        self.founder.admit(hello)
    }

    fn serve(&self, from: Caller, request: Request, reply: Reply) {
        let Some(router) = self.router() else { return reply.refuse() };
        let Request { kind, shard, body } = request;
        if from.node.is_gateway() && !router::FOR_GATEWAYS.contains(&kind) {
            tracing::warn!(kind, "a gateway asks for what only nodes may; refused");
            return reply.refuse();
        }
        match kind {
            router::SUBMIT => router.serve_submit(shard, &body, reply),
            router::READ => router.serve_read(shard, &body, reply),
            router::LIST => router.serve_list(shard, &body, reply),
            router::CONFIRM => router.serve_confirm(reply),
            router::HAND_OVER => router.serve_hand_over(shard, &body, reply),
            formation::STATUS => Self::answer(reply, Some(self.founder.serve_status())),
            formation::FORM => Self::answer(reply, self.founder.serve_form(from.node, &body)),
            _ => match router.shards().get(usize::from(shard.0)) {
                Some(shard) => shard.replica().inbound().serve(from, kind, body, reply),
                None => reply.refuse(),
            },
        }
    }

    fn closed(&self, from: Caller) {
        let Some(router) = self.router() else { return };
        for shard in router.shards() {
            shard.replica().inbound().closed(from);
        }
    }
}
