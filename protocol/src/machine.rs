//! The machine of one shard: runs the commands of a log entry in order over a store of records.

mod memory;

use serde::{Deserialize, Serialize};

use crate::command::{Basis, Batch, Command, Decided, Outcome};
use crate::decide::{Context, Next, decide};
use crate::lease::Fence;
use crate::record::Record;
use crate::scope::RecordName;
use crate::time::Timestamp;

pub use memory::MemoryRecords;

/// Where the records of one shard are kept.
///
/// Between two calls of [`Machine::apply`] the store holds exactly what the log says; what
/// [`RecordStore::replace`] wrote must be visible to the next [`RecordStore::get`], also within one
/// batch. An error is never an answer: it stops the replica.
pub trait RecordStore {
    /// A fault of the store.
    type Error;

    /// The record of `name`; `None` when the name is absent.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn get(&self, name: &RecordName) -> Result<Option<Record>, Self::Error>;

    /// Puts `after` in the place of `before`, which is what [`RecordStore::get`] returned last for
    /// this name. The store keeps its index of due records by [`Record::due_at`] of both.
    ///
    /// # Errors
    /// When the store cannot be written.
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
    /// Only those of the store; the batch must then be given up as a whole. The machine is as it
    /// was before, but the store may hold a part of the batch.
    pub fn apply<S: RecordStore>(
        &mut self,
        records: &mut S,
        index: u64,
        batch: &Batch,
    ) -> Result<Vec<Decided>, S::Error> {
        let mut machine = Self { time: self.time.max(batch.at), ..*self };
        let basis = Basis { epoch: machine.epoch, index, time: machine.time };
        let mut answers = Vec::with_capacity(batch.commands.len());
        for command in &batch.commands {
            let outcome = machine.run(records, index, command)?;
            answers.push(Decided { outcome, basis });
        }
        *self = machine;
        Ok(answers)
    }

    fn run<S: RecordStore>(
        &mut self,
        records: &mut S,
        index: u64,
        command: &Command,
    ) -> Result<Outcome, S::Error> {
        let next_fence = Fence::new(self.epoch, self.grants + 1);
        let context = Context { now: self.time, index, epoch: self.epoch, next_fence };
        let name = command.name();
        if name.is_too_long() {
            // Those who submit commands refuse it before; a log that has one all the same must be
            // applied by every replica, and to the same end.
            return Ok(Outcome::Conflict);
        }
        let before = records.get(name)?;
        let decision = decide(&context, before.as_ref(), command);
        match &decision.next {
            Next::Keep => {}
            Next::Put(after) => records.replace(name, before.as_ref(), Some(after))?,
            Next::Remove => records.replace(name, before.as_ref(), None)?,
        }
        if decision.took_fence {
            self.grants += 1;
        }
        Ok(decision.outcome)
    }
}

#[cfg(test)]
mod tests;
