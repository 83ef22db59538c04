//! The keys of the record store; numbers are big endian, so that keys sort by them.
//!
//! | key | value |
//! | --- | --- |
//! | `h`, shard (2) | the shard's [`Head`](super::Head) |
//! | `r`, shard (2), generation (4), name | a record, as its owner encodes it |
//! | `d`, shard (2), generation (4), time in ms (8), name | nothing: the index of what is due |
//! | `u`, shard (2), generation (4), time in ms (8), name | nothing: the index of what is unsettled |
//! | `t`, shard (2), generation (4), group | a [`Tally`](super::Tally) |
//!
//! A *generation* of a shard's data is all that was written between two installed snapshots. The
//! head says which is in force; keys of all others are waste, and swept.

use std::ops::Range;

use crate::placement::ShardId;

/// The longest name: a key of fjall has at most 65,535 bytes.
pub(super) const NAME_BYTES_MAX: usize = u16::MAX as usize - INDEX_NAME;

/// Where a record key's name begins.
const RECORD_NAME: usize = 1 + 2 + 4;
/// Where an index key's name begins.
const INDEX_NAME: usize = RECORD_NAME + 8;

/// What a key with a generation is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Record,
    Index(Index),
    Tally,
}

/// An index of records by a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Index {
    /// When the leader should look after the record.
    Due,
    /// Since when an operator should.
    Unsettled,
}

impl Kind {
    pub(super) const ALL: [Self; 4] =
        [Self::Index(Index::Due), Self::Index(Index::Unsettled), Self::Tally, Self::Record];

    const fn tag(self) -> u8 {
        match self {
            Self::Record => b'r',
            Self::Index(Index::Due) => b'd',
            Self::Index(Index::Unsettled) => b'u',
            Self::Tally => b't',
        }
    }

    /// The keys of this kind of all shards.
    pub(super) fn all(self) -> Range<Vec<u8>> {
        vec![self.tag()]..vec![self.tag() + 1]
    }

    /// The keys of this kind of one generation of a shard.
    pub(super) fn range(self, shard: ShardId, generation: u32) -> Range<Vec<u8>> {
        let start = self.start(shard, generation, 0);
        let mut end = start.clone();
        // The tag is below 255, so a byte that is not the largest is always found.
        while let Some(last) = end.pop() {
            if last < u8::MAX {
                end.push(last + 1);
                break;
            }
        }
        start..end
    }

    fn start(self, shard: ShardId, generation: u32, room: usize) -> Vec<u8> {
        let mut key = Vec::with_capacity(RECORD_NAME + room);
        key.push(self.tag());
        key.extend_from_slice(&shard.0.to_be_bytes());
        key.extend_from_slice(&generation.to_be_bytes());
        key
    }
}

/// The keys of all heads.
pub(super) fn heads() -> Range<Vec<u8>> {
    b"h".to_vec()..b"i".to_vec()
}

/// The key of a shard's head.
pub(super) fn head(shard: ShardId) -> [u8; 3] {
    let [high, low] = shard.0.to_be_bytes();
    [b'h', high, low]
}

/// The shard of a head's key.
pub(super) fn head_shard(key: &[u8]) -> Option<ShardId> {
    let shard = key.get(1..)?.try_into().ok()?;
    Some(ShardId(u16::from_be_bytes(shard)))
}

/// The key of a record.
///
/// # Panics
/// When the name has more than [`NAME_BYTES_MAX`] bytes; names are far shorter.
pub(super) fn record(shard: ShardId, generation: u32, name: &[u8]) -> Vec<u8> {
    assert!(name.len() <= NAME_BYTES_MAX, "a name has at most {NAME_BYTES_MAX} bytes");
    let mut key = Kind::Record.start(shard, generation, name.len());
    key.extend_from_slice(name);
    key
}

/// The name in a record's key.
pub(super) fn record_name(key: &[u8]) -> &[u8] {
    key.get(RECORD_NAME..).unwrap_or_default()
}

/// The key of a group's tally.
pub(super) fn tally(shard: ShardId, generation: u32, group: &[u8]) -> Vec<u8> {
    let mut key = Kind::Tally.start(shard, generation, group.len());
    key.extend_from_slice(group);
    key
}

/// The group in a tally's key.
pub(super) fn tally_group(key: &[u8]) -> &[u8] {
    record_name(key)
}

/// The key of a record in an index.
///
/// # Panics
/// As [`record`].
pub(super) fn index(
    index: Index,
    shard: ShardId,
    generation: u32,
    time_ms: u64,
    name: &[u8],
) -> Vec<u8> {
    assert!(name.len() <= NAME_BYTES_MAX, "a name has at most {NAME_BYTES_MAX} bytes");
    let mut key = Kind::Index(index).start(shard, generation, 8 + name.len());
    key.extend_from_slice(&time_ms.to_be_bytes());
    key.extend_from_slice(name);
    key
}

/// The time and the name in an index key; `None` when it is none.
pub(super) fn index_parts(key: &[u8]) -> Option<(u64, &[u8])> {
    let (time, name) = key.get(RECORD_NAME..)?.split_first_chunk()?;
    Some((u64::from_be_bytes(*time), name))
}

/// The shard and the generation of any key but a head's; `None` when it is none.
pub(super) fn place(key: &[u8]) -> Option<(ShardId, u32)> {
    let (shard, rest) = key.get(1..)?.split_first_chunk()?;
    let generation = rest.first_chunk()?;
    Some((ShardId(u16::from_be_bytes(*shard)), u32::from_be_bytes(*generation)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_give_back_what_they_are_made_of() {
        let key = record(ShardId(0x0102), 0x03040506, b"name");
        assert_eq!(key, b"r\x01\x02\x03\x04\x05\x06name");
        assert_eq!(
            (place(&key), record_name(&key)),
            (Some((ShardId(0x0102), 0x03040506)), &b"name"[..])
        );
        let key = index(Index::Due, ShardId(1), 2, 0x0708, b"");
        assert_eq!(key, b"d\0\x01\0\0\0\x02\0\0\0\0\0\0\x07\x08");
        assert_eq!(
            (place(&key), index_parts(&key)),
            (Some((ShardId(1), 2)), Some((0x0708, &b""[..])))
        );
        assert_eq!(head_shard(&head(ShardId(259))), Some(ShardId(259)));
        assert_eq!((index_parts(b"d"), place(b"r"), head_shard(b"h")), (None, None, None));
    }

    #[test]
    fn a_range_holds_its_generation_and_nothing_else() {
        for (shard, generation) in [(0, 0), (7, 255), (255, u32::MAX), (u16::MAX, u32::MAX)] {
            let range = Kind::Record.range(ShardId(shard), generation);
            assert!(range.contains(&record(ShardId(shard), generation, b"")));
            assert!(range.contains(&record(ShardId(shard), generation, &[255; 40])));
            if let Some(before) = generation.checked_sub(1) {
                assert!(!range.contains(&record(ShardId(shard), before, &[255; 40])));
            }
            if let Some(after) = generation.checked_add(1) {
                assert!(!range.contains(&record(ShardId(shard), after, b"")));
            }
            assert!(!range.contains(&index(Index::Due, ShardId(shard), generation, 0, b"")));
            assert!(Kind::Record.all().contains(&range.start));
        }
    }
}
