//! Changes of one shard that are committed together.

use std::sync::Arc;

use bytes::Bytes;

use super::RecordsError;
use super::keys::{Index, NAME_BYTES_MAX};
use super::recent::Change;
use super::shard::Shard;
use super::tally::{Share, Shifts};

/// Changes of one shard, committed all at once or not at all, also across a crash.
///
/// They are seen by nobody before the commit. Of several changes of the same key the last one
/// counts.
#[must_use]
pub(crate) struct WriteBatch {
    shard: Arc<Shard>,
    generation: u32,
    changes: Vec<Change>,
    tallies: Shifts,
    /// The earliest entry that is added to the due index.
    due_ms: Option<u64>,
}

impl WriteBatch {
    pub(super) fn new(shard: Arc<Shard>) -> Self {
        let generation = shard.current();
        Self { shard, generation, changes: Vec::new(), tallies: Shifts::default(), due_ms: None }
    }

    /// Sets the record of `name`.
    ///
    /// # Panics
    /// When the name has more than 65,520 bytes, here and in the other methods.
    pub(crate) fn put(&mut self, name: &[u8], record: Vec<u8>) {
        self.changes.push(Change::Record(checked(name), Some(record.into())));
    }

    /// Removes the record of `name`.
    pub(crate) fn remove(&mut self, name: &[u8]) {
        self.changes.push(Change::Record(checked(name), None));
    }

    /// Adds `name` to an index, at `time_ms`.
    pub(crate) fn put_index(&mut self, index: Index, time_ms: u64, name: &[u8]) {
        self.changes.push(Change::Entry(index, time_ms, checked(name), true));
        if index == Index::Due {
            self.due_ms = Some(self.due_ms.map_or(time_ms, |earliest| earliest.min(time_ms)));
        }
    }

    /// Removes `name` from an index, where it is at `time_ms`.
    pub(crate) fn remove_index(&mut self, index: Index, time_ms: u64, name: &[u8]) {
        self.changes.push(Change::Entry(index, time_ms, checked(name), false));
    }

    /// The tally that a record has a share in changes: `before` is what it had, `after` what it
    /// has.
    pub(crate) fn move_share(&mut self, before: Option<Share>, after: Option<Share>) {
        if before == after {
            return;
        }
        if let Some(share) = before {
            self.tallies.remove(share);
        }
        if let Some(share) = after {
            self.tallies.add(share);
        }
    }

    /// Sets the owner's bytes.
    pub(crate) fn set_meta(&mut self, meta: Vec<u8>) {
        self.changes.push(Change::Meta(meta.into()));
    }

    /// Makes the changes. They are not durable before
    /// [`ShardRecords::sync`](super::ShardRecords::sync). Does not block.
    ///
    /// # Errors
    /// `Replaced` when a snapshot was installed since the batch was begun: nothing was changed.
    /// After any other error nothing is committed any more.
    pub(crate) fn commit(self) -> Result<(), RecordsError> {
        self.shard.commit(self.generation, self.changes, self.tallies)?;
        if let Some(due_ms) = self.due_ms {
            self.shard.due.add(due_ms);
        }
        Ok(())
    }
}

fn checked(name: &[u8]) -> Bytes {
    assert!(name.len() <= NAME_BYTES_MAX, "a name has at most {NAME_BYTES_MAX} bytes");
    Bytes::copy_from_slice(name)
}
