//! What the disk holds: each shard's state, and which segments still matter.
//!
//! The writer and recovery feed it every change in the order of the log, so it says the same to
//! both.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;

use thiserror::Error;

use super::change::Change;
use crate::placement::ShardId;

/// The state on disk, without the entries themselves.
#[derive(Default)]
pub(super) struct Ledger {
    shards: BTreeMap<ShardId, Written>,
    /// Oldest first; the last one is being written.
    segments: VecDeque<Held>,
}

/// What of a shard is on disk.
#[derive(Default)]
pub(super) struct Written {
    /// Indexes of the entries.
    pub(super) entries: Range<u64>,
    /// The caller's word on the entry before the first one; `None` if the log was never purged.
    pub(super) purged: Option<Vec<u8>>,
    pub(super) vote: Option<Vec<u8>>,
    pub(super) committed: Option<Vec<u8>>,
}

struct Held {
    sequence: u64,
    /// For each shard the range around its entries in this segment. Some inside may have been
    /// written again elsewhere.
    spans: BTreeMap<ShardId, Range<u64>>,
}

/// A change that cannot follow what came before: part of the log is missing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("shard {shard}: {what}")]
pub(super) struct Disorder {
    shard: ShardId,
    what: &'static str,
}

impl Ledger {
    /// A new segment is written from now on.
    pub(super) fn begin(&mut self, sequence: u64) {
        self.segments.push_back(Held { sequence, spans: BTreeMap::new() });
    }

    /// Number of segments held, the one being written among them.
    pub(super) fn held(&self) -> usize {
        self.segments.len()
    }

    /// The shards that have state.
    pub(super) fn shards(&self) -> impl Iterator<Item = (ShardId, &Written)> {
        self.shards.iter().map(|(shard, written)| (*shard, written))
    }

    /// Takes note of a change that was written to the segment begun last.
    pub(super) fn note(&mut self, shard: ShardId, change: &Change<'_>) -> Result<(), Disorder> {
        let disorder = |what| Disorder { shard, what };
        if let Change::Range { start, end } = *change {
            return self.note_range(shard, start..end).map_err(disorder);
        }
        if let Change::End = change {
            return Ok(());
        }
        let written = self.shards.entry(shard).or_default();
        match *change {
            Change::Entry { index, .. } => {
                written.append(index).map_err(disorder)?;
                self.place(shard, index);
            }
            Change::Moved { index, .. } => {
                if !written.entries.contains(&index) {
                    return Err(disorder("an entry was written again that the log does not hold"));
                }
                let first = written.entries.start;
                self.displace(shard, index, first);
                self.place(shard, index);
            }
            Change::Truncate { end } => {
                written.truncate(end).map_err(disorder)?;
                self.cut(shard, end);
            }
            Change::Purge { upto, mark } => written.purge(upto, mark).map_err(disorder)?,
            Change::Vote(vote) => replace(&mut written.vote, vote),
            Change::Committed(committed) => replace(&mut written.committed, committed),
            Change::Range { .. } | Change::End => unreachable!("handled above"),
        }
        Ok(())
    }

    /// Appends the frames with which a new segment begins: with them, what older segments say about
    /// anything but entries no longer matters.
    pub(super) fn push_state(&self, out: &mut Vec<u8>) {
        for (&shard, written) in &self.shards {
            let Range { start, end } = written.entries;
            Change::Range { start, end }.push(out, shard);
            if let Some(mark) = &written.purged {
                let upto = start.checked_sub(1).expect("a purged entry precedes the first one");
                Change::Purge { upto, mark }.push(out, shard);
            }
            if let Some(vote) = &written.vote {
                Change::Vote(vote).push(out, shard);
            }
            if let Some(committed) = &written.committed {
                Change::Committed(committed).push(out, shard);
            }
        }
    }

