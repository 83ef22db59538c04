//! Nothing that was acknowledged is lost: every outcome that a client was told is read from every
//! node once all faults are healed.

use std::collections::BTreeMap;

use super::{Case, Done, Finding};
use crate::client::Certainty;
use crate::cluster::NODES;
use crate::operation::{Name, Verb};
use crate::policy::retention_ms;

/// Holds the rule against a run.
pub fn check(case: &Case) -> Finding {
    let mut finding = Finding::new("completions");
    let mut reads: BTreeMap<(&Name, u8), Vec<&Done>> = BTreeMap::new();
    for done in case.calls.iter().filter(|done| done.call.last) {
        reads.entry((&done.call.name, done.call.node)).or_default().push(done);
    }
    for (name, nonce) in acknowledged(case) {
        for node in 1..=NODES {
            let found = reads.get(&(name, node)).map_or(&[][..], Vec::as_slice);
            if found.is_empty() {
                finding.undecided(format!("{name}: node {node} was not asked"));
            } else if !found.iter().any(|done| done.answer.nonce == nonce) {
                let told: Vec<_> = found.iter().map(|done| &done.answer).collect();
                finding.violated(format!("{name}: {nonce} is lost at node {node}: {told:?}"));
            }
        }
    }
    finding
}

/// The outcome of every name that a client was told of; of one that has been new again since, none.
pub fn acknowledged(case: &Case) -> BTreeMap<&Name, &str> {
    let mut told = BTreeMap::new();
    for done in &case.calls {
        let name = &done.call.name;
        if done.call.last || retention_ms(&name.operation).is_some() {
            continue;
        }
        match &done.call.verb {
            Verb::Complete { nonce, .. } | Verb::Resolve { nonce: Some(nonce), .. }
                if done.end == Certainty::Ok =>
            {
                told.insert(name, nonce.as_str());
            }
            _ if done.tells_outcome() => {
                told.insert(name, done.answer.nonce.as_str());
            }
            _ => {}
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;
    use crate::operation::How;

    fn read_by_all(first: Case, name: &Name, third: &str) -> Case {
        first
            .call(name, post(0), (2 * S, 3 * S), outcome("n1"))
            .last(1)
            .call(name, post(0), (2 * S, 3 * S), outcome("n1"))
            .last(2)
            .call(name, post(0), (2 * S, 3 * S), outcome(third))
            .last(3)
    }

    #[test]
    fn an_outcome_that_every_node_has_is_accepted() {
        let name = name("orders", "k");
        let posted = Case::default().call(&name, post(0), (0, S), outcome("n1"));
        assert!(check(&read_by_all(posted, &name, "n1")).is_clean());
        let completed = Case::default().call(&name, complete(1, "n1"), (0, S), fine("completed"));
        assert!(check(&read_by_all(completed, &name, "n1")).is_clean());
    }

    #[test]
    fn an_outcome_that_a_node_has_not_is_rejected() {
        let name = name("orders", "k");
        let posted = Case::default().call(&name, post(0), (0, S), outcome("n1"));
        assert_eq!(check(&read_by_all(posted.clone(), &name, "n2")).violations.len(), 1);
        let unavailable =
            posted.call(&name, post(0), (2 * S, 3 * S), refused(503, "shard-unavailable")).last(1);
        let finding = check(&unavailable);
        assert_eq!((finding.violations.len(), finding.undecided.len()), (1, 2));
    }

    #[test]
    fn what_nobody_was_told_and_what_says_later_need_not_be_there() {
        let name = name("orders", "k");
        let mut case = Case::default()
            .call(&name, post(0), (0, S), lost())
            .call(&name, complete(1, "n1"), (0, S), lost())
            .call(&name, post(0), (0, S), outcome("n3"))
            .executed_for(3, 1, 1, "n3", How::Status(503));
        case.calls[2].answer.status = 503;
        assert!(check(&case).is_clean());
    }
}
