//! The engine underneath: fjall, or its twin in memory.

#[cfg(feature = "testing")]
mod memory;

use std::ops::Bound;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use fjall::compaction::Leveled;
use fjall::config::{
    BlockSizePolicy, BloomConstructionPolicy, CompressionPolicy, FilterPolicy, FilterPolicyEntry,
};
use fjall::{CompressionType, Database, Keyspace, KeyspaceCreateOptions, PersistMode, Readable};

pub(super) use fjall::Slice;

#[cfg(feature = "testing")]
pub(crate) use self::memory::MemoryEngine;

use super::RecordsError;
use super::tally::Sums;
use crate::placement::ShardId;

/// Blocks of tables that are kept in memory. Small: three nodes in one process share 200 MB, and
/// what is not here is mostly in the system's page cache.
const CACHE_BYTES: u64 = 16 << 20;

/// A memtable of this size goes to disk; it takes a third more in memory. Larger ones make look-ups
/// and changes dearer, smaller ones make more tables to merge.
const MEMTABLE_BYTES: u64 = 8 << 20;

/// Tables are cut at this size.
const TABLE_BYTES: u64 = 8 << 20;

/// So many flushed memtables are merged at once with the level below, which holds about as much as
/// they do. Look-ups ask the filters of all of them.
const FLUSHED_MAX: u8 = 8;

/// Journals are kept until their batches are in tables; fjall begins a new one at 64 MB and wants a
/// bound of at least this much. With one keyspace there are at most two.
const JOURNAL_BYTES: u64 = 128 << 20;

/// Files kept open: leaves room for three nodes and their connections under the usual limit of
/// 1024.
const OPEN_FILES: usize = 200;

/// One thread flushes and merges. Of several, fjall keeps one free of merges, and that one spins
/// while another merges: measured, half as much processor time again for each change.
const THREADS: usize = 1;

/// While memtables hold more than this, every commit is slowed down. The thread above does not
/// flush while it merges, and without a brake a busy node's memtables were seen to reach a
/// gigabyte.
const BUFFER_BYTES: u64 = 32 << 20;

/// A commit is slowed down by a millisecond for each of these bytes too many, up to
/// [`SLOWDOWN_MS_MAX`]: the more work there is to catch up with, the longer.
const SLOWDOWN_BYTES: u64 = 1 << 20;
const SLOWDOWN_MS_MAX: u64 = 100;

/// Keys from the first bound to the second.
pub(super) type KeyRange = (Bound<Vec<u8>>, Bound<Vec<u8>>);

/// All keys and values of a node's records. Clones share them.
#[derive(Clone)]
pub(super) struct Store {
    engine: Engine,
    /// What the groups of all shards hold together.
    pub(super) sums: Sums,
}

/// Where the keys and values are.
#[derive(Clone)]
enum Engine {
    /// In a directory.
    Fjall { database: Database, keyspace: Keyspace },
    /// In memory, with a crash that can be had.
    #[cfg(feature = "testing")]
    Memory(MemoryEngine),
}

/// The store as of one moment.
#[derive(Clone)]
pub(super) enum Snapshot {
    Fjall {
        snapshot: fjall::Snapshot,
        keyspace: Keyspace,
    },
    #[cfg(feature = "testing")]
    Memory(memory::Contents),
}

/// Keys with their values, in the order of the keys.
pub(super) enum Items {
    Fjall(Box<fjall::Iter>),
    #[cfg(feature = "testing")]
    Memory(std::vec::IntoIter<(Slice, Slice)>),
}

/// Changes of one shard that are committed together. Of several of one key the last one counts.
#[derive(Clone, Default)]
pub(super) struct Batch {
    changes: Vec<(Slice, Option<Slice>)>,
}

impl Batch {
    pub(super) fn insert(&mut self, key: impl Into<Slice>, value: impl Into<Slice>) {
        self.changes.push((key.into(), Some(value.into())));
    }

    pub(super) fn remove(&mut self, key: impl Into<Slice>) {
        self.changes.push((key.into(), None));
    }

    pub(super) fn len(&self) -> usize {
        self.changes.len()
    }
}

impl Store {
    /// Opens the database in `dir`, or makes one there.
    pub(super) fn open(dir: &Path) -> fjall::Result<Self> {
        let database = Database::builder(dir)
            .cache_size(CACHE_BYTES)
            .max_cached_files(Some(OPEN_FILES))
            .max_journaling_size(JOURNAL_BYTES)
            .manual_journal_persist(true)
            .journal_compression(CompressionType::None)
            .worker_threads(THREADS)
            .open()?;
        let keyspace = database.keyspace("shards", options)?;
        Ok(Self { engine: Engine::Fjall { database, keyspace }, sums: Sums::default() })
    }

    /// The keys and values in an image.
    #[cfg(feature = "testing")]
    pub(super) fn in_memory(image: MemoryEngine) -> Self {
        Self { engine: Engine::Memory(image), sums: Sums::default() }
    }

    pub(super) fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>, RecordsError> {
        match &self.engine {
            Engine::Fjall { keyspace, .. } => Ok(keyspace.get(key)?),
            #[cfg(feature = "testing")]
            Engine::Memory(engine) => Ok(engine.contents().get(key.as_ref())),
        }
    }

