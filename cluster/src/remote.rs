//! A process without a node of its own: it has claims decided by the nodes.
//!
//! It keeps nothing. It dials every node, asks each again and again which shards it leads, and
//! sends a command to the leader of its shard, one hop away.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use futures_util::future::try_join_all;
use protocol::{Basis, Command, Decided, RecordName, Timestamp};
use tokio::sync::Notify;
use tokio::task::JoinSet;

use crate::clock;
use crate::clock::{Clock, ClockGuard};
use crate::config::{NodeId, RemoteConfig};
use crate::error::SubmitError;
use crate::node::{MemberStatus, NodeStatus, Readiness, ShardStatus};
use crate::placement::{ShardId, SlotTable};
use crate::raft::{Found, Unsettled};
use crate::random;
use crate::router::{self, Fitness, Leader, Seen, retry};
use crate::shard::NotMoved;
use crate::transport::{
    Caller, Cause, PeerHello, Reply, Request, Service, TcpTransport, Transport,
};

/// For how long a leader counts as one after a majority last confirmed it. Another one is elected
/// within two seconds, and says so itself.
const LEADER_FOR: Duration = Duration::from_secs(2);

/// Between two questions to one node for what it leads, when somebody waits for a new leader.
const ASK_GAP: Duration = Duration::from_millis(20);

/// Access to a cluster without being one of its nodes. Clones share it.
#[derive(Clone)]
pub struct Remote {
    inner: Arc<Inner>,
}

struct Inner {
    config: RemoteConfig,
    clock: Arc<dyn Clock>,
    guard: Arc<ClockGuard>,
    transport: TcpTransport,
    table: SlotTable,
    shards: Vec<Shard>,
    fitness: Fitness,
    /// Somebody waits for a new leader.
    wanted: Notify,
    /// They hold this too, so only [`Remote::stop`] lets go of everything.
    tasks: Mutex<JoinSet<()>>,
}

/// What is known of one shard.
#[derive(Default)]
struct Shard {
    seen: Seen,
    leader: Mutex<Option<Led>>,
}

/// A leader, and a moment at which a majority had confirmed it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Led {
    by: NodeId,
    moment: Instant,
}

impl Shard {
    /// Takes a node's word that it leads. Of two, the one confirmed later does.
    fn hear(&self, led: Led) {
        let mut known = self.lock();
        if known.is_none_or(|known| known.by == led.by || known.moment < led.moment) {
            *known = Some(led);
        }
    }

    fn leader(&self, now: Instant) -> Option<NodeId> {
        let led = (*self.lock())?;
        (now.saturating_duration_since(led.moment) <= LEADER_FOR).then_some(led.by)
    }

    /// The node says that it does not lead: somebody else does, or will.
    fn forget(&self, leader: NodeId) {
        self.lock().take_if(|led| led.by == leader);
    }

    fn lock(&self) -> MutexGuard<'_, Option<Led>> {
        self.leader.lock().expect("nothing panics while it holds the leader")
    }
}

impl Remote {
    /// Begins to dial the nodes. Returns at once; see [`Remote::readiness`].
    ///
    /// Must be called within a tokio runtime, on which its tasks will run.
    pub fn start(config: RemoteConfig, clock: Arc<dyn Clock>) -> Self {
        let own = NodeId::of_gateway(random::draw());
        let nodes = config.peers.iter().map(|peer| peer.id).collect();
        let guard = Arc::new(ClockGuard::new(clock.clone(), own, nodes));
        let transport = TcpTransport::dial_only(&config, own, guard.clone(), Arc::new(Nobody));
        let inner = Inner {
            clock,
            guard,
            transport,
            table: SlotTable::new(config.shards),
            shards: (0..config.shards).map(|_| Shard::default()).collect(),
            fitness: Fitness::default(),
            wanted: Notify::new(),
            tasks: Mutex::default(),
            config,
        };
        let remote = Self { inner: Arc::new(inner) };
        let mut tasks = remote.inner.tasks.lock().expect("no holder panics");
        for peer in &remote.inner.config.peers {
            tasks.spawn(keep_asking(remote.inner.clone(), peer.id));
        }
        drop(tasks);
        remote
    }

