//! Reads segments in order, applies their groups, and judges what stands where no group is
//! complete.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;

use super::super::frame::{self, ALIGN, Frame, FrameError};
use super::WalError;
use super::change::Change;
use super::ledger::Ledger;
use super::segment::{self, HEADER_BYTES, Header};
use crate::placement::ShardId;

const TORN_TWICE: &str =
    "a group is damaged; it cannot have been the last, another segment follows";

/// The log as far as it was read.
pub(super) struct Replay<'a> {
    pub(super) dir: &'a Path,
    pub(super) ledger: Ledger,
    entries: BTreeMap<ShardId, BTreeMap<u64, Bytes>>,
    pub(super) log: Option<u64>,
    /// Number of the group to come; unknown until the oldest segment that is left says it.
    pub(super) group: Option<u64>,
    /// Where the complete groups end so far.
    pub(super) end: Place,
    /// The bytes of the last of them.
    pub(super) last: Vec<u8>,
    /// Whether anything but zeros stands there.
    pub(super) dirty: bool,
    /// Where the segment read last has no more complete groups.
    tail: Place,
    /// Where the group that was being written was found in pieces.
    pub(super) torn: Option<Place>,
    pub(super) ended: bool,
}

/// A place in a segment.
#[derive(Clone, Copy)]
pub(super) struct Place {
    pub(super) sequence: u64,
    pub(super) offset: u64,
    /// Length of the segment.
    pub(super) bytes: u64,
}

impl<'a> Replay<'a> {
    pub(super) fn new(dir: &'a Path, first: u64) -> Self {
        Self {
            dir,
            ledger: Ledger::default(),
            entries: BTreeMap::new(),
            log: None,
            // Only segment 1 can be the oldest before its first group is durable.
            group: (first == 1).then_some(1),
            end: Place { sequence: first, offset: HEADER_BYTES, bytes: 0 },
            last: Vec::new(),
            dirty: false,
            tail: Place { sequence: first, offset: HEADER_BYTES, bytes: 0 },
            torn: None,
            ended: false,
        }
    }

    /// Reads the next segment.
    pub(super) fn segment(&mut self, sequence: u64, bytes: &[u8]) -> Result<(), WalError> {
        let mut place = Place { sequence, offset: 0, bytes: bytes.len() as u64 };
        let salt = self.header(place, bytes)?;
        place.offset = HEADER_BYTES;
        if self.end.sequence == sequence {
            self.ledger.begin(sequence);
            self.end = place;
        }
        let mut last = 0..0;
        while let Some((frames, taken)) = self.next_group(place, bytes, salt)? {
            if let Some(torn) = self.torn {
                return Err(self.damaged(torn, TORN_TWICE));
            }
            if self.end.sequence != sequence {
                self.ledger.begin(sequence);
            }
            self.apply(place, &frames)?;
            last = place.offset as usize..place.offset as usize + taken;
            place.offset += taken as u64;
            self.end = place;
        }
        if !last.is_empty() {
            self.last = bytes[last].to_vec();
        }
        self.judge_tail(place, bytes, salt)
    }

    /// Checks a segment's header; the salt of its frames.
    fn header(&mut self, place: Place, bytes: &[u8]) -> Result<u32, WalError> {
        let header = Header::decode(bytes).map_err(|error| self.damaged(place, error))?;
        if header.sequence != place.sequence {
            return Err(self.damaged(place, "segment stands under another one's name"));
        }
        if *self.log.get_or_insert(header.log) != header.log {
            return Err(self.damaged(place, "segment belongs to another log"));
        }
        Ok(header.salt())
    }

