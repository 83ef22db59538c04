//! What is held for a name.

use serde::{Deserialize, Serialize};

use crate::fingerprint::Fingerprint;
use crate::lease::{Fence, HolderId, Token};
use crate::response::StoredResponse;
use crate::time::{Millis, Timestamp};

/// What is held for a name. A name without a record is *absent*.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Record {
    /// A generation of the key: claimed, and perhaps finished.
    Live(Box<Generation>),
    /// The memory of a key that became claimable again.
    Tombstone(Tombstone),
}

/// One life of a key, from its first grant to the end of its retention.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// The first fence of the generation, its name.
    pub id: Fence,
    /// The current fence.
    pub fence: Fence,
    /// The current grant's secret.
    pub token: Token,
    /// Who holds the current grant; `None` once a tainted grant was given back.
    pub holder: Option<HolderId>,
    /// Digest of the request.
    pub fingerprint: Fingerprint,
    /// The terms of the claim that began the generation; a later change of policy does not touch them.
    pub terms: Terms,
    /// When the generation began.
    pub first_granted_at: Timestamp,
    /// When the current fence was granted.
    pub granted_at: Timestamp,
    /// The lease that the current grant asked for.
    pub lease: Millis,
    /// How many grants the generation has had.
    pub attempts: u32,
    /// Whether an earlier fence of the generation may have executed.
    pub tainted: bool,
    /// Where the generation is in its life.
    pub state: State,
    /// Operators' decisions, oldest first, those of earlier generations included.
    pub history: Vec<Resolution>,
}

/// Where a generation is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum State {
    /// Somebody executes; the lease may have ended since.
    InFlight { lease_until: Timestamp },
    /// The lease ended and another attempt may take over; from the watermark on, once it is set.
    Over { watermark: Option<Watermark> },
    /// Nobody can tell whether the work was done.
    Indeterminate { since: Timestamp },
    /// The outcome is known.
    Done {
        completed_at: Timestamp,
        /// `None`: for ever.
        retain_until: Option<Timestamp>,
        /// The first outcome, then every revision of it. Never empty.
        revisions: Vec<Revision>,
        /// Whether an operator settled it.
        by_operator: bool,
    },
    /// Removed by an operator; answers "later" until this time.
    Forgotten { until: Timestamp },
}

/// One state of a generation's outcome.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revision {
    /// When it was stored.
    pub at: Timestamp,
    /// The answer.
    pub response: StoredResponse,
}

/// The log event that made a key claimable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Watermark {
    /// The event's log index: only copies whose sender had seen it are admitted.
    pub index: u64,
    /// The event's shard time.
    pub time: Timestamp,
}

/// Remembers that a key became claimable, for as long as an older copy of a claim may still be on its way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Tombstone {
    /// The event that made the key claimable.
    pub watermark: Watermark,
    /// When it may be removed: strictly after this shard time.
    pub keep_until: Timestamp,
    /// Operators' decisions of the generations before.
    pub history: Vec<Resolution>,
}

/// An operator's decision.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Resolution {
    /// When it was decided, in shard time.
    pub at: Timestamp,
    /// The generation that it settled.
    pub generation: Fence,
    /// The fence that the decision took.
    pub fence: Fence,
    /// Whether the key was released to run again; otherwise an outcome was stored.
    pub released: bool,
    /// Whether the waiting time was skipped.
    pub forced: bool,
    /// Who decided.
    pub by: String,
    /// Why.
    pub reason: String,
}

/// The terms a record is kept under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// How long the outcome is kept, counted from completion.
    pub retention: Retention,
    /// What happens when nobody can tell whether the work was done.
    pub on_unknown: OnUnknown,
    /// How long an execution may take; a lease is never renewed past it.
    pub max_execution: Millis,
}

/// How long an outcome is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Retention {
    /// For this long after completion.
    For(Millis),
    /// For ever.
    Forever,
}

/// What happens when nobody can tell whether the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnUnknown {
    /// The record becomes indeterminate: nothing runs until an operator has settled it.
    FailClosed,
    /// Another attempt runs, since the downstream is idempotent itself.
    Takeover {
        /// For how long, from the first grant, the downstream remembers the key.
        downstream_retention: Millis,
    },
}

impl Record {
    /// When the leader should propose an [`Expire`](crate::Command::Expire) for this record, in shard time; `None`: never.
    pub fn due_at(&self) -> Option<Timestamp> {
        todo!("due_at")
    }
}
