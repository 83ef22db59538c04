//! openraft's state machine over [`protocol::Machine`].

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures_util::{Stream, TryStreamExt};
use openraft::storage::{ApplyResponder, EntryResponder, RaftSnapshotBuilder, RaftStateMachine};
use openraft::{EntryPayload, OptionalSend};
use protocol::{Basis, Batch, Decided, Machine, RecordName, Timestamp};
use serde::{Deserialize, Serialize};

use super::record_store::{self, ApplyError, PendingRecords};
use super::snapshot::SnapshotData;
use super::types::{LogId, Snapshot, SnapshotMeta, StoredMembership, TypeConfig};
use super::wire::{WireLogId, WireStoredMembership};
use super::{Found, Unsettled};
use crate::codec;
use crate::storage::records::{RecordsError, RecordsView, ShardRecords};
use crate::task;

/// Most bytes of records that are gathered before they are written: entries of one `apply` call
/// share a write, but a follower that catches up must not hold its whole backlog in memory.
const WRITE_BYTES_MAX: usize = 4 << 20;

/// Where a shard's records stand, kept in the same write as the records.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct ShardMeta {
    pub(super) machine: Machine,
    applied: Option<WireLogId>,
    membership: Option<WireStoredMembership>,
}

impl ShardMeta {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, ApplyError> {
        Ok(codec::decode(codec::SHARD_META, bytes)?)
    }

    pub(super) fn snapshot_meta(&self) -> Result<SnapshotMeta, ApplyError> {
        let last_membership = match self.membership.clone() {
            Some(membership) => membership.try_into()?,
            None => StoredMembership::default(),
        };
        Ok(SnapshotMeta { last_log_id: self.applied.map(LogId::from), last_membership })
    }
}

/// One shard's records on this node, as far as the log has been applied.
pub(crate) struct StateMachine {
    records: ShardRecords,
    machine: Machine,
    applied: Option<LogId>,
    membership: StoredMembership,
    position: Arc<Position>,
}

/// How far a replica has applied its log, for those who may not wait for the state machine.
#[derive(Debug, Default)]
pub(crate) struct Position {
    index: AtomicU64,
    time: AtomicU64,
    epoch: AtomicU64,
}

impl Position {
    /// The position as a basis; its parts may be of two adjacent moments.
    pub(crate) fn basis(&self) -> Basis {
        Basis {
            epoch: self.epoch.load(Ordering::Relaxed) as u8,
            // Whoever sees an index sees the records that were written before it was set.
            index: self.index.load(Ordering::Acquire),
            time: Timestamp::from_millis(self.time.load(Ordering::Relaxed)),
        }
    }

    fn set(&self, basis: Basis) {
        self.epoch.store(u64::from(basis.epoch), Ordering::Relaxed);
        self.time.store(basis.time.as_millis(), Ordering::Relaxed);
        self.index.store(basis.index, Ordering::Release);
    }
}

impl StateMachine {
    /// The state machine of a shard from its records.
    pub(crate) fn open(records: ShardRecords) -> Result<Self, ApplyError> {
        let mut machine = Self {
            records,
            machine: Machine::default(),
            applied: None,
            membership: StoredMembership::default(),
            position: Arc::default(),
        };
        machine.load()?;
        Ok(machine)
    }

    /// How far the log is applied, kept up to date.
    pub(crate) fn position(&self) -> Arc<Position> {
        self.position.clone()
    }

    /// The record of `name` after every entry applied so far.
    pub(super) fn find(&self, name: &RecordName) -> Result<Found, ApplyError> {
        Ok(Found { record: record_store::read(&self.records, name)?, basis: self.basis() })
    }

    /// Names of at most `limit` records that are due at or before `until_ms`, earliest first.
    pub(super) fn due(&self, until_ms: u64, limit: usize) -> Result<Vec<RecordName>, ApplyError> {
        let due = self.records.due(until_ms, limit)?;
        Ok(due.into_iter().map(|(_, name)| RecordName::from_bytes(name)).collect())
    }

    /// At most `limit` indeterminate records behind `after`, the longest so first.
    pub(super) fn unsettled(
        &self,
        after: Option<&(Timestamp, RecordName)>,
        limit: usize,
    ) -> Result<Vec<Unsettled>, ApplyError> {
        let after = after.map(|(since, name)| (since.as_millis(), name.as_bytes()));
        let mut found = Vec::new();
        for (_, name) in self.records.unsettled(after, limit)? {
            let name = RecordName::from_bytes(name);
            let record = record_store::read(&self.records, &name)?;
            found.extend(record.and_then(|record| Unsettled::new(name, record)));
        }
        Ok(found)
    }

    fn load(&mut self) -> Result<(), ApplyError> {
        let meta = match self.records.meta()? {
            Some(bytes) => ShardMeta::decode(&bytes)?,
            None => ShardMeta::default(),
        };
        let snapshot = meta.snapshot_meta()?;
        self.machine = meta.machine;
        self.applied = snapshot.last_log_id;
        self.membership = snapshot.last_membership;
        self.position.set(self.basis());
        Ok(())
    }

    fn basis(&self) -> Basis {
        Basis {
            epoch: self.machine.epoch,
            index: self.applied.map_or(0, |log_id| log_id.index),
            time: self.machine.time,
        }
    }

    fn meta(&self) -> Vec<u8> {
        let meta = ShardMeta {
            machine: self.machine,
            applied: self.applied.map(Into::into),
            membership: Some((&self.membership).into()),
        };
        codec::encode(codec::SHARD_META, &meta)
    }

