//! Who answers, and where it is kept: the nodes and Raft shards of an oncegate cluster.
//!
//! A [`Node`] opens its data directory, connects to its peers and takes part in every shard of the
//! cluster. It takes [`Command`](protocol::Command)s for record names, finds the shard and its
//! leader, and answers with what was decided, once that is durable on a majority.

#![forbid(unsafe_code)]

pub mod clock;
pub mod config;
pub mod error;
pub mod placement;

mod codec;
pub mod failpoint;
mod formation;
#[cfg(feature = "testing")]
pub mod layouts;
mod node;
mod raft;
mod random;
mod remote;
mod router;
mod shard;
#[cfg(feature = "testing")]
pub mod simulation;
mod storage;
mod task;
mod transport;

pub use clock::{Clock, SystemClock};
pub use config::{NodeConfig, NodeId, Peer, Quota, RemoteConfig, Secret};
pub use error::{Certainty, StartError, SubmitError};
pub use node::{MemberStatus, Node, NodeStatus, Readiness, ShardStatus};
pub use placement::ShardId;
pub use raft::{Found, ReplicaStatus, ShardDigest, Unsettled};
pub use remote::Remote;
pub use shard::NotMoved;
