//! Replicas are equal: whatever two nodes hold of a shard at one position of its log is the same.

use std::collections::{BTreeMap, BTreeSet};

use super::{Case, Finding};

/// Holds the rule against a run.
pub fn check(case: &Case) -> Finding {
    let mut finding = Finding::new("digests");
    // The nodes that were there, and what they had.
    let mut positions = BTreeMap::<_, (BTreeSet<u8>, BTreeSet<&str>)>::new();
    let mut compared: BTreeMap<u16, bool> = BTreeMap::new();
    for digest in &case.digests {
        let (nodes, digests) = positions.entry((digest.shard, digest.index)).or_default();
        nodes.insert(digest.node);
        digests.insert(&digest.digest);
        *compared.entry(digest.shard).or_default() |= nodes.len() > 1;
    }
    for ((shard, index), (nodes, digests)) in &positions {
        if digests.len() > 1 {
            finding.violated(format!(
                "shard {shard} at index {index} is not the same at nodes {nodes:?}: {digests:?}"
            ));
        }
    }
    for (shard, _) in compared.iter().filter(|(_, compared)| !**compared) {
        finding.undecided(format!("shard {shard}: no two nodes were at one position"));
    }
    if case.digests.is_empty() {
        finding.undecided("no digest was taken".to_owned());
    }
    finding
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::Digest;

    fn case(digests: &[(u8, u16, u64, &str)]) -> Case {
        let digest = |(node, shard, index, digest): &(u8, u16, u64, &str)| Digest {
            node: *node,
            shard: *shard,
            index: *index,
            digest: (*digest).to_owned(),
        };
        Case { digests: digests.iter().map(digest).collect(), ..Case::default() }
    }

    #[test]
    fn equal_replicas_are_accepted() {
        let equal =
            [(1, 0, 7, "x"), (2, 0, 7, "x"), (3, 0, 7, "x"), (1, 1, 9, "y"), (2, 1, 9, "y")];
        assert!(check(&case(&equal)).is_clean());
        let behind = [(1, 0, 6, "w"), (2, 0, 7, "x"), (3, 0, 7, "x")];
        assert!(check(&case(&behind)).is_clean(), "one was elsewhere");
    }

    #[test]
    fn different_replicas_are_rejected() {
        assert_eq!(check(&case(&[(1, 0, 7, "x"), (2, 0, 7, "y")])).violations.len(), 1);
    }

    #[test]
    fn replicas_that_cannot_be_compared_are_undecided() {
        assert_eq!(check(&case(&[(1, 0, 6, "x"), (2, 0, 7, "y")])).undecided.len(), 1);
        assert_eq!(check(&case(&[])).undecided.len(), 1);
    }
}