    /// Applies one entry to `pending`; its answers go out once `pending` is written.
    fn apply_entry(
        &mut self,
        pending: &mut PendingRecords<'_>,
        log_id: LogId,
        payload: &EntryPayload<super::types::EncodedBatch, u64, ()>,
    ) -> Result<Vec<Decided>, ApplyError> {
        let decided = match payload {
            EntryPayload::Blank => Vec::new(),
            EntryPayload::Membership(membership) => {
                self.membership = StoredMembership::new(Some(log_id), membership.clone());
                Vec::new()
            }
            EntryPayload::Normal(batch) => {
                let batch: Batch = codec::decode(codec::BATCH, &batch.0)?;
                #[cfg(feature = "testing")]
                let batch = super::planted::twisted(batch, pending)?;
                self.machine.apply(pending, log_id.index, &batch)?
            }
        };
        self.applied = Some(log_id);
        #[cfg(feature = "testing")]
        let decided = super::planted::shuffled(decided);
        Ok(decided)
    }

    async fn builder(&self) -> SnapshotBuilder {
        let (records, viewed) = (self.records.clone(), self.records.clone());
        let view = task::blocking(move || viewed.view()).await;
        SnapshotBuilder { records, view: Some(view.unwrap_or(Err(RecordsError::Stopped))) }
    }
}

impl RaftStateMachine<TypeConfig> for StateMachine {
    type SnapshotData = SnapshotData;
    type SnapshotBuilder = SnapshotBuilder;

    async fn applied_state(&mut self) -> Result<(Option<LogId>, StoredMembership), io::Error> {
        Ok((self.applied, self.membership.clone()))
    }

    async fn apply<S>(&mut self, mut entries: S) -> Result<(), io::Error>
    where
        S: Stream<Item = Result<EntryResponder<TypeConfig>, io::Error>> + Unpin + OptionalSend,
    {
        let records = self.records.clone();
        records.room().await;
        let mut pending = PendingRecords::new(&records);
        let mut owed = Owed::default();
        while let Some((entry, responder)) = entries.try_next().await? {
            let decided = self
                .apply_entry(&mut pending, entry.log_id, &entry.payload)
                .map_err(io::Error::other)?;
            owed.push(responder, decided);
            if pending.bytes() >= WRITE_BYTES_MAX {
                pending.commit(self.meta()).map_err(io::Error::other)?;
                self.position.set(self.basis());
                owed.pay();
                records.room().await;
                pending = PendingRecords::new(&records);
            }
        }
        pending.commit(self.meta()).map_err(io::Error::other)?;
        self.position.set(self.basis());
        owed.pay();
        Ok(())
    }

    async fn get_snapshot_builder(&mut self) -> SnapshotBuilder {
        self.builder().await
    }

    async fn install_snapshot(
        &mut self,
        meta: &SnapshotMeta,
        snapshot: SnapshotData,
    ) -> Result<(), io::Error> {
        if self.applied != meta.last_log_id {
            let received = snapshot.into_received(&self.records).map_err(io::Error::other)?;
            received.install().map_err(io::Error::other)?;
            self.load().map_err(io::Error::other)?;
        }
        if self.applied != meta.last_log_id {
            return Err(io::Error::other(
                "installed snapshot is not at the position it was sent with",
            ));
        }
        Ok(())
    }

    async fn get_current_snapshot(&mut self) -> Result<Option<Snapshot<SnapshotData>>, io::Error> {
        if self.applied.is_none() {
            return Ok(None);
        }
        self.builder().await.build_snapshot().await.map(Some)
    }
}

/// Answers that wait until what they say is written.
#[derive(Default)]
struct Owed(Vec<(ApplyResponder<TypeConfig>, Vec<Decided>)>);

impl Owed {
    fn push(&mut self, responder: Option<ApplyResponder<TypeConfig>>, decided: Vec<Decided>) {
        self.0.extend(responder.map(|responder| (responder, decided)));
    }

    fn pay(&mut self) {
        for (responder, decided) in self.0.drain(..) {
            responder.send(decided);
        }
    }
}

/// Whether a checkpoint syncs the records; always, but where a test has planted that it does not.
fn makes_durable() -> bool {
    #[cfg(feature = "testing")]
    if crate::failpoint::is_planted(crate::failpoint::Bug::CheckpointNotSynced) {
        return false;
    }
    true
}

/// Turns the view that was taken when the builder was made into a snapshot.
pub(crate) struct SnapshotBuilder {
    records: ShardRecords,
    view: Option<Result<RecordsView, RecordsError>>,
}

impl RaftSnapshotBuilder<TypeConfig> for SnapshotBuilder {
    type SnapshotData = SnapshotData;

    /// Makes the records durable as far as the view goes: the log will be purged that far on the
    /// word of this snapshot.
    async fn build_snapshot(&mut self) -> Result<Snapshot<SnapshotData>, io::Error> {
        let view =
            self.view.take().ok_or_else(|| io::Error::other("snapshot was built already"))?;
        let view = view.map_err(io::Error::other)?;
        let records = self.records.clone();
        if makes_durable() {
            let synced = task::blocking(move || records.sync()).await;
            synced.map_err(io::Error::other)?.map_err(io::Error::other)?;
        }
        let meta = match view.meta() {
            Some(bytes) => ShardMeta::decode(bytes).map_err(io::Error::other)?,
            None => ShardMeta::default(),
        };
        let meta = meta.snapshot_meta().map_err(io::Error::other)?;
        Ok(Snapshot::<SnapshotData> { meta, snapshot: SnapshotData::View(view) })
    }
}
