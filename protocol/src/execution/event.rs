//! What an execution is told.

use crate::command::{Basis, Decided};
use crate::fingerprint::Print;
use crate::record::Record;
use crate::response::StoredResponse;
use crate::time::Timestamp;

/// Something that happened to an execution.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// What became of the [`Action::Submit`](super::Action::Submit) with this number. The driver
    /// gives every submission a deadline and reports one that has passed as indefinite.
    Reply {
        /// The submission's number.
        number: u32,
        /// The shard's answer, or why there is none.
        reply: Result<Decided, Failure>,
    },
    /// The claim with this number was answered [`Outcome::Reused`](crate::Outcome::Reused), but the
    /// record was made by other rules, and by these the request is the one that made it. Comes in
    /// the place of the reply.
    Reprinted {
        /// The submission's number.
        number: u32,
        /// How far the shard was.
        basis: Basis,
        /// The request's print by the record's rules, which equals the record's.
        print: Box<Print>,
    },
    /// What became of the [`Action::Read`](super::Action::Read) with this number; the same deadline
    /// rule holds.
    Read {
        /// The read's number.
        number: u32,
        /// What was read, or why nothing was.
        reply: Result<RecordAt, Failure>,
    },
    /// News of the upstream request that [`Action::Connect`](super::Action::Connect) started.
    Upstream(Upstream),
    /// The time of [`Execution::wake_at`](super::Execution::wake_at) has come.
    Wake,
}

/// Why the shard has not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Failure {
    /// It was not done, and it never will be.
    Definite,
    /// The same, and what the cause is stays for longer than a client waits.
    Lasting,
    /// It may have been done, or may still be.
    Indefinite,
}

/// A record as a read through the log found it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RecordAt {
    /// Shard time after the log entry of the read.
    pub at: Timestamp,
    /// The record; `None` when the name is absent.
    pub record: Option<Box<Record>>,
}

/// News of the upstream request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// A connection is ready. Nothing may be written to it before
    /// [`Action::Send`](super::Action::Send), which is the answer to this event, so the reading of
    /// the clock that comes with it must be as fresh as can be.
    Ready,
    /// It is proven that no byte of the request has left: the connection was refused or could not
    /// be made, or it was dead before it took a byte.
    Unsent {
        /// Whether it was a connection of earlier requests, so that a new one may well work.
        pooled: bool,
    },
    /// The whole answer is here.
    Answered {
        /// Its status code.
        status: u16,
        /// What the operation's policy makes of it.
        disposition: Disposition,
    },
    /// Bytes may have left, and the connection ended without a whole answer.
    Broken,
}

/// What the operation's policy makes of a whole answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Disposition {
    /// It is the outcome, and this is to be stored.
    Store(StoredResponse),
    /// It says that nothing was done: it is passed through, and a retry runs.
    Retryable,
    /// It leaves open whether anything was done.
    Unknown,
}
