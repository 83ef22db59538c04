//! The one bincode configuration, and the versions of every layout made with it.
//!
//! Little endian, variable-length integers, a limit on what a value may claim to hold. A version
//! byte stands before every value, so that a node can tell a layout it does not know from damage. A
//! layout is what serde makes of the named type, in the order of its fields: any change of such a
//! type is a new version. No such type holds itself, and none has elements that take no bytes, so
//! that the depth and the length of what hostile bytes decode to are bounded by their own number.
//!
//! | constant | of | kept or sent |
//! | --- | --- | --- |
//! | [`IDENTITY`] | `storage::identity::Identity` | file `node` of a data directory |
//! | [`RECORDS_HEAD`] | `storage::records::Head` | record store, one per shard |
//! | [`TALLY`] | `storage::records::Tally` | record store, one per shard and group |
//! | [`RECORD`] | `protocol::Record` | record store; records in snapshots |
//! | [`SHARD_META`] | `raft::state_machine::ShardMeta` | record store, within the head; snapshots |
//! | [`ENTRY`] | `raft::wire::EntryHead`, then the batch | log |
//! | [`BATCH`] | `protocol::Batch` | log entries |
//! | [`VOTE`] | `raft::wire::WireVote` | log; answer to a snapshot |
//! | [`LOG_ID`] | `raft::wire::WireLogId` | log: committed and purged positions |
//! | [`APPEND`], [`APPEND_REPLY`] | `raft::wire` | between replicas |
//! | [`VOTE_REQUEST`], [`VOTE_REPLY`] | `raft::wire` | between replicas |
//! | [`TRANSFER`], [`TRANSFER_REPLY`] | `raft::wire` | between replicas |
//! | [`SNAPSHOT_CHUNK`] | `raft::snapshot::ChunkHead`, then records | between replicas |
//! | [`SNAPSHOT_RECORDS`] | `storage::records::Chunk` | between replicas, within a chunk |
//! | [`SNAPSHOT_FINISH`] | `raft::snapshot::Finish` | between replicas |
//! | [`FORWARD`], [`ANSWER`] | `router` | between nodes |
//! | [`FORWARD_READ`], [`READ_ANSWER`] | `router` | between nodes |
//! | [`FORWARD_LIST`], [`LIST_ANSWER`] | `router::list` | between nodes |
//! | [`CONFIRMED`] | `router::applied` | between nodes |
//! | [`HAND_OVER`], [`HANDED_OVER`] | `router::leading` | between nodes |
//! | [`FORM`] | `storage::identity::Formation` | between nodes |
//! | [`FORM_STATUS`] | `formation::Status` | between nodes |
//!
//! Three layouts are made by hand, because their readers search, cut and check them byte by byte;
//! each is a table in its own module: the log's frames (`storage::frame`, `storage::wal`), the
//! frames of a connection (`transport::frame`) and its handshake (`transport::handshake`). The keys
//! of the record store are in `storage::records::keys`.

use bincode::config::{Configuration, Limit, LittleEndian, Varint};
use bincode::error::DecodeError;
use bytes::{Buf, Bytes};
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// The largest encoded value. The largest there is: a record with as many revisions as it may keep
/// (16), each with a body of 1 MiB and its headers.
pub(crate) const BYTES_MAX: usize = 24 << 20;

/// What a value may claim to hold while it is read, in bytes. bincode counts an integer with its
/// full width, up to eight times the bytes it was encoded in; values come near [`BYTES_MAX`] only
/// by strings of bytes, so twice is more than any value that was encoded can claim. It is also the
/// most that hostile bytes can make a reader allocate at once.
const CLAIM_MAX: usize = 2 * BYTES_MAX;

const CONFIG: Configuration<LittleEndian, Varint, Limit<CLAIM_MAX>> =
    bincode::config::standard().with_limit::<CLAIM_MAX>();

