//! The layouts of what Raft keeps and sends, as mirrors of openraft's types.
//!
//! openraft's own serialization is left out on purpose: what is persisted must not change with a
//! library's version. Payloads are not copied when they are read: an entry's batch stays a slice of
//! the bytes it came in.

use std::collections::BTreeSet;

use bytes::Bytes;
use openraft::EntryPayload;
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, TransferLeaderError, TransferLeaderRequest,
    TransferLeaderResponse, VoteRequest, VoteResponse,
};
use serde::{Deserialize, Serialize};

use super::types::{
    EncodedBatch, Entry, LeaderId, LogId, Membership, StoredMembership, TypeConfig, Vote,
};
use crate::codec::{self, CodecError};

/// A log position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WireLogId {
    term: u64,
    node: u64,
    index: u64,
}

impl From<LogId> for WireLogId {
    fn from(id: LogId) -> Self {
        Self { term: id.leader_id.term, node: id.leader_id.node_id, index: id.index }
    }
}

impl From<WireLogId> for LogId {
    fn from(id: WireLogId) -> Self {
        Self::new(LeaderId { term: id.term, node_id: id.node }, id.index)
    }
}

/// A vote.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WireVote {
    term: u64,
    node: u64,
    committed: bool,
}

impl From<&Vote> for WireVote {
    fn from(vote: &Vote) -> Self {
        Self { term: vote.leader_id.term, node: vote.leader_id.node_id, committed: vote.committed }
    }
}

impl From<WireVote> for Vote {
    fn from(vote: WireVote) -> Self {
        let leader_id = LeaderId { term: vote.term, node_id: vote.node };
        Self { leader_id, committed: vote.committed }
    }
}

/// A membership configuration; joint while it has more than one set of voters.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WireMembership {
    voters: Vec<BTreeSet<u64>>,
    nodes: BTreeSet<u64>,
}

impl From<&Membership> for WireMembership {
    fn from(membership: &Membership) -> Self {
        Self {
            voters: membership.get_joint_config().clone(),
            nodes: membership.nodes().map(|(id, ())| *id).collect(),
        }
    }
}

impl TryFrom<WireMembership> for Membership {
    type Error = CodecError;

    fn try_from(wire: WireMembership) -> Result<Self, CodecError> {
        Self::new(wire.voters, wire.nodes).map_err(|_| CodecError::Invalid("membership"))
    }
}

/// A membership configuration with the log position that set it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct WireStoredMembership {
    log_id: Option<WireLogId>,
    membership: WireMembership,
}

impl From<&StoredMembership> for WireStoredMembership {
    fn from(stored: &StoredMembership) -> Self {
        Self { log_id: stored.log_id().map(Into::into), membership: stored.membership().into() }
    }
}

impl TryFrom<WireStoredMembership> for StoredMembership {
    type Error = CodecError;

    fn try_from(wire: WireStoredMembership) -> Result<Self, CodecError> {
        // openraft's empty default has no voters, which `Membership::new` refuses.
        if wire.membership.voters.is_empty() {
            return Ok(Self::default());
        }
        Ok(Self::new(wire.log_id.map(Into::into), wire.membership.try_into()?))
    }
}

#[derive(Serialize, Deserialize)]
enum WirePayload {
    Blank,
    /// The batch follows the head: this many bytes.
    Batch(u32),
    Membership(WireMembership),
}

#[derive(Serialize, Deserialize)]
pub(super) struct EntryHead {
    log_id: WireLogId,
    payload: WirePayload,
}

impl EntryHead {
    fn of(entry: &Entry) -> Self {
        let payload = match &entry.payload {
            EntryPayload::Blank => WirePayload::Blank,
            EntryPayload::Normal(batch) => WirePayload::Batch(batch.0.len() as u32),
            EntryPayload::Membership(membership) => WirePayload::Membership(membership.into()),
        };
        Self { log_id: entry.log_id.into(), payload }
    }

    /// Takes the entry's batch, where it has one, off the front of `rest`.
    fn into_entry(self, rest: &mut Bytes) -> Result<Entry, CodecError> {
        let payload = match self.payload {
            WirePayload::Blank => EntryPayload::Blank,
            WirePayload::Membership(membership) => EntryPayload::Membership(membership.try_into()?),
            WirePayload::Batch(len) => {
                let len = len as usize;
                if rest.len() < len {
                    return Err(CodecError::Truncated);
                }
                EntryPayload::Normal(EncodedBatch(rest.split_to(len)))
            }
        };
        Ok(Entry { log_id: self.log_id.into(), payload })
    }
}

