//! The protocol's records over the node's record store.

use std::collections::HashMap;

use bytes::Bytes;
use protocol::{Record, RecordName, RecordStore, Timestamp};

use crate::codec::{self, CodecError};
use crate::storage::records::{
    Derived, Index, Records, RecordsError, ShardRecords, Share, Tally, WriteBatch,
};

/// Why records could not be read or written. It stops the replica.
#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("record store: {0}")]
    Records(#[from] RecordsError),
    #[error("stored record: {0}")]
    Codec(#[from] CodecError),
}

/// The records of one shard as they will be once the entries of one `apply` call are written.
///
/// Changes gather here, so that all of them and the position that they bring the shard to reach the
/// store in one batch.
pub(super) struct PendingRecords<'a> {
    records: &'a ShardRecords,
    changed: HashMap<RecordName, Option<Record>>,
    batch: WriteBatch,
    bytes: usize,
}

impl<'a> PendingRecords<'a> {
    pub(super) fn new(records: &'a ShardRecords) -> Self {
        Self { records, changed: HashMap::new(), batch: records.batch(), bytes: 0 }
    }

    /// Bytes of records gathered so far.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Writes all changes and the shard's new position at once.
    pub(super) fn commit(mut self, meta: Vec<u8>) -> Result<(), RecordsError> {
        self.batch.set_meta(meta);
        self.batch.commit()
    }
}

impl RecordStore for PendingRecords<'_> {
    type Error = ApplyError;

    fn get(&self, name: &RecordName) -> Result<Option<Record>, ApplyError> {
        if let Some(record) = self.changed.get(name) {
            return Ok(record.clone());
        }
        read(self.records, name)
    }

    fn replace(
        &mut self,
        name: &RecordName,
        before: Option<&Record>,
        after: Option<&Record>,
    ) -> Result<(), ApplyError> {
        for index in INDEXES {
            let (was, is) =
                (before.and_then(|r| time_in(index, r)), after.and_then(|r| time_in(index, r)));
            if was == is {
                continue;
            }
            if let Some(time_ms) = was {
                self.batch.remove_index(index, time_ms, name.as_bytes());
            }
            if let Some(time_ms) = is {
                self.batch.put_index(index, time_ms, name.as_bytes());
            }
        }
        let share = |record: Option<&Record>| record.map(|record| share(name, record));
        self.batch.move_share(share(before), share(after));
        match after {
            Some(record) => {
                let bytes = codec::encode(codec::RECORD, record);
                self.bytes += bytes.len();
                self.batch.put(name.as_bytes(), bytes);
            }
            None => self.batch.remove(name.as_bytes()),
        }
        self.changed.insert(name.clone(), after.cloned());
        Ok(())
    }
}

/// The record of `name` as the store has it.
pub(super) fn read(
    records: &ShardRecords,
    name: &RecordName,
) -> Result<Option<Record>, ApplyError> {
    match records.get(name.as_bytes())? {
        Some(bytes) => Ok(Some(codec::decode(codec::RECORD, &bytes)?)),
        None => Ok(None),
    }
}

/// What a record takes up beside its name and what it holds, in bytes: its numbers, and its entries
/// in the indexes. Roughly; another number here would leave older tallies wrong.
const RECORD_BYTES: usize = 256;

/// What the groups of live records begin with; the tenant follows.
const LIVE: &[u8] = &[1];
/// The group of tombstones.
const TOMBSTONES: &[u8] = &[2];

const INDEXES: [Index; 2] = [Index::Due, Index::Unsettled];

/// Where a record stands in an index, in milliseconds of shard time.
fn time_in(index: Index, record: &Record) -> Option<u64> {
    let time = match index {
        Index::Due => record.due_at(),
        Index::Unsettled => record.indeterminate_since(),
    };
    time.map(Timestamp::as_millis)
}

/// What is stored beside a record, for making it anew from a snapshot.
pub(super) fn derived(name: &[u8], bytes: &[u8]) -> Result<Derived, CodecError> {
    let record: Record = codec::decode(codec::RECORD, bytes)?;
    let entry = |index| time_in(index, &record).map(|time_ms| (index, time_ms));
    let entries = INDEXES.into_iter().filter_map(entry).collect();
    Ok(Derived { entries, share: share(&RecordName::from_bytes(name.to_vec()), &record) })
}

/// What a record adds to the tally of its group. Live records are grouped by tenant, tombstones are
/// one group: nobody chooses how many there are.
fn share(name: &RecordName, record: &Record) -> Share {
    let group = match record {
        Record::Live(_) => live(name.tenant().unwrap_or_default()),
        Record::Tombstone(_) => TOMBSTONES.into(),
    };
    let bytes = RECORD_BYTES + name.as_bytes().len() + record.content_bytes();
    Share { group, bytes: bytes as u64 }
}

/// The group of a tenant's live records.
fn live(tenant: &str) -> Bytes {
    [LIVE, tenant.as_bytes()].concat().into()
}

/// What the live records of `tenant` come to, as far as the shards of this node have applied their
/// logs.
pub(crate) fn tenant_tally(records: &Records, tenant: &str) -> Tally {
    records.tally(&live(tenant))
}

/// What all live records of this node come to, and what all its tombstones.
pub(crate) fn tallies(records: &Records) -> (Tally, Tally) {
    (records.tally_over(|group| group.starts_with(LIVE)), records.tally(TOMBSTONES))
}
