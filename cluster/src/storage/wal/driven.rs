//! The log without threads, for simulations: its writer takes a step when it is told to, on the
//! caller's thread.

use std::sync::Arc;

use super::super::disk::Disk;
use super::queue::{Batch, Queue};
use super::supply::Supply;
use super::writer::Writer;
use super::{Wal, WalError, WalOptions};

/// Takes the writer's steps. What a step does is what the thread does between two waits.
pub(crate) struct Driver {
    queue: Arc<Queue>,
    supply: Arc<Supply>,
    writer: Writer,
    batch: Batch,
}

impl Wal {
    /// As [`Wal::open`], with a driver in the place of the threads.
    ///
    /// # Errors
    /// See [`WalError`].
    pub(crate) fn open_driven(
        disk: Arc<dyn Disk>,
        options: WalOptions,
    ) -> Result<(Self, Driver), WalError> {
        let (recovered, preparer) = Self::recover(disk, &options)?;
        let (wal, writer) = Self::assemble(recovered, &options);
        wal.supply.serve_inline(preparer);
        let (queue, supply) = (Arc::clone(&wal.queue), Arc::clone(&wal.supply));
        let driver = Driver { queue, supply, writer, batch: Batch::default() };
        Ok((wal, driver))
    }
}

impl Driver {
    /// Waits until there is something to write.
    pub(crate) fn wanted(&self) -> impl Future<Output = ()> + Send + use<> {
        let queue = Arc::clone(&self.queue);
        async move { queue.hurried().await }
    }

    /// Writes and syncs what is queued, as one group, and tells who waits. Call it when
    /// [`Driver::wanted`] has returned. `false` once the log is closed and its end is marked.
    pub(crate) fn step(&mut self) -> bool {
        let goes_on = self.queue.drain(&mut self.batch);
        if goes_on {
            self.writer.settle(&mut self.batch);
            self.supply.catch_up();
        } else {
            self.writer.end();
        }
        goes_on
    }
}
