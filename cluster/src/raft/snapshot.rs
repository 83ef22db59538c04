//! Streamed snapshots of one shard: sent in chunks, installed beside the old records, swapped in at
//! once.

use std::time::{Duration, Instant};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::record_store::{self, ApplyError};
use super::types::{SnapshotMeta, Vote};
use super::wire::{WireLogId, WireStoredMembership, WireVote};
use crate::clock;
use crate::codec::{self, CodecError};
use crate::storage::records::{Chunk, Installer, RecordsView, ShardRecords};

/// Bytes of records that one chunk carries; a record that is larger travels alone.
pub(super) const CHUNK_BYTES: usize = 1 << 20;

/// How long a chunk or the installation of the whole may take to be answered.
pub(super) const CHUNK_TIMEOUT: Duration = Duration::from_secs(10);
pub(super) const INSTALL_TIMEOUT: Duration = Duration::from_secs(60);

/// After this long without a chunk a half received snapshot is given up when another begins.
const IDLE_MAX: Duration = Duration::from_secs(30);

/// What openraft passes around as a snapshot.
pub(crate) enum SnapshotData {
    /// A view of this node's own records, to be sent.
    View(RecordsView),
    /// Records received from the leader, to be installed.
    Received(Received),
}

impl SnapshotData {
    /// The snapshot beside the records that it is to replace. A view of other records is copied
    /// there first.
    pub(super) fn into_received(self, records: &ShardRecords) -> Result<Received, ApplyError> {
        let view = match self {
            Self::Received(received) => return Ok(received),
            Self::View(view) => view,
        };
        let mut installer = records.begin_install()?;
        let mut cursor = None;
        loop {
            let chunk = view.chunk(cursor.as_ref(), CHUNK_BYTES)?;
            installer.add(&chunk, record_store::derived)?;
            cursor = chunk.next;
            if cursor.is_none() {
                let meta = Bytes::copy_from_slice(view.meta().unwrap_or_default());
                return Ok(Received { installer, meta });
            }
        }
    }
}

/// A snapshot received whole.
pub(crate) struct Received {
    installer: Installer,
    meta: Bytes,
}

impl Received {
    /// Puts the received records in the place of the shard's own, durably and all at once.
    pub(super) fn install(self) -> Result<(), ApplyError> {
        Ok(self.installer.finish(&self.meta)?)
    }
}

/// First bytes of a chunk message; the chunk follows.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct ChunkHead {
    /// Tells one transmission from the next.
    pub(super) transfer: u64,
    /// 0 for the first chunk, which begins the transmission.
    pub(super) sequence: u64,
}

pub(super) fn encode_chunk(head: ChunkHead, chunk: &Chunk) -> Bytes {
    let mut bytes = Vec::with_capacity(CHUNK_BYTES + 64);
    codec::encode_into(&mut bytes, codec::SNAPSHOT_CHUNK, &head);
    chunk.encode_into(&mut bytes);
    bytes.into()
}

/// Ends a transmission.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Finish {
    transfer: u64,
    chunks: u64,
    vote: WireVote,
    last_log_id: Option<WireLogId>,
    membership: WireStoredMembership,
    /// The shard's meta bytes as the sender keeps them.
    shard_meta: Bytes,
}

impl Finish {
    pub(super) fn encode(
        transfer: u64,
        chunks: u64,
        vote: &Vote,
        meta: &SnapshotMeta,
        shard_meta: &[u8],
    ) -> Bytes {
        let finish = Self {
            transfer,
            chunks,
            vote: vote.into(),
            last_log_id: meta.last_log_id.map(Into::into),
            membership: (&meta.last_membership).into(),
            shard_meta: Bytes::copy_from_slice(shard_meta),
        };
        codec::encode(codec::SNAPSHOT_FINISH, &finish).into()
    }
}

/// The receiving side of one shard: at most one transmission at a time.
#[derive(Default)]
pub(super) struct Receiving {
    current: Option<Transmission>,
}

struct Transmission {
    from: u64,
    transfer: u64,
    next: u64,
    installer: Installer,
    touched: Instant,
}

/// Why a chunk or the end of a transmission was refused.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReceiveError {
    #[error("another snapshot is being received")]
    Busy,
    #[error("chunk does not continue the transmission")]
    OutOfOrder,
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl Receiving {
    /// Takes a chunk. The first one of a transmission begins it, in the place of an older one of
    /// the same sender.
    pub(super) fn chunk(
        &mut self,
        from: u64,
        records: &ShardRecords,
        mut body: Bytes,
    ) -> Result<(), ReceiveError> {
        let head: ChunkHead = codec::decode_prefix(codec::SNAPSHOT_CHUNK, &mut body)?;
        if head.sequence == 0 {
            self.begin(from, head.transfer, records)?;
        }
        let transmission = self.current.as_mut().ok_or(ReceiveError::OutOfOrder)?;
        if (transmission.from, transmission.transfer) != (from, head.transfer)
            || transmission.next != head.sequence
        {
            return Err(ReceiveError::OutOfOrder);
        }
        let chunk = Chunk::decode(&body).map_err(ApplyError::from)?;
        transmission.installer.add(&chunk, record_store::derived).map_err(ApplyError::from)?;
        transmission.next += 1;
        transmission.touched = clock::now();
        Ok(())
    }

    fn begin(
        &mut self,
        from: u64,
        transfer: u64,
        records: &ShardRecords,
    ) -> Result<(), ReceiveError> {
        if let Some(current) = &self.current
            && current.from != from
            && clock::now().saturating_duration_since(current.touched) < IDLE_MAX
        {
            return Err(ReceiveError::Busy);
        }
        if let Some(current) = self.current.take() {
            current.installer.abort();
        }
        let installer = records.begin_install().map_err(ApplyError::from)?;
        let touched = clock::now();
        self.current = Some(Transmission { from, transfer, next: 0, installer, touched });
        Ok(())
    }

    /// Ends the transmission: what was received, with the vote and position that it was sent with.
    pub(super) fn finish(
        &mut self,
        from: u64,
        body: &[u8],
    ) -> Result<(Vote, SnapshotMeta, Received), ReceiveError> {
        let finish: Finish = codec::decode(codec::SNAPSHOT_FINISH, body)?;
        let matches = self.current.as_ref().is_some_and(|current| {
            (current.from, current.transfer, current.next) == (from, finish.transfer, finish.chunks)
        });
        let transmission = self.current.take_if(|_| matches).ok_or(ReceiveError::OutOfOrder)?;
        let meta = SnapshotMeta {
            last_log_id: finish.last_log_id.map(Into::into),
            last_membership: finish.membership.try_into()?,
        };
        let received = Received { installer: transmission.installer, meta: finish.shard_meta };
        Ok((finish.vote.into(), meta, received))
    }
}
