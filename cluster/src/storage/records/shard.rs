//! The records of one shard: reading, and which of the shard's data is in force.

use std::collections::{HashMap, VecDeque};
use std::ops::Bound;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use tokio::sync::Notify;

use super::due::DueFloor;
use super::flusher::Bell;
use super::keys::{self, Index, Kind};
use super::recent::{Change, Recent};
use super::store::{self, Batch, Snapshot};
use super::tally::{Shifts, Tallies, Tally};
use super::view::RecordsView;
use super::{Head, Installer, RecordsError, Store, WriteBatch};
use crate::codec;
use crate::placement::ShardId;

/// Changes in memory that are worth a flush of their own.
const RECENT_LARGE: usize = 256 << 10;

/// [`ShardRecords::room`] waits while changes in memory take more than this.
const RECENT_MAX: usize = 1 << 20;

/// The records of one shard on this node. Clones share them. Reading may block for the time of a
/// disk access; commits do not block.
#[derive(Clone)]
pub(crate) struct ShardRecords {
    shard: Arc<Shard>,
}

/// What the clones share.
pub(super) struct Shard {
    pub(super) store: Store,
    pub(super) id: ShardId,
    /// The generation in force. Changes only while `generations` and `recent` are locked.
    current: AtomicU32,
    pub(super) generations: Mutex<Generations>,
    /// Locked for moments only.
    recent: Mutex<Recent>,
    /// A flush has begun.
    flushed: Notify,
    bell: Arc<Bell>,
    pub(super) due: DueFloor,
    /// Changes only while `recent` is locked.
    tallies: Tallies,
    sweep: Mutex<Option<Sweep>>,
}

/// The generations that are not in force. Held while the engine is given changes, so that none are
/// given to a generation that is replaced meanwhile.
pub(super) struct Generations {
    /// The newest that was ever used. None is used twice: a new one must not meet what is left of
    /// one that was given up.
    pub(super) newest: u32,
    /// Being received.
    pub(super) installing: Option<u32>,
    /// To be swept.
    pub(super) garbage: VecDeque<u32>,
}

/// Which generations of a shard are stored.
#[derive(Default)]
pub(super) struct Stored {
    pub(super) current: u32,
    pub(super) newest: u32,
    pub(super) garbage: VecDeque<u32>,
}

/// Entries of an index.
struct Entries {
    /// Time and name, earliest first.
    entries: Vec<(u64, Vec<u8>)>,
    /// The earliest time that the engine has, found or not.
    earliest_stored: Option<u64>,
    /// The earliest due time that was added in memory, or an earlier one.
    earliest_recent: Option<u64>,
}

/// How far the sweep of a generation has got.
struct Sweep {
    generation: u32,
    kind: Kind,
    next: Vec<u8>,
}

impl ShardRecords {
    pub(super) fn new(shard: Arc<Shard>) -> Self {
        Self { shard }
    }

    /// The record of `name`, with every committed batch, and perhaps with one that is being
    /// committed.
    pub(crate) fn get(&self, name: &[u8]) -> Result<Option<Bytes>, RecordsError> {
        loop {
            let generation = self.shard.current();
            if let Some(record) = self.shard.recent().record(name) {
                return Ok(record);
            }
            let found = self.shard.store.get(keys::record(self.shard.id, generation, name))?;
            // Had the data been replaced and swept in between, a record could seem absent.
            if generation == self.shard.current() {
                return Ok(found.map(Bytes::from_owner));
            }
        }
    }

    /// The owner's bytes, as of the last committed batch that had any.
    pub(crate) fn meta(&self) -> Result<Option<Bytes>, RecordsError> {
        if let Some(meta) = self.shard.recent().meta() {
            return Ok(Some(meta));
        }
        Ok(self.shard.head()?.map(|head| head.meta))
    }

    /// Begins a change of this shard.
    pub(crate) fn batch(&self) -> WriteBatch {
        WriteBatch::new(self.shard.clone())
    }

