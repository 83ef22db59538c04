//! Damage is found: a node whose files were changed under it does not start.

use super::{Case, Finding};

/// Holds the rule against a run.
pub fn check(case: &Case) -> Finding {
    let mut finding = Finding::new("damage");
    for damage in &case.undetected {
        finding.violated(format!("a flipped bit was not found: {damage}"));
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn damage_that_was_not_found_is_rejected() {
        assert!(check(&Case::default()).is_clean());
        let undetected = vec!["byte 7 of a segment".to_owned()];
        let case = Case { undetected, ..Case::default() };
        assert_eq!(check(&case).violations.len(), 1);
    }
}
