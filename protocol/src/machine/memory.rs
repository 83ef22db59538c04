//! Records in ordered maps: the twin of the disk store for tests and models.

use std::collections::{BTreeMap, BTreeSet};
use std::convert::Infallible;

use crate::record::Record;
use crate::scope::RecordName;
use crate::time::Timestamp;

use super::RecordStore;

/// The records of one shard in memory, in the order of their names.
///
/// Two stores that were fed the same log are equal. Nothing bounds its size: it is for tests, where
/// the log is short.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryRecords {
    records: BTreeMap<RecordName, Record>,
    due: BTreeSet<(Timestamp, RecordName)>,
}

impl MemoryRecords {
    /// Names of records that have something due at `until`, longest due first, at most `limit`.
    pub fn due(&self, until: Timestamp, limit: usize) -> Vec<RecordName> {
        let due = self.due.iter().take_while(|(at, _)| *at <= until);
        due.take(limit).map(|(_, name)| name.clone()).collect()
    }

    /// All names that are not absent, with their records, in the order of the names.
    pub fn iter(&self) -> impl Iterator<Item = (&RecordName, &Record)> {
        self.records.iter()
    }
}

impl RecordStore for MemoryRecords {
    type Error = Infallible;

    fn get(&self, name: &RecordName) -> Result<Option<Record>, Infallible> {
        Ok(self.records.get(name).cloned())
    }

    fn replace(
        &mut self,
        name: &RecordName,
        before: Option<&Record>,
        after: Option<&Record>,
    ) -> Result<(), Infallible> {
        debug_assert_eq!(self.records.get(name), before, "a record is replaced as it was read");
        if let Some(at) = before.and_then(Record::due_at) {
            self.due.remove(&(at, name.clone()));
        }
        if let Some(at) = after.and_then(Record::due_at) {
            self.due.insert((at, name.clone()));
        }
        match after {
            Some(record) => self.records.insert(name.clone(), record.clone()),
            None => self.records.remove(name),
        };
        Ok(())
    }
}
