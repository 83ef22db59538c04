//! Changes of one shard that are committed, but not handed to the engine yet.
//!
//! Most records are claimed and completed within moments. Held here for so long, a record is handed
//! on once instead of twice, its shard's position once for all of them, and the engine's pauses, to
//! sync a flush or to catch up with its merges, fall on a thread that nobody waits for. Nothing is
//! less safe for it: what the engine was given is not durable either before a sync, and the log
//! has it all.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use super::Head;
use super::keys::{self, Index};
use super::store::Batch;
use super::tally::Tally;
use crate::placement::ShardId;

/// What a change takes in memory beside its names and values, roughly.
const CHANGE_OVERHEAD: usize = 128;

/// What was committed since the last flush began, and what that flush is handing on.
#[derive(Default)]
pub(super) struct Recent {
    filling: Changes,
    flushing: Option<Arc<Changes>>,
    /// A flush has failed: nothing is taken any more.
    failed: bool,
}

/// The last change of each key.
#[derive(Default)]
pub(super) struct Changes {
    /// Records by name; `None` where one is removed.
    records: HashMap<Bytes, Option<Bytes>>,
    /// Entries of the indexes; `false` where one is removed.
    entries: BTreeMap<(Index, u64, Bytes), bool>,
    /// Tallies by group; `None` where one is removed.
    tallies: HashMap<Bytes, Option<Tally>>,
    /// The owner's bytes.
    meta: Option<Bytes>,
    bytes: usize,
}

/// One change.
pub(super) enum Change {
    Record(Bytes, Option<Bytes>),
    Entry(Index, u64, Bytes, bool),
    Tally(Bytes, Option<Tally>),
    Meta(Bytes),
}

impl Recent {
    /// Takes changes, in their order.
    pub(super) fn add(&mut self, changes: impl IntoIterator<Item = Change>) {
        changes.into_iter().for_each(|change| self.filling.add(change));
    }

    /// Bytes that wait for the next flush.
    pub(super) fn bytes(&self) -> usize {
        self.filling.bytes
    }

    pub(super) fn failed(&self) -> bool {
        self.failed
    }

    pub(super) fn fail(&mut self) {
        self.failed = true;
    }

    /// The change of the record of `name`, if there is one.
    pub(super) fn record(&self, name: &[u8]) -> Option<Option<Bytes>> {
        self.newest_first().find_map(|changes| changes.records.get(name).cloned())
    }

    pub(super) fn meta(&self) -> Option<Bytes> {
        self.newest_first().find_map(|changes| changes.meta.clone())
    }

    /// The changes of an index from `from` on, with times of at most `until_ms`.
    pub(super) fn entries(
        &self,
        index: Index,
        from: (u64, &[u8]),
        until_ms: u64,
    ) -> BTreeMap<(u64, Bytes), bool> {
        let start = (index, from.0, Bytes::copy_from_slice(from.1));
        let within = |(of, time_ms, _): &(Index, u64, Bytes)| *of == index && *time_ms <= until_ms;
        let mut found = BTreeMap::new();
        let oldest_first = self.flushing.as_deref().into_iter().chain([&self.filling]);
        for changes in oldest_first {
            let entries = changes.entries.range(&start..).take_while(|(entry, _)| within(entry));
            found.extend(
                entries.map(|((_, time_ms, name), there)| ((*time_ms, name.clone()), *there)),
            );
        }
        found
    }

    /// A time before which no entry of the due index is added here; the earliest, or earlier.
    pub(super) fn earliest_due(&self) -> Option<u64> {
        let added = self.newest_first().filter_map(|changes| {
            let mut entries = changes.entries.iter();
            entries.find_map(|((index, time_ms, _), there)| {
                (*index == Index::Due && *there).then_some(*time_ms)
            })
        });
        added.min()
    }

    /// What is to be handed on, if anything. It is still found here until [`Recent::end_flush`].
    pub(super) fn begin_flush(&mut self) -> Option<Arc<Changes>> {
        debug_assert!(self.flushing.is_none(), "after a flush that did not end none is begun");
        if !self.filling.is_empty() {
            self.flushing = Some(Arc::new(std::mem::take(&mut self.filling)));
        }
        self.flushing.clone()
    }

    /// What was handed on is found in the engine from now on.
    pub(super) fn end_flush(&mut self) {
        self.flushing = None;
    }

    /// Forgets all changes, since what they would have changed was replaced.
    pub(super) fn clear(&mut self) {
        self.filling = Changes::default();
        self.flushing = None;
    }

    fn newest_first(&self) -> impl Iterator<Item = &Changes> {
        [&self.filling].into_iter().chain(self.flushing.as_deref())
    }
}

impl Changes {
    fn is_empty(&self) -> bool {
        let Self { records, entries, tallies, meta, bytes: _ } = self;
        records.is_empty() && entries.is_empty() && tallies.is_empty() && meta.is_none()
    }

    fn add(&mut self, change: Change) {
        match change {
            Change::Record(name, record) => {
                let bytes = |record: &Option<Bytes>| record.as_ref().map_or(0, Bytes::len);
                self.bytes += bytes(&record);
                let name_bytes = name.len() + CHANGE_OVERHEAD;
                match self.records.insert(name, record) {
                    Some(former) => self.bytes -= bytes(&former),
                    None => self.bytes += name_bytes,
                }
            }
            Change::Entry(index, time_ms, name, there) => {
                let bytes = name.len() + CHANGE_OVERHEAD;
                if self.entries.insert((index, time_ms, name), there).is_none() {
                    self.bytes += bytes;
                }
            }
            Change::Tally(group, tally) => {
                let bytes = group.len() + CHANGE_OVERHEAD;
                if self.tallies.insert(group, tally).is_none() {
                    self.bytes += bytes;
                }
            }
            Change::Meta(meta) => self.meta = Some(meta),
        }
    }

    /// Appends the changes to a batch of the engine. Most are in the order of their keys, which is
    /// the cheapest for it.
    pub(super) fn write(&self, batch: &mut Batch, shard: ShardId, generation: u32) {
        for ((index, time_ms, name), there) in &self.entries {
            let key = keys::index(*index, shard, generation, *time_ms, name);
            match there {
                true => batch.insert(key, []),
                false => batch.remove(key),
            }
        }
        for (group, tally) in &self.tallies {
            let key = keys::tally(shard, generation, group);
            match tally {
                Some(tally) => batch.insert(key, tally.encode()),
                None => batch.remove(key),
            }
        }
        if let Some(meta) = &self.meta {
            let head = Head { generation, meta: meta.clone() };
            batch.insert(keys::head(shard), head.encode());
        }
        let mut records: Vec<_> = self.records.iter().collect();
        records.sort_unstable_by_key(|(name, _)| *name);
        for (name, record) in records {
            let key = keys::record(shard, generation, name);
            match record {
                Some(record) => batch.insert(key, &record[..]),
                None => batch.remove(key),
            }
        }
    }
}
