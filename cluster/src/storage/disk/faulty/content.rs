//! What a disk holds on its way from being written to being durable, and what a crash makes of it.

use std::collections::BTreeMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use rand::RngExt;
use rand::rngs::StdRng;

#[derive(Clone)]
pub(super) enum Naming {
    Create(PathBuf, usize),
    Rename(PathBuf, PathBuf, usize),
    Remove(PathBuf),
}

#[derive(Clone, Default)]
pub(super) struct Content {
    /// As a program sees it.
    pub(super) seen: Vec<u8>,
    /// As it is after a crash, if none of `pending` made it to the disk.
    durable: Vec<u8>,
    pub(super) pending: Vec<Write>,
    /// What a failed sync has left in an unknown state. No later sync makes it durable.
    doomed: Vec<Write>,
}

/// A write of no bytes only makes the file longer.
#[derive(Clone)]
pub(super) struct Write {
    pub(super) offset: usize,
    pub(super) bytes: Vec<u8>,
}

impl Naming {
    pub(super) fn apply(&self, names: &mut BTreeMap<PathBuf, usize>) {
        match self {
            Self::Create(path, id) => drop(names.insert(path.clone(), *id)),
            Self::Rename(from, to, id) => {
                names.remove(from);
                names.insert(to.clone(), *id);
            }
            Self::Remove(path) => drop(names.remove(path)),
        }
    }

    pub(super) fn is_in(&self, dir: &Path) -> bool {
        match self {
            Self::Create(path, _) | Self::Rename(path, ..) | Self::Remove(path) => {
                path.parent() == Some(dir)
            }
        }
    }
}

impl Content {
    pub(super) fn durable(bytes: &[u8]) -> Self {
        Self { seen: bytes.to_vec(), durable: bytes.to_vec(), ..Self::default() }
    }

    pub(super) fn sync(&mut self) {
        for write in self.pending.drain(..) {
            // What stands here now is known again.
            self.doomed = self.doomed.iter().flat_map(|doomed| doomed.outside(&write)).collect();
            write.apply(&mut self.durable);
        }
    }

    pub(super) fn fail_sync(&mut self) {
        self.doomed.append(&mut self.pending);
    }

    pub(super) fn crash(&self, rng: &mut StdRng) -> Self {
        let mut durable = self.durable.clone();
        for write in self.doomed.iter().chain(&self.pending) {
            // From nothing to everything, so that both ends are met as well as what lies between.
            let kept = [0.0, 0.5, 0.9, 1.0][rng.random_range(0..4)];
            write.tear(kept, rng).iter().for_each(|piece| piece.apply(&mut durable));
        }
        Self::durable(&durable)
    }
}

impl Write {
    pub(super) fn apply(&self, content: &mut Vec<u8>) {
        let end = self.offset + self.bytes.len();
        content.resize(content.len().max(end), 0);
        content[self.offset..end].copy_from_slice(&self.bytes);
    }

    /// What of the write `other` does not overwrite.
    fn outside(&self, other: &Self) -> Vec<Self> {
        let end = self.offset + self.bytes.len();
        let before = self.offset..other.offset.clamp(self.offset, end);
        let after = (other.offset + other.bytes.len()).clamp(self.offset, end)..end;
        let part = |range: Range<usize>| {
            let bytes = self.bytes[range.start - self.offset..range.end - self.offset].to_vec();
            Self { offset: range.start, bytes }
        };
        [before, after].into_iter().filter(|range| !range.is_empty()).map(part).collect()
    }

    /// Pieces of the write, each there with the probability `kept`.
    fn tear(&self, kept: f64, rng: &mut StdRng) -> Vec<Self> {
        let mut pieces = Vec::new();
        let mut at = 0;
        loop {
            let end = (at + rng.random_range(1..=100)).min(self.bytes.len());
            if rng.random_bool(kept) {
                let bytes = self.bytes[at..end].to_vec();
                pieces.push(Self { offset: self.offset + at, bytes });
            }
            at = end;
            if at == self.bytes.len() {
                return pieces;
            }
        }
    }
}
