//! A replica: this node's part in one shard's Raft group. The only folder that names openraft.

mod digest;
mod inbound;
pub(crate) mod kind;
#[cfg(feature = "testing")]
mod layouts;
mod log_store;
mod network;
mod pipeline;
#[cfg(feature = "testing")]
mod planted;
mod record_store;
mod runtime;
mod snapshot;
mod state_machine;
mod types;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use openraft::Instant;
use openraft::async_runtime::WatchReceiver;
use openraft::{Config, RaftMetrics, SnapshotPolicy};
use protocol::decide::{Standing, standing};
use protocol::{Basis, Decided, Record, RecordName, Timestamp};
use serde::{Deserialize, Serialize};

pub use self::digest::ShardDigest;
pub(crate) use self::inbound::Inbound;
#[cfg(feature = "testing")]
pub(crate) use self::layouts::layouts;
use self::log_store::LogStore;
use self::network::Network;
use self::record_store::ApplyError;
pub(crate) use self::record_store::{tallies, tenant_tally};
use self::state_machine::{Position, StateMachine};
use self::types::{EncodedBatch, FanOut, TypeConfig};
use crate::clock::ClockGuard;
use crate::config::NodeId;
use crate::error::StartError;
#[cfg(feature = "testing")]
use crate::failpoint;
use crate::placement::ShardId;
use crate::storage::records::ShardRecords;
use crate::storage::wal::ShardLog;
use crate::transport::Transport;

type Raft = openraft::Raft<TypeConfig, StateMachine>;

/// Heartbeats cost an idle node about 3% of a core at 16 shards; ten a second find a dead leader
/// within a second.
const HEARTBEAT_MS: u64 = 100;
/// A leader is given up after four to eight missed heartbeats.
const ELECTION_MS: (u64, u64) = (4 * HEARTBEAT_MS, 8 * HEARTBEAT_MS);
/// Most entries in one append; its bytes are bounded by the log store.
const APPEND_ENTRIES_MAX: u64 = 256;
/// Bounds of openraft's own queues. The actor proposes one entry at a time and a peer's appends are
/// windowed, so these are never near full; they only keep a fault from growing without end.
const QUEUE_MAX: u64 = 1024;

/// A leader whose majority was silent for longer is taken to be cut off.
const QUORUM_SILENCE_MAX: Duration = Duration::from_secs(2);

/// When a checkpoint is made, and what of the log it leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Checkpoints {
    /// A checkpoint is worth its fsync when the log holds this many bytes, or this many entries,
    /// since the last. Bytes bound the memory that the log takes, entries the time that a restart
    /// takes.
    pub(crate) bytes: u64,
    pub(crate) entries: u64,
    /// Entries kept behind a snapshot, so that a follower that was away for a moment needs no
    /// snapshot.
    pub(crate) keep_entries: u64,
}

impl Default for Checkpoints {
    fn default() -> Self {
        Self { bytes: 4 << 20, entries: 20_000, keep_entries: 256 }
    }
}

/// What a read through the log found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Found {
    /// The record; `None` when the name is absent.
    pub record: Option<Record>,
    /// The shard's position when it was read.
    pub basis: Basis,
}

/// A record that waits for an operator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unsettled {
    /// Since when it does, in shard time.
    pub since: Timestamp,
    /// Its name.
    pub name: RecordName,
    /// The record, which is indeterminate.
    pub record: Record,
}

impl Unsettled {
    /// `None` when the record waits for nobody.
    fn new(name: RecordName, record: Record) -> Option<Self> {
        let since = record.indeterminate_since()?;
        Some(Self { since, name, record })
    }
}

/// How far a shard's log had been applied at least, wherever it was, at a moment of the past.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Confirmed {
    /// Every entry that was answered for before the moment has at most this index.
    pub(crate) index: u64,
    /// How long ago the moment is.
    pub(crate) age: Duration,
}

/// What a replica is made of.
pub(crate) struct ReplicaParts {
    pub(crate) node: NodeId,
    pub(crate) shard: ShardId,
    pub(crate) log: ShardLog,
    pub(crate) records: ShardRecords,
    pub(crate) transport: Arc<dyn Transport>,
    pub(crate) guard: Arc<ClockGuard>,
    pub(crate) checkpoints: Checkpoints,
}

