//! Every replay equals the first answer of its generation, in status, kept headers and body; there
//! is one outcome for each generation; and an outcome that was replaced never comes back.

use std::collections::BTreeMap;

use super::{Case, Done, Finding};
use crate::operation::{Name, Verb};
use crate::policy::retention_ms;

/// Holds the rules against a run.
pub fn check(case: &Case) -> Finding {
    let mut finding = Finding::new("replays");
    for (name, calls) in case.by_name() {
        let told: Vec<_> = calls.into_iter().filter(|done| done.tells_outcome()).collect();
        equal(name, &told, &mut finding);
        one_outcome(case, name, &told, &mut finding);
        in_order(name, &told, &mut finding);
    }
    finding
}

/// One outcome has one digest, as gateways render it and as the claims API does.
fn equal(name: &Name, told: &[&Done], finding: &mut Finding) {
    let mut digests: BTreeMap<(u8, &str), &Done> = BTreeMap::new();
    for done in told {
        let shown = match done.call.verb {
            Verb::Post { .. } => 0,
            Verb::Claim { .. } => 1,
            _ => 2,
        };
        let first = *digests.entry((shown, &done.answer.nonce)).or_insert(done);
        if first.answer.digest != done.answer.digest {
            finding.violated(format!(
                "{name}: calls {} and {} were told {} in two ways",
                first.id, done.id, done.answer.nonce
            ));
        }
    }
}

/// Without an operator's release and without a retention that ends there is one generation that
/// ends in an outcome, so there is one outcome.
fn one_outcome(case: &Case, name: &Name, told: &[&Done], finding: &mut Finding) {
    let Some(first) = told.first() else { return };
    let other = told.iter().find(|done| done.answer.nonce != first.answer.nonce);
    if let Some(other) = other
        && retention_ms(&name.operation).is_none()
        && !case.released_between(name, 0, u64::MAX)
    {
        finding.violated(format!(
            "{name} has two outcomes: call {} was told {}, call {} was told {}",
            first.id, first.answer.nonce, other.id, other.answer.nonce
        ));
    }
}

/// Once a later outcome was told, no call that begins afterwards is told an earlier one.
fn in_order(name: &Name, told: &[&Done], finding: &mut Finding) {
    for (index, last) in told.iter().enumerate() {
        let nonce = &last.answer.nonce;
        let replaced = told[..index].iter().find(|middle| {
            middle.answer.nonce != *nonce
                && middle.returned < last.invoked
                && told
                    .iter()
                    .any(|first| first.answer.nonce == *nonce && first.returned < middle.invoked)
        });
        if let Some(middle) = replaced {
            finding.violated(format!(
                "{name}: call {} was told {nonce}, which call {} had seen replaced",
                last.id, middle.id
            ));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;

    fn told(operation: &str, nonces: &[&str]) -> Case {
        let name = name(operation, "k");
        nonces.iter().enumerate().fold(Case::default(), |case, (index, nonce)| {
            let at = index as u64 * 2 * S;
            case.call(&name, post(0), (at, at + S), outcome(nonce))
        })
    }

    #[test]
    fn equal_replays_are_accepted() {
        assert!(check(&told("orders", &["n1", "n1", "n1"])).is_clean());
        assert!(check(&told("short", &["n1", "n1", "n2", "n2"])).is_clean(), "it was new again");
    }

    #[test]
    fn a_replay_with_another_header_or_byte_is_rejected() {
        let mut case = told("orders", &["n1", "n1"]);
        case.calls[1].answer.digest = "another".to_owned();
        assert_eq!(check(&case).violations.len(), 1);
    }

    #[test]
    fn a_second_outcome_is_rejected_unless_the_key_was_released() {
        let case = told("orders", &["n1", "n2"]);
        assert_eq!(check(&case).violations.len(), 1);
        let resolve = Verb::Resolve { fence: 1, nonce: None, force: true };
        let case = case.call(&name("orders", "k"), resolve, (S, 2 * S), fine("released"));
        assert!(check(&case).is_clean());
    }

    #[test]
    fn an_outcome_that_comes_back_is_rejected() {
        assert_eq!(check(&told("short", &["n1", "n2", "n1"])).violations.len(), 1);
    }
}
