//! The records of a node's shards: one fjall database, one keyspace.
//!
//! Nothing here is synced when a batch is committed: the log is the truth, and every batch also
//! says how far it brings its shard. [`ShardRecords::sync`] comes before the log forgets anything.
//! For a second, a committed batch is not even given to the engine: what a shard committed
//! meanwhile is gathered in memory ([`recent`]) and then given to it as one batch ([`flusher`]).
//!
//! # What a crash leaves
//!
//! Of every shard a **prefix of its committed batches**: never a later batch without an earlier
//! one, never a part of one, and at least everything before the last sync that returned. Entries
//! are applied again from there; a record that had been changed by an entry which is applied again
//! would be decided twice. What this rests on, as read in the sources of fjall 3.1.13 and lsm-tree
//! 3.1.10:
//!
//! - A batch is written to one journal as start, items, and an end with a checksum of the items,
//!   while the journal's lock is held, and reaches the memtable under the same lock. Replay drops a
//!   batch without its end and everything behind it.
//! - `manual_journal_persist` leaves journal bytes in an 8 KiB buffer of this process until it is
//!   full or synced, instead of handing them to the system with each commit: `kill -9` loses the
//!   buffer's tail, as power loss loses more, and a small commit costs no system call.
//! - **One keyspace, on purpose.** A flush writes memtables of one keyspace to tables and syncs
//!   them. Before, it syncs the journal, but does not stop another memtable from joining the flush
//!   in between, so tables can get ahead of what is durable of the journal. With records, index and
//!   positions in keyspaces of their own, a power loss could keep the newer records of the one
//!   beside the older positions of the other. In one keyspace the tables are a prefix by
//!   themselves: a batch is never split over two memtables (rotation takes the journal's lock too),
//!   memtables become tables in order, and replay skips what the tables have.
//! - A journal is synced before the next one is begun, so only the newest can be torn. [`journal`]
//!   looks after the tears that fjall does not, and refuses those that no crash explains.
//! - Tables, their directory and the list of tables are synced, in this order, before the list is
//!   used.
//! - After a failed write or sync the database refuses everything ("poisoned"). The node stops; its
//!   next start replays.
//!
//! A new database is made beside its place and renamed, because a crash while fjall makes one can
//! leave something that it never opens again.

mod batch;
mod due;
mod flusher;
mod install;
mod journal;
mod keys;
mod recent;
mod shard;
mod store;
mod survey;
mod tally;
mod view;

use std::fs::{self, File};
use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex};

use serde::{Deserialize, Serialize};
use thiserror::Error;

pub(crate) use self::batch::WriteBatch;
pub(crate) use self::install::{Derived, Installer};
pub(crate) use self::keys::Index;
pub(crate) use self::shard::ShardRecords;
#[cfg(feature = "testing")]
pub(crate) use self::store::MemoryEngine;
pub(crate) use self::tally::{Share, Tally};
pub(crate) use self::view::{Chunk, RecordsView};

use self::flusher::{Bell, Flusher, Shards};
use self::shard::Shard;
use self::store::Store;
use crate::codec::CodecError;
use crate::error::StartError;
use crate::placement::ShardId;

/// Records of a shard's replaced data that are removed by one call of [`Records::sweep`]: a few
/// milliseconds of work.
const SWEEP_KEYS: usize = 1000;

/// The records of all shards of a node. Clones share them.
#[derive(Clone)]
pub(crate) struct Records {
    store: Store,
    shards: Shards,
    bell: Arc<Bell>,
    flusher: Arc<Flusher>,
}

/// Why records could not be read or changed. All but `Chunk` and `Replaced` mean that the replica
/// must stop.
#[derive(Debug, Error)]
pub(crate) enum RecordsError {
    /// The engine failed, now or before.
    #[error(transparent)]
    Engine(#[from] fjall::Error),
    /// Changes that were committed before could not be written.
    #[error("earlier changes could not be written")]
    Stopped,
    /// What is stored cannot be read.
    #[error("stored value: {0}")]
    Stored(#[source] CodecError),
    /// A chunk of a snapshot is not what its sender had.
    #[error("snapshot chunk: {0}")]
    Chunk(String),
    /// The shard's records were replaced, or another snapshot begun, since this change began.
    #[error("shard's records were replaced meanwhile")]
    Replaced,
}

/// What is kept of a shard beside its records.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Head {
    /// Which of the shard's data is in force; see [`keys`].
    generation: u32,
    /// The owner's own bytes.
    meta: bytes::Bytes,
}

impl Records {
    /// Opens the records in `dir`, which is made if it is absent. Blocks.
    ///
    /// # Errors
    /// `Damaged` where no crash explains what is there, `InUse`, `Io`.
    pub(crate) fn open(dir: &Path) -> Result<Self, StartError> {
        if !dir.exists() {
            create(dir)?;
        }
        journal::mend(dir)?;
        let refusal = |error| refusal(dir, error);
        let store = Store::open(dir).map_err(refusal)?;
        Self::over(store, dir, Flusher::start)
    }

