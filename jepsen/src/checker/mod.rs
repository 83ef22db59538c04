//! Checkers: what must hold of a run, each in a file of its own.
//!
//! A checker sees only what was written down: the history and the ledger. It says what was violated
//! and what it could not decide; not to know is a failure too.

pub mod completions;
pub mod coverage;
pub mod damage;
pub mod digests;
pub mod executions;
pub mod fences;
#[cfg(test)]
pub(crate) mod fixtures;
pub mod indeterminate;
pub mod linearizable;
pub mod refusals;
pub mod replays;
pub mod tenants;

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::client::Certainty;
use crate::history::{Digest, Event, Installation, Phase, What};
use crate::operation::{Answer, Call, Name, Verb};
use crate::upstream::Execution;

/// By how much two clocks of the cluster may differ, in microseconds: nothing that depends on a
/// node's clock is more exact.
pub const SKEW_US: u64 = 1_000_000;

/// How soon the product repeats a claim of which an answer was lost, in microseconds, with room
/// for a clock that is read a little late.
const REPEAT_US: u64 = 40_000;

/// A call with its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Done {
    /// Its number in the history.
    pub id: u64,
    /// Who called.
    pub process: u32,
    /// What was asked.
    pub call: Call,
    /// When it began, in microseconds.
    pub invoked: u64,
    /// When it ended; never, if the run ended first.
    pub returned: u64,
    /// How certain its end is.
    pub end: Certainty,
    /// What was told.
    pub answer: Answer,
}

impl Done {
    /// Whether it asks to be the one who executes.
    pub fn is_claiming(&self) -> bool {
        matches!(self.call.verb, Verb::Post { .. } | Verb::Claim { .. })
    }

    /// Whether a claim that was answered otherwise may have been granted before: the product
    /// repeats it by itself when an answer is lost within it, which takes a while.
    pub fn may_have_been_granted_unheard(&self) -> bool {
        self.is_claiming()
            && self.answer.status != 201
            && self.end != Certainty::Info
            && self.returned - self.invoked >= REPEAT_US
    }

    /// Whether it told the outcome that is kept for the key: not one that says "later".
    pub fn tells_outcome(&self) -> bool {
        let kept = match self.call.verb {
            Verb::Post { .. } => !matches!(self.answer.status, 401 | 407 | 421 | 425 | 429 | 503),
            _ => true,
        };
        self.end == Certainty::Ok && self.answer.has_outcome() && kept
    }
}

/// One fault, from its installation to the recovery behind it, in microseconds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Window {
    /// What it was called.
    pub fault: String,
    /// When it began to be installed.
    pub begin: u64,
    /// What came of it.
    pub installed: Option<Installation>,
    /// The only node that was cut off.
    pub isolated: Option<u8>,
    /// When it was gone.
    pub healed: Option<u64>,
    /// How long the cluster took from then on, in milliseconds.
    pub recovered_ms: Option<u64>,
}

/// Everything that was written down of a run.
#[derive(Clone, Debug, Default)]
pub struct Case {
    /// The calls, in the order of their beginnings.
    pub calls: Vec<Done>,
    /// The ledger.
    pub executions: Vec<Execution>,
    /// The faults.
    pub windows: Vec<Window>,
    /// The digests that were taken last.
    pub digests: Vec<Digest>,
    /// Damage that was not found.
    pub undetected: Vec<String>,
    /// When the load began and ended, in microseconds.
    pub load: (u64, u64),
}

impl Case {
    /// Puts together what the files say.
    pub fn new(events: &[Event], executions: Vec<Execution>) -> Self {
        let mut case = Self { executions, ..Self::default() };
        let mut places = BTreeMap::new();
        for event in events {
            case.take(event, &mut places);
        }
        case
    }

