//! A shard as of one moment, and its records in chunks.
//!
//! A shard may hold gigabytes, so it is never in memory as a whole: each chunk is read when it is
//! to be sent. The due index is not sent; whoever installs the records makes it anew from them.

use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::keys::{self, Kind};
use super::shard::Shard;
use super::store::Snapshot;
use super::{Head, RecordsError};
use crate::codec;

/// Checksum at the end of an encoded chunk.
const CHECKSUM_BYTES: usize = 4;

/// A shard's records as of the moment when the view was taken.
#[derive(Clone)]
pub(crate) struct RecordsView {
    shard: Arc<Shard>,
    snapshot: Snapshot,
    generation: u32,
    meta: Option<Bytes>,
}

/// Where a view's next chunk begins: after this name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Cursor(Bytes);

/// Some of a shard's records, in the order of their names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Chunk {
    /// Names and records.
    pub(crate) entries: Vec<(Bytes, Bytes)>,
    /// Where the next chunk begins; `None` in the last one.
    pub(crate) next: Option<Cursor>,
}

/// A chunk as it is sent; a checksum (CRC-32, little endian) of all of it follows.
#[derive(Serialize, Deserialize)]
struct WireChunk {
    entries: Vec<(Bytes, Bytes)>,
    last: bool,
}

impl RecordsView {
    pub(super) fn new(shard: &Arc<Shard>) -> Result<Self, RecordsError> {
        let snapshot = shard.store.snapshot();
        let head = Head::read(&snapshot, shard)?;
        let (generation, meta) = head.map_or((0, None), |head| (head.generation, Some(head.meta)));
        Ok(Self { shard: shard.clone(), snapshot, generation, meta })
    }

    /// The owner's bytes as of the view's moment.
    pub(crate) fn meta(&self) -> Option<&[u8]> {
        self.meta.as_deref()
    }

    /// The records from `from` on, or from the first: as many as `bytes_max` bytes of names and
    /// records hold, and one where the first alone holds more.
    pub(crate) fn chunk(
        &self,
        from: Option<&Cursor>,
        bytes_max: usize,
    ) -> Result<Chunk, RecordsError> {
        let range = Kind::Record.range(self.shard.id, self.generation);
        let start = match from {
            None => Bound::Included(range.start),
            Some(Cursor(name)) => {
                Bound::Excluded(keys::record(self.shard.id, self.generation, name))
            }
        };
        let range = (start, Bound::Excluded(range.end));
        let (mut entries, mut bytes) = (Vec::<(Bytes, Bytes)>::new(), 0);
        for entry in self.snapshot.range(range) {
            let (key, record) = entry?;
            let name = keys::record_name(&key);
            bytes += name.len() + record.len();
            if bytes > bytes_max && !entries.is_empty() {
                let next = entries.last().map(|(name, _)| Cursor(name.clone()));
                return Ok(Chunk { entries, next });
            }
            entries.push((Bytes::copy_from_slice(name), Bytes::copy_from_slice(&record)));
        }
        Ok(Chunk { entries, next: None })
    }
}

impl Chunk {
    /// Appends the chunk to `bytes`.
    pub(crate) fn encode_into(&self, bytes: &mut Vec<u8>) {
        let start = bytes.len();
        let wire = WireChunk { entries: self.entries.clone(), last: self.next.is_none() };
        codec::encode_into(bytes, codec::SNAPSHOT_RECORDS, &wire);
        let checksum = crc32fast::hash(&bytes[start..]);
        bytes.extend_from_slice(&checksum.to_le_bytes());
    }

    /// The chunk that `bytes` are, all of them.
    ///
    /// # Errors
    /// `Chunk`, when they are none, or damaged.
    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RecordsError> {
        let (body, checksum) = bytes
            .split_last_chunk::<CHECKSUM_BYTES>()
            .ok_or_else(|| RecordsError::Chunk("it is cut off".to_owned()))?;
        if crc32fast::hash(body).to_le_bytes() != *checksum {
            return Err(RecordsError::Chunk("checksum does not match".to_owned()));
        }
        let wire: WireChunk = codec::decode(codec::SNAPSHOT_RECORDS, body)
            .map_err(|error| RecordsError::Chunk(error.to_string()))?;
        let next = match (wire.last, wire.entries.last()) {
            (true, _) => None,
            (false, Some((name, _))) => Some(Cursor(name.clone())),
            (false, None) => return Err(RecordsError::Chunk("it is empty".to_owned())),
        };
        Ok(Self { entries: wire.entries, next })
    }
}