    /// Lets go of the oldest segment, if no entry in it matters and it is not being written; its
    /// sequence.
    pub(super) fn release(&mut self) -> Option<u64> {
        let (oldest, newer) = (self.segments.front()?, self.segments.len() - 1);
        if newer == 0 || self.live_in(oldest).next().is_some() {
            return None;
        }
        self.segments.pop_front().map(|held| held.sequence)
    }

    /// The entries that keep the oldest segment, and perhaps some more.
    pub(super) fn pinning(&self) -> impl Iterator<Item = (ShardId, Range<u64>)> {
        self.segments.front().into_iter().flat_map(|oldest| self.live_in(oldest))
    }

    fn live_in<'a>(
        &'a self,
        held: &'a Held,
    ) -> impl Iterator<Item = (ShardId, Range<u64>)> + use<'a> {
        held.spans.iter().filter_map(|(shard, span)| {
            let entries = &self.shards.get(shard)?.entries;
            let live = span.start.max(entries.start)..span.end.min(entries.end);
            (!live.is_empty()).then_some((*shard, live))
        })
    }

    /// What a segment says of a shard as it begins must be what the log before it says. Before the
    /// oldest one there is nothing left to compare.
    fn note_range(&mut self, shard: ShardId, entries: Range<u64>) -> Result<(), &'static str> {
        if entries.start > entries.end {
            return Err("a segment promises a range that ends before it begins");
        }
        match self.shards.get(&shard) {
            Some(written) if written.entries == entries => Ok(()),
            None if self.segments.len() == 1 => {
                self.shards.insert(shard, Written { entries, ..Written::default() });
                Ok(())
            }
            _ => Err("a segment begins with other entries than the one before it ended with"),
        }
    }

    /// The entry's newest place is the segment being written.
    fn place(&mut self, shard: ShardId, index: u64) {
        let held = self.segments.back_mut().expect("a segment is begun before it is written");
        let span = held.spans.entry(shard).or_insert(index..index + 1);
        *span = span.start.min(index)..span.end.max(index + 1);
    }

    /// The entry no longer keeps older segments, where those before it do not either.
    fn displace(&mut self, shard: ShardId, index: u64, first: u64) {
        let older = self.segments.len().saturating_sub(1);
        for held in self.segments.iter_mut().take(older) {
            if let Some(span) = held.spans.get_mut(&shard)
                && span.contains(&index)
                && index == span.start.max(first)
            {
                span.start = index + 1;
            }
        }
    }

    /// What was truncated no longer keeps any segment, not even when later entries get the same
    /// indexes.
    fn cut(&mut self, shard: ShardId, end: u64) {
        for held in &mut self.segments {
            if let Some(span) = held.spans.get_mut(&shard) {
                span.end = span.end.min(end);
                if span.is_empty() {
                    held.spans.remove(&shard);
                }
            }
        }
    }
}

impl Written {
    fn append(&mut self, index: u64) -> Result<(), &'static str> {
        if self.entries.is_empty() && self.purged.is_none() {
            self.entries = index..index;
        }
        if index != self.entries.end || index == u64::MAX {
            return Err("an entry does not follow the one before it");
        }
        self.entries.end += 1;
        Ok(())
    }

    fn truncate(&mut self, end: u64) -> Result<(), &'static str> {
        if end < self.entries.start || end > self.entries.end {
            return Err("the log was truncated where it holds nothing");
        }
        self.entries.end = end;
        Ok(())
    }

    fn purge(&mut self, upto: u64, mark: &[u8]) -> Result<(), &'static str> {
        match upto.checked_add(1) {
            Some(start) if start >= self.entries.start => {
                self.entries = start..self.entries.end.max(start);
                replace(&mut self.purged, mark);
                Ok(())
            }
            _ => Err("the log was purged up to an entry that was already gone"),
        }
    }
}

/// Replaces the bytes and keeps their memory: committed positions change with every group.
fn replace(kept: &mut Option<Vec<u8>>, bytes: &[u8]) {
    let kept = kept.get_or_insert_default();
    kept.clear();
    kept.extend_from_slice(bytes);
}

#[cfg(test)]
mod tests;
