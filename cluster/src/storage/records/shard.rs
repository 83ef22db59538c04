//! The records of one shard: reading, and which of the shard's data is in force.

use std::collections::VecDeque;
use std::ops::Bound;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use fjall::Readable;

use super::due::DueFloor;
use super::keys::{self, Kind};
use super::view::RecordsView;
use super::{Head, Installer, RecordsError, Store, WriteBatch};
use crate::codec;
use crate::placement::ShardId;

/// The records of one shard on this node. Clones share them. All calls may block for the time of a
/// disk access; commits may block longer while the engine catches up with its merges.
#[derive(Clone)]
pub(crate) struct ShardRecords {
    shard: Arc<Shard>,
}

/// What the clones share.
pub(super) struct Shard {
    pub(super) store: Store,
    pub(super) id: ShardId,
    /// The generation in force. Changes only while `generations` is locked.
    current: AtomicU32,
    pub(super) generations: Mutex<Generations>,
    pub(super) due: DueFloor,
    sweep: Mutex<Option<Sweep>>,
}

/// The generations that are not in force. Held while a batch is committed, so that none is
/// committed to a generation that is replaced meanwhile.
pub(super) struct Generations {
    /// The newest that was ever used. None is used twice: a new one must not meet what is left of
    /// one that was given up.
    pub(super) newest: u32,
    /// Being received.
    pub(super) installing: Option<u32>,
    /// To be swept.
    pub(super) garbage: VecDeque<u32>,
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
    pub(crate) fn get(&self, name: &[u8]) -> Result<Option<fjall::Slice>, RecordsError> {
        loop {
            let generation = self.shard.current();
            let found =
                self.shard.store.keyspace.get(keys::record(self.shard.id, generation, name))?;
            // Had the data been replaced and swept in between, a record could seem absent.
            if generation == self.shard.current() {
                return Ok(found);
            }
        }
    }

    /// The owner's bytes, as of the last committed batch that had any.
    pub(crate) fn meta(&self) -> Result<Option<Bytes>, RecordsError> {
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
            let generation = shard.current();
            let start = keys::due(shard.id, generation, from_ms, &[]);
            let end = Kind::Due.range(shard.id, generation).end;
            let mut found = Vec::new();
            for entry in shard.store.keyspace.range(start..end) {
                let key = entry.key()?;
                let Some((time_ms, name)) = keys::due_parts(&key) else { continue };
                if time_ms > until_ms || found.len() == limit {
                    let earliest = found.first().map_or(time_ms, |(earliest, _)| *earliest);
                    return Ok((found, earliest));
                }
                found.push((time_ms, name.to_vec()));
            }
            let earliest = found.first().map_or(until_ms.max(from_ms), |(earliest, _)| *earliest);
            Ok((found, earliest))
        })
    }

    /// Everything committed so far to this and every other shard is durable on return.
    ///
    /// # Errors
    /// After one nothing is committed any more: what the system did with the bytes is unknown.
    pub(crate) fn sync(&self) -> Result<(), RecordsError> {
        self.shard.store.sync()
    }

    /// The shard as of now: later changes do not show in it. While it exists the space of what they
    /// replace is not freed.
    pub(crate) fn view(&self) -> Result<RecordsView, RecordsError> {
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
    pub(super) fn new(store: Store, id: ShardId) -> Self {
        Self::recovered(store, id, 0, 0, VecDeque::new())
    }

    pub(super) fn recovered(
        store: Store,
        id: ShardId,
        current: u32,
        newest: u32,
        garbage: VecDeque<u32>,
    ) -> Self {
        Self {
            store,
            id,
            current: AtomicU32::new(current),
            generations: Mutex::new(Generations { newest, installing: None, garbage }),
            due: DueFloor::new(),
            sweep: Mutex::new(None),
        }
    }

    pub(super) fn current(&self) -> u32 {
        self.current.load(Ordering::Acquire)
    }

    pub(super) fn generations(&self) -> MutexGuard<'_, Generations> {
        self.generations.lock().expect("no holder panics")
    }

    pub(super) fn head(&self) -> Result<Option<Head>, RecordsError> {
        let bytes = self.store.keyspace.get(keys::head(self.id))?;
        bytes.map(|bytes| Head::decode(&bytes)).transpose()
    }

    /// Puts `generation` in force; what was so far is garbage.
    pub(super) fn replace(&self, generations: &mut Generations, generation: u32) {
        generations.garbage.push_back(self.current());
        generations.installing = None;
        self.current.store(generation, Ordering::Release);
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
            _ => Sweep::begin(self.id, generation, Kind::Due),
        };
        let end = kind.range(self.id, generation).end;
        let range = (Bound::Included(next), Bound::Excluded(end));
        let mut batch = self.store.database.batch();
        let mut last = None;
        for entry in self.store.keyspace.range(range).take(keys_max) {
            let key = entry.key()?;
            last = Some(key.to_vec());
            batch.remove(&self.store.keyspace, key);
        }
        let whole = batch.len() < keys_max;
        batch.commit()?;
        self.store.slow_down();
        *sweep = match (whole, kind, last) {
            (false, _, Some(next)) => Some(Sweep { generation, kind, next }),
            (_, Kind::Due, _) => Some(Sweep::begin(self.id, generation, Kind::Record)),
            (_, Kind::Record, _) => {
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
    pub(super) fn read(
        snapshot: &fjall::Snapshot,
        shard: &Shard,
    ) -> Result<Option<Self>, RecordsError> {
        let bytes = snapshot.get(&shard.store.keyspace, keys::head(shard.id))?;
        bytes.map(|bytes| Self::decode(&bytes)).transpose()
    }
}