    /// The records in `store`, which came from `dir`.
    fn over(
        store: Store,
        dir: &Path,
        start: impl FnOnce(Shards, Arc<Bell>) -> io::Result<Flusher>,
    ) -> Result<Self, StartError> {
        let bell = Arc::default();
        let shards = survey::shards(&store, &bell).map_err(|error| match error {
            RecordsError::Engine(error) => refusal(dir, error),
            other => damaged(dir, &other),
        })?;
        let shards = Arc::new(Mutex::new(shards));
        let flusher = start(Arc::clone(&shards), Arc::clone(&bell));
        let flusher = Arc::new(flusher.map_err(failed("start the thread of", dir))?);
        Ok(Self { store, shards, bell, flusher })
    }

    /// The records in `image`, in memory, flushed by a task.
    #[cfg(feature = "testing")]
    pub(crate) fn simulated(image: MemoryEngine) -> Result<Self, StartError> {
        Self::over(Store::in_memory(image), Path::new("memory"), |shards, bell| {
            Ok(Flusher::start_task(shards, bell))
        })
    }

    /// The records of one shard.
    pub(crate) fn shard(&self, shard: ShardId) -> ShardRecords {
        let mut shards = self.shards.lock().expect("no holder panics");
        let new = || Arc::new(Shard::new(self.store.clone(), shard, Arc::clone(&self.bell)));
        ShardRecords::new(shards.entry(shard).or_insert_with(new).clone())
    }

    /// What the records of `group` come to, over all shards of the node.
    pub(crate) fn tally(&self, group: &[u8]) -> Tally {
        self.store.sums.of(group)
    }

    /// What the records of all groups come to that `counts` chooses, over all shards of the node.
    pub(crate) fn tally_over(&self, counts: impl Fn(&[u8]) -> bool) -> Tally {
        self.store.sums.over(counts)
    }

    /// Resolves when what is committed can no longer be handed to the engine: the node must stop.
    pub(crate) async fn failed(&self) -> Arc<RecordsError> {
        self.flusher.failed().await
    }

    /// Removes some of the data that was replaced or given up, if there is any. Returns whether
    /// there is more. Blocks for some milliseconds.
    pub(crate) fn sweep(&self) -> Result<bool, RecordsError> {
        let shards: Vec<_> =
            self.shards.lock().expect("no holder panics").values().cloned().collect();
        for shard in shards {
            if shard.sweep(SWEEP_KEYS)? {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Makes an empty database beside `dir`, then gives it its name.
fn create(dir: &Path) -> Result<(), StartError> {
    let unfinished = dir.with_extension("new");
    match fs::remove_dir_all(&unfinished) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => {
            return Err(failed("remove", &unfinished)(error));
        }
        _ => {}
    }
    // The store is closed again before its directory moves: it keeps paths.
    Store::open(&unfinished)
        .and_then(|store| store.persist())
        .map_err(|error| refusal(&unfinished, error))?;
    sync_directories(&unfinished).map_err(failed("sync", &unfinished))?;
    fs::rename(&unfinished, dir).map_err(failed("rename to", dir))?;
    let parent = dir.parent().filter(|parent| *parent != Path::new("")).unwrap_or(Path::new("."));
    File::open(parent).and_then(|parent| parent.sync_all()).map_err(failed("sync", parent))
}

/// Syncs the names in `dir` and in all directories below it, deepest first.
fn sync_directories(dir: &Path) -> io::Result<()> {
    for entry in fs::read_dir(dir)? {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            sync_directories(&entry.path())?;
        }
    }
    File::open(dir)?.sync_all()
}

/// What an error of the engine means for a start.
fn refusal(dir: &Path, error: fjall::Error) -> StartError {
    match error {
        fjall::Error::Locked => StartError::InUse { dir: dir.to_path_buf() },
        fjall::Error::Io(source) | fjall::Error::Storage(fjall::LsmError::Io(source)) => {
            failed("open records", dir)(source)
        }
        other => damaged(dir, &other),
    }
}

fn damaged(dir: &Path, what: &dyn std::fmt::Display) -> StartError {
    StartError::Damaged { file: dir.to_path_buf(), offset: 0, what: what.to_string() }
}

fn failed(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StartError {
    let path = path.to_path_buf();
    move |source| StartError::Io { action, path, source }
}

#[cfg(test)]
mod tests;
