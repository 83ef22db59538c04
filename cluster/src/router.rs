//! Finds the shard of a name and its leader, here or one hop away.

mod applied;
mod asking;
#[cfg(feature = "testing")]
mod layouts;
mod leading;
mod list;
#[cfg(feature = "testing")]
mod planted;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use protocol::{Basis, Command, Decided, RecordName, Timestamp};
use serde::{Deserialize, Serialize};
use tokio::sync::oneshot;

use crate::clock::{self, ClockGuard};
use crate::codec;
use crate::config::{NodeConfig, NodeId};
use crate::error::SubmitError;
use crate::placement::{ShardId, SlotTable};
use crate::raft::{self, Found};
use crate::shard::{Answer, Respond, ShardHandle};
use crate::task;
use crate::transport::{Reply, Transport};

/// A command for the leader of its shard.
pub(crate) const SUBMIT: u8 = raft::kind::NEXT;
/// A read through the log, for the leader of the name's shard.
pub(crate) const READ: u8 = raft::kind::NEXT + 1;

/// What is served to gateways without a node: nothing of Raft, and nothing of how clusters form.
pub(crate) const FOR_GATEWAYS: [u8; 5] = [SUBMIT, READ, LIST, CONFIRM, HAND_OVER];

pub(crate) use self::applied::{CONFIRM, CONFIRM_INTERVAL, ask};
pub(crate) use self::asking::{Leader, retry, until_told};
#[cfg(feature = "testing")]
pub(crate) use self::layouts::layouts;
pub(crate) use self::leading::{Fitness, HAND_OVER};
pub(crate) use self::list::{LIST, LIST_MAX, merged};

/// A command on its way to another node.
#[derive(Serialize, Deserialize)]
struct Forward {
    command: Command,
    /// How long the caller still waits, in milliseconds; a duration, since the nodes' clocks
    /// differ.
    patience_ms: u64,
}

/// A read on its way to another node.
#[derive(Serialize, Deserialize)]
struct ForwardRead {
    name: RecordName,
    patience_ms: u64,
}

type ReadAnswer = Result<Found, SubmitError>;

/// Routes commands to leaders.
pub(crate) struct Router {
    node: NodeId,
    /// How many nodes the cluster has, this one among them.
    members: usize,
    table: SlotTable,
    shards: Vec<ShardHandle>,
    seen: Vec<Seen>,
    known: Vec<applied::Known>,
    fitness: Fitness,
    transport: Arc<dyn Transport>,
    guard: Arc<ClockGuard>,
}

/// How far this node has heard a shard to be, from any reply of it.
#[derive(Default)]
pub(crate) struct Seen {
    epoch: AtomicU64,
    index: AtomicU64,
}

impl Seen {
    pub(crate) fn observe(&self, basis: Basis) {
        self.epoch.fetch_max(u64::from(basis.epoch), Ordering::Relaxed);
        self.index.fetch_max(basis.index, Ordering::Relaxed);
    }

    /// What was heard, with an estimate of the leader's clock.
    pub(crate) fn basis(&self, time: Timestamp) -> Basis {
        Basis {
            epoch: self.epoch.load(Ordering::Relaxed) as u8,
            index: self.index.load(Ordering::Relaxed),
            time,
        }
    }
}

impl Router {
    pub(crate) fn new(
        config: &NodeConfig,
        shards: Vec<ShardHandle>,
        transport: Arc<dyn Transport>,
        guard: Arc<ClockGuard>,
    ) -> Self {
        let seen = shards.iter().map(|_| Seen::default()).collect();
        let known = shards.iter().map(|_| applied::Known::default()).collect();
        let (node, members) = (config.id, config.peers.len());
        let table = SlotTable::new(config.shards);
        let fitness = Fitness::default();
        Self { node, members, table, shards, seen, known, fitness, transport, guard }
    }

    /// This node's shards, by id.
    pub(crate) fn shards(&self) -> &[ShardHandle] {
        &self.shards
    }

    fn shard(&self, id: ShardId) -> Option<&ShardHandle> {
        self.shards.get(usize::from(id.0))
    }

    /// What a copy of a claim for `name` carries.
    ///
    /// # Errors
    /// Why this node must not submit claims: its own clock is not trusted, or its policy is not the
    /// cluster's.
    pub(crate) fn seen(&self, name: &RecordName) -> Result<Basis, SubmitError> {
        let id = self.table.shard_of(name);
        if self.is_outvoted(id) {
            return Err(SubmitError::ConfigMismatch);
        }
        let seen = &self.seen[usize::from(id.0)];
        // What this node's own replica has applied was committed too, so it counts like a reply.
        seen.observe(self.shards[usize::from(id.0)].replica().basis());
        let own = self.guard.stamp().map_err(|_| SubmitError::ClockNotTrusted)?;
        let time = match self.leader(id) {
            Some(leader) if leader != self.node => self.guard.estimate(leader),
            _ => own,
        };
        Ok(seen.basis(time))
    }

    /// The leader of a shard as far as this node knows.
    pub(crate) fn leader(&self, id: ShardId) -> Option<NodeId> {
        self.shard(id)?.replica().leader()
    }

    /// Whether this node is cut off from a shard by its own policy: it reaches no leader, and too
    /// few nodes may name records as it does to elect one.
    pub(crate) fn is_outvoted(&self, id: ShardId) -> bool {
        let agreeing = self.members.saturating_sub(self.transport.naming_refusals());
        // The leader is asked for last: the count alone answers nearly always.
        agreeing <= self.members / 2 && !self.reaches_leader(id)
    }