/// This node's replica of a shard. Clones share it.
#[derive(Clone)]
pub(crate) struct Replica {
    shard: ShardId,
    raft: Raft,
    log: ShardLog,
    records: ShardRecords,
    position: Arc<Position>,
    inbound: Arc<Inbound>,
    checkpoints: Checkpoints,
}

/// A replica as its node sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaStatus {
    /// The Raft term.
    pub term: u64,
    /// Index of the last entry in the log.
    pub last_index: u64,
    /// Index of the last entry applied.
    pub applied_index: u64,
    /// Index of the last entry that the log no longer holds; the records do.
    pub purged_index: u64,
}

impl Replica {
    /// Recovers the replica from its log and records and starts it. One that was never initialised
    /// waits.
    ///
    /// # Errors
    /// [`StartError::Engine`] when log or records cannot be read or do not fit together.
    pub(crate) async fn start(parts: ReplicaParts) -> Result<Self, StartError> {
        let ReplicaParts { node, shard, log, records, transport, guard, checkpoints } = parts;
        let failed =
            |error: &dyn std::fmt::Display| StartError::Engine(format!("shard {shard}: {error}"));
        let machine = StateMachine::open(records.clone()).map_err(|error| failed(&error))?;
        let position = machine.position();
        let network = Network::new(shard, transport);
        let config = config(&checkpoints)?;
        let raft = Raft::new(node.0, config, network, LogStore::new(log.clone()), machine)
            .await
            .map_err(|error| failed(&error))?;
        let inbound = Arc::new(Inbound::new(shard, raft.clone(), records.clone(), guard));
        Ok(Self { shard, raft, log, records, position, inbound, checkpoints })
    }

    /// Makes `members` the shard's first voters. Called on one node, once in the life of a cluster;
    /// repeating it is harmless.
    ///
    /// # Errors
    /// When Raft has stopped.
    pub(crate) async fn initialize(&self, members: &[NodeId]) -> Result<(), StartError> {
        let failed = |error: String| StartError::Engine(format!("shard {}: {error}", self.shard));
        if self.raft.is_initialized().await.map_err(|error| failed(error.to_string()))? {
            return Ok(());
        }
        let members: BTreeMap<u64, ()> = members.iter().map(|id| (id.0, ())).collect();
        self.raft.initialize(members).await.map_err(|error| failed(error.to_string()))
    }

    /// The serving side for the other nodes.
    pub(crate) fn inbound(&self) -> &Arc<Inbound> {
        &self.inbound
    }

    /// The shard's leader as far as this replica knows.
    pub(crate) fn leader(&self) -> Option<NodeId> {
        self.raft.server_metrics().borrow_watched().current_leader.map(NodeId)
    }

    /// Whether this replica leads but has not heard from a majority for [`QUORUM_SILENCE_MAX`].
    pub(crate) fn quorum_lost(&self) -> bool {
        let metrics = self.raft.metrics();
        let acked = metrics.borrow_watched().last_quorum_acked;
        acked.is_none_or(|acked| acked.elapsed() > QUORUM_SILENCE_MAX)
    }

    /// Whether this replica believes to lead, and has finished the election.
    pub(crate) fn is_leader(&self) -> bool {
        self.raft.is_leader()
    }

