//! One shard's log as its owner sees it: what was handed in, readable at once, and on its way to
//! the disk.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;

use super::change::Change;
use super::closed;
use super::ledger::Written;
use super::queue::{Queue, Synced};
use crate::placement::ShardId;

/// Memory that an entry takes beside its bytes: its place in the log and the allocation's own
/// overhead.
const ENTRY_OVERHEAD: u64 = 64;

/// The log of one shard. Clones share it.
///
/// Changes reach the disk in the order of the calls. Calls of one shard come from one owner, one
/// after the other; reads may come from anywhere.
#[derive(Clone)]
pub(crate) struct ShardLog {
    shard: ShardId,
    mirror: Arc<Mutex<Mirror>>,
    queue: Arc<Queue>,
}

/// The shard's log in memory, as it will be on disk when everything queued is written.
#[derive(Default)]
struct Mirror {
    vote: Option<Bytes>,
    committed: Option<Bytes>,
    purged: Option<(u64, Bytes)>,
    /// Index of the first entry, or of the one to come.
    first: u64,
    entries: VecDeque<Bytes>,
    bytes: u64,
}

impl ShardLog {
    /// The vote saved last, whether or not it is durable yet.
    pub(crate) fn vote(&self) -> Option<Bytes> {
        self.lock().vote.clone()
    }

    /// Saves the caller's vote; `synced` is told when it is durable.
    pub(crate) fn save_vote(&self, vote: Bytes, synced: Synced) {
        let mut mirror = self.lock();
        let push = |out: &mut Vec<u8>| Change::Vote(&vote).push(out, self.shard);
        let refused = self.queue.push(push, Some(synced));
        mirror.vote = Some(vote);
        drop(mirror);
        tell_closed(refused);
    }

    /// The committed position saved last.
    pub(crate) fn committed(&self) -> Option<Bytes> {
        self.lock().committed.clone()
    }

    /// Saves the caller's committed position. It becomes durable with the next group; nothing is
    /// synced for it.
    pub(crate) fn save_committed(&self, committed: Bytes) {
        let mut mirror = self.lock();
        let push = |out: &mut Vec<u8>| Change::Committed(&committed).push(out, self.shard);
        let _ = self.queue.push(push, None);
        mirror.committed = Some(committed);
    }

    /// The last purged index and the mark that came with it.
    pub(crate) fn purged(&self) -> Option<(u64, Bytes)> {
        self.lock().purged.clone()
    }

    /// Index of the last entry; `None` when there is none.
    pub(crate) fn last_index(&self) -> Option<u64> {
        let mirror = self.lock();
        (!mirror.entries.is_empty()).then(|| mirror.next() - 1)
    }

    /// The entries of `from..to` that are there, ended early once they hold `bytes_max` bytes; at
    /// least one, if there is one. Nothing is copied.
    pub(crate) fn read(&self, from: u64, to: u64, bytes_max: usize) -> Vec<(u64, Bytes)> {
        let mirror = self.lock();
        let range = from.max(mirror.first)..to.min(mirror.next());
        let mut bytes = 0;
        let mut entries = Vec::new();
        for (index, data) in mirror.range(range) {
            bytes += data.len();
            if bytes > bytes_max && !entries.is_empty() {
                break;
            }
            entries.push((index, data.clone()));
        }
        entries
    }

    /// Adds entries at the end. They are readable on return; `synced` is told when they are
    /// durable.
    ///
    /// Wait for [`ShardLog::room`] before: the queue then exceeds its bound by one call's entries
    /// per shard at most.
    ///
    /// # Panics
    /// When the indexes are not consecutive, or do not follow the last entry or purged index. A log
    /// that is empty and was never purged may begin at any index.
    pub(crate) fn append(&self, entries: Vec<(u64, Bytes)>, synced: Synced) {
        let mut mirror = self.lock();
        if let Some((index, _)) = entries.first()
            && mirror.entries.is_empty()
            && mirror.purged.is_none()
        {
            mirror.first = *index;
        }
        for ((index, _), expected) in entries.iter().zip(mirror.next()..) {
            assert_eq!(*index, expected, "shard {}: a log has no holes", self.shard);
        }
        let push = |out: &mut Vec<u8>| {
            for (index, data) in &entries {
                Change::Entry { index: *index, data }.push(out, self.shard);
            }
        };
        let refused = self.queue.push(push, Some(synced));
        for (_, data) in entries {
            mirror.bytes += footprint(&data);
            mirror.entries.push_back(data);
        }
        drop(mirror);
        tell_closed(refused);
    }

    /// Removes every entry after `last_kept`; all of them for `None`. Becomes durable with the next
    /// group.
    pub(crate) fn truncate_after(&self, last_kept: Option<u64>) {
        let mut mirror = self.lock();
        let end = last_kept.map_or(0, |index| index.saturating_add(1)).max(mirror.first);
        if end >= mirror.next() {
            return;
        }
        let _ = self.queue.push(|out| Change::Truncate { end }.push(out, self.shard), None);
        while mirror.next() > end {
            let removed = mirror.entries.pop_back().expect("the log ends after what is kept");
            mirror.bytes -= footprint(&removed);
        }
    }