    fn take(&mut self, event: &Event, places: &mut BTreeMap<u64, usize>) {
        let Event { at, process, id, what } = event;
        match what {
            What::Invoke(call) => {
                places.insert(*id, self.calls.len());
                self.calls.push(Done {
                    id: *id,
                    process: *process,
                    call: call.clone(),
                    invoked: *at,
                    returned: u64::MAX,
                    end: Certainty::Info,
                    answer: Answer::default(),
                });
            }
            What::Ok(answer) => self.end(places.get(id), *at, Certainty::Ok, answer),
            What::Fail(answer) => self.end(places.get(id), *at, Certainty::Fail, answer),
            What::Info(answer) => self.end(places.get(id), *at, Certainty::Info, answer),
            What::Break(fault) => self.windows.push(Window {
                fault: fault.clone(),
                begin: *at,
                installed: None,
                isolated: None,
                healed: None,
                recovered_ms: None,
            }),
            What::Broken(installed) => self.window(|it| it.installed = Some(installed.clone())),
            What::Isolated(node) => self.window(|it| it.isolated = Some(*node)),
            What::Healed => self.window(|it| it.healed = Some(*at)),
            What::Recovered(took) => self.window(|it| it.recovered_ms = Some(*took)),
            What::Phase(Phase::Load) => self.load.0 = *at,
            What::Phase(Phase::Recovery) => self.load.1 = *at,
            What::Digest(digest) => self.digests.push(digest.clone()),
            What::Undetected(damage) => self.undetected.push(damage.clone()),
            What::Phase(_) | What::Note(_) => {}
        }
    }

    fn end(&mut self, place: Option<&usize>, at: u64, end: Certainty, answer: &Answer) {
        if let Some(done) = place.and_then(|place| self.calls.get_mut(*place)) {
            (done.returned, done.end, done.answer) = (at, end, answer.clone());
        }
    }

    fn window(&mut self, change: impl FnOnce(&mut Window)) {
        // Faults are installed one after the other.
        if let Some(window) = self.windows.last_mut() {
            change(window);
        }
    }

    /// The calls about each record.
    pub fn by_name(&self) -> BTreeMap<&Name, Vec<&Done>> {
        let mut names: BTreeMap<&Name, Vec<&Done>> = BTreeMap::new();
        for done in &self.calls {
            names.entry(&done.call.name).or_default().push(done);
        }
        names
    }

    /// What was really executed, for each record, in the order of the ledger.
    pub fn executed(&self) -> BTreeMap<&Name, Vec<&Execution>> {
        let mut names: BTreeMap<&Name, Vec<&Execution>> = BTreeMap::new();
        for execution in self.executions.iter().filter(|execution| !execution.refused) {
            names.entry(&execution.name).or_default().push(execution);
        }
        names
    }

    /// Whether an operator may have released `name` at some moment between these two.
    pub fn released_between(&self, name: &Name, from: u64, to: u64) -> bool {
        self.calls.iter().any(|done| {
            matches!(done.call.verb, Verb::Resolve { nonce: None, .. })
                && done.call.name == *name
                && done.end != Certainty::Fail
                && done.invoked <= to
                && done.returned >= from
        })
    }
}

/// What a checker found.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Finding {
    /// The checker's name.
    pub checker: String,
    /// What must hold and did not.
    pub violations: Vec<String>,
    /// What it could not decide.
    pub undecided: Vec<String>,
}

impl Finding {
    fn new(checker: &str) -> Self {
        Self { checker: checker.to_owned(), ..Self::default() }
    }

    fn violated(&mut self, what: String) {
        self.violations.push(what);
    }

    fn undecided(&mut self, what: String) {
        self.undecided.push(what);
    }

    /// Whether everything held, for sure.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty() && self.undecided.is_empty()
    }
}

/// Holds every checker against a run.
pub fn check(case: &Case, fault: crate::nemesis::Fault) -> Vec<Finding> {
    vec![
        executions::check(case),
        completions::check(case),
        replays::check(case),
        tenants::check(case),
        fences::check(case),
        linearizable::check(case),
        indeterminate::check(case),
        refusals::check(case),
        digests::check(case),
        coverage::check(case, fault),
        damage::check(case),
    ]
}
