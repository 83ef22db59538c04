//! Other records for a shard: written beside its own, then put in their place at once.

use std::sync::Arc;

use bytes::Bytes;

use super::keys::{self, Index, NAME_BYTES_MAX};
use super::shard::Shard;
use super::store::Batch;
use super::tally::{Share, Shifts};
use super::{Chunk, Head, RecordsError};
use crate::codec::CodecError;

/// Records that are being received for a shard. The shard's own stay in force, and can be read and
/// changed, until [`Installer::finish`]. Whatever ends it otherwise, a crash included, leaves them
/// as they are, and the received ones to be swept.
pub(crate) struct Installer {
    shard: Arc<Shard>,
    generation: u32,
    /// The last name that was added.
    last: Option<Bytes>,
    /// Whether the last chunk was added.
    whole: bool,
    tallies: Shifts,
}

/// What is stored of a record beside itself, made from it.
#[derive(Debug)]
pub(crate) struct Derived {
    /// Where it stands in the indexes.
    pub(crate) entries: Vec<(Index, u64)>,
    /// What it adds to the tally of its group.
    pub(crate) share: Share,
}

impl Installer {
    pub(super) fn new(shard: Arc<Shard>) -> Self {
        let generation = {
            let mut generations = shard.generations();
            let generation = generations.newest.checked_add(1);
            let generation = generation.expect("no shard installs four billion snapshots");
            generations.newest = generation;
            if let Some(given_up) = generations.installing.replace(generation) {
                generations.garbage.push_back(given_up);
            }
            generation
        };
        Self { shard, generation, last: None, whole: false, tallies: Shifts::default() }
    }

    /// Adds the records of the next chunk. `derive` makes what is stored beside a name and its
    /// record.
    ///
    /// # Errors
    /// `Chunk` when the chunk does not follow the one before, or holds what is no record; it is
    /// then left out as a whole. `Replaced` when another installation was begun.
    pub(crate) fn add(
        &mut self,
        chunk: &Chunk,
        derive: impl Fn(&[u8], &[u8]) -> Result<Derived, CodecError>,
    ) -> Result<(), RecordsError> {
        if self.whole {
            return Err(RecordsError::Chunk("it follows the last one".to_owned()));
        }
        let id = self.shard.id;
        let mut changes = Batch::default();
        let (mut last, mut shares) = (self.last.as_ref(), Vec::with_capacity(chunk.entries.len()));
        for (name, record) in &chunk.entries {
            if last.is_some_and(|last| last >= name) || name.len() > NAME_BYTES_MAX {
                return Err(RecordsError::Chunk("its names are out of order".to_owned()));
            }
            last = Some(name);
            let derived =
                derive(name, record).map_err(|error| RecordsError::Chunk(error.to_string()))?;
            shares.push(derived.share);
            for (index, time_ms) in derived.entries {
                let key = keys::index(index, id, self.generation, time_ms, name);
                changes.insert(key, []);
            }
            changes.insert(keys::record(id, self.generation, name), &record[..]);
        }
        {
            let generations = self.shard.generations();
            if generations.installing != Some(self.generation) {
                return Err(RecordsError::Replaced);
            }
            self.shard.store.commit(id, changes)?;
        }
        self.shard.store.slow_down();
        self.last = last.cloned();
        shares.into_iter().for_each(|share| self.tallies.add(share));
        self.whole = chunk.next.is_none();
        Ok(())
    }

    /// Puts the received records in the place of the shard's own, with `meta` as the owner's bytes.
    /// Durable on return; a crash before leaves either all of the old or all of the new.
    ///
    /// # Errors
    /// `Chunk` when the last chunk is missing, `Replaced` when another installation was begun:
    /// nothing was changed. After any other error it is unknown which records are in force, and
    /// nothing is committed any more.
    pub(crate) fn finish(mut self, meta: &[u8]) -> Result<(), RecordsError> {
        if !self.whole {
            return Err(RecordsError::Chunk("the last one is missing".to_owned()));
        }
        let mut generations = self.shard.generations();
        if generations.installing != Some(self.generation) {
            return Err(RecordsError::Replaced);
        }
        // The order of commits alone would keep the head from being durable before the records that
        // it puts in force. A sync more is cheap here, and does not rest on it.
        self.shard.store.sync()?;
        let head = Head { generation: self.generation, meta: Bytes::copy_from_slice(meta) };
        let id = self.shard.id;
        let mut changes = Batch::default();
        let tallies = std::mem::take(&mut self.tallies).tallies();
        for (group, tally) in &tallies {
            changes.insert(keys::tally(id, self.generation, group), tally.encode());
        }
        changes.insert(keys::head(id), head.encode());
        self.shard.store.commit(id, changes)?;
        self.shard.store.sync()?;
        self.shard.replace(&mut generations, self.generation, tallies);
        Ok(())
    }

    /// Gives the received records up. So does dropping the installer.
    pub(crate) fn abort(self) {}
}

impl Drop for Installer {
    fn drop(&mut self) {
        let mut generations = self.shard.generations();
        if generations.installing == Some(self.generation) {
            generations.installing = None;
            generations.garbage.push_back(self.generation);
        }
    }
}
