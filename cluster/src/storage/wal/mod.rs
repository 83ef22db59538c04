//! The write-ahead log: one per node, for all its shards.
//!
//! Shards hand their changes in as encoded frames ([`ShardLog`], `queue`). One thread takes
//! everything that is queued, writes it with one write, syncs it with one sync, and tells everybody
//! who waits (`writer`): while one sync runs, the next group gathers, so the number of syncs does
//! not grow with the number of shards or callers. A group is the unit of recovery too: it is there
//! as a whole or not at all.
//!
//! The log is a sequence of segment files, prepared ahead by a second thread and used again once
//! nothing in them matters (`supply`, `preparer`). Entries that are not purged are also held in
//! memory; reading touches no file. How a log is read back, and how a torn tail is told from
//! damage, is in `recovery` and `replay`.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use std::thread::{self, JoinHandle};

use thiserror::Error;

use self::directory::Files;
use self::failure::{Alarm, Failure};
use self::preparer::Preparer;
use self::queue::Queue;
use self::recovery::Recovered;
use self::shard_log::Shards;
use self::supply::Supply;
use self::writer::Writer;
use super::disk::Disk;
use crate::error::StartError;
use crate::placement::ShardId;
use crate::random;

mod change;
mod directory;
#[cfg(feature = "testing")]
mod driven;
mod failure;
mod ledger;
mod preparer;
mod queue;
mod recovery;
mod replay;
mod segment;
mod shard_log;
mod supply;
mod writer;

#[cfg(feature = "testing")]
pub(crate) use self::driven::Driver;
pub(crate) use self::shard_log::ShardLog;
pub(crate) use self::supply::Space;

/// Size of a segment: some seconds of the heaviest load, so that starting a new one is rare, and
/// little enough to read back in a moment.
const SEGMENT_BYTES: u64 = 16 << 20;

/// Segments held before entries of the oldest are written again: 256 MiB, far more than lies
/// between two checkpoints.
const SEGMENTS_HELD: usize = 16;

/// Where a log stands and how it is kept.
#[derive(Clone, Debug)]
pub(crate) struct WalOptions {
    /// The directory of the log. Nobody else keeps files there.
    pub(crate) dir: PathBuf,
    /// Whether the log is created when there is none. A node that had a log must not start with an
    /// empty one.
    pub(crate) create: bool,
    /// Size of a segment. One huge group gets a larger one.
    pub(crate) segment_bytes: u64,
    /// Entries of the oldest segment are written again when more are held and less than half of
    /// them matters.
    pub(crate) segments_held: usize,
    /// Number of the log if it is created, drawn at random.
    pub(crate) log: u64,
}

impl WalOptions {
    /// A log in `dir`, kept as in production.
    pub(crate) fn new(dir: PathBuf, create: bool) -> Self {
        let (segment_bytes, segments_held) = (SEGMENT_BYTES, SEGMENTS_HELD);
        Self { dir, create, segment_bytes, segments_held, log: random::draw() }
    }
}

/// Why a log was not opened, or stopped.
#[derive(Debug, Error)]
pub(crate) enum WalError {
    /// The log holds something that no crash can have left behind.
    #[error("{file}: damaged at byte {offset}: {what}")]
    Damaged { file: PathBuf, offset: u64, what: String },
    /// There should be a log and is none.
    #[error("{dir}: the log is missing")]
    Missing { dir: PathBuf },
    /// A file operation failed.
    #[error("{path}: {action}: {source}")]
    Io { action: &'static str, path: PathBuf, source: io::Error },
}

impl From<WalError> for StartError {
    fn from(error: WalError) -> Self {
        match error {
            WalError::Damaged { file, offset, what } => Self::Damaged { file, offset, what },
            WalError::Missing { dir } => Self::ForeignDirectory {
                dir,
                found: "the log of this node is missing".into(),
                remedy: "remove this node from the cluster and add it again with an empty data_dir"
                    .into(),
            },
            WalError::Io { action, path, source } => Self::Io { action, path, source },
        }
    }
}

/// The log of a node. Closed when it is dropped.
pub(crate) struct Wal {
    queue: Arc<Queue>,
    shards: Arc<Shards>,
    supply: Arc<Supply>,
    alarm: Arc<Alarm>,
    threads: Mutex<Option<Threads>>,
}

struct Threads {
    writer: JoinHandle<()>,
    preparer: JoinHandle<()>,
}

impl Wal {
    /// Reads the log back, or creates it, and starts its threads.
    ///
    /// # Errors
    /// See [`WalError`]. Nothing was written unless the log was found in order.
    pub(crate) fn open(disk: Arc<dyn Disk>, options: WalOptions) -> Result<Self, WalError> {
        let (recovered, preparer) = Self::recover(disk, &options)?;
        let (wal, writer) = Self::assemble(recovered, &options);
        wal.start(writer, preparer, &options.dir)?;
        Ok(wal)
    }

