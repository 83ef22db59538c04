//! The protocol's records over the node's record store.

use std::collections::HashMap;

use protocol::{Record, RecordName, RecordStore};

use crate::codec::{self, CodecError};
use crate::storage::records::{RecordsError, ShardRecords, WriteBatch};

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
        let (was_due, due) = (before.and_then(Record::due_at), after.and_then(Record::due_at));
        if was_due != due {
            if let Some(time) = was_due {
                self.batch.remove_due(time.as_millis(), name.as_bytes());
            }
            if let Some(time) = due {
                self.batch.put_due(time.as_millis(), name.as_bytes());
            }
        }
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

/// When a stored record is due, for rebuilding the index of due records from a snapshot.
pub(super) fn due_of(bytes: &[u8]) -> Result<Option<u64>, CodecError> {
    let record: Record = codec::decode(codec::RECORD, bytes)?;
    Ok(record.due_at().map(protocol::Timestamp::as_millis))
}
