//! What one record of the claims API may answer: a model of its own, simpler than the product's.
//!
//! It knows no clock. A lease may end at any moment from the earliest on at which it can be over,
//! counted from before the claim was sent; the search tries both. A call whose answer was lost may
//! have happened at any time behind its beginning, or never.

use crate::checker::{Done, SKEW_US};
use crate::client::Certainty;
use crate::operation::Verb;
use crate::policy::{MAX_EXECUTION_MS, may_be_taken_over};

/// A record.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Record {
    /// There is none, or it was given back.
    Free,
    /// Somebody holds it.
    Held(Hold),
    /// Its lease has ended and another may take it over.
    Over(Hold),
    /// Nobody knows what became of it.
    Indeterminate(Hold),
    /// It has an outcome.
    Done {
        /// The fence under which it was completed; 0 after an operator.
        fence: u64,
        /// The outcome.
        nonce: String,
        /// Of which request.
        variant: u32,
    },
}

/// Who holds a record, or held it last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Hold {
    /// The attempt; empty once the holder has let go.
    attempt: String,
    /// Of which request.
    variant: u32,
    /// The fence; 0 while no answer has told it.
    fence: u64,
    /// When its lease may be over at the earliest, in microseconds.
    lease_until: u64,
    /// When it can be prolonged to at the latest: nobody renews past it.
    renew_until: u64,
    /// Whether an earlier holder of this generation may have executed.
    tainted: bool,
}

/// A record, with the largest fence that was granted so far.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct State {
    /// The record.
    pub record: Record,
    /// The largest fence.
    pub fence: u64,
    /// What happens from here on happens after this, in microseconds: a lease has ended.
    pub not_before: u64,
}

impl State {
    /// Before the first call.
    pub fn new() -> Self {
        Self { record: Record::Free, fence: 0, not_before: 0 }
    }

    /// Every state in which `done` may leave a record of this state; none when it cannot have been
    /// answered so.
    pub fn after(&self, done: &Done) -> Vec<Self> {
        if done.returned < self.not_before {
            return Vec::new();
        }
        let mut found = self.at_once(done);
        // The lease may have ended before.
        if let Some(ended) = self.lease_ended(done) {
            found.extend(ended.at_once(done));
        }
        found
    }

    /// The record with its lease ended, if it can have by the time that `done` was answered.
    fn lease_ended(&self, done: &Done) -> Option<Self> {
        let Record::Held(hold) = &self.record else { return None };
        let not_before = self.not_before.max(hold.lease_until.saturating_sub(SKEW_US));
        if done.returned < not_before {
            return None;
        }
        let over = may_be_taken_over(&done.call.name.operation);
        let record =
            if over { Record::Over(hold.clone()) } else { Record::Indeterminate(hold.clone()) };
        Some(Self { record, fence: self.fence, not_before })
    }

    fn at_once(&self, done: &Done) -> Vec<Self> {
        match &done.call.verb {
            Verb::Claim { attempt, variant, lease_ms } => {
                self.claim(done, attempt, *variant, *lease_ms)
            }
            Verb::Renew { fence, lease_ms } => self.renew(done, *fence, *lease_ms),
            Verb::Complete { fence, nonce } => self.complete(done, *fence, nonce),
            Verb::Release { fence } => self.release(done, *fence),
            Verb::Unknown { fence } => self.unknown(done, *fence),
            Verb::Resolve { fence, nonce, .. } => self.resolve(done, *fence, nonce.as_deref()),
            Verb::Read => self.read(done),
            Verb::Post { .. } => Vec::new(),
        }
    }

    fn with(&self, record: Record) -> Self {
        Self { record, fence: self.fence, not_before: self.not_before }
    }

    fn unchanged_if(&self, fits: bool) -> Vec<Self> {
        if fits { vec![self.clone()] } else { Vec::new() }
    }

    fn claim(&self, done: &Done, attempt: &str, variant: u32, lease_ms: u64) -> Vec<Self> {
        let refused = |code: &str| self.unchanged_if(tells(done, code));
        let grant = |tainted: bool| {
            let hold = Hold {
                attempt: attempt.to_owned(),
                variant,
                fence: 0,
                lease_until: done.invoked + lease_ms * 1000,
                renew_until: done.invoked + (MAX_EXECUTION_MS + lease_ms) * 1000,
                tainted,
            };
            self.granted(done, hold)
        };
        match &self.record {
            Record::Free => grant(false),
            Record::Held(hold) if hold.variant != variant => refused("key-reused"),
            Record::Held(hold) if hold.attempt == attempt => self.granted_again(done, hold),
            Record::Held(_) => refused("key-in-progress"),
            Record::Over(hold) if hold.variant != variant => refused("key-reused"),
            Record::Over(hold) if hold.attempt == attempt => refused("outcome-indeterminate"),
            Record::Over(_) => grant(true),
            Record::Indeterminate(hold) if hold.variant != variant => refused("key-reused"),
            Record::Indeterminate(_) => refused("outcome-indeterminate"),
            Record::Done { variant: own, .. } if *own != variant => refused("key-reused"),
            Record::Done { nonce, .. } => self.unchanged_if(
                done.end == Certainty::Info
                    || done.answer.status == 200 && done.answer.nonce == *nonce,
            ),
        }
    }

    /// A new grant: its fence is larger than every earlier one.
    fn granted(&self, done: &Done, mut hold: Hold) -> Vec<Self> {
        if done.end == Certainty::Info {
            return vec![self.with(Record::Held(hold))];
        }
        if done.answer.status != 201 || done.answer.fence <= self.fence {
            return Vec::new();
        }
        hold.fence = done.answer.fence;
        vec![Self { fence: hold.fence, record: Record::Held(hold), not_before: self.not_before }]
    }