    /// Reads the log back, or creates it.
    fn recover(
        disk: Arc<dyn Disk>,
        options: &WalOptions,
    ) -> Result<(Recovered, Preparer), WalError> {
        let files = Files::find(&*disk, &options.dir, options.create)?;
        let recovered = if files.segments.is_empty() {
            None
        } else {
            Some(recovery::recover(&*disk, &options.dir, &files.segments)?)
        };
        let log = recovered.as_ref().map_or(options.log, |recovered| recovered.log);
        let spares = files.keep_spares(&*disk, &options.dir)?;
        let (dir, segment_bytes) = (options.dir.clone(), options.segment_bytes);
        let mut preparer = Preparer::new(disk, dir, log, segment_bytes, spares);
        let recovered = match recovered {
            Some(recovered) => recovered,
            None => Recovered::new(log, preparer.prepare(1, 0)?),
        };
        Ok((recovered, preparer))
    }

    /// The log without its threads, and the writer that one of them runs.
    fn assemble(recovered: Recovered, options: &WalOptions) -> (Self, Writer) {
        let queue = Arc::new(Queue::new());
        let alarm = Arc::new(Alarm::new());
        let shards = Arc::new(Shards::new(Arc::clone(&queue)));
        let supply = Arc::new(Supply::new(recovered.active.sequence + 1, Arc::clone(&alarm)));
        let mut entries = recovered.entries;
        for (shard, written) in recovered.ledger.shards() {
            shards.insert(shard, written, entries.remove(&shard).unwrap_or_default());
        }
        let writer = Writer {
            queue: Arc::clone(&queue),
            supply: Arc::clone(&supply),
            shards: Arc::clone(&shards),
            alarm: Arc::clone(&alarm),
            ledger: recovered.ledger,
            log: recovered.log,
            active: recovered.active,
            offset: recovered.offset,
            group: recovered.group,
            ended: recovered.ended,
            segment_bytes: options.segment_bytes,
            segments_held: options.segments_held,
        };
        (Self { queue, shards, supply, alarm, threads: Mutex::new(None) }, writer)
    }

    fn start(&self, writer: Writer, preparer: Preparer, dir: &Path) -> Result<(), WalError> {
        let (supply, alarm) = (&self.supply, &self.alarm);
        let watch = |name| Watch { name, supply: Arc::clone(supply), alarm: Arc::clone(alarm) };
        let (of_writer, of_preparer) = (watch("wal"), watch("wal-prepare"));
        let serving = Arc::clone(supply);
        let preparer = of_preparer.spawn(dir, move || serving.serve(preparer))?;
        let writer = match of_writer.spawn(dir, move || writer.run()) {
            Ok(writer) => writer,
            Err(error) => {
                supply.stop();
                return Err(error);
            }
        };
        *self.threads.lock().expect("starting does not panic") = Some(Threads { writer, preparer });
        Ok(())
    }

    /// The log of one shard. It is empty if nothing was ever written for the shard.
    pub(crate) fn shard(&self, shard: ShardId) -> ShardLog {
        self.shards.get(shard)
    }

    /// Whether the next segment could be prepared; if not, new work should be refused. Recovers by
    /// itself.
    pub(crate) fn space(&self) -> Space {
        self.supply.space()
    }

    /// Resolves when a write or a sync has failed: nothing becomes durable any more and the node
    /// must stop.
    pub(crate) async fn failed(&self) -> WalError {
        self.alarm.wait().await.into()
    }

    /// Writes what is queued, marks the end, and ends the threads. What is handed in later is
    /// refused. Blocks for as long as the disk takes. Calling it again does nothing.
    pub(crate) fn close(&self) {
        self.queue.close();
        self.supply.close();
        let threads = self.threads.lock().expect("closing does not panic").take();
        let Some(Threads { writer, preparer }) = threads else { return };
        // A thread that panicked has raised the alarm.
        drop(writer.join());
        self.supply.stop();
        drop(preparer.join());
    }
}

impl Drop for Wal {
    fn drop(&mut self) {
        self.close();
    }
}

/// Raises the alarm if a thread of the log ends by a panic: otherwise callers would wait for it for
/// ever.
struct Watch {
    name: &'static str,
    supply: Arc<Supply>,
    alarm: Arc<Alarm>,
}

impl Watch {
    fn spawn(
        self,
        dir: &Path,
        work: impl FnOnce() + Send + 'static,
    ) -> Result<JoinHandle<()>, WalError> {
        let builder = thread::Builder::new().name(self.name.into());
        let spawned = builder.spawn(move || {
            let _watch = self;
            work();
        });
        spawned.map_err(|error| Failure::new("start thread", dir, &error).into())
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if thread::panicking() {
            let error = io::Error::other("the thread panicked");
            self.alarm.raise(Failure::new("run", Path::new(self.name), &error));
            self.supply.alarmed();
        }
    }
}

/// What is handed in after the end is told.
fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::BrokenPipe, "the log is closed")
}

#[cfg(test)]
mod tests;
