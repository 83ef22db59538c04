//! What can be asked of a record, and what can be answered.

use serde::{Deserialize, Serialize};

use crate::fingerprint::Print;
use crate::lease::{Fence, HolderId, Token};
use crate::record::{Generation, Record, State, Terms};
use crate::response::StoredResponse;
use crate::scope::RecordName;
use crate::time::{Millis, Timestamp};

/// The commands of one log entry with the time at which the leader proposed them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Batch {
    /// The leader's wall clock when it proposed the entry.
    pub at: Timestamp,
    /// The commands, decided in this order; a later one sees what an earlier one did.
    pub commands: Vec<Command>,
}

/// How far its sender had seen the shard when it made a copy of a claim, or how far the shard was
/// when it answered.
///
/// A copy is admitted only while nothing has made the key claimable since (`index`), within its
/// time to live (`time`), and in the same restore epoch. So a delayed duplicate never becomes a
/// claim that nobody executes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Basis {
    /// The restore epoch.
    pub epoch: u8,
    /// Index of the last log entry applied; 0 for a sender that has not heard from the shard yet.
    pub index: u64,
    /// Shard time; in a claim the sender's estimate of the leader's clock when it made the copy.
    pub time: Timestamp,
}

/// A request to change one record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Command {
    /// Asks to be the one who executes.
    Claim(Claim),
    /// Asks for more time under a grant.
    Renew {
        /// The record.
        name: RecordName,
        /// The grant to prolong.
        grant: Grant,
        /// How long the lease should last, counted from when the command is decided.
        lease: Millis,
    },
    /// Says how the execution ended.
    Complete {
        /// The record.
        name: RecordName,
        /// The grant under which the work was done.
        grant: Grant,
        /// The outcome.
        response: StoredResponse,
    },
    /// Gives the grant back: nothing was sent.
    Release {
        /// The record.
        name: RecordName,
        /// The grant to give back.
        grant: Grant,
    },
    /// Gives up: the work may have been done.
    Unknown {
        /// The record.
        name: RecordName,
        /// The grant to give up.
        grant: Grant,
    },
    /// An operator settles an indeterminate record.
    Resolve {
        /// The record.
        name: RecordName,
        /// The fence that the operator saw: a decision about another one is stale.
        fence: Fence,
        /// What the operator found out.
        verdict: Verdict,
        /// Who decides.
        by: String,
        /// Why.
        reason: String,
        /// Whether a release may skip its waiting time.
        force: bool,
    },
    /// An operator removes a completed record.
    Forget {
        /// The record.
        name: RecordName,
        /// The fence that the operator saw.
        fence: Fence,
    },
    /// The upstream's own service says that the outcome has changed since.
    Revise {
        /// The record.
        name: RecordName,
        /// The operation, where the name leaves it open: a record of another one is not revised.
        operation: Option<String>,
        /// The outcome as it is now.
        response: StoredResponse,
    },
    /// The leader found that the record has something due.
    Expire {
        /// The record.
        name: RecordName,
    },
}

impl Command {
    /// The record that the command is about.
    pub fn name(&self) -> &RecordName {
        match self {
            Self::Claim(claim) => &claim.name,
            Self::Renew { name, .. }
            | Self::Complete { name, .. }
            | Self::Release { name, .. }
            | Self::Unknown { name, .. }
            | Self::Resolve { name, .. }
            | Self::Forget { name, .. }
            | Self::Revise { name, .. }
            | Self::Expire { name } => name,
        }
    }

    /// Bytes of the response, or of the print and the operation, that the command carries: what it
    /// takes in memory and in the log beyond its name and some numbers.
    pub fn content_bytes(&self) -> usize {
        match self {
            Self::Claim(claim) => {
                claim.print.bytes() + claim.operation.as_ref().map_or(0, String::len)
            }
            Self::Complete { response, .. }
            | Self::Resolve { verdict: Verdict::Completed(response), .. } => response.bytes(),
            Self::Revise { operation, response, .. } => {
                response.bytes() + operation.as_ref().map_or(0, String::len)
            }
            _ => 0,
        }
    }
}

/// One copy of a claim.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Claim {
    /// The record to claim.
    pub name: RecordName,
    /// The operation, where the name leaves it open: the record then belongs to one operation, and
    /// others are refused.
    pub operation: Option<String>,
    /// Who claims.
    pub holder: HolderId,
    /// What the sender had seen of the shard when it made this copy.
    pub seen: Basis,
    /// What the request is compared by.
    pub print: Print,
    /// For how long, from the time at which the claim is granted. The edge refuses less than
    /// [`LEASE_MIN`](crate::lease::LEASE_MIN); a shorter one is decided all the same, and ends
    /// before its holder may send anything.
    pub lease: Millis,
    /// The terms that the record will be kept under.
    pub terms: Terms,
    /// The secret for this grant; a repeated claim of the same holder gets the first one back.
    pub token: Token,
}