pub(crate) const IDENTITY: u8 = 1;
pub(crate) const RECORDS_HEAD: u8 = 1;
pub(crate) const TALLY: u8 = 1;
pub(crate) const RECORD: u8 = 3;
pub(crate) const SHARD_META: u8 = 1;
pub(crate) const ENTRY: u8 = 1;
pub(crate) const BATCH: u8 = 3;
pub(crate) const VOTE: u8 = 1;
pub(crate) const LOG_ID: u8 = 1;
pub(crate) const APPEND: u8 = 1;
pub(crate) const APPEND_REPLY: u8 = 1;
pub(crate) const VOTE_REQUEST: u8 = 1;
pub(crate) const VOTE_REPLY: u8 = 1;
pub(crate) const TRANSFER: u8 = 1;
pub(crate) const TRANSFER_REPLY: u8 = 1;
pub(crate) const SNAPSHOT_CHUNK: u8 = 1;
pub(crate) const SNAPSHOT_RECORDS: u8 = 1;
pub(crate) const SNAPSHOT_FINISH: u8 = 1;
pub(crate) const FORWARD: u8 = 3;
pub(crate) const ANSWER: u8 = 5;
pub(crate) const FORWARD_READ: u8 = 1;
pub(crate) const READ_ANSWER: u8 = 4;
pub(crate) const FORWARD_LIST: u8 = 1;
pub(crate) const LIST_ANSWER: u8 = 4;
pub(crate) const CONFIRMED: u8 = 2;
pub(crate) const HAND_OVER: u8 = 1;
pub(crate) const HANDED_OVER: u8 = 1;
pub(crate) const FORM: u8 = 1;
pub(crate) const FORM_STATUS: u8 = 1;

/// Why bytes are not the value that was expected. Nothing of a value that does not decode is used.
#[derive(Debug, Error)]
pub(crate) enum CodecError {
    /// The version byte is another: a layout of another release.
    #[error("layout version {found} where {expected} is expected")]
    Version { expected: u8, found: u8 },
    /// The bytes end before the value does.
    #[error("value is cut off")]
    Truncated,
    /// The value ends before the bytes do.
    #[error("bytes follow the value")]
    Trailing,
    /// More bytes than any value has, or a value that claims to hold more.
    #[error("value is larger than any that is encoded")]
    TooLarge,
    /// The bytes are no value of the type.
    #[error("value is malformed: {0}")]
    Malformed(#[source] DecodeError),
    /// The parts decode and do not make a valid whole; says of what.
    #[error("{0} is not valid")]
    Invalid(&'static str),
}

impl From<DecodeError> for CodecError {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::UnexpectedEnd { .. } => Self::Truncated,
            DecodeError::LimitExceeded => Self::TooLarge,
            other => Self::Malformed(other),
        }
    }
}

/// The version byte and the value.
///
/// # Panics
/// As [`encode_into`].
pub(crate) fn encode<T: Serialize>(version: u8, value: &T) -> Vec<u8> {
    let mut bytes = Vec::new();
    encode_into(&mut bytes, version, value);
    bytes
}

/// Appends the version byte and the value to `bytes`.
///
/// # Panics
/// When the value takes more than [`BYTES_MAX`] bytes: whoever gathers values bounds them far
/// below, and what is kept must be readable again.
pub(crate) fn encode_into<T: Serialize>(bytes: &mut Vec<u8>, version: u8, value: &T) {
    let start = bytes.len();
    bytes.push(version);
    bincode::serde::encode_into_std_write(value, bytes, CONFIG)
        .expect("a vector takes every write, and our types serialize without a condition");
    let len = bytes.len() - start;
    assert!(len <= BYTES_MAX, "value of {len} bytes would not be read again");
}

/// The value that is all of `bytes`.
pub(crate) fn decode<T: DeserializeOwned>(version: u8, bytes: &[u8]) -> Result<T, CodecError> {
    let (value, used) = decode_front(version, bytes)?;
    if used < bytes.len() {
        return Err(CodecError::Trailing);
    }
    Ok(value)
}

/// Takes the value that `bytes` begin with off their front; on an error `bytes` stay as they are.
pub(crate) fn decode_prefix<T: DeserializeOwned>(
    version: u8,
    bytes: &mut Bytes,
) -> Result<T, CodecError> {
    let (value, used) = decode_front(version, bytes)?;
    bytes.advance(used);
    Ok(value)
}

fn decode_front<T: DeserializeOwned>(expected: u8, bytes: &[u8]) -> Result<(T, usize), CodecError> {
    let (&found, rest) = bytes.split_first().ok_or(CodecError::Truncated)?;
    if found != expected {
        return Err(CodecError::Version { expected, found });
    }
    let (value, used) = bincode::serde::decode_from_slice(rest, CONFIG)?;
    if used >= BYTES_MAX {
        return Err(CodecError::TooLarge);
    }
    Ok((value, used + 1))
}

#[cfg(test)]
mod tests;
