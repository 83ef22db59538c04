//! A segment: one file of the log. Its name, its header, and the salt of its frames.

use std::path::{Path, PathBuf};

use crc32fast::hash;
use thiserror::Error;

use super::super::disk::DiskFile;
use super::super::frame::ALIGN;
use super::failure::Failure;

/// Bytes before the first frame.
pub(super) const HEADER_BYTES: u64 = 32;

const MAGIC: [u8; 8] = *b"oncewal\n";
const VERSION: u32 = 1;
const _: () = assert!((HEADER_BYTES as usize).is_multiple_of(ALIGN), "frames begin aligned");

/// A segment that is open for writing.
pub(super) struct Segment {
    /// Its place in the sequence of segments, counted from 1.
    pub(super) sequence: u64,
    /// Bytes that can be written without asking the disk for space.
    pub(super) capacity: u64,
    pub(super) path: PathBuf,
    pub(super) file: Box<dyn DiskFile>,
}

impl Segment {
    /// Reserves room for one huge group. The sync of that group makes the new length durable.
    pub(super) fn enlarge(&mut self, bytes: u64) -> Result<(), Failure> {
        let allocated = self.file.allocate(bytes);
        allocated.map_err(|error| Failure::new("allocate", &self.path, &error))?;
        self.capacity = bytes;
        Ok(())
    }
}

/// The first bytes of a segment:
///
/// | bytes, little endian | meaning |
/// | --- | --- |
/// | 0..8 | magic |
/// | 8..12 | version of the layout |
/// | 12..16 | CRC-32 of the rest |
/// | 16..24 | sequence |
/// | 24..32 | number of the log |
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) sequence: u64,
    /// Drawn at random when the log was created. A segment of another log is refused, and nobody
    /// who chooses payloads can foresee the checksum of a frame and plant one inside an entry.
    pub(super) log: u64,
}

/// Why bytes are not the header of a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(super) enum HeaderError {
    #[error("not a segment of a log")]
    Magic,
    #[error("segment version {0} is not known")]
    Version(u32),
    #[error("header checksum does not match")]
    Checksum,
}

impl Header {
    pub(super) fn encode(&self) -> [u8; HEADER_BYTES as usize] {
        let mut bytes = [0; HEADER_BYTES as usize];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes[16..24].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[24..].copy_from_slice(&self.log.to_le_bytes());
        let check = hash(&bytes[16..]);
        bytes[12..16].copy_from_slice(&check.to_le_bytes());
        bytes
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, HeaderError> {
        let header: &[u8; HEADER_BYTES as usize] = bytes.first_chunk().ok_or(HeaderError::Magic)?;
        if header[..8] != MAGIC {
            return Err(HeaderError::Magic);
        }
        let word = |at: usize| {
            u32::from_le_bytes(*header[at..].first_chunk().expect("four bytes of a header"))
        };
        let number = |at: usize| {
            u64::from_le_bytes(*header[at..].first_chunk().expect("eight bytes of a header"))
        };
        match word(8) {
            VERSION if word(12) == hash(&header[16..]) => {
                Ok(Self { sequence: number(16), log: number(24) })
            }
            VERSION => Err(HeaderError::Checksum),
            version => Err(HeaderError::Version(version)),
        }
    }

    /// The salt of the segment's frames. It differs for any two segments of a log that are less
    /// than 2^32 apart, so a frame that an earlier life of a recycled file left behind never
    /// counts.
    pub(super) fn salt(&self) -> u32 {
        hash(&self.log.to_le_bytes()) ^ (self.sequence as u32)
    }
}

/// Where the segment with this sequence stands.
pub(super) fn path(dir: &Path, sequence: u64) -> PathBuf {
    dir.join(format!("{sequence:016x}.wal"))
}

/// The sequence in a segment's name; `None` for any other name.
pub(super) fn sequence_of(name: &str) -> Option<u64> {
    number_of(name, ".wal")
}

/// Where a spare file stands: space for a later segment, its content without meaning.
pub(super) fn spare_path(dir: &Path, number: u64) -> PathBuf {
    dir.join(format!("{number:016x}.spare"))
}

/// The number in a spare file's name; `None` for any other name.
pub(super) fn spare_of(name: &str) -> Option<u64> {
    number_of(name, ".spare")
}

fn number_of(name: &str, suffix: &str) -> Option<u64> {
    let digits = name.strip_suffix(suffix)?;
    let written_by_us = |b: u8| b.is_ascii_digit() || (b'a'..=b'f').contains(&b);
    if digits.len() != 16 || !digits.bytes().all(written_by_us) {
        return None;
    }
    u64::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_come_back_and_every_flipped_bit_is_noticed() {
        let header = Header { sequence: 0x1234, log: 0x5678_9abc };
        let bytes = header.encode();
        assert_eq!(Header::decode(&bytes), Ok(header));
        for bit in 0..bytes.len() * 8 {
            let mut flipped = bytes;
            flipped[bit / 8] ^= 1 << (bit % 8);
            assert!(Header::decode(&flipped).is_err(), "bit {bit}");
        }
        for cut in 0..bytes.len() {
            assert_eq!(Header::decode(&bytes[..cut]), Err(HeaderError::Magic));
        }
    }

    #[test]
    fn neighbours_have_different_salts() {
        let salt = |sequence| Header { sequence, log: 77 }.salt();
        let salts: std::collections::BTreeSet<u32> = (1..1000).map(salt).collect();
        assert_eq!(salts.len(), 999);
    }

    #[test]
    fn names_carry_their_number_and_others_are_ignored() {
        let dir = Path::new("dir");
        assert_eq!(path(dir, 0x1f), dir.join("000000000000001f.wal"));
        assert_eq!(sequence_of("000000000000001f.wal"), Some(0x1f));
        assert_eq!(spare_path(dir, 2), dir.join("0000000000000002.spare"));
        assert_eq!(spare_of("0000000000000002.spare"), Some(2));
        for name in ["1f.wal", "000000000000001F.wal", "000000000000001f.wal.bak", "lost+found"] {
            assert_eq!((sequence_of(name), spare_of(name)), (None, None), "{name}");
        }
    }
}