/// The proof of a grant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Grant {
    /// The grant's fence.
    pub fence: Fence,
    /// The grant's secret.
    pub token: Token,
}

/// How an operator settles an indeterminate record.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Verdict {
    /// The work was done, and this is its answer.
    Completed(StoredResponse),
    /// The work was not done: the key may run again.
    Released,
}

/// An outcome, and how far the shard was when it was decided.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Decided {
    /// What was decided.
    pub outcome: Outcome,
    /// The shard's position after the command; the next copy of a claim carries it.
    pub basis: Basis,
}

/// What a command is answered with. A refusal is an answer, not an error.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Outcome {
    /// The claim's holder executes now.
    Granted {
        /// The proof that the holder brings back.
        grant: Grant,
        /// The generation that is executed: its first fence, the same for each of its attempts.
        generation: Fence,
        /// 1 for the first grant of the generation, 2 for the first takeover, …
        attempt_no: u32,
        /// Shard time at which the lease ends.
        lease_until: Timestamp,
    },
    /// Another holder executes.
    InProgress {
        /// Shard time at which its lease ends.
        lease_until: Timestamp,
    },
    /// The record was made by a request with another fingerprint.
    Reused {
        /// What the claim's was compared with. Where it was taken by other rules, the claim's
        /// sender takes its own by these before it believes that the requests are different ones.
        stored: Box<Print>,
    },
    /// The record was made by a request of another operation, which its name leaves open.
    OtherOperation,
    /// The claim's own earlier grant is over. The gateway, which knows that it sent nothing,
    /// releases it.
    Spent {
        /// The grant that is over.
        grant: Grant,
    },
    /// The copy was too old to be admitted: make a new one from the basis of this answer.
    Superseded,
    /// Nobody can tell whether the work was done.
    Indeterminate,
    /// The record was removed by an operator moments ago: the key is free in a few seconds.
    Forgetting {
        /// Shard time at which it will be free.
        until: Timestamp,
    },
    /// The key's outcome.
    Replay(Box<Replay>),
    /// The lease goes on.
    Renewed {
        /// Shard time at which the lease ends.
        lease_until: Timestamp,
    },
    /// The outcome is stored (now, or by the same command before).
    Completed,
    /// The grant was given back.
    Released,
    /// The record is now indeterminate, or open to a takeover.
    Unknown {
        /// Whether another attempt may take over.
        takeover: bool,
    },
    /// An operator's verdict is stored.
    Resolved {
        /// The fence that the verdict took.
        fence: Fence,
    },
    /// The record is forgotten: it answers "later" for some seconds, then it is gone.
    Forgotten {
        /// Shard time at which the key is free.
        until: Timestamp,
    },
    /// The revision is stored; the first outcome is revision 0.
    Revised {
        /// The number of the newest revision.
        revision: u32,
    },
    /// The grant is not the record's current one, or the record has moved on. Nothing was changed.
    Stale {
        /// The record as it is, where there is one: who lost its grant answers its client from it.
        record: Option<Box<Record>>,
    },
    /// The command met a record in another state, came before its waiting time, or found no room
    /// for one more revision. Nothing was changed.
    Conflict,
    /// Nothing was due.
    Nothing,
    /// What was due was done.
    Expired,
}

/// A completed record's answer to a repeat of its request.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Replay {
    /// The stored response: the first outcome.
    pub response: StoredResponse,
    /// The newest revision of the outcome, where it was ever revised.
    pub newest: Option<StoredResponse>,
    /// The generation that was completed.
    pub generation: Fence,
    /// When it was completed.
    pub completed_at: Timestamp,
    /// When the key becomes a new request again; `None` is never.
    pub retain_until: Option<Timestamp>,
}

impl Replay {
    /// What a completed generation is answered with; `None` for one without an outcome. Whether its
    /// retention still lasts is for the caller to know.
    pub fn of(generation: &Generation) -> Option<Self> {
        let State::Done { completed_at, retain_until, revisions, .. } = &generation.state else {
            return None;
        };
        let (first, later) = revisions.split_first()?;
        Some(Self {
            response: first.response.clone(),
            newest: later.last().map(|newest| newest.response.clone()),
            generation: generation.id,
            completed_at: *completed_at,
            retain_until: *retain_until,
        })
    }
}
