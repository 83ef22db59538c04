//! What a misspelt name most likely means.

use std::collections::BTreeSet;

/// The known name that a misspelt one most likely means.
pub(super) fn nearest<'n>(name: &str, known: &BTreeSet<&'n str>) -> Option<&'n str> {
    known
        .iter()
        .map(|candidate| (distance(name, candidate), *candidate))
        .filter(|(distance, candidate)| *distance <= 2 && *distance < candidate.len())
        .min()
        .map(|(_, candidate)| candidate)
}

/// How many letters must change to make one word of the other (Levenshtein).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (i, l) in left.chars().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, r) in right.iter().enumerate() {
            let changed = diagonal + usize::from(l != *r);
            diagonal = row[j + 1];
            row[j + 1] = changed.min(diagonal + 1).min(row[j] + 1);
        }
    }
    row[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_finds_the_nearest_known_one() {
        let known = BTreeSet::from(["lease", "retention", "key_max"]);
        assert_eq!(nearest("retentoin", &known), Some("retention"));
        assert_eq!(nearest("keymax", &known), Some("key_max"));
        assert_eq!(nearest("colour", &known), None);
    }
}
