//! What a run explores: how many of everything there may be, and which rule is broken on purpose.

use protocol::record::{OnUnknown, Retention, Terms};
use protocol::time::Millis;

use super::goal::Goal;
use super::variant::Variant;

/// What a run explores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Config {
    /// Names the run in reports.
    pub(crate) name: &'static str,
    /// The executions, by the request that each has: 0 or another number is another fingerprint.
    pub(crate) requests: &'static [u8],
    /// The lease that they ask for, in milliseconds.
    pub(crate) lease: u64,
    /// The longest execution, in milliseconds.
    pub(crate) max_execution: u64,
    /// The clients' deadline, in milliseconds.
    pub(crate) answer_within: u64,
    /// How long an outcome is kept, in milliseconds; `None` for ever.
    pub(crate) retention: Option<u64>,
    /// How long the downstream remembers a key, in milliseconds, where takeover is allowed.
    pub(crate) takeover: Option<u64>,
    /// Whether a gateway may know how far the shard is when it begins.
    pub(crate) warm: bool,
    /// How many requests to the shard may go without a reply in time.
    pub(crate) losses: u8,
    /// How many requests to the shard may be refused without having been proposed.
    pub(crate) refusals: u8,
    /// How many requests to the shard may arrive twice.
    pub(crate) duplicates: u8,
    /// How many requests, replies, connections and upstream requests may take their time. Whatever
    /// does not happens before time goes on.
    pub(crate) delays: u8,
    /// How often a gateway may sleep past the time at which it wants to be woken.
    pub(crate) naps: u8,
    /// How many gateways may crash.
    pub(crate) crashes: u8,
    /// How many decisions an operator may take about an indeterminate record.
    pub(crate) verdicts: u8,
    /// How many outcomes an operator may remove.
    pub(crate) forgets: u8,
    /// By how much leaders' clocks are ahead of true time, in milliseconds. The first one leads at
    /// the beginning, and each may follow the one before.
    pub(crate) leaders: &'static [i64],
    /// By how much a gateway's estimate of the leader's clock may be off, in milliseconds.
    pub(crate) estimates: &'static [i64],
    /// Whether replies to claims travel by themselves, and may come after newer copies were made.
    pub(crate) slow_replies: bool,
    /// How often a replica, which answers too, catches up with its leader; 0 is no replica.
    pub(crate) catch_ups: u8,
    /// The rule that is broken.
    pub(crate) variant: Option<Variant>,
    /// What must be reachable, or the run has not explored what it is meant to.
    pub(crate) goals: &'static [Goal],
}

impl Config {
    /// Two executions of one request, which nothing disturbs.
    pub(crate) const UNDISTURBED: Self = Self {
        name: "undisturbed",
        requests: &[0, 0],
        lease: 3_000,
        // Less than a third of the lease, so that no renewal is ever due.
        max_execution: 900,
        answer_within: 600,
        retention: None,
        takeover: None,
        warm: true,
        losses: 0,
        refusals: 0,
        duplicates: 0,
        delays: 0,
        naps: 0,
        crashes: 0,
        verdicts: 0,
        forgets: 0,
        leaders: &[0],
        estimates: &[0],
        slow_replies: false,
        catch_ups: 0,
        variant: None,
        goals: &[],
    };

    /// The terms that the record is kept under.
    pub(crate) fn terms(&self) -> Terms {
        let on_unknown = match self.takeover {
            None => OnUnknown::FailClosed,
            Some(memory) => OnUnknown::Takeover { downstream_retention: Millis::new(memory) },
        };
        let retention = match self.retention {
            None => Retention::Forever,
            Some(span) => Retention::For(Millis::new(span)),
        };
        Terms { retention, on_unknown, max_execution: Millis::new(self.max_execution) }
    }

    /// Whether this rule is the one that is broken.
    pub(crate) fn breaks(&self, variant: Variant) -> bool {
        self.variant == Some(variant)
    }
}
