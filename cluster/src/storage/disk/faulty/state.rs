//! What the disk holds and was asked, and which of its operations go wrong.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::content::{Content, Naming};

/// What was asked of the disk so far.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    /// Operations that change something or make it durable, the following among them.
    pub(crate) operations: u64,
    pub(crate) writes: u64,
    /// Syncs of files.
    pub(crate) syncs: u64,
    /// Operations that found the disk full.
    pub(crate) refused: u64,
    /// Creations, renames and removals that are not durable yet.
    pub(crate) pending: usize,
}

#[derive(Default)]
pub(super) struct State {
    /// The power is gone.
    pub(super) halted: bool,
    pub(super) counts: Counts,
    pub(super) faults: Faults,
    pub(super) dirs: BTreeSet<PathBuf>,
    pub(super) files: Vec<Content>,
    /// Names as a program sees them.
    pub(super) names: BTreeMap<PathBuf, usize>,
    /// Names as they are after a crash, if none of `pending` made it to the disk.
    pub(super) durable: BTreeMap<PathBuf, usize>,
    pub(super) pending: Vec<Naming>,
}

#[derive(Default)]
pub(super) struct Faults {
    /// The power goes in the middle of the operation with this number.
    pub(super) halt_at: Option<u64>,
    /// The write, or the sync, with this number fails.
    pub(super) fail_write: Option<u64>,
    pub(super) fail_sync: Option<u64>,
    /// Syncs of directories say that the disk is full.
    pub(super) fail_sync_dir: bool,
    /// Files can no longer grow.
    pub(super) full: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operation {
    Naming,
    SyncDir,
    Write,
    Sync,
}

impl Faults {
    /// The error that was planned for the operation that comes after `counts`.
    fn planned(&self, operation: Operation, counts: &Counts) -> Option<io::Error> {
        match operation {
            Operation::Write if self.fail_write == Some(counts.writes) => {
                Some(io::Error::other("planned write error"))
            }
            Operation::Sync if self.fail_sync == Some(counts.syncs) => {
                Some(io::Error::other("planned sync error"))
            }
            Operation::SyncDir if self.fail_sync_dir => Some(io::ErrorKind::StorageFull.into()),
            _ => None,
        }
    }
}

/// Whether an operation is carried out.
pub(super) enum Admitted {
    Yes,
    Partly(io::Error),
    No(io::Error),
}

impl State {
    pub(super) fn admit(&mut self, operation: Operation) -> Admitted {
        if self.halted {
            return Admitted::No(power_gone());
        }
        let halts = self.faults.halt_at == Some(self.counts.operations);
        self.halted = halts;
        self.counts.operations += 1;
        let planned = self.faults.planned(operation, &self.counts);
        self.counts.writes += u64::from(operation == Operation::Write);
        self.counts.syncs += u64::from(operation == Operation::Sync);
        let error = if halts { Some(power_gone()) } else { planned };
        match (error, operation) {
            (None, _) => Admitted::Yes,
            (Some(error), Operation::Sync | Operation::SyncDir) => Admitted::No(error),
            (Some(error), Operation::Write | Operation::Naming) => Admitted::Partly(error),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        Counts { pending: self.pending.len(), ..self.counts }
    }

    pub(super) fn after_crash(&self, seed: u64) -> Self {
        let mut rng = StdRng::seed_from_u64(seed);
        let mut names = self.durable.clone();
        for naming in self.pending.iter().filter(|_| rng.random()) {
            naming.apply(&mut names);
        }
        let files = self.files.iter().map(|content| content.crash(&mut rng)).collect();
        let dirs = self.dirs.clone();
        let durable = names.clone();
        Self { dirs, files, names, durable, ..Self::default() }
    }

    pub(super) fn after_kill(&self) -> Self {
        let Self { dirs, files, names, durable, pending, .. } = self;
        Self {
            dirs: dirs.clone(),
            files: files.clone(),
            names: names.clone(),
            durable: durable.clone(),
            pending: pending.clone(),
            ..Self::default()
        }
    }

    pub(super) fn id(&self, path: &Path) -> io::Result<usize> {
        self.names.get(path).copied().ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    pub(super) fn rename(&mut self, naming: Naming) {
        naming.apply(&mut self.names);
        self.pending.push(naming);
    }
}

pub(super) fn power_gone() -> io::Error {
    io::Error::other("the power is gone")
}
