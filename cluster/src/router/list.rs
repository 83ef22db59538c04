//! Lists of records that wait for an operator, gathered from the leaders of all shards.

use std::time::Instant;

use futures_util::future::try_join_all;
use protocol::{RecordName, Timestamp};
use serde::{Deserialize, Serialize};

use super::{Router, patience_ends, retry};
use crate::codec;
use crate::error::SubmitError;
use crate::placement::ShardId;
use crate::raft::{self, Unsettled};
use crate::task;
use crate::transport::Reply;

/// A list of one shard, for its leader.
pub(crate) const LIST: u8 = raft::kind::NEXT + 4;

/// Most records of one list: what a person looks through, and what a shard reads in a moment.
pub(crate) const LIST_MAX: usize = 100;

/// A list on its way to another node.
#[derive(Serialize, Deserialize)]
pub(super) struct ForwardList {
    pub(super) after: Option<(Timestamp, RecordName)>,
    pub(super) limit: u32,
    pub(super) patience_ms: u64,
}

pub(super) type ListAnswer = Result<Vec<Unsettled>, SubmitError>;

impl Router {
    /// The first `limit` indeterminate records behind `after`, of all shards, the longest so first;
    /// at most 100. As the leaders have applied them: one that is being settled may still show.
    pub(crate) async fn unsettled(
        &self,
        after: Option<(Timestamp, RecordName)>,
        limit: usize,
        deadline: Instant,
    ) -> ListAnswer {
        let limit = limit.min(LIST_MAX);
        let shards = (0..self.shards.len()).map(|shard| ShardId(shard as u16));
        let lists = shards.map(|id| {
            let after = &after;
            retry(deadline, move |deadline| self.try_list(id, after.clone(), limit, deadline))
        });
        Ok(merged(try_join_all(lists).await?, limit))
    }

    async fn try_list(
        &self,
        id: ShardId,
        after: Option<(Timestamp, RecordName)>,
        limit: usize,
        deadline: Instant,
    ) -> ListAnswer {
        let leader = self.leader_to_ask(id)?;
        if leader == self.node {
            let shard = self.shard(id).ok_or(SubmitError::NoLeader)?;
            let listed = shard.replica().unsettled(after, limit).await;
            return listed.map_err(|_| SubmitError::Stopping);
        }
        self.asking(leader, id).list(after, limit, deadline).await
    }

    /// Serves a list that another node forwarded.
    pub(crate) fn serve_list(&self, id: ShardId, body: &[u8], reply: Reply) {
        let decoded = codec::decode::<ForwardList>(codec::FORWARD_LIST, body);
        let (Some(shard), Ok(forward)) = (self.shard(id).cloned(), decoded) else {
            tracing::warn!(shard = id.0, "forwarded list is unreadable");
            return reply.refuse();
        };
        task::spawn(async move {
            let limit = (forward.limit as usize).min(LIST_MAX);
            let listed = shard.replica().unsettled(forward.after, limit);
            let deadline = patience_ends(forward.patience_ms);
            let listed: ListAnswer = match tokio::time::timeout_at(deadline.into(), listed).await {
                Ok(listed) => listed.map_err(|_| SubmitError::Stopping),
                Err(_) => Err(SubmitError::TimedOut),
            };
            reply.send(codec::encode(codec::LIST_ANSWER, &listed).into());
        });
    }
}

/// The first `limit` of the lists of all shards, the longest indeterminate first.
pub(crate) fn merged(lists: Vec<Vec<Unsettled>>, limit: usize) -> Vec<Unsettled> {
    let mut all: Vec<_> = lists.into_iter().flatten().collect();
    all.sort_unstable_by(|a, b| (a.since, &a.name).cmp(&(b.since, &b.name)));
    all.truncate(limit);
    all
}
