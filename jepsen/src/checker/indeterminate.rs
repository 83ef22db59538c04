//! Once a key is indeterminate, it does not run again by itself: only after an operator's recorded
//! decision, after the holder has given its grant back, or by the takeover rule.

use super::{Case, Done, Finding};
use crate::client::Certainty;
use crate::operation::{Name, Verb, Verdict};
use crate::policy::may_be_taken_over;

/// Holds the rule against a run.
pub fn check(case: &Case) -> Finding {
    let mut finding = Finding::new("indeterminate");
    let executed = case.executed();
    for (name, calls) in case.by_name() {
        if may_be_taken_over(&name.operation) {
            continue;
        }
        // The first call that was told so.
        let Some(told) = calls.iter().find(|done| says_so(done)) else { continue };
        let at = told.returned;
        let runs = executed.get(name).map_or(&[][..], Vec::as_slice);
        let before = runs.iter().any(|run| run.at < at && run.how.verdict() != Verdict::Retryable);
        let again = runs.iter().find(|run| run.at > at);
        let again = again.filter(|run| before && !is_free(case, name, &calls, run.at));
        if let Some(again) = again {
            let complaint = format!("ran again, as {}, after call {}", again.nonce, told.id);
            finding.violated(format!("{name} {complaint} was told it is indeterminate"));
        }
        let granted = calls.iter().find(|done| {
            matches!(done.call.verb, Verb::Claim { .. })
                && done.answer.status == 201
                && done.invoked > at
        });
        if let Some(granted) = granted.filter(|it| !is_free(case, name, &calls, it.returned)) {
            let complaint = format!("was granted to call {} after call {}", granted.id, told.id);
            finding.violated(format!("{name} {complaint} was told it is indeterminate"));
        }
    }
    finding
}

fn says_so(done: &Done) -> bool {
    done.answer.code == "outcome-indeterminate" || done.answer.state == "indeterminate"
}

/// Whether somebody who may has freed the name before `at`.
fn is_free(case: &Case, name: &Name, calls: &[&Done], at: u64) -> bool {
    let given_back = calls.iter().any(|done| {
        // What a lost answer, or a repeat of it within the product, leaves open may have been done.
        let done_so = done.end != Certainty::Fail || done.answer.code == "stale-fence";
        matches!(done.call.verb, Verb::Release { .. }) && done_so && done.invoked < at
    });
    given_back || case.released_between(name, 0, at)
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;
    use crate::operation::How;

    fn posted(operation: &str) -> Case {
        let name = name(operation, "k");
        Case::default()
            .call(&name, post(0), (0, S), lost())
            .call(&name, post(0), (4 * S, 5 * S), refused(409, "outcome-indeterminate"))
            .call(&name, post(0), (6 * S, 7 * S), outcome("n2"))
            .executed_for(1, 1, 1, "n1", How::Hang)
            .executed_for(3, 6 * S + 1, 2, "n2", How::After(0))
    }

    fn claimed() -> Case {
        let name = name("claims", "k");
        Case::default()
            .call(&name, claim("a", 0), (0, S), granted(1))
            .call(&name, claim("b", 0), (4 * S, 5 * S), refused(409, "outcome-indeterminate"))
            .call(&name, claim("c", 0), (6 * S, 7 * S), granted(2))
    }

    #[test]
    fn a_key_that_runs_again_by_itself_is_rejected() {
        assert_eq!(check(&posted("orders")).violations.len(), 1);
        assert_eq!(check(&claimed()).violations.len(), 1);
    }

    #[test]
    fn takeover_and_an_operators_release_are_accepted() {
        assert!(check(&posted("again")).is_clean());
        let resolve = Verb::Resolve { fence: 1, nonce: None, force: false };
        let operation = [posted("orders"), claimed()];
        for case in operation {
            let name = case.calls[0].call.name.clone();
            let released = case.clone().call(&name, resolve.clone(), (5 * S, 6 * S), lost());
            assert!(check(&released).is_clean());
            let late = case.call(&name, resolve.clone(), (8 * S, 9 * S), fine("released"));
            assert_eq!(check(&late).violations.len(), 1, "it was released afterwards");
        }
    }

    #[test]
    fn the_holders_own_release_is_accepted() {
        let case = claimed();
        let name = case.calls[0].call.name.clone();
        let release = Verb::Release { fence: 1 };
        assert!(check(&case.call(&name, release, (5 * S, 6 * S), fine("released"))).is_clean());
    }

    #[test]
    fn a_first_execution_by_the_holder_is_no_second_one() {
        let mut case = posted("orders");
        case.executions.remove(0);
        assert!(check(&case).is_clean());
    }
}
