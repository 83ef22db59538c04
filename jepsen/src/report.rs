//! What a run comes to: the verdict, and the figures that the tables are made of.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tokio::process::Command;

use crate::checker::{Case, Done, Finding, Window};
use crate::history::Installation;
use crate::operation::Verb;
use crate::run::Plan;

/// A run's result.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Report {
    /// The day, as the machine says it.
    pub date: String,
    /// The commit that was checked out.
    pub commit: String,
    /// The workload.
    pub workload: String,
    /// The fault.
    pub fault: String,
    /// The seed.
    pub seed: u64,
    /// How long the load lasted, in seconds.
    pub seconds: u64,
    /// How many calls were made.
    pub operations: usize,
    /// How many keys they were about.
    pub keys: usize,
    /// How many executions the ledger has.
    pub executions: usize,
    /// What was really broken.
    pub installed: Vec<String>,
    /// Why the run does not count, if it was skipped.
    pub skipped: Option<String>,
    /// Why the harness failed, if it did.
    pub failed: Option<String>,
    /// What the checkers found; those that found nothing are left out.
    pub findings: Vec<Finding>,
    /// The longest time without a new key being decided, in milliseconds.
    pub unavailable_ms: u64,
    /// The longest time from the end of a fault until every node was ready, in milliseconds.
    pub recovered_ms: u64,
    /// For each fault, how long it took from its beginning until a new key was decided for a call
    /// that was made after it, in milliseconds.
    pub first_decided_ms: Vec<u64>,
    /// For each fault, how long it took from its end until a new key was decided for a call that
    /// was made after it, in milliseconds.
    pub decided_again_ms: Vec<u64>,
    /// Calls at nodes that had a majority, five seconds or more after another node was cut off.
    pub majority_calls: usize,
    /// How many of them were answered.
    pub majority_answered: usize,
}

impl Report {
    /// Makes the report of a run.
    pub async fn new(
        plan: &Plan,
        case: &Case,
        findings: Vec<Finding>,
        skipped: Option<String>,
    ) -> Self {
        let names: BTreeSet<_> = case.calls.iter().map(|done| &done.call.name).collect();
        let installed = case.windows.iter().filter_map(|window| match &window.installed {
            Some(Installation::Installed(what)) => Some(what.clone()),
            _ => None,
        });
        let recovered = case.windows.iter().filter_map(|window| window.recovered_ms);
        let windows = case.windows.iter();
        let healed = windows.filter_map(|window| first_decided_ms(case, window.healed?));
        let majority = majority(case);
        Self {
            date: said_by("date", &["-u", "+%F"]).await,
            commit: said_by("git", &["rev-parse", "--short", "HEAD"]).await,
            workload: plan.workload.to_string(),
            fault: plan.fault.to_string(),
            seed: plan.seed,
            seconds: plan.seconds,
            operations: case.calls.len(),
            keys: names.len(),
            executions: case.executions.iter().filter(|it| !it.refused).count(),
            installed: installed.collect(),
            skipped,
            failed: None,
            findings: findings.into_iter().filter(|finding| !finding.is_clean()).collect(),
            unavailable_ms: unavailable_ms(case),
            recovered_ms: recovered.max().unwrap_or(0),
            first_decided_ms: case
                .windows
                .iter()
                .filter_map(|window| first_decided_ms(case, window.begin))
                .collect(),
            decided_again_ms: healed.collect(),
            majority_calls: majority.len(),
            majority_answered: majority.iter().filter(|it| !it.answer.is_unavailable()).count(),
        }
    }

    /// Makes the report of a run in which the harness itself failed.
    pub fn failure(plan: &Plan, why: String) -> Self {
        Self {
            workload: plan.workload.to_string(),
            fault: plan.fault.to_string(),
            seed: plan.seed,
            seconds: plan.seconds,
            failed: Some(why),
            ..Self::default()
        }
    }

    /// Whether it counts and nothing was found.
    pub fn passed(&self) -> bool {
        self.skipped.is_none() && self.failed.is_none() && self.findings.is_empty()
    }

    /// How many violations were found.
    pub fn violations(&self) -> usize {
        self.findings.iter().map(|finding| finding.violations.len()).sum()
    }