    /// The same attempt gets the same grant, whose fence may be told now for the first time.
    fn granted_again(&self, done: &Done, hold: &Hold) -> Vec<Self> {
        if done.end == Certainty::Info {
            return vec![self.clone()];
        }
        let fits = match hold.fence {
            0 => done.answer.fence > self.fence,
            fence => done.answer.fence == fence,
        };
        if done.answer.status != 201 || !fits {
            return Vec::new();
        }
        let hold = Hold { fence: done.answer.fence, ..hold.clone() };
        vec![Self { fence: hold.fence, record: Record::Held(hold), not_before: self.not_before }]
    }

    /// The hold of this fence, whoever has it now.
    fn hold_of(&self, fence: u64) -> Option<&Hold> {
        let (Record::Held(hold) | Record::Over(hold) | Record::Indeterminate(hold)) = &self.record
        else {
            return None;
        };
        // Nobody names a fence that was not told; so a hold whose fence is unknown is another's.
        (hold.fence == fence && !hold.attempt.is_empty()).then_some(hold)
    }

    fn renew(&self, done: &Done, fence: u64, lease_ms: u64) -> Vec<Self> {
        let mut found = Vec::new();
        if let (Some(hold), Record::Held(_)) = (self.hold_of(fence), &self.record)
            && may_succeed(done)
        {
            let until = (done.invoked + lease_ms * 1000).min(hold.renew_until);
            let lease_until = until.max(hold.lease_until);
            found.push(self.with(Record::Held(Hold { lease_until, ..hold.clone() })));
        }
        let held = matches!(self.record, Record::Held(_)) && self.hold_of(fence).is_some();
        if !held && is_refusal(done) {
            found.push(self.clone());
        }
        found
    }

    fn complete(&self, done: &Done, fence: u64, nonce: &str) -> Vec<Self> {
        if let Some(hold) = self.hold_of(fence) {
            let (variant, nonce) = (hold.variant, nonce.to_owned());
            return match may_succeed(done) {
                true => vec![self.with(Record::Done { fence, nonce, variant })],
                false => Vec::new(),
            };
        }
        match &self.record {
            Record::Done { fence: own, nonce: kept, .. } if *own == fence && kept == nonce => {
                self.unchanged_if(may_succeed(done))
            }
            _ => self.unchanged_if(is_refusal(done)),
        }
    }

    fn release(&self, done: &Done, fence: u64) -> Vec<Self> {
        let Some(hold) = self.hold_of(fence) else {
            return self.unchanged_if(is_refusal(done));
        };
        // Where the product repeats it by itself, the repeat finds nothing to give back.
        if !may_succeed(done) && done.answer.code != "stale-fence" {
            return Vec::new();
        }
        if !hold.tainted {
            return vec![self.with(Record::Free)];
        }
        let hold = Hold { attempt: String::new(), ..hold.clone() };
        vec![self.with(match &self.record {
            Record::Indeterminate(_) => Record::Indeterminate(hold),
            _ => Record::Over(hold),
        })]
    }

    fn unknown(&self, done: &Done, fence: u64) -> Vec<Self> {
        let Some(hold) = self.hold_of(fence) else {
            return self.unchanged_if(is_refusal(done));
        };
        if !may_succeed(done) {
            return Vec::new();
        }
        match &self.record {
            Record::Held(_) if may_be_taken_over(&done.call.name.operation) => {
                vec![self.with(Record::Over(hold.clone()))]
            }
            Record::Held(_) => vec![self.with(Record::Indeterminate(hold.clone()))],
            _ => vec![self.clone()],
        }
    }

    fn resolve(&self, done: &Done, fence: u64, nonce: Option<&str>) -> Vec<Self> {
        let mut found = self.unchanged_if(is_refusal(done));
        let Record::Indeterminate(hold) = &self.record else { return found };
        // A fence that no answer has told yet may be the one that the operator saw.
        let fits = hold.fence == fence || hold.fence == 0;
        if fits && may_succeed(done) {
            let largest = done.answer.fence.max(self.fence);
            let record = match nonce {
                None => Record::Free,
                Some(nonce) => {
                    let (nonce, variant) = (nonce.to_owned(), hold.variant);
                    Record::Done { fence: 0, nonce, variant }
                }
            };
            found.push(Self { record, fence: largest, not_before: self.not_before });
        }
        found
    }

    fn read(&self, done: &Done) -> Vec<Self> {
        if done.end == Certainty::Info || done.answer.is_unavailable() {
            return vec![self.clone()];
        }
        let told = &done.answer;
        let told_fence = |hold: &Hold| hold.fence == 0 || hold.fence == told.fence;
        self.unchanged_if(match &self.record {
            Record::Free => told.status == 404 || told.state == "released",
            Record::Held(hold) => told.state == "claimed" && told_fence(hold),
            Record::Over(hold) => told.state == "claimable" && told_fence(hold),
            Record::Indeterminate(hold) => told.state == "indeterminate" && told_fence(hold),
            Record::Done { nonce, .. } => told.state == "completed" && told.nonce == *nonce,
        })
    }
}

impl Default for State {
    fn default() -> Self {
        Self::new()
    }
}

fn tells(done: &Done, code: &str) -> bool {
    done.end == Certainty::Info || done.answer.code == code
}

/// Whether a command may have done what it says.
fn may_succeed(done: &Done) -> bool {
    done.end == Certainty::Info || (200..300).contains(&done.answer.status)
}

/// Whether a command may have changed nothing.
fn is_refusal(done: &Done) -> bool {
    done.end == Certainty::Info || matches!(done.answer.status, 404 | 409)
}