    /// At most `limit` entries of the due index with a time of at most `until_ms`, earliest first:
    /// time and name.
    pub(crate) fn due(
        &self,
        until_ms: u64,
        limit: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, RecordsError> {
        let shard = &self.shard;
        shard.due.search(|from_ms| {
            let found = shard.entries(Index::Due, (from_ms, &[]), until_ms, limit)?;
            let earliest = found.earliest_stored.into_iter().chain(found.earliest_recent).min();
            Ok((found.entries, earliest.unwrap_or(until_ms.max(from_ms))))
        })
    }

    /// At most `limit` entries of the index of unsettled records behind `after`, oldest first: time
    /// and name.
    pub(crate) fn unsettled(
        &self,
        after: Option<(u64, &[u8])>,
        limit: usize,
    ) -> Result<Vec<(u64, Vec<u8>)>, RecordsError> {
        // The first name behind a name is the same with a zero byte more.
        let next = after.map(|(time_ms, name)| (time_ms, [name, &[0]].concat()));
        let from = next.as_ref().map_or((0, &[][..]), |(time_ms, name)| (*time_ms, name));
        Ok(self.shard.entries(Index::Unsettled, from, u64::MAX, limit)?.entries)
    }

    /// Waits while too much is in memory.
    pub(crate) async fn room(&self) {
        loop {
            // Made before the look, so that a flush in between is not missed.
            let flushed = self.shard.flushed.notified();
            {
                let recent = self.shard.recent();
                if recent.bytes() <= RECENT_MAX || recent.failed() {
                    return;
                }
            }
            flushed.await;
        }
    }

    /// Hands everything committed so far to the engine.
    #[cfg(test)]
    pub(super) fn flush(&self) -> Result<(), RecordsError> {
        self.shard.flush()
    }

    /// Everything committed so far to this shard is durable on return. Blocks.
    ///
    /// # Errors
    /// After one nothing is committed any more: what the system did with the bytes is unknown.
    pub(crate) fn sync(&self) -> Result<(), RecordsError> {
        self.shard.flush()?;
        self.shard.store.sync()
    }

    /// The shard as of now: later changes do not show in it. While it exists the space of what they
    /// replace is not freed. Blocks.
    pub(crate) fn view(&self) -> Result<RecordsView, RecordsError> {
        self.shard.flush()?;
        RecordsView::new(&self.shard)
    }

    /// Begins to receive other records for this shard, which become its own all at once. One that
    /// was begun before is given up.
    pub(crate) fn begin_install(&self) -> Result<Installer, RecordsError> {
        Ok(Installer::new(self.shard.clone()))
    }
}

impl Shard {
    /// A shard of which nothing is stored.
    pub(super) fn new(store: Store, id: ShardId, bell: Arc<Bell>) -> Self {
        let tallies = Tallies::none(store.sums.clone());
        Self::recovered(store, id, bell, tallies, Stored::default())
    }

    pub(super) fn recovered(
        store: Store,
        id: ShardId,
        bell: Arc<Bell>,
        tallies: Tallies,
        Stored { current, newest, garbage }: Stored,
    ) -> Self {
        Self {
            store,
            id,
            current: AtomicU32::new(current),
            generations: Mutex::new(Generations { newest, installing: None, garbage }),
            recent: Mutex::default(),
            flushed: Notify::new(),
            bell,
            due: DueFloor::new(),
            tallies,
            sweep: Mutex::new(None),
        }
    }

    pub(super) fn current(&self) -> u32 {
        self.current.load(Ordering::Acquire)
    }

    pub(super) fn generations(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().expect("no holder panics")
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock().expect("no holder panics")
    }

    /// Takes changes that were made for `generation`.
    pub(super) fn commit(
        &self,
        generation: u32,
        changes: Vec<Change>,
        tallies: Shifts,
    ) -> Result<(), RecordsError> {
        let large = {
            let mut recent = self.recent();
            if recent.failed() {
                return Err(RecordsError::Stopped);
            }
            if generation != self.current() {
                return Err(RecordsError::Replaced);
            }
            recent.add(changes);
            let tallies = self.tallies.shift(tallies);
            recent.add(tallies.into_iter().map(|(group, tally)| Change::Tally(group, tally)));
            recent.bytes() > RECENT_LARGE
        };
        if large {
            self.bell.hurry();
        }
        Ok(())
    }

    /// Takes nothing any more, since nothing is handed on any more, and lets go of who waits.
    pub(super) fn give_up(&self) {
        self.recent().fail();
        self.flushed.notify_waiters();
    }

    /// At most `limit` entries of an index from `from` on with times of at most `until_ms`.
    fn entries(
        &self,
        index: Index,
        from: (u64, &[u8]),
        until_ms: u64,
        limit: usize,
    ) -> Result<Entries, RecordsError> {
        let generation = self.current();
        // Looked at first: what a flush hands on in between is then found twice, not missed.
        let (recent, earliest_recent) = {
            let recent = self.recent();
            (recent.entries(index, from, until_ms), recent.earliest_due())
        };
        let added = recent.iter().filter(|(_, there)| **there).take(limit);
        let mut entries: Vec<_> =
            added.map(|((time_ms, name), _)| (*time_ms, name.to_vec())).collect();
        let start = keys::index(index, self.id, generation, from.0, from.1);
        let end = Kind::Index(index).range(self.id, generation).end;
        let (mut stored, mut earliest_stored) = (0, None);
        for entry in self.store.range(store::keys(start..end)) {
            let (key, _) = entry?;
            let Some((time_ms, name)) = keys::index_parts(&key) else { continue };
            let entry = (time_ms, Bytes::copy_from_slice(name));
            if recent.contains_key(&entry) {
                continue;
            }
            earliest_stored = earliest_stored.or(Some(time_ms));
            if time_ms > until_ms || stored == limit {
                break;
            }
            stored += 1;
            entries.push((time_ms, entry.1.to_vec()));
        }
        entries.sort_unstable();
        entries.truncate(limit);
        Ok(Entries { entries, earliest_stored, earliest_recent })
    }

