//! Runs every fuzz target over its corpus and over seeded mutations of it, so that each test run
//! fuzzes a little, without `cargo fuzz`.
//!
//! `cargo +nightly fuzz run --fuzz-dir tests/fuzz json` fuzzes for as long as it is let; what it
//! finds belongs into the corpus.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, and says so"
)]

mod targets;

use std::fs;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use cluster::layouts::layouts;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use targets::{TARGETS, Target};

/// How many mutations each target gets in a test run.
const ROUNDS: usize = 3_000;

/// Bytes that mean something to one target or another.
const SPICE: &[&[u8]] = &[
    b"\"",
    b"\\",
    b"{",
    b"}",
    b"[",
    b"]",
    b":",
    b",",
    b"=",
    b"\r\n",
    b"\n",
    b"--XbX",
    b"--",
    b"\0",
    b"\xff",
    b"\xc3\xa9",
    b"\\u0041",
    b"\\ud800",
    b"e999999999",
    b"-0",
    b"9007199254740993",
    b"[[",
    b"]]",
    b"\"\"\"",
    b"#",
    b"\x01",
    b"\x02",
    b"\x7f",
    b"\x80",
    b"\xfb\xff\xff",
    b"\xfc",
];

#[test]
fn key_headers() {
    fuzz("key");
}

#[test]
fn json_bodies() {
    fuzz("json");
}

#[test]
fn forms_with_files() {
    fuzz("multipart");
}

#[test]
fn policies() {
    fuzz("config");
}

#[test]
fn what_other_processes_send() {
    fuzz("wire");
}

/// Values of every layout, each a little spoiled.
#[test]
fn every_layout_is_read_again_or_refused() {
    let mut rng = StdRng::seed_from_u64(0x1a907);
    for layout in layouts() {
        let (mut made, mut read) = (0, 0);
        for _ in 0..ROUNDS / 3 {
            let length = rng.random_range(0..64);
            let seed: Vec<u8> = (0..length).map(|_| rng.random_range(0..4)).collect();
            let Some(mut bytes) = (layout.sample)(&seed) else { continue };
            made += 1;
            read += usize::from((layout.rewrite)(&bytes).is_some());
            mutate(&mut rng, &mut bytes, &[]);
            run(layout.name, targets::wire, &bytes);
        }
        assert!(made > 100 && read > 100, "{}: {made} made, {read} read", layout.name);
    }
}

#[test]
fn every_target_has_a_corpus_and_a_binary() {
    for (name, _) in TARGETS {
        assert!(!corpus(name).is_empty(), "{name} has no corpus");
        let file = folder().join("fuzz_targets").join(format!("{name}.rs"));
        let text = fs::read_to_string(file).unwrap();
        assert!(text.contains(&format!("targets::{name}(data)")), "{text}");
        let manifest = fs::read_to_string(folder().join("Cargo.toml")).unwrap();
        assert!(manifest.contains(&format!("path = \"fuzz_targets/{name}.rs\"")), "{name}");
    }
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz")
}

fn corpus(name: &str) -> Vec<Vec<u8>> {
    let entries = fs::read_dir(folder().join("corpus").join(name)).unwrap();
    let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    // The same mutations in every run.
    paths.sort();
    paths.iter().map(|path| fs::read(path).unwrap()).collect()
}

fn fuzz(name: &str) {
    let (_, target) = TARGETS.into_iter().find(|(it, _)| *it == name).unwrap();
    let corpus = corpus(name);
    for bytes in &corpus {
        run(name, target, bytes);
    }
    let mut rng = StdRng::seed_from_u64(0xf022);
    for _ in 0..ROUNDS {
        let mut bytes = corpus[rng.random_range(0..corpus.len())].clone();
        for _ in 0..rng.random_range(1..5) {
            mutate(&mut rng, &mut bytes, &corpus);
        }
        run(name, target, &bytes);
    }
}

/// Runs a target; a failure shows the bytes, to be put into the corpus.
fn run(name: &str, target: Target, bytes: &[u8]) {
    let result = catch_unwind(AssertUnwindSafe(|| target(bytes)));
    assert!(result.is_ok(), "{name} failed for b\"{}\"", bytes.escape_ascii());
}

fn mutate(rng: &mut StdRng, bytes: &mut Vec<u8>, corpus: &[Vec<u8>]) {
    let at = rng.random_range(0..=bytes.len());
    match rng.random_range(0..7) {
        0 => bytes.truncate(at),
        1 => {
            let end = (at + rng.random_range(0..16)).min(bytes.len());
            drop(bytes.drain(at..end));
        }
        2 => {
            let spice = SPICE[rng.random_range(0..SPICE.len())];
            bytes.splice(at..at, spice.iter().copied());
        }
        3 if at < bytes.len() => bytes[at] ^= 1 << rng.random_range(0..8),
        4 if at < bytes.len() => bytes[at] = rng.random(),
        5 => {
            let end = (at + rng.random_range(0..64)).min(bytes.len());
            let copy = bytes[at..end].to_vec();
            bytes.splice(at..at, copy);
        }
        _ if !corpus.is_empty() => {
            let other = &corpus[rng.random_range(0..corpus.len())];
            let from = rng.random_range(0..=other.len());
            bytes.splice(at.., other[from..].iter().copied());
        }
        _ => {}
    }
}
