//! Who decides commands, as the edge sees it: a [`Node`], the nodes from afar, or a scripted one in
//! tests.

use std::future::Future;
use std::sync::Arc;
use std::time::{Duration, Instant};

use cluster::{
    Found, Node, NodeId, NodeStatus, NotMoved, Readiness, Remote, ShardDigest, ShardId,
    SubmitError, Unsettled,
};
use protocol::{Basis, Claim, Command, Decided, RecordName, Timestamp};

/// Reads the clock that leases are counted by: see [`Judge::boot`].
pub type BootClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// What [`Judge::digest`] tells.
pub type Digested = Result<Option<ShardDigest>, SubmitError>;

/// Decides commands. Clones share it.
///
/// Each method does what the method of the same name of [`Node`] does, its errors included.
pub trait Judge: Clone + Send + Sync + 'static {
    /// Has `command` decided and made durable on a majority before `deadline`.
    fn submit(
        &self,
        command: Command,
        deadline: Instant,
    ) -> impl Future<Output = Result<Decided, SubmitError>> + Send;

    /// What a claim is answered at once, by what this process knows itself; `None`: submit it.
    fn answer_applied(&self, claim: &Claim) -> Option<Decided>;

    /// Reads a record through the log.
    fn read(
        &self,
        name: &RecordName,
        deadline: Instant,
    ) -> impl Future<Output = Result<Found, SubmitError>> + Send;

    /// Records that wait for an operator.
    fn unsettled(
        &self,
        after: Option<(Timestamp, RecordName)>,
        limit: usize,
        deadline: Instant,
    ) -> impl Future<Output = Result<Vec<Unsettled>, SubmitError>> + Send;

    /// What a copy of a claim carries now, or why this process must not submit claims.
    fn seen(&self, name: &RecordName) -> Result<Basis, SubmitError>;

    /// The wall clock, for rendering times to users.
    fn wall(&self) -> Timestamp;

    /// Time since a fixed moment on a clock that never jumps; leases are counted by it.
    fn boot(&self) -> Duration;

    /// A secret that every process of the cluster has and no record holds.
    fn outline_secret(&self) -> [u8; 32];

    /// Whether this process can get claims decided now.
    fn readiness(&self) -> Readiness;

    /// The cluster as this process sees it.
    fn status(&self) -> NodeStatus;

    /// Digest of what this process holds of a shard; `None` when there is no such shard.
    fn digest(&self, shard: ShardId) -> impl Future<Output = Digested> + Send;

    /// Lets another node lead a shard.
    fn transfer(
        &self,
        shard: ShardId,
        to: NodeId,
    ) -> impl Future<Output = Result<(), NotMoved>> + Send;
}

impl Judge for Node {
    fn submit(
        &self,
        command: Command,
        deadline: Instant,
    ) -> impl Future<Output = Result<Decided, SubmitError>> + Send {
        Node::submit(self, command, deadline)
    }

    fn answer_applied(&self, claim: &Claim) -> Option<Decided> {
        Node::answer_applied(self, claim)
    }

    fn read(
        &self,
        name: &RecordName,
        deadline: Instant,
    ) -> impl Future<Output = Result<Found, SubmitError>> + Send {
        Node::read(self, name, deadline)
    }

    fn unsettled(
        &self,
        after: Option<(Timestamp, RecordName)>,
        limit: usize,
        deadline: Instant,
    ) -> impl Future<Output = Result<Vec<Unsettled>, SubmitError>> + Send {
        Node::unsettled(self, after, limit, deadline)
    }

    fn seen(&self, name: &RecordName) -> Result<Basis, SubmitError> {
        Node::seen(self, name)
    }

    fn wall(&self) -> Timestamp {
        Node::wall(self)
    }

    fn boot(&self) -> Duration {
        Node::boot(self)
    }

    fn outline_secret(&self) -> [u8; 32] {
        Node::outline_secret(self)
    }

    fn readiness(&self) -> Readiness {
        Node::readiness(self)
    }

    fn status(&self) -> NodeStatus {
        Node::status(self)
    }

    fn digest(&self, shard: ShardId) -> impl Future<Output = Digested> + Send {
        Node::digest(self, shard)
    }

    fn transfer(
        &self,
        shard: ShardId,
        to: NodeId,
    ) -> impl Future<Output = Result<(), NotMoved>> + Send {
        Node::transfer(self, shard, to)
    }
}

impl Judge for Remote {
    fn submit(
        &self,
        command: Command,
        deadline: Instant,
    ) -> impl Future<Output = Result<Decided, SubmitError>> + Send {
        Remote::submit(self, command, deadline)
    }

    /// It has no replica to look at.
    fn answer_applied(&self, _: &Claim) -> Option<Decided> {
        None
    }

    fn read(
        &self,
        name: &RecordName,
        deadline: Instant,
    ) -> impl Future<Output = Result<Found, SubmitError>> + Send {
        Remote::read(self, name, deadline)
    }

    fn unsettled(
        &self,
        after: Option<(Timestamp, RecordName)>,
        limit: usize,
        deadline: Instant,
    ) -> impl Future<Output = Result<Vec<Unsettled>, SubmitError>> + Send {
        Remote::unsettled(self, after, limit, deadline)
    }

    fn seen(&self, name: &RecordName) -> Result<Basis, SubmitError> {
        Remote::seen(self, name)
    }

    fn wall(&self) -> Timestamp {
        Remote::wall(self)
    }

    fn boot(&self) -> Duration {
        Remote::boot(self)
    }

    fn outline_secret(&self) -> [u8; 32] {
        Remote::outline_secret(self)
    }

    fn readiness(&self) -> Readiness {
        Remote::readiness(self)
    }

    fn status(&self) -> NodeStatus {
        Remote::status(self)
    }

    fn transfer(
        &self,
        shard: ShardId,
        to: NodeId,
    ) -> impl Future<Output = Result<(), NotMoved>> + Send {
        Remote::transfer(self, shard, to)
    }

    /// It holds nothing.
    async fn digest(&self, _: ShardId) -> Digested {
        Ok(None)
    }
}
