//! The run shows something: the fault was really installed and went away again, calls overlapped,
//! and outside the faults the product was there for its clients.

use super::{Case, Done, Finding, Window};
use crate::history::Installation;
use crate::nemesis::Fault;
use crate::operation::Name;

/// The share of calls, outside the windows of faults, that must get an answer.
const ANSWERED_MIN: f64 = 0.7;

/// How long after a fault clients may still suffer from it, in microseconds.
const AFTERMATH_US: u64 = 5_000_000;

/// So many calls of a run are worth judging.
const CALLS_MIN: usize = 50;

/// Holds the rules against a run of `fault`.
pub fn check(case: &Case, fault: Fault) -> Finding {
    let mut finding = Finding::new("coverage");
    let installed = |window: &Window| matches!(window.installed, Some(Installation::Installed(_)));
    if fault != Fault::Nothing && !case.windows.iter().any(installed) {
        finding.undecided(format!("{fault} was never installed"));
    }
    for window in &case.windows {
        if let Some(Installation::Indeterminate(why)) = &window.installed {
            finding.undecided(format!("{} may or may not have been there: {why}", window.fault));
        }
        if window.healed.is_some() && window.recovered_ms.is_none() {
            let fault = &window.fault;
            finding.violated(format!("the cluster did not recover from {fault}"));
        }
        let end = window.healed.unwrap_or(u64::MAX);
        let during = |done: &Done| done.invoked < end && done.returned > window.begin;
        if installed(window) && !case.calls.iter().any(during) {
            finding.undecided(format!("nobody called during {}", window.fault));
        }
    }
    if !overlapped(case) {
        finding.undecided("no two calls about one key overlapped".to_owned());
    }
    answered(case, &mut finding);
    finding
}

/// Whether two claiming calls about one key ever overlapped.
fn overlapped(case: &Case) -> bool {
    let mut open: std::collections::BTreeMap<&Name, u64> = std::collections::BTreeMap::new();
    case.calls.iter().filter(|done| done.is_claiming()).any(|done| {
        let latest = open.entry(&done.call.name).or_default();
        let overlaps = *latest > done.invoked;
        *latest = done.returned.max(*latest);
        overlaps
    })
}

fn answered(case: &Case, finding: &mut Finding) {
    let calm: Vec<_> = case.calls.iter().filter(|done| is_calm(case, done)).collect();
    let answered = calm.iter().filter(|done| !done.answer.is_unavailable()).count();
    if calm.len() < CALLS_MIN {
        finding.undecided(format!("only {} calls were made outside of faults", calm.len()));
    } else if (answered as f64) < ANSWERED_MIN * calm.len() as f64 {
        let all = calm.len();
        finding.violated(format!("outside of faults {answered} of {all} calls were answered"));
    }
}

/// Whether a call was made while nothing was broken, and nothing had been for a while.
fn is_calm(case: &Case, done: &Done) -> bool {
    case.windows.iter().all(|window| {
        let end = window.healed.map_or(u64::MAX, |healed| {
            healed + window.recovered_ms.unwrap_or(0) * 1000 + AFTERMATH_US
        });
        done.returned < window.begin || done.invoked > end
    })
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;

    /// A minute of calls, two at a time, and a fault from second 20 to second 30.
    fn case(unavailable: impl Fn(u64) -> bool) -> Case {
        let name = name("orders", "k");
        let mut case = Case::default();
        for second in 0..60 {
            for _ in 0..2 {
                let end = match unavailable(second) {
                    true => refused(503, "shard-unavailable"),
                    false => outcome("n1"),
                };
                case = case.call(&name, post(0), (second * S, second * S + S / 2), end);
            }
        }
        case.windows.push(Window {
            fault: "kill-one".to_owned(),
            begin: 20 * S,
            installed: Some(Installation::Installed("killed 1".to_owned())),
            isolated: None,
            healed: Some(30 * S),
            recovered_ms: Some(1000),
        });
        case
    }

    #[test]
    fn a_fault_that_was_there_and_went_is_accepted() {
        assert!(check(&case(|_| false), Fault::KillOne).is_clean());
        assert!(check(&case(|second| (20..36).contains(&second)), Fault::KillOne).is_clean());
    }

    #[test]
    fn a_fault_that_was_not_there_is_not_covered() {
        for installed in [
            Installation::Skipped("no root".to_owned()),
            Installation::Indeterminate("who knows".to_owned()),
        ] {
            let mut case = case(|_| false);
            case.windows[0].installed = Some(installed);
            assert!(!check(&case, Fault::KillOne).undecided.is_empty());
        }
    }

    #[test]
    fn a_product_that_is_seldom_there_or_does_not_recover_is_rejected() {
        assert_eq!(check(&case(|second| second % 2 == 0), Fault::KillOne).violations.len(), 1);
        let mut case = case(|_| false);
        case.windows[0].recovered_ms = None;
        assert_eq!(check(&case, Fault::KillOne).violations.len(), 1);
    }

    #[test]
    fn calls_that_never_overlap_show_nothing() {
        let name = name("orders", "k");
        let case = (0..60).fold(Case::default(), |case, second| {
            case.call(&name, post(0), (second * S, second * S + 1), outcome("n1"))
        });
        assert_eq!(check(&case, Fault::Nothing).undecided.len(), 1);
    }
}