fn batch_of(entry: &Entry) -> &[u8] {
    match &entry.payload {
        EntryPayload::Normal(batch) => &batch.0,
        EntryPayload::Blank | EntryPayload::Membership(_) => &[],
    }
}

/// A log entry as the log keeps it.
pub(super) fn encode_entry(entry: &Entry) -> Bytes {
    let batch = batch_of(entry);
    let mut bytes = Vec::with_capacity(batch.len() + 32);
    codec::encode_into(&mut bytes, codec::ENTRY, &EntryHead::of(entry));
    bytes.extend_from_slice(batch);
    bytes.into()
}

pub(super) fn decode_entry(mut bytes: Bytes) -> Result<Entry, CodecError> {
    let head: EntryHead = codec::decode_prefix(codec::ENTRY, &mut bytes)?;
    let entry = head.into_entry(&mut bytes)?;
    if bytes.is_empty() { Ok(entry) } else { Err(CodecError::Trailing) }
}

pub(super) fn encode_vote(vote: &Vote) -> Bytes {
    codec::encode(codec::VOTE, &WireVote::from(vote)).into()
}

pub(super) fn decode_vote(bytes: &[u8]) -> Result<Vote, CodecError> {
    codec::decode::<WireVote>(codec::VOTE, bytes).map(Into::into)
}

pub(super) fn encode_log_id(log_id: &LogId) -> Bytes {
    codec::encode(codec::LOG_ID, &WireLogId::from(*log_id)).into()
}

pub(super) fn decode_log_id(bytes: &[u8]) -> Result<LogId, CodecError> {
    codec::decode::<WireLogId>(codec::LOG_ID, bytes).map(Into::into)
}

#[derive(Serialize, Deserialize)]
pub(super) struct AppendHead {
    vote: WireVote,
    prev_log_id: Option<WireLogId>,
    leader_commit: Option<WireLogId>,
    entries: Vec<EntryHead>,
}

pub(super) fn encode_append(request: &AppendEntriesRequest<TypeConfig>) -> Bytes {
    let head = AppendHead {
        vote: (&request.vote).into(),
        prev_log_id: request.prev_log_id.map(Into::into),
        leader_commit: request.leader_commit.map(Into::into),
        entries: request.entries.iter().map(EntryHead::of).collect(),
    };
    let batches: usize = request.entries.iter().map(|entry| batch_of(entry).len()).sum();
    let mut bytes = Vec::with_capacity(batches + 64 + 32 * request.entries.len());
    codec::encode_into(&mut bytes, codec::APPEND, &head);
    for entry in &request.entries {
        bytes.extend_from_slice(batch_of(entry));
    }
    bytes.into()
}

pub(super) fn decode_append(
    mut bytes: Bytes,
) -> Result<AppendEntriesRequest<TypeConfig>, CodecError> {
    let head: AppendHead = codec::decode_prefix(codec::APPEND, &mut bytes)?;
    let entries = head
        .entries
        .into_iter()
        .map(|entry| entry.into_entry(&mut bytes))
        .collect::<Result<_, _>>()?;
    if !bytes.is_empty() {
        return Err(CodecError::Trailing);
    }
    Ok(AppendEntriesRequest {
        vote: head.vote.into(),
        prev_log_id: head.prev_log_id.map(Into::into),
        leader_commit: head.leader_commit.map(Into::into),
        entries,
    })
}

#[derive(Serialize, Deserialize)]
pub(super) enum WireAppendReply {
    Success,
    PartialSuccess(Option<WireLogId>),
    Conflict,
    HigherVote(WireVote),
}

pub(super) fn encode_append_reply(reply: &AppendEntriesResponse<TypeConfig>) -> Bytes {
    let wire = match reply {
        AppendEntriesResponse::Success => WireAppendReply::Success,
        AppendEntriesResponse::PartialSuccess(log_id) => {
            WireAppendReply::PartialSuccess(log_id.map(Into::into))
        }
        AppendEntriesResponse::Conflict => WireAppendReply::Conflict,
        AppendEntriesResponse::HigherVote(vote) => WireAppendReply::HigherVote(vote.into()),
    };
    codec::encode(codec::APPEND_REPLY, &wire).into()
}

pub(super) fn decode_append_reply(
    bytes: &[u8],
) -> Result<AppendEntriesResponse<TypeConfig>, CodecError> {
    Ok(match codec::decode(codec::APPEND_REPLY, bytes)? {
        WireAppendReply::Success => AppendEntriesResponse::Success,
        WireAppendReply::PartialSuccess(log_id) => {
            AppendEntriesResponse::PartialSuccess(log_id.map(Into::into))
        }
        WireAppendReply::Conflict => AppendEntriesResponse::Conflict,
        WireAppendReply::HigherVote(vote) => AppendEntriesResponse::HigherVote(vote.into()),
    })
}