    /// As [`Node::submit`](crate::Node::submit).
    ///
    /// # Errors
    /// See [`SubmitError`], in particular its certainty.
    pub async fn submit(
        &self,
        command: Command,
        deadline: Instant,
    ) -> Result<Decided, SubmitError> {
        if command.name().is_too_long() {
            return Err(SubmitError::NameTooLong);
        }
        let inner = &*self.inner;
        let id = inner.table.shard_of(command.name());
        let attempt = |deadline| {
            let command = command.clone();
            async move {
                let leader = inner.leader_to_ask(id)?;
                let answer = leader.submit(command, deadline).await;
                inner.heeded(&leader, answer)
            }
        };
        let decided = retry(deadline, attempt).await?;
        inner.shard(id).seen.observe(decided.basis);
        router::until_told(&decided).await;
        Ok(decided)
    }

    /// As [`Node::read`](crate::Node::read).
    ///
    /// # Errors
    /// See [`SubmitError`]; a read changes nothing, so any error may be retried.
    pub async fn read(&self, name: &RecordName, deadline: Instant) -> Result<Found, SubmitError> {
        if name.is_too_long() {
            return Err(SubmitError::NameTooLong);
        }
        let inner = &*self.inner;
        let id = inner.table.shard_of(name);
        let found = retry(deadline, |deadline| async move {
            let leader = inner.leader_to_ask(id)?;
            inner.heeded(&leader, leader.read(name, deadline).await)
        })
        .await?;
        inner.shard(id).seen.observe(found.basis);
        Ok(found)
    }

    /// As [`Node::unsettled`](crate::Node::unsettled).
    ///
    /// # Errors
    /// See [`SubmitError`]; any may be retried.
    pub async fn unsettled(
        &self,
        after: Option<(Timestamp, RecordName)>,
        limit: usize,
        deadline: Instant,
    ) -> Result<Vec<Unsettled>, SubmitError> {
        let (inner, after) = (&*self.inner, &after);
        let limit = limit.min(router::LIST_MAX);
        let lists = (0..inner.config.shards).map(ShardId).map(|id| {
            retry(deadline, move |deadline| async move {
                let leader = inner.leader_to_ask(id)?;
                inner.heeded(&leader, leader.list(after.clone(), limit, deadline).await)
            })
        });
        Ok(router::merged(try_join_all(lists).await?, limit))
    }

    /// As [`Node::transfer`](crate::Node::transfer).
    ///
    /// # Errors
    /// Why the leadership stayed, or may have.
    pub async fn transfer(&self, shard: ShardId, to: NodeId) -> Result<(), NotMoved> {
        if shard.0 >= self.inner.config.shards {
            return Err(NotMoved::NoShard);
        }
        let leader = self.inner.leader_to_ask(shard).map_err(|_| NotMoved::NotLeader)?;
        if leader.node == to {
            return Ok(());
        }
        leader.hand_over(to).await
    }

    /// As [`Node::seen`](crate::Node::seen).
    ///
    /// # Errors
    /// Why this process must not submit claims now. Nothing was submitted.
    pub fn seen(&self, name: &RecordName) -> Result<Basis, SubmitError> {
        let inner = &*self.inner;
        if inner.is_outvoted() {
            return Err(SubmitError::ConfigMismatch);
        }
        let shard = inner.shard(inner.table.shard_of(name));
        let own = inner.guard.stamp().map_err(|_| SubmitError::ClockNotTrusted)?;
        let leader = shard.leader(clock::now());
        let time = leader.map_or(own, |leader| inner.guard.estimate(leader));
        Ok(shard.seen.basis(time))
    }

    /// The wall clock as this process reads it; see [`Node::wall`](crate::Node::wall).
    pub fn wall(&self) -> Timestamp {
        self.inner.clock.wall()
    }

    /// As [`Node::boot`](crate::Node::boot).
    pub fn boot(&self) -> Duration {
        self.inner.clock.boot()
    }

    /// As [`Node::outline_secret`](crate::Node::outline_secret).
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

    /// The cluster as this process sees it.
    pub fn status(&self) -> NodeStatus {
        let (inner, now) = (&*self.inner, clock::now());
        let reading = inner.guard.reading();
        let connected = inner.transport.connected();
        let fit = inner.fitness.fit_of(connected.clone());
        let shards = inner.shards.iter().enumerate().map(|(index, shard)| ShardStatus {
            shard: ShardId(index as u16),
            leader: shard.leader(now),
            replica: None,
        });
        let member = |peer: &crate::config::Peer| MemberStatus {
            peer: peer.clone(),
            connected: connected.contains(&peer.id),
            fit: fit.contains(&peer.id),
        };
        NodeStatus {
            id: None,
            shards: shards.collect(),
            clock_offset_ms: reading.offset_ms,
            clock_trusted: reading.distrust.is_none(),
            members: inner.config.peers.iter().map(member).collect(),
        }
    }

