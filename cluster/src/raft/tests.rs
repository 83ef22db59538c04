//! openraft's own suite over the stores, and the layouts of what is kept and sent.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;
use openraft::alias::VoteOf;
use openraft::raft::{AppendEntriesRequest, AppendEntriesResponse, VoteRequest, VoteResponse};
use openraft::testing::log::{StoreBuilder, Suite};
use openraft::{EntryPayload, StorageError};
use tempfile::TempDir;

use super::log_store::LogStore;
use super::state_machine::StateMachine;
use super::types::{EncodedBatch, Entry, LeaderId, LogId, Membership, TypeConfig};
use super::wire;
use crate::placement::ShardId;
use crate::storage::disk::OsDisk;
use crate::storage::records::Records;
use crate::storage::wal::{Wal, WalOptions};

/// Stores in a temporary folder; the log's threads end with it.
struct Stores {
    _folder: TempDir,
    wal: Wal,
}

impl Drop for Stores {
    fn drop(&mut self) {
        self.wal.close();
    }
}

struct Builder;

impl StoreBuilder<TypeConfig, LogStore, StateMachine, Stores> for Builder {
    async fn build(&self) -> Result<(Stores, LogStore, StateMachine), StorageError<TypeConfig>> {
        let folder = tempfile::tempdir().unwrap();
        let wal =
            Wal::open(Arc::new(OsDisk), WalOptions::new(folder.path().join("wal"), true)).unwrap();
        let records = Records::open(&folder.path().join("records")).unwrap();
        let log = LogStore::new(wal.shard(ShardId(0)));
        let machine = StateMachine::open(records.shard(ShardId(0))).unwrap();
        Ok((Stores { _folder: folder, wal }, log, machine))
    }
}

#[tokio::test]
async fn stores_pass_openrafts_own_suite() {
    Suite::test_all(Builder).await.unwrap();
}

fn log_id(term: u64, index: u64) -> LogId {
    LogId::new(LeaderId { term, node_id: 2 }, index)
}

fn entries() -> Vec<Entry> {
    let membership =
        Membership::new(vec![BTreeSet::from([1, 2, 3])], BTreeSet::from([1, 2, 3])).unwrap();
    let batch = |bytes: &'static [u8]| EntryPayload::Normal(EncodedBatch(Bytes::from(bytes)));
    [
        EntryPayload::Blank,
        EntryPayload::Membership(membership),
        batch(b""),
        batch(b"a batch"),
        batch(&[7; 70_000]),
    ]
    .into_iter()
    .enumerate()
    .map(|(index, payload)| Entry { log_id: log_id(3, index as u64), payload })
    .collect()
}

#[test]
fn entries_survive_the_log() {
    for entry in entries() {
        let bytes = wire::encode_entry(&entry);
        assert_eq!(wire::decode_entry(bytes.clone()).unwrap(), entry);
        for cut in 0..bytes.len().min(200) {
            assert!(wire::decode_entry(bytes.slice(..cut)).is_err(), "cut at {cut}");
        }
        let longer = Bytes::from([&bytes[..], b"x"].concat());
        assert!(wire::decode_entry(longer).is_err(), "trailing bytes");
    }
}

#[test]
fn appends_survive_the_wire() {
    let vote = VoteOf::<TypeConfig>::new_committed(4, 2);
    for entries in [vec![], entries()] {
        let request = AppendEntriesRequest::<TypeConfig> {
            vote,
            prev_log_id: Some(log_id(2, 8)),
            leader_commit: Some(log_id(3, 1)),
            entries,
        };
        let decoded = wire::decode_append(wire::encode_append(&request)).unwrap();
        assert_eq!(decoded.entries, request.entries);
        assert_eq!(
            (decoded.vote, decoded.prev_log_id, decoded.leader_commit),
            (request.vote, request.prev_log_id, request.leader_commit)
        );
    }
    for reply in [
        AppendEntriesResponse::<TypeConfig>::Success,
        AppendEntriesResponse::PartialSuccess(Some(log_id(1, 2))),
        AppendEntriesResponse::PartialSuccess(None),
        AppendEntriesResponse::Conflict,
        AppendEntriesResponse::HigherVote(vote),
    ] {
        let bytes = wire::encode_append_reply(&reply);
        assert_eq!(wire::decode_append_reply(&bytes).unwrap(), reply);
    }
}

#[test]
fn votes_survive_the_wire() {
    let vote = VoteOf::<TypeConfig>::new(7, 3);
    assert_eq!(wire::decode_vote(&wire::encode_vote(&vote)).unwrap(), vote);
    let mut request = VoteRequest::<TypeConfig>::new(vote, Some(log_id(6, 9)));
    request.leadership_transfer = true;
    let decoded = wire::decode_vote_request(&wire::encode_vote_request(&request)).unwrap();
    assert_eq!(decoded, request);
    let reply = VoteResponse::<TypeConfig>::new(vote, None, true);
    assert_eq!(wire::decode_vote_reply(&wire::encode_vote_reply(&reply)).unwrap(), reply);
}

#[test]
fn hostile_bytes_are_errors() {
    for bytes in [&b""[..], b"\0", b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", &[1; 64]] {
        let copy = Bytes::copy_from_slice(bytes);
        drop(wire::decode_entry(copy.clone()));
        drop(wire::decode_append(copy));
        drop(wire::decode_vote(bytes));
        drop(wire::decode_vote_request(bytes));
        drop(wire::decode_transfer(bytes));
    }
}