    /// The frames of the group at `place`, and their length; `None` if no complete group with the
    /// expected number stands there.
    fn next_group<'b>(
        &self,
        mut place: Place,
        bytes: &'b [u8],
        salt: u32,
    ) -> Result<Option<(Vec<Frame<'b>>, usize)>, WalError> {
        let start = place.offset as usize;
        let mut frames: Vec<Frame> = Vec::new();
        loop {
            let at = place.offset as usize;
            let (frame, taken) = match frame::decode(&bytes[at..], salt) {
                Ok(decoded) => decoded,
                // Intact, and not ours to judge: a later version of this program wrote it.
                Err(error @ FrameError::Version(_)) => return Err(self.damaged(place, error)),
                Err(FrameError::Short | FrameError::Header | FrameError::Payload) => {
                    return Ok(None);
                }
            };
            let expected = self.group.or(frames.first().map(|first| first.group));
            if expected.is_some_and(|expected| expected != frame.group) {
                return Ok(None);
            }
            frames.push(frame);
            if frame.last {
                return Ok(Some((frames, at + taken - start)));
            }
            place.offset += taken as u64;
        }
    }

    fn apply(&mut self, place: Place, frames: &[Frame<'_>]) -> Result<(), WalError> {
        for frame in frames {
            let change = Change::of(frame).ok_or_else(|| {
                self.damaged(place, format!("frame of kind {} is not known", frame.kind))
            })?;
            let noted = self.ledger.note(frame.shard, &change);
            noted.map_err(|disorder| self.damaged(place, disorder))?;
            self.ended = change == Change::End;
            self.keep(frame.shard, &change);
        }
        self.group = frames.first().map(|frame| frame.group.saturating_add(1));
        Ok(())
    }

    fn keep(&mut self, shard: ShardId, change: &Change<'_>) {
        let entries = self.entries.entry(shard).or_default();
        match *change {
            Change::Entry { index, data } | Change::Moved { index, data } => {
                entries.insert(index, Bytes::copy_from_slice(data));
            }
            Change::Truncate { end } => drop(entries.split_off(&end)),
            Change::Purge { upto, .. } => *entries = entries.split_off(&upto.saturating_add(1)),
            Change::Vote(_) | Change::Committed(_) | Change::Range { .. } | Change::End => {}
        }
    }

    /// Judges what stands behind the complete groups of a segment.
    fn judge_tail(&mut self, place: Place, bytes: &[u8], salt: u32) -> Result<(), WalError> {
        let rest = &bytes[place.offset as usize..];
        let Some(expected) = self.group else {
            return Err(self.damaged(place, "the first group of the oldest segment is damaged"));
        };
        let mut torn = false;
        for at in (0..rest.len()).step_by(ALIGN) {
            match frame::group_at(&rest[at..], salt) {
                None => {}
                Some(group) if group == expected => torn = true,
                Some(group) => return Err(self.lost(place, expected, group, at as u64)),
            }
        }
        if torn && let Some(earlier) = self.torn.replace(place) {
            return Err(self.damaged(earlier, TORN_TWICE));
        }
        if self.end.sequence == place.sequence {
            self.dirty = rest.iter().any(|byte| *byte != 0);
        }
        self.tail = place;
        Ok(())
    }

    /// Group `expected` should stand at `place`, and `group` was found `after` bytes later instead.
    fn lost(&self, place: Place, expected: u64, group: u64, after: u64) -> WalError {
        if after == 0 && place.offset == HEADER_BYTES && self.tail.sequence != place.sequence {
            let what = format!("group {expected} is lost: the next segment begins with {group}");
            return self.damaged(self.tail, what);
        }
        let at = place.offset + after;
        let what = format!("group {expected} is damaged: group {group} follows at byte {at}");
        self.damaged(place, what)
    }

    /// Every entry that the log says it holds.
    pub(super) fn take_entries(&mut self) -> Result<BTreeMap<ShardId, VecDeque<Bytes>>, WalError> {
        let mut complete = BTreeMap::new();
        for (shard, written) in self.ledger.shards() {
            let found = self.entries.remove(&shard).unwrap_or_default();
            if let Some(missing) = first_missing(&written.entries, &found) {
                let what = format!("no segment holds entry {missing} of shard {shard}");
                return Err(self.damaged(Place { offset: 0, ..self.end }, what));
            }
            complete.insert(shard, found.into_values().collect());
        }
        Ok(complete)
    }

    fn damaged(&self, place: Place, what: impl ToString) -> WalError {
        WalError::Damaged {
            file: segment::path(self.dir, place.sequence),
            offset: place.offset,
            what: what.to_string(),
        }
    }
}

fn first_missing(range: &Range<u64>, found: &BTreeMap<u64, Bytes>) -> Option<u64> {
    let mut expected = range.clone();
    for index in found.keys() {
        match expected.next() {
            Some(next) if next == *index => {}
            other => return other,
        }
    }
    expected.next()
}