    /// Closes every connection. Calls that are under way fail.
    pub async fn stop(&self) {
        let mut tasks = std::mem::take(&mut *self.inner.tasks.lock().expect("no holder panics"));
        tasks.shutdown().await;
        self.inner.transport.stop().await;
    }
}

impl Inner {
    fn shard(&self, id: ShardId) -> &Shard {
        &self.shards[usize::from(id.0)]
    }

    /// Whom to ask about a shard.
    fn leader_to_ask(&self, id: ShardId) -> Result<Leader<'_>, SubmitError> {
        if self.is_outvoted() {
            return Err(SubmitError::ConfigMismatch);
        }
        match self.shard(id).leader(clock::now()) {
            Some(node) => Ok(Leader { transport: &self.transport, node, shard: id }),
            None => {
                self.wanted.notify_waiters();
                Err(SubmitError::NoLeader)
            }
        }
    }

    /// Notes what an answer says of who leads.
    fn heeded<T>(
        &self,
        asked: &Leader<'_>,
        answer: Result<T, SubmitError>,
    ) -> Result<T, SubmitError> {
        if matches!(answer, Err(SubmitError::NoLeader)) {
            self.shard(asked.shard).forget(asked.node);
            self.wanted.notify_waiters();
        }
        answer
    }

    /// Whether so many nodes name records differently that no majority can serve this process.
    fn is_outvoted(&self) -> bool {
        let nodes = self.config.peers.len();
        nodes.saturating_sub(self.transport.naming_refusals()) <= nodes / 2
    }

    /// The first thing that keeps this process from getting claims decided.
    fn obstacle(&self) -> Option<String> {
        if self.is_outvoted() {
            let mut refusals = self.transport.refusals().into_iter();
            let naming = refusals.find(|refusal| refusal.cause == Cause::Naming);
            return Some(naming.map_or_else(String::new, |refusal| refusal.reason));
        }
        if let Some(distrust) = self.guard.reading().distrust {
            return Some(format!("clock: {distrust}"));
        }
        let (now, connected) = (clock::now(), self.transport.connected());
        self.shards.iter().enumerate().find_map(|(index, shard)| match shard.leader(now) {
            None => Some(format!("shard {index} has no leader")),
            Some(leader) => (!connected.contains(&leader))
                .then(|| format!("shard {index}: its leader, node {leader}, is not reached")),
        })
    }
}

/// Asks one node for ever which shards it leads.
async fn keep_asking(inner: Arc<Inner>, peer: NodeId) {
    loop {
        if let Some((said, asked)) = router::ask(&inner.transport, peer).await {
            inner.fitness.heard(peer, said.fit, asked);
            for entry in said.shards {
                let moment = asked.checked_sub(Duration::from_millis(entry.age_ms));
                let shard = inner.shards.get(usize::from(entry.shard));
                if let (Some(shard), Some(moment)) = (shard, moment) {
                    shard.hear(Led { by: peer, moment });
                }
            }
        }
        tokio::time::sleep(ASK_GAP).await;
        // Whoever wants a leader asks again as long as there is none, so a call that comes between
        // the two waits is not missed for long.
        let _ = tokio::time::timeout(router::CONFIRM_INTERVAL, inner.wanted.notified()).await;
    }
}

/// Nobody is served: nobody dials a gateway.
struct Nobody;

impl Service for Nobody {
    fn admit(&self, _: &PeerHello) -> Result<(), String> {
        Ok(())
    }

    fn serve(&self, _: Caller, _: Request, reply: Reply) {
        reply.refuse();
    }

    fn closed(&self, _: Caller) {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_leader_is_who_was_confirmed_last_and_only_for_a_while() {
        let (shard, begin) = (Shard::default(), Instant::now());
        let at = |ms: u64| begin + Duration::from_millis(ms);
        let led = |by: u64, ms: u64| Led { by: NodeId(by), moment: at(ms) };
        assert_eq!(shard.leader(at(0)), None);
        shard.hear(led(1, 100));
        assert_eq!(shard.leader(at(2100)), Some(NodeId(1)));
        assert_eq!(shard.leader(at(2101)), None);
        // A leader that was cut off goes on saying what was true.
        shard.hear(led(2, 900));
        shard.hear(led(1, 100));
        assert_eq!(shard.leader(at(1000)), Some(NodeId(2)));
        shard.forget(NodeId(1));
        assert_eq!(shard.leader(at(1000)), Some(NodeId(2)));
        shard.forget(NodeId(2));
        assert_eq!(shard.leader(at(1000)), None);
    }
}
