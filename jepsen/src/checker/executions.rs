//! Nothing runs twice: in the ledger there is at most one execution for each generation of a name,
//! unless the upstream is declared idempotent or an operator has released it. And nothing runs for
//! a request that was told that it did not.

use std::collections::BTreeMap;

use super::{Case, Done, Finding, SKEW_US};
use crate::client::Certainty;
use crate::operation::{Name, Verb, Verdict};
use crate::policy::{may_be_taken_over, retention_ms};
use crate::upstream::Execution;

/// Holds the rule against a run.
pub fn check(case: &Case) -> Finding {
    let mut finding = Finding::new("executions");
    for (name, executions) in case.executed() {
        // The execution that keeps the name from running again.
        let mut first: Option<&Execution> = None;
        for execution in executions {
            if let Some(first) = first
                && !may_run_again(case, name, first, execution)
            {
                finding.violated(format!(
                    "{name} ran twice: {} with fence {} for call {}, and {} with fence {} for call \
                     {}",
                    first.nonce,
                    first.fence,
                    first.call,
                    execution.nonce,
                    execution.fence,
                    execution.call
                ));
            }
            if execution.how.verdict() != Verdict::Retryable {
                first = Some(execution);
            }
        }
    }
    let calls: BTreeMap<u64, &Done> = case.calls.iter().map(|done| (done.id, done)).collect();
    for execution in case.executions.iter().filter(|execution| !execution.refused) {
        if let Some(complaint) = unasked(calls.get(&execution.call).copied(), execution) {
            finding.violated(format!("{} of {}: {complaint}", execution.nonce, execution.name));
        }
    }
    finding
}

fn may_run_again(case: &Case, name: &Name, first: &Execution, next: &Execution) -> bool {
    if may_be_taken_over(&name.operation) || case.released_between(name, first.at, next.at) {
        return true;
    }
    // What is kept for a time only is new after it; what nobody knows the outcome of never is.
    retention_ms(&name.operation).is_some_and(|kept_ms| {
        let expired = first.at + kept_ms * 1000;
        first.how.verdict() == Verdict::Final && next.at + SKEW_US >= expired
    })
}

/// Why nobody asked for an execution.
fn unasked(call: Option<&Done>, execution: &Execution) -> Option<String> {
    let Some(call) = call else { return Some("no call asked for it".to_owned()) };
    let id = call.id;
    if call.call.name != execution.name {
        return Some(format!("call {id} was about {}", call.call.name));
    }
    if call.invoked > execution.at {
        return Some(format!("call {id} was made later"));
    }
    if call.end == Certainty::Fail && matches!(call.call.verb, Verb::Post { .. }) {
        let answer = &call.answer;
        return Some(format!(
            "call {id} was told it did not run: {} {}",
            answer.status, answer.code
        ));
    }
    None
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;
    use crate::operation::How;

    const FINE: How = How::After(0);

    /// Two requests for one key, each of which ran.
    fn twice(operation: &str, first: How, second_at: u64) -> Case {
        let name = name(operation, "k");
        Case::default()
            .call(&name, post(0), (0, S), lost())
            .call(&name, post(0), (2 * S, 9 * S), outcome("n2"))
            .executed_for(1, S / 2, 1, "n1", first)
            .executed_for(2, second_at, 2, "n2", FINE)
    }

    #[test]
    fn one_execution_of_each_key_is_accepted() {
        let (a, b) = (name("orders", "a"), name("orders", "b"));
        let case = Case::default()
            .call(&a, post(0), (0, S), outcome("n1"))
            .call(&b, post(0), (0, S), outcome("n2"))
            .call(&a, post(0), (2 * S, 3 * S), outcome("n1"))
            .executed_for(1, 1, 1, "n1", FINE)
            .executed_for(2, 1, 2, "n2", FINE);
        assert_eq!(check(&case), Finding::new("executions"));
    }

    #[test]
    fn a_second_execution_is_rejected_whatever_became_of_the_first() {
        for first in [FINE, How::Hang, How::ResetAfter, How::Status(504), How::Status(422)] {
            assert_eq!(check(&twice("orders", first, 3 * S)).violations.len(), 1, "{first}");
        }
    }

    #[test]
    fn what_may_run_again_is_accepted() {
        assert!(check(&twice("orders", How::Status(503), 3 * S)).is_clean(), "it said later");
        assert!(check(&twice("again", How::Hang, 3 * S)).is_clean(), "it is idempotent");
        let released = twice("orders", FINE, 3 * S).call(
            &name("orders", "k"),
            Verb::Resolve { fence: 1, nonce: None, force: false },
            (S, 2 * S),
            fine("released"),
        );
        assert!(check(&released).is_clean(), "an operator released it");
    }

    #[test]
    fn a_key_is_new_after_its_retention_and_not_before() {
        assert!(check(&twice("short", FINE, 4 * S)).is_clean());
        assert!(!check(&twice("short", FINE, 2 * S + S / 4)).is_clean());
        assert!(!check(&twice("short", How::Hang, 8 * S)).is_clean(), "nobody knows the outcome");
    }

    #[test]
    fn an_execution_that_was_denied_or_not_asked_for_is_rejected() {
        let name = name("orders", "k");
        let denied = Case::default()
            .call(&name, post(0), (0, S), refused(503, "shard-unavailable"))
            .executed_for(1, S / 2, 1, "n1", FINE);
        assert_eq!(check(&denied).violations.len(), 1);
        let mut stranger = denied;
        stranger.executions[0].call = 7;
        assert_eq!(check(&stranger).violations.len(), 1);
    }
}
