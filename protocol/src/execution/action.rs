//! What an execution wants done.

use crate::command::{Command, Replay};
use crate::fingerprint::Print;
use crate::lease::Fence;
use crate::scope::RecordName;
use crate::time::Millis;

/// Something that the driver must do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Submit the command once, without a retry of the driver's own after an indefinite error, and
    /// report what became of it as [`Event::Reply`](super::Event::Reply).
    Submit {
        /// Names the submission in its reply.
        number: u32,
        /// What to submit.
        command: Command,
    },
    /// Read the record through the log, so that what is read is as late as the time that it is
    /// stamped with, and report it as [`Event::Read`](super::Event::Read).
    Read {
        /// Names the read in its reply.
        number: u32,
        /// The record.
        name: RecordName,
    },
    /// Get a connection to the upstream and report [`Upstream::Ready`](super::Upstream::Ready), or
    /// [`Upstream::Unsent`](super::Upstream::Unsent) when there is none to be had.
    Connect {
        /// The fencing token that goes upstream with the request.
        fence: Fence,
        /// The generation that is executed, by its first fence: what every attempt at it has in
        /// common.
        generation: Fence,
        /// The attempt's number that goes upstream with the request.
        attempt_no: u32,
        /// Whether the connection must be a new one.
        fresh: bool,
    },
    /// Write the request to the connection that is ready, now.
    Send,
    /// Close the connection to the upstream, or stop making it. What it brings from now on is not
    /// wanted.
    CloseUpstream,
    /// Answer the client. Comes exactly once, and always before [`Action::Finish`].
    Answer(Answer),
    /// Drop the execution. Nothing follows.
    Finish,
}

/// What the client is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The outcome that this execution has made durable: the upstream's answer, which the driver
    /// has kept.
    Own,
    /// The upstream's retryable answer, which the driver has kept. It is not stored.
    PassThrough,
    /// The outcome of the record.
    Replay(Box<Replay>),
    /// Somebody else executes; worth asking again after this time at the latest.
    InProgress {
        /// The rest of the other's lease.
        lease_left: Millis,
    },
    /// The key was used for another request.
    Reused {
        /// What the request was compared with.
        stored: Box<Print>,
    },
    /// The key was used for a request of another operation.
    OtherOperation,
    /// Nobody can tell whether an earlier execution did the work.
    Indeterminate,
    /// The record was removed by an operator moments ago.
    Forgetting {
        /// How long until the key is free.
        free_in: Millis,
    },
    /// The upstream could not be reached. This request did not run.
    Unreachable {
        /// Whether an earlier attempt at the same key may have run.
        earlier_may_have_run: bool,
    },
    /// The claim could not be decided in time. This request did not run and never will.
    ShardUnavailable,
    /// The execution goes on, past the client's deadline.
    OutcomePending,
    /// The request may have run, and what came of it is not known (here, or yet).
    OutcomeUnknown(Doubt),
}

/// Why an outcome is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// The connection to the upstream ended without a whole answer.
    Reset,
    /// The upstream has not answered within the longest execution.
    TimedOut,
    /// The upstream's answer leaves it open.
    Ambiguous,
    /// The outcome is known but could not be made durable within the client's deadline.
    NotDurable,
    /// The grant was lost to an operator or to another attempt, and the record has no outcome that
    /// this request could be answered with.
    GrantLost,
}