    /// Whether this replica leads and has applied an entry of its own term: from then on Raft takes
    /// what it proposes. A leader that has just been elected refuses, in a way that proves nothing.
    pub(crate) fn takes_proposals(&self) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.state.is_leader() && has_applied_own_term(&metrics)
    }

    /// How far this replica has applied the log.
    pub(crate) fn basis(&self) -> Basis {
        self.position.basis()
    }

    /// How far the shard is surely applied somewhere, as only its leader can tell: a majority has
    /// confirmed the leadership at the moment that is meant, so nobody else had answered for
    /// anything by then. `None` where this replica does not lead, or has not applied an entry of
    /// its own term yet, and so may not have all of its predecessors'.
    pub(crate) fn confirmed(&self) -> Option<Confirmed> {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        if metrics.current_leader != Some(metrics.id) || !has_applied_own_term(&metrics) {
            return None;
        }
        let age = metrics.last_quorum_acked?.elapsed();
        // Read last: what was answered for before the moment is applied by now.
        Some(Confirmed { index: self.position.basis().index, age })
    }

    /// The record of `name` with every entry up to some position that this replica has applied; at
    /// least up to the one that [`Replica::basis`] showed before. Waits for nobody.
    ///
    /// # Errors
    /// When the record store cannot be read.
    pub(crate) fn peek(&self, name: &RecordName) -> Result<Option<Record>, Stopped> {
        record_store::read(&self.records, name).map_err(|error| {
            tracing::error!(shard = self.shard.0, %error, "record cannot be read");
            Stopped
        })
    }

    /// Proposes an encoded [`protocol::Batch`] as one log entry. `answer` gets the decisions once
    /// the entry is applied here, or `None` when it may or may not have been; it is dropped
    /// uncalled when Raft stops.
    ///
    /// # Errors
    /// When Raft has stopped.
    pub(crate) async fn propose(
        &self,
        batch: Bytes,
        answer: impl FnOnce(Option<Vec<Decided>>) + Send + 'static,
    ) -> Result<(), Stopped> {
        let responder =
            FanOut::new(move |result: openraft::raft::ClientWriteResult<TypeConfig>| {
                answer(result.ok().map(|response| response.data));
            });
        let proposed = self.raft.client_write_ff(EncodedBatch(batch), Some(responder)).await;
        proposed.map_err(|_| Stopped)
    }

    /// The record of `name` after every entry applied here so far.
    ///
    /// # Errors
    /// When Raft has stopped or the record store cannot be read.
    pub(crate) async fn find(&self, name: RecordName) -> Result<Found, Stopped> {
        self.look(move |machine| machine.find(&name)).await
    }

    /// Where the records of `names` stand at `at`, in the order of the names, after every entry
    /// applied here so far.
    ///
    /// # Errors
    /// When Raft has stopped or the record store cannot be read.
    pub(crate) async fn standings(
        &self,
        at: Timestamp,
        names: Vec<RecordName>,
    ) -> Result<Vec<Standing>, Stopped> {
        self.look(move |machine| {
            // One record after the other: each may hold a large response.
            let stands = |name| {
                let found = machine.find(name)?;
                Ok(standing(at.max(found.basis.time), found.record.as_ref()))
            };
            names.iter().map(stands).collect()
        })
        .await
    }

    /// Names of at most `limit` records that are due at or before `until`, by this replica's
    /// records.
    pub(crate) async fn due(
        &self,
        until_ms: u64,
        limit: usize,
    ) -> Result<Vec<RecordName>, Stopped> {
        self.look(move |machine| machine.due(until_ms, limit)).await
    }

    /// At most `limit` indeterminate records behind `after`, the longest so first, by the records
    /// of this replica.
    ///
    /// # Errors
    /// When Raft has stopped or the record store cannot be read.
    pub(crate) async fn unsettled(
        &self,
        after: Option<(Timestamp, RecordName)>,
        limit: usize,
    ) -> Result<Vec<Unsettled>, Stopped> {
        self.look(move |machine| machine.unsettled(after.as_ref(), limit)).await
    }

    /// Looks at the records after every entry applied here so far.
    async fn look<T: Send + 'static>(
        &self,
        look: impl FnOnce(&StateMachine) -> Result<T, ApplyError> + Send + 'static,
    ) -> Result<T, Stopped> {
        let seen = self
            .raft
            .with_state_machine(move |machine| {
                let seen = look(machine);
                Box::pin(std::future::ready(seen))
            })
            .await;
        match seen {
            Ok(Ok(seen)) => Ok(seen),
            Ok(Err(error)) => {
                tracing::error!(shard = self.shard.0, %error, "records cannot be read");
                Err(Stopped)
            }
            Err(_) => Err(Stopped),
        }
    }

    /// Makes a checkpoint when the log has grown enough since the last: records are synced, then
    /// the log is purged.
    pub(crate) async fn checkpoint_if_due(&self) {
        let metrics = self.raft.metrics().borrow_watched().clone();
        let applied = metrics.last_applied.map_or(0, |log_id| log_id.index);
        let last = metrics.snapshot.map_or(0, |log_id| log_id.index);
        let entries = applied.saturating_sub(last);
        let rules = &self.checkpoints;
        let due = entries >= rules.entries
            || (entries > rules.keep_entries && self.log.bytes() >= rules.bytes);
        if due && self.raft.trigger().snapshot().await.is_err() {
            tracing::debug!(shard = self.shard.0, "no checkpoint: raft has stopped");
        }
    }

    /// Whether `node` votes in this shard.
    pub(crate) fn is_voter(&self, node: NodeId) -> bool {
        let metrics = self.raft.metrics();
        let metrics = metrics.borrow_watched();
        metrics.membership_config.voter_ids().any(|id| id == node.0)
    }

    /// Waits until `node` has all of this leader's log on its disk; `false` when this replica does
    /// not lead.
    pub(crate) async fn has_whole_log(&self, node: NodeId) -> bool {
        self.until(|metrics| {
            let replication = metrics.replication.as_ref();
            let Some(replication) = replication else { return Some(false) };
            let matched = replication.get(&node.0).and_then(|log_id| log_id.as_ref());
            (matched.map(|log_id| log_id.index) >= metrics.last_log_index).then_some(true)
        })
        .await
    }

    /// Waits until a leader is known that is not this replica; whether it is `node`.
    pub(crate) async fn led_by(&self, node: NodeId) -> bool {
        self.until(|metrics| {
            let leader = metrics.current_leader.filter(|leader| *leader != metrics.id)?;
            Some(leader == node.0)
        })
        .await
    }

    /// Waits until `look` finds an answer in the metrics; `false` when Raft has stopped.
    async fn until(&self, look: impl Fn(&RaftMetrics<TypeConfig>) -> Option<bool>) -> bool {
        let mut metrics = self.raft.metrics();
        loop {
            if let Some(found) = look(&metrics.borrow_watched()) {
                return found;
            }
            if metrics.changed().await.is_err() {
                return false;
            }
        }
    }

    /// Asks `to` to take over the leadership; what becomes of it shows in [`Replica::leader`].
    pub(crate) async fn transfer_leader(&self, to: NodeId) {
        if self.raft.trigger().transfer_leader(to.0).await.is_err() {
            tracing::debug!(shard = self.shard.0, "no transfer: raft has stopped");
        }
    }

    /// The replica as its node sees it.
    pub(crate) fn status(&self) -> ReplicaStatus {
        let metrics = self.raft.metrics().borrow_watched().clone();
        ReplicaStatus {
            term: metrics.current_term,
            last_index: metrics.last_log_index.unwrap_or(0),
            applied_index: metrics.last_applied.map_or(0, |log_id| log_id.index),
            purged_index: metrics.purged.map_or(0, |log_id| log_id.index),
        }
    }

    /// Why Raft has stopped by itself, if it has: a storage fault or a bug. Asked now and then:
    /// waiting for it would wake somebody whenever anything in Raft moves.
    pub(crate) fn failure(&self) -> Option<String> {
        let metrics = self.raft.metrics();
        let state = &metrics.borrow_watched().running_state;
        state.as_ref().err().map(ToString::to_string)
    }

    /// Stops taking part.
    pub(crate) async fn stop(&self) {
        if let Err(error) = self.raft.shutdown().await {
            tracing::warn!(shard = self.shard.0, %error, "raft did not stop cleanly");
        }
    }
}

