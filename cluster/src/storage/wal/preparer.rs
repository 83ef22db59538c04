//! Makes segments out of spare files or fresh ones, and spare files out of segments.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::super::disk::{Disk, DiskFile};
use super::failure::Failure;
use super::segment::{self, Header, Segment};

/// Spare files kept for later segments. A checkpoint frees several segments at once and the next
/// ones are begun one by one; more than two would only hold space that the records need.
pub(super) const SPARES_MAX: usize = 2;

/// Works on the directory of a log; used by one thread.
pub(super) struct Preparer {
    disk: Arc<dyn Disk>,
    dir: PathBuf,
    log: u64,
    segment_bytes: u64,
    spares: Vec<u64>,
    next_spare: u64,
}

impl Preparer {
    /// `spares` are the numbers of the spare files that are there.
    pub(super) fn new(
        disk: Arc<dyn Disk>,
        dir: PathBuf,
        log: u64,
        segment_bytes: u64,
        spares: Vec<u64>,
    ) -> Self {
        let next_spare = spares.iter().max().map_or(0, |last| last + 1);
        Self { disk, dir, log, segment_bytes, spares, next_spare }
    }

    /// A segment ready to be written: its space reserved, its header and name durable.
    pub(super) fn prepare(&mut self, sequence: u64, bytes: u64) -> Result<Segment, Trouble> {
        let kept = self.spares.pop();
        let spare = segment::spare_path(&self.dir, kept.unwrap_or(self.next_spare));
        if kept.is_none() {
            self.next_spare += 1;
        }
        let path = segment::path(&self.dir, sequence);
        let header = Header { sequence, log: self.log };
        let built = self.build(&spare, kept.is_some(), header, bytes.max(self.segment_bytes));
        let named = built.and_then(|built| match self.disk.rename(&spare, &path) {
            Ok(()) => Ok(built),
            Err(error) => Err(Failure::new("rename", &spare, &error)),
        });
        let (file, capacity) = named.map_err(|failure| {
            // What failed is not used again; if it cannot be removed now, it is a spare file at the
            // next start.
            drop(self.disk.remove(&spare));
            Trouble::of(failure)
        })?;
        let synced = self.disk.sync_dir(&self.dir);
        synced
            .map_err(|error| Trouble::Broken(Failure::new("sync directory", &self.dir, &error)))?;
        Ok(Segment { sequence, capacity, path, file })
    }

    fn build(
        &self,
        spare: &Path,
        exists: bool,
        header: Header,
        bytes: u64,
    ) -> Result<(Box<dyn DiskFile>, u64), Failure> {
        let failed = |action, error| Failure::new(action, spare, &error);
        let opened = if exists { self.disk.open(spare) } else { self.disk.create(spare) };
        let file = opened.map_err(|error| failed("create", error))?;
        file.allocate(bytes).map_err(|error| failed("allocate", error))?;
        file.write_at(&header.encode(), 0).map_err(|error| failed("write", error))?;
        file.sync_all().map_err(|error| failed("sync", error))?;
        let capacity = file.bytes().map_err(|error| failed("get length", error))?;
        Ok((file, capacity))
    }

    /// Takes a segment out of the log: its file becomes a spare one, or goes.
    pub(super) fn recycle(&mut self, sequence: u64) -> Result<(), Failure> {
        let path = segment::path(&self.dir, sequence);
        let failed = |action, error| Failure::new(action, &path, &error);
        let file = self.disk.open(&path).map_err(|error| failed("open", error))?;
        let bytes = file.bytes().map_err(|error| failed("get length", error))?;
        // A segment that was made larger for one huge entry is not worth keeping.
        if self.spares.len() < SPARES_MAX && bytes <= self.segment_bytes {
            let spare = segment::spare_path(&self.dir, self.next_spare);
            self.disk.rename(&path, &spare).map_err(|error| failed("rename", error))?;
            self.spares.push(self.next_spare);
            self.next_spare += 1;
        } else {
            self.disk.remove(&path).map_err(|error| failed("remove", error))?;
        }
        // Before the next one: out of order, two of them could leave a hole in the sequence. And
        // before the file is written again: it could come back under its old name.
        self.disk.sync_dir(&self.dir).map_err(|error| failed("sync directory", error))
    }
}

/// Why there is no segment.
pub(super) enum Trouble {
    /// The disk is full. Nothing was left behind; it may be tried again.
    Full(Failure),
    /// The file system failed. It may not be tried again.
    Broken(Failure),
}

impl Trouble {
    pub(super) fn of(failure: Failure) -> Self {
        if failure.is_disk_full() { Self::Full(failure) } else { Self::Broken(failure) }
    }
}

impl From<Trouble> for super::WalError {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::Full(failure) | Trouble::Broken(failure) => failure.into(),
        }
    }
}
