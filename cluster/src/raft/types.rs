//! The types that openraft is configured with.

use std::fmt;

use bytes::Bytes;
use openraft::alias::{EntryOf, LogIdOf, SnapshotMetaOf, SnapshotOf, StoredMembershipOf, VoteOf};
use openraft::raft::responder::Responder;
use protocol::Decided;

/// An encoded [`protocol::Batch`]: what one log entry carries. Cheap to clone.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EncodedBatch(pub(crate) Bytes);

/// Batches hold names and bodies, which never reach a log in clear.
impl fmt::Debug for EncodedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "EncodedBatch({} bytes)", self.0.len())
    }
}

impl fmt::Display for EncodedBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(self, f)
    }
}

/// openraft's parameters for a shard.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct TypeConfig;

pub(crate) type LeaderId = openraft::impls::leader_id_adv::LeaderId<u64, u64>;

impl openraft::RaftTypeConfig for TypeConfig {
    type D = EncodedBatch;
    type R = Vec<Decided>;
    type NodeId = u64;
    type Node = ();
    type Term = u64;
    type LeaderId = LeaderId;
    type Vote = openraft::Vote<LeaderId>;
    type Payload = openraft::EntryPayload<EncodedBatch, u64, ()>;
    type Entry = openraft::Entry<LeaderId, Self::Payload>;
    type Responder<T>
        = FanOut<T>
    where
        T: Send + 'static;
    type Batch<T>
        = openraft::impls::InlineBatch<T>
    where
        T: Send + 'static;
    type AsyncRuntime = super::runtime::NodeRuntime;
    type ErrorSource = openraft::impls::BoxedErrorSource;
}

/// Hands an entry's answers out where they arise, in the state machine's task: one wake-up per
/// waiting caller instead of one more per entry.
pub(crate) struct FanOut<T>(Box<dyn FnOnce(T) + Send>);

impl<T> FanOut<T> {
    pub(crate) fn new(hand_out: impl FnOnce(T) + Send + 'static) -> Self {
        Self(Box::new(hand_out))
    }
}

impl<T: Send + 'static> Responder<TypeConfig, T> for FanOut<T> {
    fn on_complete(self, result: T) {
        (self.0)(result);
    }
}

pub(crate) type Entry = EntryOf<TypeConfig>;
pub(crate) type LogId = LogIdOf<TypeConfig>;
pub(crate) type Membership = openraft::Membership<u64, ()>;
pub(crate) type SnapshotMeta = SnapshotMetaOf<TypeConfig>;
pub(crate) type Snapshot<D> = SnapshotOf<TypeConfig, D>;
pub(crate) type StoredMembership = StoredMembershipOf<TypeConfig>;
pub(crate) type Vote = VoteOf<TypeConfig>;
