//! A node: opens storage, starts the shards, routes commands to leaders.

use std::net::TcpListener;
use std::sync::Arc;
use std::time::Instant;

use protocol::{Basis, Command, Decided, Record, RecordName, Timestamp};

use crate::clock::Clock;
use crate::config::{NodeConfig, NodeId};
use crate::error::{StartError, SubmitError};
use crate::placement::ShardId;

/// A running node. Clones share it.
#[derive(Clone)]
pub struct Node {}

/// What a read through the log found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The record; `None` when the name is absent.
    pub record: Option<Record>,
    /// The shard's position when it was read.
    pub basis: Basis,
}

/// Whether this process can get claims decided.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Readiness {
    /// Every shard has a leader that this node reaches, and the clock is trusted.
    Ready,
    /// Not now, and why.
    NotReady(String),
}

/// A node as operators see it.
#[derive(Clone, Debug)]
pub struct NodeStatus {
    /// The node.
    pub id: NodeId,
    /// Every shard as this node sees it.
    pub shards: Vec<ShardStatus>,
    /// How far this node's wall clock is ahead of the cluster's median, in milliseconds.
    pub clock_offset_ms: i64,
    /// Whether the wall clock may be stamped on the log.
    pub clock_trusted: bool,
    /// Peers that are connected now.
    pub connected: Vec<NodeId>,
}

/// A shard as one node sees it.
#[derive(Clone, Debug)]
pub struct ShardStatus {
    /// The shard.
    pub shard: ShardId,
    /// Its leader, where one is known.
    pub leader: Option<NodeId>,
    /// The Raft term.
    pub term: u64,
    /// Index of the last entry in this node's log.
    pub last_index: u64,
    /// Index of the last entry applied here.
    pub applied_index: u64,
}

impl Node {
    /// Opens the data directory, recovers, and starts to take part in the cluster. `peers` is the bound listener
    /// for the other nodes. Returns once this node's own state is recovered; see [`Node::readiness`] for the cluster's.
    ///
    /// Must be called within a tokio runtime, on which the node's tasks will run.
    ///
    /// # Errors
    /// See [`StartError`]; nothing was written unless the directory was this node's own.
    pub async fn start(
        config: NodeConfig,
        peers: TcpListener,
        clock: Arc<dyn Clock>,
    ) -> Result<Self, StartError> {
        let _ = (config, peers, clock);
        todo!("node")
    }

    /// Has `command` decided and made durable on a majority, by the leader of its name's shard.
    ///
    /// Definite failures to reach the leader are retried until `deadline`; indefinite ones never.
    ///
    /// # Errors
    /// See [`SubmitError`], in particular its certainty.
    pub async fn submit(&self, command: Command, deadline: Instant) -> Result<Decided, SubmitError> {
        let _ = (command, deadline);
        todo!("node")
    }

    /// Reads a record through the log: what is found was current when the leader confirmed its leadership, after this call
    /// began.
    ///
    /// # Errors
    /// See [`SubmitError`]; a read changes nothing, so any error may be retried.
    pub async fn read(&self, name: &RecordName, deadline: Instant) -> Result<Found, SubmitError> {
        let _ = (name, deadline);
        todo!("node")
    }

    /// What a copy of a claim for `name` carries: how far this node has seen the name's shard, and its estimate of
    /// the leader's clock now. `None` while this process's own clock is not trusted: it must not submit claims then.
    pub fn seen(&self, name: &RecordName) -> Option<Basis> {
        let _ = name;
        todo!("node")
    }

    /// The wall clock as this node reads it, for rendering times to users; never for decisions.
    pub fn wall(&self) -> Timestamp {
        todo!("node")
    }

    /// Time since a fixed moment on a clock that never jumps and runs while the machine sleeps; leases are counted by it.
    pub fn boot(&self) -> std::time::Duration {
        todo!("node")
    }

    /// Whether this process can get claims decided now.
    pub fn readiness(&self) -> Readiness {
        todo!("node")
    }

    /// The node as operators see it.
    pub fn status(&self) -> NodeStatus {
        todo!("node")
    }

    /// Resolves when the node can no longer take part: a failed disk, a lost log.
    pub async fn failed(&self) -> StartError {
        todo!("node")
    }

    /// Hands leaderships over, stops taking part and closes the files. Bounded to a few seconds.
    pub async fn stop(&self) {
        todo!("node")
    }
}