    /// Whether a flush is due before its time.
    pub(super) fn is_large(&self) -> bool {
        self.recent().bytes() > RECENT_LARGE
    }

    /// Hands everything committed so far to the engine, as one batch. Blocks, longer while the
    /// engine catches up with its merges.
    pub(super) fn flush(&self) -> Result<(), RecordsError> {
        match self.flush_changes() {
            Ok(any) => {
                self.flushed.notify_waiters();
                if any {
                    self.store.slow_down();
                }
                Ok(())
            }
            Err(error) => {
                self.give_up();
                Err(error)
            }
        }
    }

    fn flush_changes(&self) -> Result<bool, RecordsError> {
        let _in_force = self.generations();
        let changes = {
            let mut recent = self.recent();
            if recent.failed() {
                return Err(RecordsError::Stopped);
            }
            recent.begin_flush()
        };
        let Some(changes) = changes else { return Ok(false) };
        let mut batch = Batch::default();
        changes.write(&mut batch, self.id, self.current());
        self.store.commit(self.id, batch)?;
        self.recent().end_flush();
        Ok(true)
    }

    pub(super) fn head(&self) -> Result<Option<Head>, RecordsError> {
        let bytes = self.store.get(keys::head(self.id))?;
        bytes.map(|bytes| Head::decode(&bytes)).transpose()
    }

    /// Puts `generation` in force, whose records come to `tallies`; what was so far is garbage.
    pub(super) fn replace(
        &self,
        generations: &mut Generations,
        generation: u32,
        tallies: HashMap<Bytes, Tally>,
    ) {
        generations.garbage.push_back(self.current());
        generations.installing = None;
        let mut recent = self.recent();
        recent.clear();
        self.tallies.replace(tallies);
        self.current.store(generation, Ordering::Release);
        drop(recent);
        self.due.reset();
    }

    /// Removes at most `keys_max` keys of garbage. Returns whether any may be left.
    pub(super) fn sweep(&self, keys_max: usize) -> Result<bool, RecordsError> {
        let mut sweep = self.sweep.lock().expect("no holder panics");
        let Some(generation) = self.generations().garbage.front().copied() else {
            return Ok(false);
        };
        let Sweep { kind, next, .. } = match sweep.take() {
            Some(sweep) if sweep.generation == generation => sweep,
            _ => Sweep::begin(self.id, generation, Kind::ALL[0]),
        };
        let end = kind.range(self.id, generation).end;
        let range = (Bound::Included(next), Bound::Excluded(end));
        let mut batch = Batch::default();
        let mut last = None;
        for entry in self.store.range(range).take(keys_max) {
            let (key, _) = entry?;
            last = Some(key.to_vec());
            batch.remove(key);
        }
        let whole = batch.len() < keys_max;
        self.store.commit(self.id, batch)?;
        self.store.slow_down();
        let following = Kind::ALL.into_iter().skip_while(|of| *of != kind).nth(1);
        *sweep = match (whole, following, last) {
            (false, _, Some(next)) => Some(Sweep { generation, kind, next }),
            (_, Some(kind), _) => Some(Sweep::begin(self.id, generation, kind)),
            (_, None, _) => {
                let mut generations = self.generations();
                generations.garbage.pop_front();
                return Ok(!generations.garbage.is_empty());
            }
        };
        Ok(true)
    }
}

impl Sweep {
    fn begin(shard: ShardId, generation: u32, kind: Kind) -> Self {
        Self { generation, kind, next: kind.range(shard, generation).start }
    }
}

impl Head {
    pub(super) fn decode(bytes: &[u8]) -> Result<Self, RecordsError> {
        codec::decode(codec::RECORDS_HEAD, bytes).map_err(RecordsError::Stored)
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        codec::encode(codec::RECORDS_HEAD, self)
    }

    /// The head of a shard as a snapshot has it.
    pub(super) fn read(snapshot: &Snapshot, shard: &Shard) -> Result<Option<Self>, RecordsError> {
        let bytes = snapshot.get(keys::head(shard.id))?;
        bytes.map(|bytes| Self::decode(&bytes)).transpose()
    }
}
