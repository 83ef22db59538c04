//! The machine of one shard: runs the commands of a log entry in order over a store of records.

use serde::{Deserialize, Serialize};

use crate::command::{Batch, Decided};
use crate::record::Record;
use crate::scope::RecordName;
use crate::time::Timestamp;

/// Where the records of one shard are kept.
///
/// Between two calls of [`Machine::apply`] the store holds exactly what the log says; what [`RecordStore::replace`] wrote must
/// be visible to the next [`RecordStore::get`], also within one batch. An error is never an answer: it stops the replica.
pub trait RecordStore {
    /// A fault of the store.
    type Error;

    /// The record of `name`; `None` when the name is absent.
    fn get(&self, name: &RecordName) -> Result<Option<Record>, Self::Error>;

    /// Puts `after` in the place of `before`, which is what [`RecordStore::get`] returned last for this name.
    /// The store keeps its index of due records by [`Record::due_at`] of both.
    fn replace(
        &mut self,
        name: &RecordName,
        before: Option<&Record>,
        after: Option<&Record>,
    ) -> Result<(), Self::Error>;
}

/// What a shard's machine knows besides its records. It is kept with them, in the same write.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Machine {
    /// The restore epoch: 0, and one more for every restore from a backup.
    pub epoch: u8,
    /// How many fences the shard has given; it outlives the records.
    pub grants: u64,
    /// Shard time: the largest stamp applied.
    pub time: Timestamp,
}

impl Machine {
    /// Decides the commands of the entry at `index` in order; the answers stand in the same order.
    ///
    /// # Errors
    /// Only those of the store; the batch must then be given up as a whole.
    pub fn apply<S: RecordStore>(
        &mut self,
        records: &mut S,
        index: u64,
        batch: &Batch,
    ) -> Result<Vec<Decided>, S::Error> {
        let _ = (records, index, batch);
        todo!("the machine")
    }
}
