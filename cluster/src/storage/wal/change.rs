//! What frames say: the changes of a shard's log, and their layout as payloads.

use super::super::frame::{self, Frame};
use crate::placement::ShardId;

/// A change of one shard's log, or a mark of the whole log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Change<'a> {
    /// An entry at the end of the shard's log.
    Entry { index: u64, data: &'a [u8] },
    /// An entry that the shard's log has already, written again so that an old segment can go.
    Moved { index: u64, data: &'a [u8] },
    /// The shard's log ends before this index.
    Truncate { end: u64 },
    /// The shard's log begins after `upto`; `mark` is the caller's word on that entry.
    Purge { upto: u64, mark: &'a [u8] },
    /// The caller's vote.
    Vote(&'a [u8]),
    /// The caller's committed position.
    Committed(&'a [u8]),
    /// The indexes that the shard's log holds as a segment begins. An entry that is promised here
    /// and found nowhere is lost: that is how missing segments are noticed.
    Range { start: u64, end: u64 },
    /// The log was closed in order. Belongs to no shard.
    End,
}

const ENTRY: u8 = 1;
const MOVED: u8 = 2;
const TRUNCATE: u8 = 3;
const PURGE: u8 = 4;
const VOTE: u8 = 5;
const COMMITTED: u8 = 6;
const RANGE: u8 = 7;
const END: u8 = 8;

/// Bytes of the mark of an orderly end.
pub(super) const END_BYTES: u64 = frame::frame_bytes(0) as u64;

impl<'a> Change<'a> {
    /// Appends the change to `out` as a frame that is not sealed yet.
    pub(super) fn push(&self, out: &mut Vec<u8>, shard: ShardId) {
        match *self {
            Self::Entry { index, data } => {
                frame::push(out, shard, ENTRY, &[&index.to_le_bytes(), data]);
            }
            Self::Moved { index, data } => {
                frame::push(out, shard, MOVED, &[&index.to_le_bytes(), data]);
            }
            Self::Truncate { end } => frame::push(out, shard, TRUNCATE, &[&end.to_le_bytes()]),
            Self::Purge { upto, mark } => {
                frame::push(out, shard, PURGE, &[&upto.to_le_bytes(), mark]);
            }
            Self::Vote(vote) => frame::push(out, shard, VOTE, &[vote]),
            Self::Committed(committed) => frame::push(out, shard, COMMITTED, &[committed]),
            Self::Range { start, end } => {
                frame::push(out, shard, RANGE, &[&start.to_le_bytes(), &end.to_le_bytes()]);
            }
            Self::End => frame::push(out, shard, END, &[]),
        }
    }

    /// The change that a frame carries; `None` when no version of this program writes such a frame.
    pub(super) fn of(frame: &Frame<'a>) -> Option<Self> {
        let payload = frame.payload;
        let numbered =
            || payload.split_first_chunk().map(|(n, rest)| (u64::from_le_bytes(*n), rest));
        Some(match frame.kind {
            ENTRY => numbered().map(|(index, data)| Self::Entry { index, data })?,
            MOVED => numbered().map(|(index, data)| Self::Moved { index, data })?,
            TRUNCATE => Self::Truncate { end: u64::from_le_bytes(payload.try_into().ok()?) },
            PURGE => numbered().map(|(upto, mark)| Self::Purge { upto, mark })?,
            VOTE => Self::Vote(payload),
            COMMITTED => Self::Committed(payload),
            RANGE => {
                let (start, end) = numbered()?;
                Self::Range { start, end: u64::from_le_bytes(end.try_into().ok()?) }
            }
            END if payload.is_empty() => Self::End,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_change_comes_back_from_its_frame() {
        let changes = [
            Change::Entry { index: u64::MAX, data: b"entry" },
            Change::Moved { index: 0, data: b"" },
            Change::Truncate { end: 5 },
            Change::Purge { upto: 7, mark: b"mark" },
            Change::Vote(b"vote"),
            Change::Committed(b""),
            Change::Range { start: 1, end: 9 },
            Change::End,
        ];
        let mut bytes = Vec::new();
        for change in &changes {
            change.push(&mut bytes, ShardId(3));
        }
        let decoded: Vec<Change> =
            frame::walk(&bytes).map(|frame| Change::of(&frame).unwrap()).collect();
        assert_eq!(decoded, changes);
    }

    #[test]
    fn malformed_payloads_are_no_change() {
        let malformed: [(u8, &[u8]); 8] = [
            (0, b""),
            (ENTRY, b"1234567"),
            (MOVED, b""),
            (TRUNCATE, b"123456789"),
            (PURGE, b"1"),
            (RANGE, b"123456781234567"),
            (END, b"x"),
            (END + 1, b""),
        ];
        for (kind, payload) in malformed {
            let frame = Frame { group: 1, last: true, shard: ShardId(0), kind, payload };
            assert_eq!(Change::of(&frame), None, "kind {kind}");
        }
    }
}