    /// Removes every entry up to and with `upto`, and keeps `mark` as the caller's word on it. The
    /// log goes on after `upto`, even where that is beyond its last entry. A purge up to less than
    /// what is gone does nothing.
    pub(crate) fn purge(&self, upto: u64, mark: Bytes) {
        let first = upto.checked_add(1).expect("a log never reaches the last index");
        let mut mirror = self.lock();
        if first < mirror.first || (first == mirror.first && mirror.purged.is_some()) {
            return;
        }
        let push = |out: &mut Vec<u8>| Change::Purge { upto, mark: &mark }.push(out, self.shard);
        let _ = self.queue.push(push, None);
        while mirror.first < first {
            mirror.first += 1;
            match mirror.entries.pop_front() {
                Some(removed) => mirror.bytes -= footprint(&removed),
                None => mirror.first = first,
            }
        }
        mirror.purged = Some((upto, mark));
        drop(mirror);
        // Only what is on disk frees a segment, and a full disk waits for nothing else.
        self.queue.hurry();
    }

    /// Bytes of memory that the unpurged entries take.
    pub(crate) fn bytes(&self) -> u64 {
        self.lock().bytes
    }

    /// Waits until the queue of all shards is below its bound.
    pub(crate) async fn room(&self) {
        self.queue.room().await;
    }

    /// Queues entries of `range` to be written again, in order, until `budget` bytes are used up;
    /// at least one, if there is one. At this place in the queue they are what the shard's log
    /// holds.
    pub(super) fn rewrite(&self, range: Range<u64>, budget: &mut usize) {
        let mirror = self.lock();
        let range = range.start.max(mirror.first)..range.end.min(mirror.next());
        let push = |out: &mut Vec<u8>| {
            for (index, data) in mirror.range(range) {
                Change::Moved { index, data }.push(out, self.shard);
                *budget = budget.saturating_sub(data.len());
                if *budget == 0 {
                    break;
                }
            }
        };
        let _ = self.queue.push(push, None);
    }

    fn lock(&self) -> MutexGuard<'_, Mirror> {
        self.mirror.lock().expect(UNPOISONED)
    }
}

impl Mirror {
    fn recovered(written: &Written, entries: VecDeque<Bytes>) -> Self {
        let copy = |bytes: &Option<Vec<u8>>| bytes.as_deref().map(Bytes::copy_from_slice);
        let first = written.entries.start;
        Self {
            vote: copy(&written.vote),
            committed: copy(&written.committed),
            purged: copy(&written.purged).map(|mark| (first - 1, mark)),
            first,
            bytes: entries.iter().map(footprint).sum(),
            entries,
        }
    }

    /// Index of the entry to be appended next.
    fn next(&self) -> u64 {
        self.first + self.entries.len() as u64
    }

    /// The entries of a range that lies within the log.
    fn range(&self, range: Range<u64>) -> impl Iterator<Item = (u64, &Bytes)> {
        let at = |index: u64| (index - self.first) as usize;
        let places = if range.is_empty() { 0..0 } else { at(range.start)..at(range.end) };
        range.clone().zip(self.entries.range(places))
    }
}

/// The logs of all shards.
pub(super) struct Shards {
    mirrors: Mutex<BTreeMap<ShardId, Arc<Mutex<Mirror>>>>,
    queue: Arc<Queue>,
}

impl Shards {
    pub(super) fn new(queue: Arc<Queue>) -> Self {
        Self { mirrors: Mutex::default(), queue }
    }

    /// Puts a shard's recovered log in its place.
    pub(super) fn insert(&self, shard: ShardId, written: &Written, entries: VecDeque<Bytes>) {
        let mirror = Arc::new(Mutex::new(Mirror::recovered(written, entries)));
        self.mirrors.lock().expect(UNPOISONED).insert(shard, mirror);
    }

    /// The log of a shard; empty, if nothing was ever written for it.
    pub(super) fn get(&self, shard: ShardId) -> ShardLog {
        let mut mirrors = self.mirrors.lock().expect(UNPOISONED);
        let mirror = Arc::clone(mirrors.entry(shard).or_default());
        ShardLog { shard, mirror, queue: Arc::clone(&self.queue) }
    }

    /// Bytes that the unpurged entries of all shards take.
    pub(super) fn bytes(&self) -> u64 {
        let mirrors = self.mirrors.lock().expect(UNPOISONED);
        mirrors.values().map(|mirror| mirror.lock().expect(UNPOISONED).bytes).sum()
    }
}

fn footprint(data: &Bytes) -> u64 {
    data.len() as u64 + ENTRY_OVERHEAD
}

fn tell_closed(refused: Option<Synced>) {
    if let Some(synced) = refused {
        synced(Err(closed()));
    }
}

const UNPOISONED: &str = "nobody panics while holding a shard's log";
