//! Giving a shard's leadership to another node, between two log entries.

use std::time::Duration;

use serde::{Deserialize, Serialize};
use thiserror::Error;
use tokio::sync::oneshot;
use tokio::time::timeout;

use crate::config::NodeId;
use crate::raft::Replica;

/// How long the next leader may take to have the whole log. Nothing is added to it meanwhile, so
/// this is a network round trip and a sync, or the node is far behind and not fit to lead.
const CATCH_UP_MAX: Duration = Duration::from_millis(500);

/// How long the next leader may take to be elected. Afterwards the shard has no leader at all, and
/// the nodes find one as if the old had died.
const ELECTED_MAX: Duration = Duration::from_secs(1);

/// How long a hand-over may take in all, with an entry that is under way before it.
pub(super) const HAND_OVER_MAX: Duration = Duration::from_millis(2000);

/// Why a leadership did not move to the node that was named.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum NotMoved {
    /// There is no such shard.
    #[error("the cluster has no such shard")]
    NoShard,
    /// The node that was asked does not lead the shard, or nobody does.
    #[error("the shard's leader is another node or is not known; ask again")]
    NotLeader,
    /// The named node is no voter of the shard.
    #[error("the named node has no replica of the shard")]
    NoReplica,
    /// Another hand-over of the shard is under way.
    #[error("the shard's leadership is being moved already")]
    UnderWay,
    /// The named node is behind the log, or cannot be reached.
    #[error(
        "the named node does not have the shard's whole log: it is behind or cannot be reached"
    )]
    Behind,
    /// The named node was asked, and did not become the leader in time.
    #[error("the named node did not take the leadership over in time; see who leads now")]
    NotElected,
}

/// Asks the actor of a shard to let another node lead.
pub(super) struct HandOver {
    pub(super) to: NodeId,
    /// Nobody may wait any more.
    pub(super) done: oneshot::Sender<Result<(), NotMoved>>,
}

/// Moves the leadership while nothing is under way.
pub(super) async fn hand_over(replica: &Replica, to: NodeId) -> Result<(), NotMoved> {
    if !replica.is_leader() {
        return Err(NotMoved::NotLeader);
    }
    if replica.leader() == Some(to) {
        return Ok(());
    }
    if !replica.is_voter(to) {
        return Err(NotMoved::NoReplica);
    }
    // Once asked, this leader proposes nothing any more, whether the other is elected or not.
    match timeout(CATCH_UP_MAX, replica.has_whole_log(to)).await {
        Ok(true) => {}
        Ok(false) | Err(_) => return Err(NotMoved::Behind),
    }
    replica.transfer_leader(to).await;
    match timeout(ELECTED_MAX, replica.led_by(to)).await {
        Ok(true) => Ok(()),
        Ok(false) | Err(_) => Err(NotMoved::NotElected),
    }
}
