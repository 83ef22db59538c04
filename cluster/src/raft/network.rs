//! openraft's network over the node's transport: one peer's replica of one shard, as its leader or
//! candidate sees it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::Stream;
use openraft::OptionalSend;
use openraft::base::{BoxFuture, BoxStream};
use openraft::errors::{RPCError, ReplicationClosed, StreamingError, Timeout, Unreachable};
use openraft::network::{RPCOption, RPCTypes, RaftNetworkFactory, RaftNetworkV2};
use openraft::raft::{
    AppendEntriesRequest, AppendEntriesResponse, SnapshotResponse, StreamAppendResult,
    TransferLeaderRequest, TransferLeaderResponse, VoteRequest, VoteResponse,
};

use super::snapshot::{
    CHUNK_BYTES, CHUNK_TIMEOUT, ChunkHead, Finish, INSTALL_TIMEOUT, SnapshotData,
};
use super::types::{Snapshot, TypeConfig, Vote};
use super::{kind, pipeline, snapshot, wire};
use crate::config::NodeId;
use crate::placement::ShardId;
use crate::random;
use crate::storage::records::RecordsView;
use crate::transport::{CallError, Request, Transport};

/// How long an append may take to be answered. openraft suggests one heartbeat interval, but a
/// follower answers only after its fsync, and a slow disk must not turn into a storm of repeats.
pub(super) const APPEND_TIMEOUT: Duration = Duration::from_secs(2);

/// Makes the clients of one shard.
pub(crate) struct Network {
    shard: ShardId,
    transport: Arc<dyn Transport>,
}

impl Network {
    pub(crate) fn new(shard: ShardId, transport: Arc<dyn Transport>) -> Self {
        Self { shard, transport }
    }
}

impl RaftNetworkFactory<TypeConfig> for Network {
    type Network = PeerReplica;

    async fn new_client(&mut self, target: u64, (): &()) -> PeerReplica {
        PeerReplica { shard: self.shard, peer: NodeId(target), transport: self.transport.clone() }
    }
}

/// A peer's replica of a shard.
#[derive(Clone)]
pub(crate) struct PeerReplica {
    shard: ShardId,
    peer: NodeId,
    transport: Arc<dyn Transport>,
}

impl PeerReplica {
    /// Hands a request to the transport at once; the future only waits for the reply.
    pub(super) fn call(
        &self,
        kind: u8,
        body: Bytes,
        timeout: Duration,
    ) -> impl Future<Output = Result<Bytes, RPCError<TypeConfig>>> + Send + use<> {
        let request = Request { kind, shard: self.shard, body };
        let reply = self.transport.call(self.peer, request, timeout);
        let (peer, action) = (self.peer, rpc_type(kind));
        async move {
            reply.await.map_err(|error| match error {
                CallError::TimedOut => {
                    RPCError::Timeout(Timeout { action, id: 0, target: peer.0, timeout })
                }
                error => RPCError::Unreachable(Unreachable::from_string(error.to_string())),
            })
        }
    }

    async fn send_view(
        &self,
        vote: &Vote,
        snapshot: Snapshot<SnapshotData>,
    ) -> Result<SnapshotResponse<TypeConfig>, RPCError<TypeConfig>> {
        let Snapshot::<SnapshotData> { meta, snapshot } = snapshot;
        let SnapshotData::View(view) = snapshot else {
            return Err(unreadable("a received snapshot is installed, never sent on"));
        };
        let transfer = random::draw();
        let chunks = self.send_chunks(transfer, &view).await?;
        let shard_meta = view.meta().unwrap_or_default();
        let body = Finish::encode(transfer, chunks, vote, &meta, shard_meta);
        let reply = self.call(kind::SNAPSHOT_FINISH, body, INSTALL_TIMEOUT).await?;
        let vote = wire::decode_vote(&reply).map_err(unreadable)?;
        Ok(SnapshotResponse::new(vote))
    }

