//! No layout changes unseen: a node that reads another layout than was written under the same
//! version takes one thing for another. What a layout is made of is seen here; that two variants
//! which hold the same change places is not.

use sha2::{Digest, Sha256};

use super::layouts;

/// What is pinned: a line for each layout, its version, and a digest of what seeds lead to.
const PINNED: &str = include_str!("pinned.txt");

/// How many seeds there are. Their bytes are small, since most bytes of a value that have a meaning
/// of their own (variants, options, lengths) are.
const SEEDS: u16 = 3000;

#[test]
fn a_layout_that_changes_gets_a_new_version() {
    let found: Vec<String> = layouts()
        .iter()
        .map(|layout| {
            let mut digest = Sha256::new();
            let mut values = 0;
            for seed in 0..SEEDS {
                let Some(value) = (layout.sample)(&bytes(seed)) else { continue };
                values += 1;
                // The version stands in the line already.
                let value = &value[usize::from(layout.version.is_some())..];
                digest.update((value.len() as u64).to_be_bytes());
                digest.update(value);
            }
            assert!(values >= SEEDS / 8, "{}: only {values} seeds lead to a value", layout.name);
            let digest: String =
                digest.finalize()[..8].iter().map(|byte| format!("{byte:02x}")).collect();
            let version = layout.version.map_or("-".to_owned(), |version| version.to_string());
            format!("{} | {version} | {digest}", layout.name)
        })
        .collect();
    let found = found.join("\n") + "\n";
    assert!(
        found == PINNED,
        "a layout has changed: give it a new version in codec.rs, then pin this:\n{found}"
    );
}

/// The bytes of a seed, by a plain generator: they must never change.
fn bytes(seed: u16) -> Vec<u8> {
    let mut state = u32::from(seed);
    let bytes = (0..200).map(|at| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        let byte = (state >> 24) as u8;
        match at {
            0 => (seed % 12) as u8,
            _ => byte % [2, 3, 5, 40][usize::from(seed % 4)],
        }
    });
    bytes.collect()
}
