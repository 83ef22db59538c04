//! No answer carries the outcome of another record: not of another tenant, account, operation or
//! key; and none that nobody made.

use std::collections::BTreeMap;

use super::{Case, Finding};
use crate::operation::{Name, Verb};

/// Holds the rule against a run.
pub fn check(case: &Case) -> Finding {
    let mut finding = Finding::new("tenants");
    let mut owners: BTreeMap<&str, &Name> = BTreeMap::new();
    for execution in &case.executions {
        owners.insert(&execution.nonce, &execution.name);
    }
    for done in &case.calls {
        if let Verb::Complete { nonce, .. } | Verb::Resolve { nonce: Some(nonce), .. } =
            &done.call.verb
        {
            owners.insert(nonce, &done.call.name);
        }
    }
    for done in case.calls.iter().filter(|done| done.answer.has_outcome()) {
        let nonce = done.answer.nonce.as_str();
        match owners.get(nonce) {
            None => finding.violated(format!("call {} was told {nonce}, of nobody", done.id)),
            Some(owner) if **owner != done.call.name => finding.violated(format!(
                "call {} about {} was told {nonce}, of {owner}",
                done.id, done.call.name
            )),
            Some(_) => {}
        }
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::super::fixtures::*;
    use super::*;
    use crate::operation::How;

    fn case() -> Case {
        let name = name("orders", "k");
        Case::default()
            .call(&name, post(0), (0, S), outcome("n1"))
            .call(&name, post(0), (2 * S, 3 * S), outcome("n1"))
            .executed_for(1, 1, 1, "n1", How::After(0))
    }

    #[test]
    fn a_records_own_outcome_is_accepted() {
        assert!(check(&case()).is_clean());
    }

    #[test]
    fn another_records_outcome_is_rejected() {
        for change in [
            |name: &mut Name| "bolt".clone_into(&mut name.tenant),
            |name: &mut Name| "a2".clone_into(&mut name.account),
            |name: &mut Name| "short".clone_into(&mut name.operation),
            |name: &mut Name| "j".clone_into(&mut name.key),
        ] {
            let mut case = case();
            change(&mut case.calls[1].call.name);
            assert_eq!(check(&case).violations.len(), 1);
        }
    }

    #[test]
    fn an_outcome_that_nobody_made_is_rejected() {
        let mut case = case();
        "n7".clone_into(&mut case.calls[1].answer.nonce);
        assert_eq!(check(&case).violations.len(), 1);
    }
}