    /// Sends every record of the view, one chunk after the other; returns how many chunks there
    /// were.
    async fn send_chunks(
        &self,
        transfer: u64,
        view: &RecordsView,
    ) -> Result<u64, RPCError<TypeConfig>> {
        let (mut cursor, mut sequence) = (None, 0);
        loop {
            let chunk = view.chunk(cursor.as_ref(), CHUNK_BYTES).map_err(unreadable)?;
            #[cfg(feature = "testing")]
            let chunk = super::planted::thinned(chunk);
            let body = snapshot::encode_chunk(ChunkHead { transfer, sequence }, &chunk);
            self.call(kind::SNAPSHOT_CHUNK, body, CHUNK_TIMEOUT).await?;
            sequence += 1;
            cursor = chunk.next;
            if cursor.is_none() {
                return Ok(sequence);
            }
        }
    }
}

impl RaftNetworkV2<TypeConfig> for PeerReplica {
    type SnapshotData = SnapshotData;

    async fn append_entries(
        &mut self,
        request: AppendEntriesRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<AppendEntriesResponse<TypeConfig>, RPCError<TypeConfig>> {
        let timeout = option.hard_ttl().max(APPEND_TIMEOUT);
        let reply = self.call(kind::APPEND, wire::encode_append(&request), timeout).await?;
        wire::decode_append_reply(&reply).map_err(unreadable)
    }

    fn stream_append<'s, S>(
        &'s mut self,
        input: S,
        _option: RPCOption,
    ) -> BoxFuture<
        's,
        Result<
            BoxStream<'s, Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>>,
            RPCError<TypeConfig>,
        >,
    >
    where
        S: Stream<Item = AppendEntriesRequest<TypeConfig>> + OptionalSend + Unpin + 'static,
    {
        let replies: BoxStream<'s, _> = Box::pin(pipeline::replies(self.clone(), input));
        Box::pin(async move { Ok(replies) })
    }

    async fn vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = wire::encode_vote_request(&request);
        let reply = self.call(kind::VOTE, body, option.hard_ttl()).await?;
        wire::decode_vote_reply(&reply).map_err(unreadable)
    }

    async fn pre_vote(
        &mut self,
        request: VoteRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<VoteResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = wire::encode_vote_request(&request);
        let reply = self.call(kind::PRE_VOTE, body, option.hard_ttl()).await?;
        wire::decode_vote_reply(&reply).map_err(unreadable)
    }

    async fn full_snapshot(
        &mut self,
        vote: Vote,
        snapshot: Snapshot<SnapshotData>,
        cancel: impl Future<Output = ReplicationClosed> + OptionalSend + 'static,
        _option: RPCOption,
    ) -> Result<SnapshotResponse<TypeConfig>, StreamingError<TypeConfig>> {
        tokio::select! {
            biased;
            sent = self.send_view(&vote, snapshot) => sent.map_err(Into::into),
            closed = cancel => Err(StreamingError::Closed(closed)),
        }
    }

    async fn transfer_leader(
        &mut self,
        request: TransferLeaderRequest<TypeConfig>,
        option: RPCOption,
    ) -> Result<TransferLeaderResponse<TypeConfig>, RPCError<TypeConfig>> {
        let body = wire::encode_transfer(&request);
        let timeout = option.hard_ttl().max(APPEND_TIMEOUT);
        let reply = self.call(kind::TRANSFER, body, timeout).await?;
        wire::decode_transfer_reply(&reply).map_err(unreadable)
    }
}

fn rpc_type(kind: u8) -> RPCTypes {
    match kind {
        kind::VOTE | kind::PRE_VOTE => RPCTypes::Vote,
        kind::SNAPSHOT_CHUNK | kind::SNAPSHOT_FINISH => RPCTypes::InstallSnapshot,
        kind::TRANSFER => RPCTypes::TransferLeader,
        _ => RPCTypes::AppendEntries,
    }
}

pub(super) fn unreadable(error: impl std::fmt::Display) -> RPCError<TypeConfig> {
    RPCError::Unreachable(Unreachable::from_string(format!("unreadable: {error}")))
}
