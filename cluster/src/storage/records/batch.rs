//! Changes of one shard that are committed together.

use std::sync::Arc;

use bytes::Bytes;
use fjall::OwnedWriteBatch;

use super::shard::Shard;
use super::{Head, RecordsError, keys};

/// Changes of one shard, committed all at once or not at all, also across a crash.
///
/// They are seen by nobody before the commit. Of several changes of the same key the last one
/// counts.
#[must_use]
pub(crate) struct WriteBatch {
    shard: Arc<Shard>,
    generation: u32,
    changes: OwnedWriteBatch,
    /// The earliest entry that is added to the due index.
    due_ms: Option<u64>,
}

impl WriteBatch {
    pub(super) fn new(shard: Arc<Shard>) -> Self {
        let generation = shard.current();
        let changes = shard.store.database.batch();
        Self { shard, generation, changes, due_ms: None }
    }

    /// Sets the record of `name`.
    ///
    /// # Panics
    /// When the name has more than 65,520 bytes, here and in the other methods.
    pub(crate) fn put(&mut self, name: &[u8], record: &[u8]) {
        let key = keys::record(self.shard.id, self.generation, name);
        self.changes.insert(&self.shard.store.keyspace, key, record);
    }

    /// Removes the record of `name`.
    pub(crate) fn remove(&mut self, name: &[u8]) {
        let key = keys::record(self.shard.id, self.generation, name);
        self.changes.remove(&self.shard.store.keyspace, key);
    }

    /// Adds `name` to the due index, at `time_ms`.
    pub(crate) fn put_due(&mut self, time_ms: u64, name: &[u8]) {
        let key = keys::due(self.shard.id, self.generation, time_ms, name);
        self.changes.insert(&self.shard.store.keyspace, key, []);
        self.due_ms = Some(self.due_ms.map_or(time_ms, |earliest| earliest.min(time_ms)));
    }

    /// Removes `name` from the due index, where it is at `time_ms`.
    pub(crate) fn remove_due(&mut self, time_ms: u64, name: &[u8]) {
        let key = keys::due(self.shard.id, self.generation, time_ms, name);
        self.changes.remove(&self.shard.store.keyspace, key);
    }

    /// Sets the owner's bytes.
    pub(crate) fn set_meta(&mut self, meta: &[u8]) {
        let head = Head { generation: self.generation, meta: Bytes::copy_from_slice(meta) };
        let key = keys::head(self.shard.id);
        self.changes.insert(&self.shard.store.keyspace, key, head.encode());
    }

    /// Makes the changes. They are not durable before
    /// [`ShardRecords::sync`](super::ShardRecords::sync).
    ///
    /// # Errors
    /// `Replaced` when a snapshot was installed since the batch was begun: nothing was changed.
    /// After any other error nothing is committed any more.
    pub(crate) fn commit(self) -> Result<(), RecordsError> {
        {
            let _in_force = self.shard.generations();
            if self.generation != self.shard.current() {
                return Err(RecordsError::Replaced);
            }
            self.changes.commit()?;
        }
        if let Some(due_ms) = self.due_ms {
            self.shard.due.add(due_ms);
        }
        self.shard.store.slow_down();
        Ok(())
    }
}
