//! What must hold of a history, by rules of their own: nothing here is shared with the product.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use super::history::{Event, Execution, Name, Seen, Told, Verdict, What};
use super::run::Outcome;
use super::workload::{SHORT_RETENTION, is_short, is_takeover};
use super::world::NODES;

/// By how much two clocks may differ, and what a stamp is late by.
const SLACK: Duration = Duration::from_millis(1500);

/// A rule that a history breaks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Violation {
    pub(crate) check: &'static str,
    pub(crate) what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.check, self.what)
    }
}

/// Every rule that a run breaks.
pub(crate) fn check(outcome: &Outcome) -> Vec<Violation> {
    let facts = Facts::of(&outcome.events);
    let mut found = Findings::default();
    executions(&facts, &mut found);
    answers(&facts, &mut found);
    fences(&facts, &mut found);
    acknowledged(&facts, &mut found);
    released(&facts, &mut found);
    indeterminate(&facts, &mut found);
    justified(&outcome.events, &mut found);
    consensus(&outcome.events, &mut found);
    replicas(&outcome.events, &mut found);
    health(outcome, &mut found);
    found.0
}

#[derive(Default)]
struct Findings(Vec<Violation>);

impl Findings {
    fn add(&mut self, check: &'static str, what: impl Into<String>) {
        self.0.push(Violation { check, what: what.into() });
    }
}

/// The history by key.
#[derive(Default)]
struct Facts<'a> {
    executions: BTreeMap<&'a Name, Vec<(Duration, &'a Execution)>>,
    by_nonce: BTreeMap<&'a str, (Duration, &'a Execution)>,
    operator: BTreeMap<&'a Name, Vec<(Duration, u64, Verdict)>>,
    released: BTreeMap<&'a Name, Vec<(Duration, u64)>>,
    completing: BTreeMap<(&'a Name, u64), Duration>,
    told: Vec<(Duration, &'a Name, u8, &'a Told)>,
    reads: Vec<(Duration, Duration, &'a Name, &'a Seen)>,
    finals: Vec<(Duration, &'a Name, usize, &'a Seen)>,
}

impl<'a> Facts<'a> {
    fn of(events: &'a [Event]) -> Self {
        let mut facts = Self::default();
        for Event { at, what } in events {
            match what {
                What::Executed(execution) => {
                    let of_name = facts.executions.entry(&execution.name).or_default();
                    of_name.push((*at, execution));
                    facts.by_nonce.insert(&execution.nonce, (*at, execution));
                }
                What::Operator { name, fence, verdict } => {
                    facts.operator.entry(name).or_default().push((*at, *fence, *verdict));
                }
                What::Completing { name, fence } => {
                    facts.completing.entry((name, *fence)).or_insert(*at);
                }
                What::Released { name, fence } => {
                    facts.released.entry(name).or_default().push((*at, *fence));
                }
                What::Told { name, payload, told, .. } => {
                    facts.told.push((*at, name, *payload, told));
                }
                What::Read { asked_at, name, seen, .. } => {
                    facts.reads.push((*asked_at, *at, name, seen));
                }
                What::Final { name, node, seen } => facts.finals.push((*at, name, *node, seen)),
                _ => {}
            }
        }
        facts
    }

    /// Whether the key of an execution may lawfully be new again at `at`: an operator released or
    /// forgot it, or its retention is over.
    fn may_be_new(&self, since: Duration, execution: &Execution, at: Duration) -> bool {
        let decided = self.operator.get(&execution.name).into_iter().flatten();
        let mut freed = decided.filter(|(asked, fence, verdict)| {
            *asked <= at && *fence >= execution.fence && *verdict != Verdict::Completed
        });
        let expired = is_short(&execution.name.key) && at + SLACK >= since + SHORT_RETENTION;
        freed.next().is_some() || expired
    }
}

