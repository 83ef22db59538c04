//! What has happened so far, and which property of the protocol it has broken.

use std::collections::{BTreeMap, BTreeSet};

use protocol::StoredResponse;
use protocol::lease::Fence;

/// The properties of the protocol. Each is checked in every state of every run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Rule {
    /// At most one upstream execution per generation, where takeover is not allowed.
    OneExecution,
    /// What its holder gave back as not executed was not, and never is.
    GivenBackNeverRan,
    /// Nothing of a generation runs once an operator has released it after the waiting time.
    ReleasedIsDrained,
    /// Everybody who is told an outcome of a generation is told the same one.
    OneAnswer,
    /// A stored outcome is one that an execution or an operator gave.
    RealOutcome,
    /// Who is told the outcome of an execution is told it once it is stored.
    StoredFirst,
    /// What a client is told not to have run has not, and does not.
    NotRunIsTrue,
    /// Every fence is larger than those before.
    FencesGrow,
    /// A command with a fence that is not the current one changes nothing.
    StaleChangesNothing,
    /// A lease ends, whatever is renewed.
    LeaseEnds,
    /// A claim is held by an execution that goes on, or of which bytes may have left.
    NoGhost,
    /// Bytes leave only under a live lease, whichever leader's clock ends it.
    SentUnderLease,
    /// A replay answers the request that it is given to, with the outcome of the key's present.
    OwnReplay,
    /// What an operator has decided is not overwritten, nor decides about something else.
    OperatorStands,
}

impl Rule {
    /// Names the rule in reports, after the property of the protocol that it is a part of.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::OneExecution => "P1 one execution per generation",
            Self::GivenBackNeverRan => "P1 what was given back never ran",
            Self::ReleasedIsDrained => "P5 nothing runs after an operator's release",
            Self::OneAnswer => "P2 one answer per generation",
            Self::RealOutcome => "P2 an outcome is that of an execution",
            Self::StoredFirst => "P2 an outcome is stored before it is told",
            Self::NotRunIsTrue => "P2 what is said not to have run did not",
            Self::FencesGrow => "P3 fences grow",
            Self::StaleChangesNothing => "P3 a stale command changes nothing",
            Self::LeaseEnds => "P4 a lease ends",
            Self::NoGhost => "P4 no claim without an executor",
            Self::SentUnderLease => "P5 bytes leave under a live lease",
            Self::OwnReplay => "P6 a replay answers its own request",
            Self::OperatorStands => "P7 an operator's decision stands",
        }
    }
}

/// What has happened so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Witness {
    /// The rules that were broken.
    broken: BTreeSet<Rule>,
    /// The largest fence so far.
    highest: Option<Fence>,
    /// The fences that were granted, with their generations.
    generations: BTreeMap<Fence, Fence>,
    /// The fences under which bytes have left.
    sent: BTreeSet<Fence>,
    /// How often the upstream has executed under each fence.
    executed: BTreeMap<Fence, u8>,
    /// The fences that were given back.
    given_back: BTreeSet<Fence>,
    /// The generations that ended because their holder gave them back.
    buried: BTreeSet<Fence>,
    /// The generations that an operator released after the waiting time.
    released: BTreeSet<Fence>,
    /// The outcome of each generation, as the first one who was told it was told it.
    outcomes: BTreeMap<Fence, StoredResponse>,
}

impl Witness {
    /// A rule was broken.
    pub(crate) fn breaks(&mut self, rule: Rule) {
        self.broken.insert(rule);
    }

    /// Whether a rule was broken.
    pub(crate) fn has_broken(&self, rule: Rule) -> bool {
        self.broken.contains(&rule)
    }

    /// A fence was given, to a grant or to an operator's decision.
    pub(crate) fn fence_given(&mut self, fence: Fence, generation: Fence) {
        if self.highest.is_some_and(|highest| fence <= highest) {
            self.breaks(Rule::FencesGrow);
        }
        self.highest = self.highest.max(Some(fence));
        self.generations.insert(fence, generation);
    }

    /// Bytes left under this fence.
    pub(crate) fn bytes_left(&mut self, fence: Fence) {
        self.sent.insert(fence);
    }

    /// Whether bytes may have left under this fence.
    pub(crate) fn was_sent(&self, fence: Fence) -> bool {
        self.sent.contains(&fence)
    }

    /// Whether the upstream executed under this fence.
    pub(crate) fn has_executed(&self, fence: Fence) -> bool {
        self.executed.contains_key(&fence)
    }

    /// The upstream executes under this fence.
    pub(crate) fn executes(&mut self, fence: Fence, downstream_idempotent: bool) {
        *self.executed.entry(fence).or_default() += 1;
        let generation = self.generation_of(fence);
        if self.given_back.contains(&fence) || self.buried.contains(&generation) {
            self.breaks(Rule::GivenBackNeverRan);
        }
        if self.released.contains(&generation) {
            self.breaks(Rule::ReleasedIsDrained);
        }
        if !downstream_idempotent && self.executions_of(generation) > 1 {
            self.breaks(Rule::OneExecution);
        }
    }

    /// The holder gave a fence back; `ends` when that made the key claimable by anybody as new.
    pub(crate) fn gives_back(&mut self, fence: Fence, ends: bool) {
        let generation = self.generation_of(fence);
        self.given_back.insert(fence);
        let ran = if ends {
            self.buried.insert(generation);
            self.executions_of(generation) > 0
        } else {
            self.executed.contains_key(&fence)
        };
        if ran {
            self.breaks(Rule::GivenBackNeverRan);
        }
    }

    /// An operator released a generation after the waiting time.
    pub(crate) fn operator_releases(&mut self, generation: Fence) {
        self.released.insert(generation);
    }

    /// Somebody was told the outcome of a generation, or it was stored.
    pub(crate) fn outcome(&mut self, generation: Fence, response: &StoredResponse) {
        let first = self.outcomes.entry(generation).or_insert_with(|| response.clone());
        if first != response {
            self.breaks(Rule::OneAnswer);
        }
    }

    /// A client was told the outcome of the execution under this fence.
    pub(crate) fn told_own(&mut self, fence: Fence, response: &StoredResponse) {
        let generation = self.generation_of(fence);
        if !self.outcomes.contains_key(&generation) {
            self.breaks(Rule::StoredFirst);
        }
        self.outcome(generation, response);
    }

    /// The generation that a fence was granted in.
    pub(crate) fn generation_of(&self, fence: Fence) -> Fence {
        self.generations.get(&fence).copied().unwrap_or(fence)
    }

    /// How often the upstream executed in a generation.
    pub(crate) fn executions_of(&self, generation: Fence) -> u32 {
        let own =
            self.executed.iter().filter(|(fence, _)| self.generation_of(**fence) == generation);
        own.map(|(_, times)| u32::from(*times)).sum()
    }

    /// How many generations were executed.
    pub(crate) fn generations_executed(&self) -> usize {
        self.executed.keys().map(|fence| self.generation_of(*fence)).collect::<BTreeSet<_>>().len()
    }

    /// Whether anything was given back.
    pub(crate) fn any_given_back(&self) -> bool {
        !self.given_back.is_empty()
    }

    /// Whether an operator released anything.
    pub(crate) fn any_released(&self) -> bool {
        !self.released.is_empty()
    }
}