    fn reaches_leader(&self, id: ShardId) -> bool {
        match self.leader(id) {
            None => false,
            Some(leader) if leader == self.node => {
                self.shard(id).is_some_and(|shard| !shard.replica().quorum_lost())
            }
            Some(leader) => self.transport.connected().contains(&leader),
        }
    }

    /// Whom to ask about a shard.
    fn leader_to_ask(&self, id: ShardId) -> Result<NodeId, SubmitError> {
        if self.is_outvoted(id) {
            return Err(SubmitError::ConfigMismatch);
        }
        self.leader(id).ok_or(SubmitError::NoLeader)
    }

    /// Has a command decided by the leader of its shard; retries what is definite until `deadline`.
    pub(crate) async fn submit(&self, command: Command, deadline: Instant) -> Answer {
        #[cfg(feature = "testing")]
        let command = planted::twisted(command);
        let id = self.table.shard_of(command.name());
        let decided =
            retry(deadline, |deadline| self.try_submit(id, command.clone(), deadline)).await?;
        self.seen[usize::from(id.0)].observe(decided.basis);
        until_told(&decided).await;
        Ok(decided)
    }

    /// Reads a record through the log of its shard; retries what is definite until `deadline`.
    pub(crate) async fn read(&self, name: &RecordName, deadline: Instant) -> ReadAnswer {
        if name.is_too_long() {
            return Err(SubmitError::NameTooLong);
        }
        let id = self.table.shard_of(name);
        let found = retry(deadline, |deadline| self.try_read(id, name, deadline)).await?;
        self.seen[usize::from(id.0)].observe(found.basis);
        Ok(found)
    }

    async fn try_submit(&self, id: ShardId, command: Command, deadline: Instant) -> Answer {
        let leader = self.leader_to_ask(id)?;
        if leader == self.node {
            let shard = self.shard(id).ok_or(SubmitError::NoLeader)?;
            return submit_here(shard, command, deadline).await;
        }
        self.asking(leader, id).submit(command, deadline).await
    }

    async fn try_read(&self, id: ShardId, name: &RecordName, deadline: Instant) -> ReadAnswer {
        #[cfg(feature = "testing")]
        if let Some(stale) = planted::stale(self.shard(id), name).await {
            return stale;
        }
        let leader = self.leader_to_ask(id)?;
        if leader == self.node {
            let shard = self.shard(id).ok_or(SubmitError::NoLeader)?;
            return read_here(shard, name.clone(), deadline).await;
        }
        self.asking(leader, id).read(name, deadline).await
    }

    fn asking(&self, leader: NodeId, shard: ShardId) -> Leader<'_> {
        Leader { transport: &*self.transport, node: leader, shard }
    }

    /// Takes a command that another node forwarded. It goes no further: one hop only.
    pub(crate) fn serve_submit(&self, id: ShardId, body: &[u8], reply: Reply) {
        let decoded = codec::decode::<Forward>(codec::FORWARD, body);
        let (Some(shard), Ok(forward)) = (self.shard(id), decoded) else {
            tracing::warn!(shard = id.0, "forwarded command is unreadable");
            return reply.refuse();
        };
        let deadline = patience_ends(forward.patience_ms);
        shard.submit(forward.command, deadline, Respond::Peer(reply));
    }

    /// Serves a read that another node forwarded.
    pub(crate) fn serve_read(&self, id: ShardId, body: &[u8], reply: Reply) {
        let decoded = codec::decode::<ForwardRead>(codec::FORWARD_READ, body);
        let (Some(shard), Ok(forward)) = (self.shard(id).cloned(), decoded) else {
            tracing::warn!(shard = id.0, "forwarded read is unreadable");
            return reply.refuse();
        };
        task::spawn(async move {
            let deadline = patience_ends(forward.patience_ms);
            let found = read_here(&shard, forward.name, deadline).await;
            reply.send(codec::encode(codec::READ_ANSWER, &found).into());
        });
    }
}

/// Longest that a forwarded command is kept waiting, whatever its sender says.
const PATIENCE_MAX: Duration = Duration::from_secs(60);

fn patience_ends(patience_ms: u64) -> Instant {
    clock::now() + Duration::from_millis(patience_ms).min(PATIENCE_MAX)
}

fn left(deadline: Instant) -> Result<Duration, SubmitError> {
    let left = deadline.saturating_duration_since(clock::now());
    if left.is_zero() { Err(SubmitError::Expired) } else { Ok(left) }
}

async fn submit_here(shard: &ShardHandle, command: Command, deadline: Instant) -> Answer {
    let (sender, answer) = oneshot::channel();
    shard.submit(command, deadline, Respond::Local(sender));
    match tokio::time::timeout_at(deadline.into(), answer).await {
        Ok(Ok(answer)) => answer,
        Ok(Err(_)) => Err(SubmitError::Lost),
        Err(_) => Err(SubmitError::TimedOut),
    }
}

/// A read through the log: an entry that only expires what is due for the name has to be committed
/// first. So the leader was the leader after the read began, and the entry's time is known to have
/// passed when the record was looked at.
async fn read_here(shard: &ShardHandle, name: RecordName, deadline: Instant) -> ReadAnswer {
    let expired: Decided =
        submit_here(shard, Command::Expire { name: name.clone() }, deadline).await?;
    let found = shard.replica().find(name).await.map_err(|_| SubmitError::Stopping)?;
    debug_assert!(found.basis.index >= expired.basis.index, "answers follow their application");
    Ok(found)
}
