//! What is held for a name.

use serde::{Deserialize, Serialize};

use crate::fingerprint::Print;
use crate::lease::{DRAIN_MARGIN, Fence, HolderId, Token};
use crate::response::StoredResponse;
use crate::time::{Millis, Timestamp};

/// How many decisions of operators a record remembers; past it the oldest leaves.
///
/// Each was taken by a person who gave a reason, so a key that reaches this has a problem that its
/// newest decisions show; a bound keeps a record small whatever happens.
pub const HISTORY_MAX: usize = 32;

/// How many states of its outcome a record keeps, the first included; one more is refused.
///
/// A payment goes through a handful of states. With the largest stored body (1 MiB) a record stays
/// within what a node can read, send and write at once.
pub const REVISIONS_MAX: usize = 16;

/// What is held for a name. A name without a record is *absent*.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Record {
    /// A generation of the key: claimed, and perhaps finished.
    Live(Box<Generation>),
    /// The memory of a key that became claimable again.
    Tombstone(Tombstone),
}

impl Record {
    /// When the leader should propose an [`Expire`](crate::Command::Expire) for this record, in
    /// shard time; `None`: never.
    ///
    /// From this time on, and not before, that command changes the record.
    pub fn due_at(&self) -> Option<Timestamp> {
        match self {
            Self::Live(generation) => generation.due_at(),
            Self::Tombstone(tombstone) => tombstone.keep_until.following(),
        }
    }

    /// Bytes of all texts, answers and digests of changing length that the record holds: what it
    /// takes up beyond its name and some numbers.
    pub fn content_bytes(&self) -> usize {
        let (own, history) = match self {
            Self::Live(generation) => (generation.content_bytes(), &generation.history),
            Self::Tombstone(tombstone) => (0, &tombstone.history),
        };
        own + history
            .iter()
            .map(|decision| decision.by.len() + decision.reason.len())
            .sum::<usize>()
    }

    /// Since when nobody can tell whether the work was done; `None` in every other state.
    pub fn indeterminate_since(&self) -> Option<Timestamp> {
        match self {
            Self::Live(generation) => match generation.state {
                State::Indeterminate { since } => Some(since),
                _ => None,
            },
            Self::Tombstone(_) => None,
        }
    }
}

impl From<Generation> for Record {
    fn from(generation: Generation) -> Self {
        Self::Live(Box::new(generation))
    }
}

impl From<Tombstone> for Record {
    fn from(tombstone: Tombstone) -> Self {
        Self::Tombstone(tombstone)
    }
}

/// One life of a key, from its first grant to the end of its retention.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Generation {
    /// The first fence of the generation, its name.
    pub id: Fence,
    /// The current fence.
    pub fence: Fence,
    /// The current grant's secret.
    pub token: Token,
    /// Who holds the current grant; `None` once a tainted grant was given back.
    pub holder: Option<HolderId>,
    /// What other requests are compared with.
    pub print: Print,
    /// The terms of the claim that began the generation; a later change of policy does not touch
    /// them.
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
    /// The operation, where the name leaves it open: requests of others are refused.
    pub operation: Option<String>,
    /// Where the generation is in its life.
    pub state: State,
    /// Operators' decisions, oldest first, those of earlier generations included; at most
    /// [`HISTORY_MAX`].
    pub history: Vec<Resolution>,
}

impl Generation {
    /// The last shard time at which another attempt with `lease` may take over; `None`: it may not.
    ///
    /// The attempt must be over while the downstream still remembers the key:
    /// `now + lease + max_execution <= first_granted_at + downstream_retention`.
    pub fn takeover_until(&self, lease: Millis) -> Option<Timestamp> {
        match self.terms.on_unknown {
            OnUnknown::FailClosed => None,
            OnUnknown::Takeover { downstream_retention } => self
                .first_granted_at
                .plus(downstream_retention)
                .minus(lease.plus(self.terms.max_execution)),
        }
    }

