//! Every refusal has its reason: "in progress" needs another call that may hold the key, "reused"
//! needs an earlier call with another body; and nobody gets the outcome of another body.

use std::collections::BTreeMap;

use super::{Case, Done, Finding, SKEW_US};
use crate::client::Certainty;
use crate::operation::{Name, Verb};
use crate::policy::{LEASE_MS, MAX_EXECUTION_MS, retention_ms};

/// How old an "in progress" may be, in microseconds: a replica answers it from what it has.
const STALE_US: u64 = 2_000_000;

/// For how long a call whose end tells nothing may hold its key, in microseconds: the product tries
/// for five seconds to have a claim decided, and the execution and one more lease follow.
const HOLD_US: u64 = (5000 + MAX_EXECUTION_MS + LEASE_MS) * 1000 + 2 * SKEW_US;

/// Holds the rules against a run.
pub fn check(case: &Case) -> Finding {
    let mut finding = Finding::new("refusals");
    for (name, calls) in case.by_name() {
        for done in calls.iter().filter(|done| done.is_claiming()) {
            let reason = match done.answer.code.as_str() {
                "key-in-progress" => calls.iter().any(|it| may_hold(it, done, &calls)),
                "key-reused" => calls.iter().any(|it| is_another_request(it, done, name)),
                _ => true,
            };
            if !reason {
                let code = &done.answer.code;
                finding.violated(format!("{name}: call {} was told {code} for no reason", done.id));
            }
        }
    }
    another_body(case, &mut finding);
    finding
}

/// Whether `other` may hold the key when `done` is told that somebody does.
fn may_hold(other: &Done, done: &Done, calls: &[&Done]) -> bool {
    if other.id == done.id || !other.is_claiming() || other.invoked >= done.returned {
        return false;
    }
    let refused = ["key-in-progress", "key-reused", "outcome-indeterminate"];
    let answered = refused.contains(&other.answer.code.as_str()) || other.answer.replayed;
    if answered && !other.may_have_been_granted_unheard() {
        return false;
    }
    let until = match &other.call.verb {
        // Its outcome was stored before it was told.
        Verb::Post { .. } if other.tells_outcome() => other.returned,
        Verb::Claim { .. } if other.answer.status == 201 => {
            given_up(other.answer.fence, calls).unwrap_or(u64::MAX).min(other.returned + HOLD_US)
        }
        _ => other.invoked + HOLD_US,
    };
    until + STALE_US >= done.invoked
}

/// When the holder of a fence was told that its grant has ended.
fn given_up(fence: u64, calls: &[&Done]) -> Option<u64> {
    let ends = calls.iter().filter(|done| match done.call.verb {
        Verb::Complete { fence: own, .. }
        | Verb::Release { fence: own }
        | Verb::Unknown { fence: own } => own == fence && done.end == Certainty::Ok,
        _ => false,
    });
    ends.map(|done| done.returned).min()
}

/// Whether `other` brought another body, early enough that the key may be its.
fn is_another_request(other: &Done, done: &Done, name: &Name) -> bool {
    let kept_us = retention_ms(&name.operation).map(|kept_ms| kept_ms * 1000 + SKEW_US);
    // What is kept for a time is kept from the completion on, which may be late.
    let until = kept_us.map_or(u64::MAX, |kept| other.returned.saturating_add(kept + HOLD_US));
    other.is_claiming()
        && other.invoked < done.returned
        && other.call.verb.variant() != done.call.verb.variant()
        && until >= done.invoked
}

/// Nobody is told the outcome of a request with another body.
fn another_body(case: &Case, finding: &mut Finding) {
    let calls: BTreeMap<u64, &Done> = case.calls.iter().map(|done| (done.id, done)).collect();
    let mut bodies: BTreeMap<&str, u32> = BTreeMap::new();
    for execution in &case.executions {
        let variant = calls.get(&execution.call).and_then(|done| done.call.verb.variant());
        bodies.extend(variant.map(|variant| (execution.nonce.as_str(), variant)));
    }
    for done in &case.calls {
        let body = bodies.get(done.answer.nonce.as_str());
        if let (Some(own), Some(body)) = (done.call.verb.variant(), body)
            && own != *body
        {
            let (id, nonce) = (done.id, &done.answer.nonce);
            finding.violated(format!("call {id} was told {nonce}, of a request with another body"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;
    use crate::operation::How;

    fn in_progress() -> (Certainty, crate::operation::Answer) {
        refused(409, "key-in-progress")
    }

    #[test]
    fn refusals_with_a_reason_are_accepted() {
        let name = name("orders", "k");
        let case = Case::default()
            .call(&name, post(0), (0, 3 * S), outcome("n1"))
            .call(&name, post(0), (S, 2 * S), in_progress())
            .call(&name, post(1), (S, 2 * S), refused(422, "key-reused"))
            .call(&name, post(0), (4 * S, 5 * S), in_progress());
        assert!(check(&case).is_clean(), "the last is up to two seconds old");
    }

    #[test]
    fn in_progress_is_rejected_when_nobody_holds_the_key() {
        let name = name("orders", "k");
        let alone = Case::default().call(&name, post(0), (0, S), in_progress());
        assert_eq!(check(&alone).violations.len(), 1);
        let done_before = Case::default().call(&name, post(0), (0, S), outcome("n1")).call(
            &name,
            post(0),
            (4 * S, 5 * S),
            in_progress(),
        );
        assert_eq!(check(&done_before).violations.len(), 1);
    }

    #[test]
    fn a_grant_is_a_reason_until_it_is_given_up() {
        let name = name("claims", "k");
        let case = |at: u64| {
            Case::default()
                .call(&name, claim("a", 0), (0, S), granted(1))
                .call(&name, Verb::Release { fence: 1 }, (S, 2 * S), fine("released"))
                .call(&name, claim("b", 0), (at, at + S), in_progress())
        };
        assert!(check(&case(S)).is_clean());
        assert_eq!(check(&case(5 * S)).violations.len(), 1);
    }

    #[test]
    fn reused_is_rejected_when_all_bodies_are_equal() {
        let name = name("orders", "k");
        let case = Case::default().call(&name, post(0), (0, S), outcome("n1")).call(
            &name,
            post(0),
            (2 * S, 3 * S),
            refused(422, "key-reused"),
        );
        assert_eq!(check(&case).violations.len(), 1);
    }

    #[test]
    fn the_outcome_of_another_body_is_rejected() {
        let name = name("orders", "k");
        let case = Case::default()
            .call(&name, post(0), (0, S), outcome("n1"))
            .call(&name, post(1), (2 * S, 3 * S), outcome("n1"))
            .executed_for(1, 1, 1, "n1", How::After(0));
        assert_eq!(check(&case).violations.len(), 1);
    }
}
