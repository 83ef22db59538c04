//! Who should lead which shard: which nodes may be given a leadership, and giving it to them.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use super::Router;
use super::applied::CONFIRM_INTERVAL;
use crate::clock;
use crate::codec;
use crate::config::NodeId;
use crate::placement::ShardId;
use crate::raft;
use crate::shard::{NotMoved, ShardHandle};
use crate::task;
use crate::transport::Reply;

/// Asks a shard's leader to let another node lead.
pub(crate) const HAND_OVER: u8 = raft::kind::NEXT + 6;

/// For how long a node's word holds that it is fit to lead: it is repeated several times within
/// this.
const FIT_FOR: Duration = Duration::from_millis(4 * CONFIRM_INTERVAL.as_millis() as u64);

/// What this node knows of who can lead shards.
#[derive(Default)]
pub(crate) struct Fitness {
    own: AtomicBool,
    /// When each other node said last that it is fit.
    peers: Mutex<BTreeMap<NodeId, Instant>>,
}

impl Fitness {
    /// Whether this node is.
    pub(super) fn own(&self) -> bool {
        self.own.load(Ordering::Relaxed)
    }

    /// Takes a peer's word. `asked` is when the question left.
    pub(crate) fn heard(&self, peer: NodeId, fit: bool, asked: Instant) {
        let mut peers = self.lock();
        if fit {
            peers.insert(peer, asked);
        } else {
            peers.remove(&peer);
        }
    }

    /// Those of `nodes` that said moments ago that they are fit.
    pub(crate) fn fit_of(&self, nodes: Vec<NodeId>) -> Vec<NodeId> {
        let (peers, now) = (self.lock(), clock::now());
        let is_fit = |node: &NodeId| {
            peers.get(node).is_some_and(|asked| now.saturating_duration_since(*asked) <= FIT_FOR)
        };
        nodes.into_iter().filter(is_fit).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Instant>> {
        self.peers.lock().expect("nothing panics while it holds the words")
    }
}

impl Router {
    /// Says whether this node can lead shards: others hear it with the next confirmation.
    pub(crate) fn set_fit(&self, fit: bool) {
        self.fitness.own.store(fit, Ordering::Relaxed);
    }

    /// Whether this node can lead shards.
    pub(crate) fn is_fit(&self) -> bool {
        self.fitness.own()
    }

    /// The other nodes that are connected and said moments ago that they can lead shards.
    pub(crate) fn fit_peers(&self) -> Vec<NodeId> {
        self.fitness.fit_of(self.transport.connected())
    }

    /// Has the leader of a shard, here or one hop away, let `to` lead instead.
    ///
    /// # Errors
    /// Why the leadership stayed, or may have.
    pub(crate) async fn hand_over(&self, id: ShardId, to: NodeId) -> Result<(), NotMoved> {
        let shard = self.shard(id).ok_or(NotMoved::NoShard)?;
        let leader = self.leader(id).ok_or(NotMoved::NotLeader)?;
        if leader == to {
            return Ok(());
        }
        if leader == self.node {
            return shard.hand_over(to).await;
        }
        self.asking(leader, id).hand_over(to).await
    }

    /// Lets another node lead a shard, as a third one asked.
    pub(crate) fn serve_hand_over(&self, id: ShardId, body: &[u8], reply: Reply) {
        let decoded = codec::decode::<NodeId>(codec::HAND_OVER, body);
        let (Some(shard), Ok(to)) = (self.shard(id).cloned(), decoded) else {
            tracing::warn!(shard = id.0, "hand-over is unreadable");
            return reply.refuse();
        };
        task::spawn(async move {
            let moved: Result<(), NotMoved> = ShardHandle::hand_over(&shard, to).await;
            reply.send(codec::encode(codec::HANDED_OVER, &moved).into());
        });
    }
}