    /// From when on nothing that the current grant's holder sent can still be executing; an
    /// operator may then release the key without force.
    pub fn drained_at(&self) -> Timestamp {
        self.granted_at.plus(self.lease).plus(self.terms.max_execution).plus(DRAIN_MARGIN)
    }

    fn content_bytes(&self) -> usize {
        let answers = match &self.state {
            State::Done { revisions, .. } => {
                revisions.iter().map(|revision| revision.response.bytes()).sum()
            }
            _ => 0,
        };
        self.print.bytes() + self.operation.as_ref().map_or(0, String::len) + answers
    }

    fn due_at(&self) -> Option<Timestamp> {
        match &self.state {
            State::InFlight { lease_until } => Some(*lease_until),
            State::Over { watermark: None } => Some(Timestamp::ZERO),
            State::Over { watermark: Some(_) } => match self.takeover_until(self.lease) {
                Some(last) => last.following(),
                None => Some(Timestamp::ZERO),
            },
            State::Indeterminate { .. } => None,
            State::Done { retain_until, .. } => *retain_until,
            State::Forgotten { until } => Some(*until),
        }
    }
}

/// Where a generation is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum State {
    /// Somebody executes; the lease may have ended since.
    InFlight {
        /// When the lease ends.
        lease_until: Timestamp,
    },
    /// The lease ended and another attempt may take over.
    Over {
        /// Only copies of claims that were made after this event are admitted; while it is not set
        /// none is.
        watermark: Option<Watermark>,
    },
    /// Nobody can tell whether the work was done.
    Indeterminate {
        /// When that was written down.
        since: Timestamp,
    },
    /// The outcome is known.
    Done {
        /// When the first outcome was stored.
        completed_at: Timestamp,
        /// When the key becomes a new request again; `None` is never.
        retain_until: Option<Timestamp>,
        /// The first outcome, then every revision of it; never empty, at most [`REVISIONS_MAX`].
        revisions: Vec<Revision>,
        /// Whether an operator settled it.
        by_operator: bool,
    },
    /// Removed by an operator.
    Forgotten {
        /// Until when claims are answered "later".
        until: Timestamp,
    },
}

/// One state of a generation's outcome.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Revision {
    /// When it was stored.
    pub at: Timestamp,
    /// The answer.
    pub response: StoredResponse,
}

/// The log event that made a key claimable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Watermark {
    /// The event's log index: only copies whose sender had seen it are admitted.
    pub index: u64,
    /// The event's shard time.
    pub time: Timestamp,
}

/// Remembers that a key became claimable, for as long as an older copy of a claim may still be on
/// its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Tombstone {
    /// The event that made the key claimable.
    pub watermark: Watermark,
    /// When it may be removed: strictly after this shard time, so never at the end of time.
    pub keep_until: Timestamp,
    /// Operators' decisions of the generations before, oldest first; at most [`HISTORY_MAX`].
    pub history: Vec<Resolution>,
}

/// An operator's decision.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Terms {
    /// How long the outcome is kept, counted from completion.
    pub retention: Retention,
    /// What happens when nobody can tell whether the work was done.
    pub on_unknown: OnUnknown,
    /// How long an execution may take; a lease is never renewed past it.
    pub max_execution: Millis,
}

/// How long an outcome is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Retention {
    /// For this long after completion.
    For(Millis),
    /// For ever.
    Forever,
}

impl Retention {
    /// The end of a retention that begins at `start`; `None`: it never ends.
    pub const fn until(self, start: Timestamp) -> Option<Timestamp> {
        match self {
            Self::For(span) => Some(start.plus(span)),
            Self::Forever => None,
        }
    }
}

/// What happens when nobody can tell whether the work was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum OnUnknown {
    /// The record becomes indeterminate: nothing runs until an operator has settled it.
    FailClosed,
    /// Another attempt runs, since the downstream is idempotent itself.
    Takeover {
        /// For how long, from the first grant, the downstream remembers the key.
        downstream_retention: Millis,
    },
}