fn has_applied_own_term(metrics: &RaftMetrics<TypeConfig>) -> bool {
    let applied = metrics.last_applied.as_ref().map(|log_id| log_id.committed_leader_id().term);
    applied == Some(metrics.current_term)
}

/// Raft has stopped on this node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stopped;

/// Whether a leader leads on in its term when it has restarted.
fn restores_leader() -> bool {
    #[cfg(feature = "testing")]
    if failpoint::is_planted(failpoint::Bug::LeaderRestored) {
        return true;
    }
    false
}

fn config(checkpoints: &Checkpoints) -> Result<Arc<Config>, StartError> {
    let config = Config {
        cluster_name: "oncegate".to_owned(),
        heartbeat_interval: HEARTBEAT_MS,
        heartbeat_min_interval: Some(HEARTBEAT_MS),
        election_timeout_min: ELECTION_MS.0,
        election_timeout_max: ELECTION_MS.1,
        max_payload_entries: APPEND_ENTRIES_MAX,
        max_in_snapshot_log_to_keep: checkpoints.keep_entries,
        // Checkpoints go by bytes as well, which openraft's own policy does not know.
        snapshot_policy: SnapshotPolicy::Never,
        api_channel_size: Some(QUEUE_MAX),
        notification_channel_size: Some(QUEUE_MAX),
        state_machine_channel_size: Some(QUEUE_MAX),
        enable_pre_vote: Some(true),
        // A leader sends entries before its own disk has them. One that went on in the same term
        // after a crash could propose others under the same ids, and nobody would ever tell them
        // apart.
        enable_leader_restore: Some(restores_leader()),
        ..Config::default()
    };
    config.validate().map(Arc::new).map_err(|error| StartError::Engine(error.to_string()))
}
