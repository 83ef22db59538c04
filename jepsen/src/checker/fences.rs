//! Fences strictly increase for a key: of two grants the later one has the larger, and the ledger
//! never accepts an execution with one that is not larger than those before.

use super::{Case, Done, Finding};
use crate::operation::Verb;

/// Holds the rule against a run.
pub fn check(case: &Case) -> Finding {
    let mut finding = Finding::new("fences");
    for (name, executions) in case.executed() {
        for pair in executions.windows(2) {
            let [before, after] = pair else { continue };
            if after.fence <= before.fence {
                finding.violated(format!(
                    "{name}: the ledger accepted fence {} ({}) after {} ({})",
                    after.fence, after.nonce, before.fence, before.nonce
                ));
            }
        }
    }
    for (name, calls) in case.by_name() {
        let grants: Vec<_> = calls.into_iter().filter_map(grant).collect();
        for (first, (attempt, fence)) in &grants {
            let later = grants.iter().filter(|(it, _)| it.invoked > first.returned);
            for (second, (other, next)) in later {
                // The same attempt gets the same grant again.
                let right = if attempt == other { next >= fence } else { next > fence };
                if !right {
                    finding.violated(format!(
                        "{name}: call {} was granted {next} after call {} was granted {fence}",
                        second.id, first.id
                    ));
                }
            }
        }
    }
    finding
}

/// The attempt and the fence of a call that was granted.
fn grant(done: &Done) -> Option<(&Done, (&str, u64))> {
    match &done.call.verb {
        Verb::Claim { attempt, .. } if done.answer.status == 201 => {
            Some((done, (attempt, done.answer.fence)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;
    use crate::operation::How;

    fn grants(fences: [(&str, u64); 2]) -> Case {
        let name = name("again", "k");
        let [(first, one), (second, two)] = fences;
        Case::default()
            .call(&name, claim(first, 0), (0, S), granted(one))
            .call(&name, claim(second, 0), (2 * S, 3 * S), granted(two))
            .executed_for(1, S, one, "n1", How::After(0))
            .executed_for(2, 3 * S, two, "n2", How::After(0))
    }

    #[test]
    fn growing_fences_are_accepted() {
        assert!(check(&grants([("a", 3), ("b", 9)])).is_clean());
        let mut again = grants([("a", 3), ("a", 3)]);
        again.executions.pop();
        assert!(check(&again).is_clean(), "the same attempt got the same grant");
    }

    #[test]
    fn a_fence_that_does_not_grow_is_rejected() {
        for second in [3, 2] {
            assert_eq!(check(&grants([("a", 3), ("b", second)])).violations.len(), 2);
        }
    }

    #[test]
    fn an_execution_that_the_ledger_refused_is_accepted() {
        let mut case = grants([("a", 3), ("b", 9)]);
        case.executions.swap(0, 1);
        assert_eq!(check(&case).violations.len(), 1);
        case.executions[1].refused = true;
        assert!(check(&case).is_clean());
    }
}
