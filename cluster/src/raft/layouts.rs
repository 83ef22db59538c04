//! The layouts of what Raft keeps and sends, for tests and fuzzing.

use bytes::Bytes;

use super::snapshot::{ChunkHead, Finish};
use super::state_machine::ShardMeta;
use super::wire::{self, WireLogId, WireVote};
use crate::codec;
use crate::layouts::Layout;

pub(crate) fn layouts() -> Vec<Layout> {
    let append = Layout::of::<wire::AppendHead, { codec::APPEND }>("append");
    let append_reply =
        Layout::of::<wire::WireAppendReply, { codec::APPEND_REPLY }>("answer to an append");
    let vote_request =
        Layout::of::<wire::WireVoteRequest, { codec::VOTE_REQUEST }>("request for a vote");
    let vote_reply = Layout::of::<wire::WireVoteReply, { codec::VOTE_REPLY }>("answer to it");
    let transfer = Layout::of::<wire::WireTransfer, { codec::TRANSFER }>("transfer");
    let transfer_reply =
        Layout::of::<wire::WireTransferReply, { codec::TRANSFER_REPLY }>("answer to a transfer");
    let entry = Layout::of::<wire::EntryHead, { codec::ENTRY }>("entry");
    vec![
        entry.rewritten(|bytes| {
            let entry = wire::decode_entry(Bytes::copy_from_slice(bytes)).ok()?;
            Some(wire::encode_entry(&entry).into())
        }),
        append.rewritten(|bytes| {
            let request = wire::decode_append(Bytes::copy_from_slice(bytes)).ok()?;
            Some(wire::encode_append(&request).into())
        }),
        append_reply.rewritten(|bytes| {
            Some(wire::encode_append_reply(&wire::decode_append_reply(bytes).ok()?).into())
        }),
        vote_request.rewritten(|bytes| {
            Some(wire::encode_vote_request(&wire::decode_vote_request(bytes).ok()?).into())
        }),
        vote_reply.rewritten(|bytes| {
            Some(wire::encode_vote_reply(&wire::decode_vote_reply(bytes).ok()?).into())
        }),
        transfer.rewritten(|bytes| {
            Some(wire::encode_transfer(&wire::decode_transfer(bytes).ok()?).into())
        }),
        transfer_reply.rewritten(|bytes| {
            Some(wire::encode_transfer_reply(&wire::decode_transfer_reply(bytes).ok()?).into())
        }),
        Layout::of::<WireVote, { codec::VOTE }>("vote"),
        Layout::of::<WireLogId, { codec::LOG_ID }>("position in the log"),
        Layout::of::<ShardMeta, { codec::SHARD_META }>("state of a shard"),
        Layout::of::<ChunkHead, { codec::SNAPSHOT_CHUNK }>("chunk of a snapshot"),
        Layout::of::<Finish, { codec::SNAPSHOT_FINISH }>("end of a snapshot"),
    ]
}
