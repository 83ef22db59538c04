//! Serves what peers ask of this node's replica of a shard.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, StreamExt, poll};
use openraft::EntryPayload;
use openraft::raft::AppendEntriesRequest;
use protocol::Timestamp;
use tokio::sync::mpsc;

use super::snapshot::{ReceiveError, Receiving, SnapshotData};
use super::types::{Snapshot, TypeConfig};
use super::{Raft, kind, wire};
use crate::clock::ClockGuard;
use crate::codec::{self, CodecError};
use crate::placement::ShardId;
use crate::storage::records::ShardRecords;
use crate::task;
use crate::transport::{Caller, Reply};

/// Appends of one connection that wait for Raft to take them. The sender has at most a window of
/// them under way.
const LANE_MAX: usize = 64;

/// The serving side of one replica.
pub(crate) struct Inbound {
    shard: ShardId,
    raft: Raft,
    records: ShardRecords,
    guard: Arc<ClockGuard>,
    lanes: Mutex<HashMap<u64, mpsc::Sender<Append>>>,
    receiving: Arc<tokio::sync::Mutex<Receiving>>,
}

struct Append {
    request: AppendEntriesRequest<TypeConfig>,
    reply: Reply,
}

/// Why a request was not served; the caller learns only that it was refused.
#[derive(Debug, thiserror::Error)]
enum ServeError {
    #[error(transparent)]
    Codec(#[from] CodecError),
    #[error("an entry is stamped {ahead_ms} ms ahead of this node's clock")]
    TooFarAhead { ahead_ms: u64 },
    #[error(transparent)]
    Receive(#[from] ReceiveError),
    #[error("raft: {0}")]
    Raft(String),
    #[error("unknown kind of request: {0}")]
    UnknownKind(u8),
}

impl Inbound {
    pub(super) fn new(
        shard: ShardId,
        raft: Raft,
        records: ShardRecords,
        guard: Arc<ClockGuard>,
    ) -> Self {
        Self { shard, raft, records, guard, lanes: Mutex::default(), receiving: Arc::default() }
    }

    /// Takes a request in the order of arrival; the answer comes later. Does not block.
    pub(crate) fn serve(self: &Arc<Self>, caller: Caller, kind: u8, body: Bytes, reply: Reply) {
        if kind == kind::STREAM_APPEND {
            self.queue_append(caller, body, reply);
            return;
        }
        let inbound = self.clone();
        task::spawn(async move {
            match inbound.answer(caller, kind, body).await {
                Ok(answer) => reply.send(answer),
                Err(error) => {
                    let (shard, node) = (inbound.shard.0, caller.node.0);
                    tracing::warn!(shard, node, kind, %error, "peer request refused");
                    reply.refuse();
                }
            }
        });
    }

    /// Forgets what was kept for a connection that is gone.
    pub(crate) fn closed(&self, caller: Caller) {
        self.lanes.lock().expect("no holder panics").remove(&caller.connection);
    }

    async fn answer(&self, caller: Caller, kind: u8, body: Bytes) -> Result<Bytes, ServeError> {
        match kind {
            kind::APPEND => {
                let request = self.decode_append(body)?;
                let reply = self.raft.append_entries(request).await.map_err(raft_error)?;
                Ok(wire::encode_append_reply(&reply))
            }
            kind::VOTE => {
                let request = wire::decode_vote_request(&body)?;
                let reply = self.raft.vote(request).await.map_err(raft_error)?;
                #[cfg(feature = "testing")]
                if reply.vote_granted {
                    self.promise(&reply.vote);
                }
                Ok(wire::encode_vote_reply(&reply))
            }
            kind::PRE_VOTE => {
                let request = wire::decode_vote_request(&body)?;
                let reply = self.raft.pre_vote(request).await.map_err(raft_error)?;
                Ok(wire::encode_vote_reply(&reply))
            }
            kind::TRANSFER => {
                let request = wire::decode_transfer(&body)?;
                let reply = self.raft.handle_transfer_leader(request).await.map_err(raft_error)?;
                Ok(wire::encode_transfer_reply(&reply))
            }
            kind::SNAPSHOT_CHUNK => {
                let mut receiving = self.receiving.lock().await;
                receiving.chunk(caller.node.0, &self.records, body)?;
                Ok(Bytes::new())
            }
            kind::SNAPSHOT_FINISH => self.install(caller, &body).await,
            other => Err(ServeError::UnknownKind(other)),
        }
    }

    /// Writes down what this replica told a peer, so that a simulation can ask for it later.
    #[cfg(feature = "testing")]
    fn promise(&self, vote: &super::types::Vote) {
        if let Some(machine) = crate::simulation::Machine::current() {
            machine.promise(self.shard, vote.leader_id.term);
        }
    }

    async fn install(&self, caller: Caller, body: &[u8]) -> Result<Bytes, ServeError> {
        let (vote, meta, received) = self.receiving.lock().await.finish(caller.node.0, body)?;
        let snapshot =
            Snapshot::<SnapshotData> { meta, snapshot: SnapshotData::Received(received) };
        let reply = self.raft.install_full_snapshot(vote, snapshot).await.map_err(raft_error)?;
        Ok(wire::encode_vote(&reply.vote))
    }

    fn queue_append(self: &Arc<Self>, caller: Caller, body: Bytes, reply: Reply) {
        let request = match self.decode_append(body) {
            Ok(request) => request,
            Err(error) => {
                tracing::warn!(node = caller.node.0, %error, "append refused");
                return reply.refuse();
            }
        };
        let mut lanes = self.lanes.lock().expect("no holder panics");
        let lane = lanes.entry(caller.connection).or_insert_with(|| {
            let (sender, receiver) = mpsc::channel(LANE_MAX);
            task::spawn(run_lane(self.raft.clone(), receiver));
            sender
        });
        if let Err(error) = lane.try_send(Append { request, reply }) {
            error.into_inner().reply.refuse();
        }
    }

    /// An append that this follower may take: nothing uncommitted in it is stamped far ahead of
    /// this node's own clock, so that one leader whose clock jumped cannot push the shard's time,
    /// which never goes back.
    fn decode_append(&self, body: Bytes) -> Result<AppendEntriesRequest<TypeConfig>, ServeError> {
        let request = wire::decode_append(body)?;
        let committed = request.leader_commit.map_or(0, |log_id| log_id.index);
        for entry in request.entries.iter().filter(|entry| entry.log_id.index > committed) {
            if let EntryPayload::Normal(batch) = &entry.payload {
                let at: Timestamp = codec::decode_prefix(codec::BATCH, &mut batch.0.clone())?;
                if let Some(ahead) = self.guard.too_far_ahead(at) {
                    return Err(ServeError::TooFarAhead { ahead_ms: ahead.get() });
                }
            }
        }
        Ok(request)
    }
}

/// Feeds the appends of one connection to Raft in the order of arrival, several at a time. Replies
/// leave in the same order, each after its entries are durable.
async fn run_lane(raft: Raft, mut appends: mpsc::Receiver<Append>) {
    let mut under_way = FuturesOrdered::new();
    loop {
        tokio::select! {
            biased;
            Some(()) = under_way.next(), if !under_way.is_empty() => {}
            append = appends.recv(), if under_way.len() < LANE_MAX => {
                let Some(append) = append else { return };
                let mut answer = answer_append(raft.clone(), append).boxed();
                // The first poll puts the append into Raft's queue, behind those that came before.
                if poll!(&mut answer).is_pending() {
                    under_way.push_back(answer);
                }
            }
        }
    }
}

async fn answer_append(raft: Raft, append: Append) {
    match raft.append_entries(append.request).await {
        Ok(reply) => append.reply.send(wire::encode_append_reply(&reply)),
        Err(error) => {
            tracing::warn!(%error, "append refused by raft");
            append.reply.refuse();
        }
    }
}

fn raft_error(error: impl std::fmt::Display) -> ServeError {
    ServeError::Raft(error.to_string())
}