/// At most one execution of a generation, a new generation only for a reason, and no fence twice or
/// older than one before.
fn executions(facts: &Facts<'_>, found: &mut Findings) {
    for (name, executions) in &facts.executions {
        for pair in executions.windows(2) {
            let ((since, one), (at, two)) = (pair[0], pair[1]);
            if two.fence <= one.fence {
                found.add("fences increase", format!("{name} at {at:?}: {one:?} then {two:?}"));
            }
            if one.generation == two.generation {
                if !is_takeover(&name.key) {
                    found.add("one execution", format!("{name} at {at:?}: {one:?} then {two:?}"));
                }
            } else if !facts.may_be_new(since, one, at) {
                found.add(
                    "a reason to run again",
                    format!("{name} at {at:?}: {one:?} then {two:?}"),
                );
            }
        }
    }
}

/// Answers tell of the client's own key and request, and always of the same execution.
fn answers(facts: &Facts<'_>, found: &mut Findings) {
    let mut first: BTreeMap<(&Name, u64), &str> = BTreeMap::new();
    for (at, name, payload, told) in &facts.told {
        let (Told::Own { generation, nonce } | Told::Replay { generation, nonce }) = told else {
            continue;
        };
        if nonce != "operator" {
            match facts.by_nonce.get(nonce.as_str()) {
                None => found.add("answers are real", format!("{name} at {at:?}: {nonce}")),
                Some((_, execution)) if execution.name.tenant != name.tenant => {
                    found.add("tenants apart", format!("{name} at {at:?} was told {nonce}"));
                }
                Some((_, execution))
                    if execution.name != **name || execution.payload != *payload =>
                {
                    let what = format!("{name} {payload} at {at:?} was told {nonce}");
                    found.add("answers fit requests", what);
                }
                Some((_, execution)) if execution.generation != *generation => {
                    found.add("answers fit generations", format!("{name} at {at:?}: {nonce}"));
                }
                Some(_) => {}
            }
        }
        let before = *first.entry((name, *generation)).or_insert(nonce);
        if before != nonce {
            found
                .add("replays equal the first", format!("{name} at {at:?}: {before} then {nonce}"));
        }
    }
}

/// Who completes after another has begun under a newer fence does not complete.
fn fences(facts: &Facts<'_>, found: &mut Findings) {
    for (at, name, _, told) in &facts.told {
        let Told::Own { nonce, .. } = told else { continue };
        let Some((_, execution)) = facts.by_nonce.get(nonce.as_str()) else { continue };
        let Some(begun) = facts.completing.get(&(*name, execution.fence)) else { continue };
        let executions = facts.executions.get(name).into_iter().flatten();
        let mut newer = executions
            .filter(|(executed, newer)| newer.fence > execution.fence && executed < begun);
        if let Some((_, newer)) = newer.next() {
            found.add("fences hold", format!("{execution:?} completed at {at:?} after {newer:?}"));
        }
    }
}

/// What a client was told durably is found by every later read, until there is a reason.
fn acknowledged(facts: &Facts<'_>, found: &mut Findings) {
    let finals = facts.finals.iter().map(|(at, name, _, seen)| (*at, *at, *name, *seen));
    let reads: Vec<_> = facts.reads.iter().copied().chain(finals).collect();
    for (acked, name, _, told) in &facts.told {
        let (Told::Own { generation, nonce } | Told::Replay { generation, nonce }) = told else {
            continue;
        };
        let Some((since, execution)) = facts.by_nonce.get(nonce.as_str()) else { continue };
        for (asked, at, read, seen) in &reads {
            if read != name || asked < acked || facts.may_be_new(*since, execution, *at) {
                continue;
            }
            let kept = matches!(
                seen,
                Seen::Done { generation: g, nonce: n, .. } if g == generation && n == nonce
            );
            if !kept {
                found.add(
                    "acknowledged is kept",
                    format!("{name}: told {nonce} at {acked:?}, found {seen:?} at {at:?}"),
                );
                break;
            }
        }
    }
}

/// What was given back as not sent never runs.
fn released(facts: &Facts<'_>, found: &mut Findings) {
    for (name, released) in &facts.released {
        for (at, execution) in facts.executions.get(name).into_iter().flatten() {
            if released.iter().any(|(_, fence)| *fence == execution.fence) {
                found.add("released is not sent", format!("{name} at {at:?}: {execution:?}"));
            }
        }
    }
}