#[derive(Serialize, Deserialize)]
pub(super) struct WireVoteRequest {
    vote: WireVote,
    last_log_id: Option<WireLogId>,
    leadership_transfer: bool,
}

pub(super) fn encode_vote_request(request: &VoteRequest<TypeConfig>) -> Bytes {
    let wire = WireVoteRequest {
        vote: (&request.vote).into(),
        last_log_id: request.last_log_id.map(Into::into),
        leadership_transfer: request.leadership_transfer,
    };
    codec::encode(codec::VOTE_REQUEST, &wire).into()
}

pub(super) fn decode_vote_request(bytes: &[u8]) -> Result<VoteRequest<TypeConfig>, CodecError> {
    let wire: WireVoteRequest = codec::decode(codec::VOTE_REQUEST, bytes)?;
    let mut request = VoteRequest::new(wire.vote.into(), wire.last_log_id.map(Into::into));
    request.leadership_transfer = wire.leadership_transfer;
    Ok(request)
}

#[derive(Serialize, Deserialize)]
pub(super) struct WireVoteReply {
    vote: WireVote,
    granted: bool,
    last_log_id: Option<WireLogId>,
}

pub(super) fn encode_vote_reply(reply: &VoteResponse<TypeConfig>) -> Bytes {
    let wire = WireVoteReply {
        vote: (&reply.vote).into(),
        granted: reply.vote_granted,
        last_log_id: reply.last_log_id.map(Into::into),
    };
    codec::encode(codec::VOTE_REPLY, &wire).into()
}

pub(super) fn decode_vote_reply(bytes: &[u8]) -> Result<VoteResponse<TypeConfig>, CodecError> {
    let wire: WireVoteReply = codec::decode(codec::VOTE_REPLY, bytes)?;
    let last_log_id = wire.last_log_id.map(Into::into);
    Ok(VoteResponse::new(Vote::from(wire.vote), last_log_id, wire.granted))
}

#[derive(Serialize, Deserialize)]
pub(super) struct WireTransfer {
    from_leader: WireVote,
    to: u64,
    last_log_id: Option<WireLogId>,
}

pub(super) fn encode_transfer(request: &TransferLeaderRequest<TypeConfig>) -> Bytes {
    let wire = WireTransfer {
        from_leader: request.from_leader().into(),
        to: *request.to_node_id(),
        last_log_id: request.last_log_id().map(|log_id| (*log_id).into()),
    };
    codec::encode(codec::TRANSFER, &wire).into()
}

pub(super) fn decode_transfer(
    bytes: &[u8],
) -> Result<TransferLeaderRequest<TypeConfig>, CodecError> {
    let wire: WireTransfer = codec::decode(codec::TRANSFER, bytes)?;
    let last_log_id = wire.last_log_id.map(Into::into);
    Ok(TransferLeaderRequest::new(wire.from_leader.into(), wire.to, last_log_id))
}

#[derive(Serialize, Deserialize)]
pub(super) enum WireTransferReply {
    Accepted,
    VoteChanged { expected: WireVote, actual: WireVote },
    LogNotFlushed { expected: Option<WireLogId>, actual: Option<WireLogId> },
}

pub(super) fn encode_transfer_reply(reply: &TransferLeaderResponse<TypeConfig>) -> Bytes {
    let wire = match reply {
        Ok(()) => WireTransferReply::Accepted,
        Err(TransferLeaderError::VoteChanged { expected, actual }) => {
            WireTransferReply::VoteChanged { expected: expected.into(), actual: actual.into() }
        }
        Err(TransferLeaderError::LogNotFlushed { expected, actual }) => {
            let (expected, actual) = (expected.map(Into::into), actual.map(Into::into));
            WireTransferReply::LogNotFlushed { expected, actual }
        }
    };
    codec::encode(codec::TRANSFER_REPLY, &wire).into()
}

pub(super) fn decode_transfer_reply(
    bytes: &[u8],
) -> Result<TransferLeaderResponse<TypeConfig>, CodecError> {
    Ok(match codec::decode(codec::TRANSFER_REPLY, bytes)? {
        WireTransferReply::Accepted => Ok(()),
        WireTransferReply::VoteChanged { expected, actual } => {
            let (expected, actual) = (expected.into(), actual.into());
            Err(TransferLeaderError::VoteChanged { expected, actual })
        }
        WireTransferReply::LogNotFlushed { expected, actual } => {
            let (expected, actual) = (expected.map(Into::into), actual.map(Into::into));
            Err(TransferLeaderError::LogNotFlushed { expected, actual })
        }
    })
}
