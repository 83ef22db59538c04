//! A shard on this node: the mailbox in front of its replica.
//!
//! One actor per shard drains the mailbox and proposes what it finds as one log entry. The actor
//! holds no truth: a lost actor loses waiting replies, never a decision.

mod actor;
mod hand_over;
mod quota;
mod rounds;
mod waiters;

use std::sync::Arc;
use std::time::Instant;

use protocol::{Command, Decided};
use tokio::sync::mpsc::error::TrySendError;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, oneshot};
use tokio::time::timeout;

use self::actor::Actor;
pub use self::hand_over::NotMoved;
use self::hand_over::{HAND_OVER_MAX, HandOver};
pub(crate) use self::quota::Quotas;
pub(crate) use self::rounds::Rounds;
pub(crate) use self::waiters::Respond;
use crate::clock::ClockGuard;
use crate::config::NodeId;
use crate::error::SubmitError;
use crate::raft::Replica;
use crate::storage::space::DiskWatch;
use crate::task;

/// Commands that wait for one shard. At 20,000 commands a second this is a fifth of a second of
/// work, about what a caller waits before it had better hear "overloaded".
const MAILBOX_MAX: usize = 4096;

/// Commands under way on one node, by weight in KiB: what their names and responses take in memory.
const WEIGHT_MAX_KIB: usize = 128 << 10;

/// What is decided, or why it is not known.
pub(crate) type Answer = Result<Decided, SubmitError>;

/// A command on its way to the log.
pub(crate) struct Submit {
    pub(crate) command: Command,
    /// After this nobody waits for the answer any more.
    pub(crate) deadline: Instant,
    pub(crate) respond: Respond,
    weight: OwnedSemaphorePermit,
}

/// Bounds the memory of all commands under way on a node. Clones share the bound.
#[derive(Clone)]
pub(crate) struct Admission(Arc<Semaphore>);

impl Admission {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Semaphore::new(WEIGHT_MAX_KIB)))
    }
}

/// The way into a shard on this node. Clones share it.
#[derive(Clone)]
pub(crate) struct ShardHandle {
    replica: Replica,
    mailbox: mpsc::Sender<Submit>,
    hand_overs: mpsc::Sender<HandOver>,
    admission: Admission,
}

impl ShardHandle {
    /// Starts the shard's actor over its replica.
    pub(crate) fn start(
        replica: Replica,
        guard: Arc<ClockGuard>,
        disk: Arc<DiskWatch>,
        quotas: Arc<Quotas>,
        admission: Admission,
        rounds: Rounds,
    ) -> Self {
        let (mailbox, queue) = mpsc::channel(MAILBOX_MAX);
        // One at a time: whoever comes second would ask a node that leads no more.
        let (hand_overs, asked) = mpsc::channel(1);
        task::spawn(Actor::new(replica.clone(), guard, disk, quotas, rounds, queue, asked).run());
        Self { replica, mailbox, hand_overs, admission }
    }

    /// The shard's replica on this node.
    pub(crate) fn replica(&self) -> &Replica {
        &self.replica
    }

    /// Queues a command for the log, if this node leads the shard. Whatever happens, `respond` is
    /// answered.
    pub(crate) fn submit(&self, command: Command, deadline: Instant, respond: Respond) {
        if command.name().is_too_long() {
            return respond.send(Err(SubmitError::NameTooLong));
        }
        if !self.replica.takes_proposals() {
            return respond.send(Err(SubmitError::NoLeader));
        }
        let weight = self.admission.0.clone().try_acquire_many_owned(weight_kib(&command));
        let Ok(weight) = weight else {
            return respond.send(Err(SubmitError::Overloaded));
        };
        let submit = Submit { command, deadline, respond, weight };
        match self.mailbox.try_send(submit) {
            Ok(()) => {}
            Err(TrySendError::Full(submit)) => submit.respond.send(Err(SubmitError::Overloaded)),
            Err(TrySendError::Closed(submit)) => submit.respond.send(Err(SubmitError::Stopping)),
        }
    }
}

impl ShardHandle {
    /// Gives the leadership to `to`, if this node has it, between two log entries: no command is
    /// lost with it. Those that come meanwhile wait, and are then refused definitely, so that their
    /// senders ask the new leader.
    ///
    /// # Errors
    /// Why the leadership stayed, or may have.
    pub(crate) async fn hand_over(&self, to: NodeId) -> Result<(), NotMoved> {
        if !self.replica.is_leader() {
            return Err(NotMoved::NotLeader);
        }
        let (done, moved) = oneshot::channel();
        self.hand_overs.try_send(HandOver { to, done }).map_err(|_| NotMoved::UnderWay)?;
        match timeout(HAND_OVER_MAX, moved).await {
            Ok(moved) => moved.unwrap_or(Err(NotMoved::NotLeader)),
            // An entry that cannot be committed is under way; the actor drops what it finds late.
            Err(_) => Err(NotMoved::NotElected),
        }
    }
}

/// What a command takes in memory, rounded up.
fn weight_kib(command: &Command) -> u32 {
    let bytes = command.name().as_bytes().len() + command.content_bytes();
    (bytes / 1024 + 1) as u32
}