    pub(super) fn range(&self, range: KeyRange) -> Items {
        match &self.engine {
            Engine::Fjall { keyspace, .. } => Items::Fjall(Box::new(keyspace.range(range))),
            #[cfg(feature = "testing")]
            Engine::Memory(engine) => Items::Memory(engine.contents().range(range)),
        }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        match &self.engine {
            Engine::Fjall { database, keyspace } => {
                Snapshot::Fjall { snapshot: database.snapshot(), keyspace: keyspace.clone() }
            }
            #[cfg(feature = "testing")]
            Engine::Memory(engine) => Snapshot::Memory(engine.contents()),
        }
    }

    /// Makes the changes of a batch, which are of `shard`.
    pub(super) fn commit(&self, shard: ShardId, batch: Batch) -> Result<(), RecordsError> {
        match &self.engine {
            Engine::Fjall { database, keyspace } => {
                let _ = shard;
                let mut changes = database.batch();
                for (key, value) in batch.changes {
                    match value {
                        Some(value) => changes.insert(keyspace, key, value),
                        None => changes.remove(keyspace, key),
                    }
                }
                Ok(changes.commit()?)
            }
            #[cfg(feature = "testing")]
            Engine::Memory(engine) => engine.commit(shard, batch),
        }
    }

    /// Makes every batch committed so far durable.
    pub(super) fn sync(&self) -> Result<(), RecordsError> {
        match &self.engine {
            Engine::Fjall { .. } => Ok(self.persist()?),
            #[cfg(feature = "testing")]
            Engine::Memory(engine) => engine.sync(),
        }
    }

    /// As [`Store::sync`], with the engine's own errors.
    pub(super) fn persist(&self) -> fjall::Result<()> {
        match &self.engine {
            Engine::Fjall { database, .. } => database.persist(PersistMode::SyncAll),
            #[cfg(feature = "testing")]
            Engine::Memory(_) => Ok(()),
        }
    }

    /// Lets the engine catch up when too much waits to be flushed. Comes after every commit.
    pub(super) fn slow_down(&self) {
        let buffered = match &self.engine {
            Engine::Fjall { database, .. } => database.write_buffer_size(),
            #[cfg(feature = "testing")]
            Engine::Memory(_) => 0,
        };
        let above = buffered.saturating_sub(BUFFER_BYTES);
        let pause_ms = (above / SLOWDOWN_BYTES).min(SLOWDOWN_MS_MAX);
        if pause_ms > 0 {
            #[expect(clippy::disallowed_methods, reason = "a brake: nothing is waited for")]
            std::thread::sleep(Duration::from_millis(pause_ms));
        }
    }

    /// The keyspace of an engine in a directory.
    #[cfg(test)]
    pub(super) fn keyspace(&self) -> &Keyspace {
        match &self.engine {
            Engine::Fjall { keyspace, .. } => keyspace,
            #[cfg(feature = "testing")]
            Engine::Memory(_) => panic!("there is no directory"),
        }
    }
}

impl Snapshot {
    pub(super) fn get(&self, key: impl AsRef<[u8]>) -> Result<Option<Slice>, RecordsError> {
        match self {
            Self::Fjall { snapshot, keyspace } => Ok(snapshot.get(keyspace, key)?),
            #[cfg(feature = "testing")]
            Self::Memory(contents) => Ok(contents.get(key.as_ref())),
        }
    }

    pub(super) fn range(&self, range: KeyRange) -> Items {
        match self {
            Self::Fjall { snapshot, keyspace } => {
                Items::Fjall(Box::new(snapshot.range(keyspace, range)))
            }
            #[cfg(feature = "testing")]
            Self::Memory(contents) => Items::Memory(contents.range(range)),
        }
    }
}

impl Iterator for Items {
    type Item = Result<(Slice, Slice), RecordsError>;

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Self::Fjall(items) => items.next().map(|item| Ok(item.into_inner()?)),
            #[cfg(feature = "testing")]
            Self::Memory(items) => items.next().map(Ok),
        }
    }
}

/// The keys of a range that begins with its start and ends before its end.
pub(super) fn keys(range: std::ops::Range<Vec<u8>>) -> KeyRange {
    (Bound::Included(range.start), Bound::Excluded(range.end))
}

/// Settings of the keyspace. fjall keeps those that the keyspace was made with.
fn options() -> KeyspaceCreateOptions {
    let merges =
        Leveled::default().with_table_target_size(TABLE_BYTES).with_l0_threshold(FLUSHED_MAX);
    // Most claims ask for a name that is absent: every level has filters (one in a hundred says yes
    // wrongly), so that hardly a block is read for nothing.
    let filter = FilterPolicyEntry::Bloom(BloomConstructionPolicy::BitsPerKey(10.0));
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE_BYTES)
        .compaction_strategy(Arc::new(merges))
        .data_block_size_policy(BlockSizePolicy::all(4 << 10))
        .data_block_compression_policy(CompressionPolicy::all(CompressionType::None))
        .filter_policy(FilterPolicy::all(filter))
        .expect_point_read_hits(false)
}