/// Once it is said that nobody knows, nothing runs without an operator, or the word of the holder
/// that it sent nothing.
fn indeterminate(facts: &Facts<'_>, found: &mut Findings) {
    for (told_at, name, _, told) in &facts.told {
        if **told != Told::Indeterminate {
            continue;
        }
        let executions = facts.executions.get(name).map_or(&[][..], Vec::as_slice);
        let Some((at, execution)) = executions.iter().find(|(at, _)| at > told_at) else {
            continue;
        };
        let earlier = executions.iter().rev().find(|(at, _)| at <= told_at);
        let freed = facts
            .operator
            .get(name)
            .into_iter()
            .flatten()
            .any(|(asked, _, verdict)| asked <= at && *verdict != Verdict::Completed);
        let expired = is_short(&name.key)
            && earlier.is_some_and(|(since, _)| *at + SLACK >= *since + SHORT_RETENTION);
        let released = facts.released.get(name).into_iter().flatten();
        let released = released.filter(|(said, _)| said <= at).count() > 0;
        if !freed && !expired && !released {
            let what = format!("{name}: indeterminate at {told_at:?}, {execution:?} at {at:?}");
            found.add("indeterminate stays", what);
        }
    }
}

/// "In progress" needs another request for the key, "reused" one with another payload.
fn justified(events: &[Event], found: &mut Findings) {
    let mut asked: BTreeMap<&Name, BTreeSet<(u64, u8)>> = BTreeMap::new();
    for Event { at, what } in events {
        match what {
            What::Asked { request, name, payload, .. } => {
                asked.entry(name).or_default().insert((*request, *payload));
            }
            What::Told { request, name, payload, told } => {
                let others = asked.get(name).into_iter().flatten();
                let mut others = others.filter(|(other, _)| other != request);
                let justified = match told {
                    Told::InProgress => others.next().is_some(),
                    Told::Reused => others.any(|(_, other)| other != payload),
                    _ => true,
                };
                if !justified {
                    found.add("refusals are justified", format!("{name} at {at:?}: {told:?}"));
                }
            }
            _ => {}
        }
    }
}

/// One leader for a term, which a restart ends; and a vote that was told is remembered.
fn consensus(events: &[Event], found: &mut Findings) {
    let mut leaders = BTreeMap::new();
    for Event { at, what } in events {
        match what {
            What::Leads { shard, term, node, process } => {
                let leader = *leaders.entry((shard, term)).or_insert((node, process));
                if leader != (node, process) {
                    let what = format!("shard {shard} term {term}: {leader:?}, {node} at {at:?}");
                    found.add("one leader for a term", what);
                }
            }
            What::Term { shard, term, promised, node } if term < promised => {
                let what = format!("shard {shard} node {node}: {promised} to {term} at {at:?}");
                found.add("votes are remembered", what);
            }
            _ => {}
        }
    }
}

/// Replicas that have applied the same are the same, and all get there.
fn replicas(events: &[Event], found: &mut Findings) {
    let mut states: BTreeMap<u16, Vec<(u64, [u8; 4])>> = BTreeMap::new();
    for event in events {
        if let What::Digest { shard, applied, sha256, .. } = &event.what {
            states.entry(*shard).or_default().push((*applied, *sha256));
        }
    }
    for (shard, states) in states {
        let distinct: BTreeSet<_> = states.iter().collect();
        if states.len() != NODES || distinct.len() != 1 {
            found.add("replicas agree", format!("shard {shard}: {states:?}"));
        }
    }
}

/// The cluster gets over every fault, and no process gives up without one.
fn health(outcome: &Outcome, found: &mut Findings) {
    for Event { at, what } in &outcome.events {
        match what {
            What::Failed { node, error, expected: false } => {
                found.add("processes live", format!("node {node} at {at:?}: {error}"));
            }
            What::Unhealed(reason) => found.add("faults are got over", reason.clone()),
            _ => {}
        }
    }
    if outcome.panics > 0 {
        found.add("nothing panics", format!("{} panics", outcome.panics));
    }
    let after = |told: &&Event| match &told.what {
        What::Told { name, told, .. } => {
            name.key.starts_with("plain-after") && !matches!(told, Told::Gone | Told::Other(_))
        }
        _ => false,
    };
    if outcome.events.iter().filter(after).count() < NODES {
        found.add("faults are got over", "a claim is not decided at the end");
    }
}
