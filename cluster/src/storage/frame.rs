//! The unit of the log on disk: a checked header, then bytes that mean nothing here.
//!
//! Layout, little endian, 24 bytes and the payload, zero-padded to a multiple of 8:
//!
//! | bytes | meaning |
//! | --- | --- |
//! | 0..4 | CRC-32 of bytes 4..24, salted |
//! | 4..8 | CRC-32 of payload and padding, salted |
//! | 8..12 | length of the payload |
//! | 12..20 | number of the group that the frame was written with |
//! | 20..22 | shard |
//! | 22 | kind; its highest bit is set in the last frame of a group |
//! | 23 | version of this layout |
//!
//! Frames are made in two steps. [`push`] needs to know nothing about the file; [`seal`] adds what
//! only the writer knows: group, salt and checksums. The header has a checksum of its own, so that
//! a search for frames in torn bytes costs one small check per place, whatever lengths the bytes
//! pretend.

use crc32fast::Hasher;
use thiserror::Error;

use crate::placement::ShardId;

/// Bytes before the payload.
pub(super) const HEADER_BYTES: usize = 24;
/// Frames begin at multiples of this, so that a search may step by it.
pub(super) const ALIGN: usize = 8;

const VERSION: u8 = 1;
const LAST: u8 = 0x80;

/// A frame as it was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame<'a> {
    /// The group it was written with: one group, one sync.
    pub(super) group: u64,
    /// Whether it ends its group.
    pub(super) last: bool,
    pub(super) shard: ShardId,
    /// What the payload is; below 128.
    pub(super) kind: u8,
    pub(super) payload: &'a [u8],
}

/// Why bytes are not a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum FrameError {
    /// The bytes end before the frame does.
    #[error("frame is cut off")]
    Short,
    /// The header's checksum does not match: nothing was ever written here, or it is damaged.
    #[error("no frame header")]
    Header,
    /// The header is intact and of a version that this program does not know.
    #[error("frame version {0} is not known")]
    Version(u8),
    /// The header is intact and the payload is not.
    #[error("frame checksum does not match")]
    Payload,
}

/// Bytes that a frame takes for a payload of `payload` bytes.
pub(super) const fn frame_bytes(payload: usize) -> usize {
    (HEADER_BYTES + payload).next_multiple_of(ALIGN)
}

/// Appends a frame without its group and checksums. The payload is the concatenation of `parts`.
///
/// # Panics
/// When `kind` is 128 or more, or the payload 4 GiB or more.
pub(super) fn push(out: &mut Vec<u8>, shard: ShardId, kind: u8, parts: &[&[u8]]) {
    assert!(kind < LAST, "the highest bit of a kind marks the end of a group");
    let payload: usize = parts.iter().map(|part| part.len()).sum();
    let length = u32::try_from(payload).expect("a payload is shorter than 4 GiB");
    let end = out.len() + frame_bytes(payload);
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&length.to_le_bytes());
    out.extend_from_slice(&[0; 8]);
    out.extend_from_slice(&shard.0.to_le_bytes());
    out.extend_from_slice(&[kind, VERSION]);
    for part in parts {
        out.extend_from_slice(part);
    }
    out.resize(end, 0);
}

/// Completes frames that [`push`] made, as the whole of one group.
pub(super) fn seal(frames: &mut [u8], group: u64, salt: u32) {
    let mut rest = frames;
    while !rest.is_empty() {
        let (frame, next) = rest.split_at_mut(frame_bytes(length(rest)));
        let (header, payload) = frame.split_at_mut(HEADER_BYTES);
        header[12..20].copy_from_slice(&group.to_le_bytes());
        if next.is_empty() {
            header[22] |= LAST;
        }
        header[4..8].copy_from_slice(&checksum(payload, salt).to_le_bytes());
        let check = checksum(&header[4..], salt);
        header[..4].copy_from_slice(&check.to_le_bytes());
        rest = next;
    }
}

/// Reads the frame at the start of `bytes`, and says how many bytes it takes.
pub(super) fn decode(bytes: &[u8], salt: u32) -> Result<(Frame<'_>, usize), FrameError> {
    group_at(bytes, salt).ok_or(FrameError::Header)?;
    if bytes[23] != VERSION {
        return Err(FrameError::Version(bytes[23]));
    }
    let end = frame_bytes(length(bytes));
    let padded = bytes.get(HEADER_BYTES..end).ok_or(FrameError::Short)?;
    if checksum(padded, salt) != word(bytes, 4) {
        return Err(FrameError::Payload);
    }
    Ok((parse(bytes), end))
}

/// The group of the frame whose intact header stands at the start of `bytes`; its payload may be
/// damaged.
pub(super) fn group_at(bytes: &[u8], salt: u32) -> Option<u64> {
    let header = bytes.get(..HEADER_BYTES)?;
    // Untouched space is zeros, and no version is: most of a search ends here.
    let intact = header[23] != 0 && checksum(&header[4..], salt) == word(header, 0);
    intact.then(|| group(header))
}

/// The frames that [`push`] made, in order, without a check: the bytes never left memory.
pub(super) fn walk(frames: &[u8]) -> impl Iterator<Item = Frame<'_>> {
    let mut rest = frames;
    std::iter::from_fn(move || {
        if rest.is_empty() {
            return None;
        }
        let frame = parse(rest);
        rest = &rest[frame_bytes(frame.payload.len())..];
        Some(frame)
    })
}

fn parse(bytes: &[u8]) -> Frame<'_> {
    Frame {
        group: group(bytes),
        last: bytes[22] & LAST != 0,
        shard: ShardId(u16::from_le_bytes([bytes[20], bytes[21]])),
        kind: bytes[22] & !LAST,
        payload: &bytes[HEADER_BYTES..][..length(bytes)],
    }
}

fn checksum(bytes: &[u8], salt: u32) -> u32 {
    // The salt is the register's start value: for one and the same content, different salts never
    // agree.
    let mut hasher = Hasher::new_with_initial(salt);
    hasher.update(bytes);
    hasher.finalize()
}

fn length(frame: &[u8]) -> usize {
    word(frame, 8) as usize
}

fn group(frame: &[u8]) -> u64 {
    u64::from_le_bytes(*frame[12..].first_chunk().expect("eight bytes of a header"))
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes[at..].first_chunk().expect("four bytes of a header"))
}

#[cfg(test)]
mod tests;