    /// How much could not be decided.
    pub fn undecided(&self) -> usize {
        self.findings.iter().map(|finding| finding.undecided.len()).sum()
    }

    /// The verdict in a word.
    pub fn verdict(&self) -> &'static str {
        match (&self.failed, &self.skipped) {
            (Some(_), _) => "HARNESS FAILED",
            (_, Some(_)) => "skipped",
            _ if self.violations() > 0 => "VIOLATED",
            _ if self.undecided() > 0 => "UNDECIDED",
            _ => "passed",
        }
    }
}

async fn said_by(program: &str, arguments: &[&str]) -> String {
    let output = Command::new(program).args(arguments).output().await;
    let said = output.map(|output| String::from_utf8_lossy(&output.stdout).trim().to_owned());
    said.unwrap_or_default()
}

/// Whether a call had a new key decided for it: not a replay, nor what any replica can tell.
fn decides(done: &Done) -> bool {
    let answer = &done.answer;
    match done.call.verb {
        Verb::Post { .. } => answer.has_outcome() && !answer.replayed,
        Verb::Claim { .. } => answer.status == 201,
        _ => false,
    }
}

/// The longest time, within the load, without a new key being decided.
fn unavailable_ms(case: &Case) -> u64 {
    let begin = case.load.0;
    // Clients that begin nothing any more are waited for; that time tells nothing.
    let load = case.calls.iter().filter(|done| done.invoked < case.load.1);
    let end = load.map(|done| done.invoked).max().unwrap_or(begin);
    let mut times: Vec<_> =
        case.calls.iter().filter(|done| decides(done)).map(|done| done.returned).collect();
    times.extend([begin, end]);
    times.retain(|at| (begin..=end).contains(at));
    times.sort_unstable();
    times.windows(2).map(|pair| (pair[1] - pair[0]) / 1000).max().unwrap_or(0)
}

/// How long after `from` a new key was decided for a call that began behind it.
fn first_decided_ms(case: &Case, from: u64) -> Option<u64> {
    let after = case.calls.iter().filter(|done| decides(done) && done.invoked > from);
    after.map(|done| (done.returned - from) / 1000).min()
}

/// How long those who have a majority are given to go on without the rest, in microseconds.
const GO_ON_US: u64 = 5_000_000;

/// The calls at nodes that had a majority, a while after another node was cut off.
fn majority(case: &Case) -> Vec<&Done> {
    let within = |window: &Window, done: &Done| {
        window.isolated.is_some_and(|node| node != done.call.node)
            && done.invoked >= window.begin + GO_ON_US
            && window.healed.is_some_and(|healed| done.returned < healed)
    };
    let calls = case.calls.iter();
    calls.filter(|done| case.windows.iter().any(|window| within(window, done))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::fixtures::{S, name, outcome, post, refused};

    /// A call each second; node 2 is cut off from second 10 to second 20.
    fn case() -> Case {
        let mut case = Case { load: (0, 30 * S), ..Case::default() };
        for second in 0..30 {
            let cut = (10..13).contains(&second);
            let end = if cut { refused(503, "shard-unavailable") } else { outcome("n") };
            let at = (second * S, second * S + S / 10);
            case = case.call(&name("orders", "k"), post(0), at, end);
        }
        case.windows.push(Window {
            fault: "isolate".to_owned(),
            begin: 10 * S - 1,
            installed: None,
            isolated: Some(2),
            healed: Some(20 * S - 1),
            recovered_ms: Some(7),
        });
        case
    }

    #[test]
    fn times_are_counted_from_the_fault_and_from_its_end() {
        let case = case();
        assert_eq!(unavailable_ms(&case), 4000);
        assert_eq!(first_decided_ms(&case, 10 * S - 1), Some(3100));
        assert_eq!(first_decided_ms(&case, 20 * S - 1), Some(100));
    }

    #[test]
    fn a_majority_is_judged_five_seconds_after_the_cut_and_without_the_node_that_was_cut_off() {
        let mut case = case();
        assert_eq!(majority(&case).len(), 5, "seconds 15 to 19");
        case.windows[0].isolated = Some(1);
        assert_eq!(majority(&case).len(), 0, "all calls were made at node 1");
    }
}
