//! The shape of the code, as a test: who may import whom, how long files, functions and lines may
//! be, and which words have no place in it.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, and says so"
)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// Longest file, its tests included.
const FILE_LINES_MAX: usize = 500;
/// Longest function outside tests.
const FUNCTION_LINES_MAX: usize = 60;
/// Longest line, in characters.
const LINE_CHARS_MAX: usize = 100;

/// What a folder's production code must never name. Paths are prefixes of file paths; needles are
/// looked for in code lines.
const FORBIDDEN: &[(&str, &[&str], &str)] = &[
    (
        "protocol/src",
        &[
            "tokio",
            "openraft",
            "axum",
            "hyper",
            "tracing::",
            "rand::",
            "std::fs",
            "std::net",
            "std::thread",
            "SystemTime",
            "Instant::now",
            "HashMap",
            "HashSet",
            "async ",
        ],
        "the core is pure: time, randomness and I/O are arguments, and iteration has one order",
    ),
    (
        "cluster/src",
        &["axum", "hyper::", "tower::", "clap", "std::env", "env!("],
        "the cluster is told what to do; it serves no HTTP and reads no environment",
    ),
    (
        "cluster/src/storage",
        &[
            "openraft",
            "protocol::",
            "crate::shard",
            "crate::transport",
            "crate::raft",
            "crate::node",
        ],
        "storage keeps bytes at indexes and names",
    ),
    (
        "cluster/src/transport",
        &["openraft", "crate::storage", "crate::shard", "crate::raft", "crate::node"],
        "the transport does not look into what it carries",
    ),
    (
        "cluster/src/raft",
        &["crate::shard", "crate::node", "crate::router", "crate::formation"],
        "a replica does not know who drives it",
    ),
    (
        "cluster/src/shard",
        &["openraft", "crate::node", "crate::router", "crate::formation"],
        "a shard does not know the node around it",
    ),
    ("src", &["openraft", "bincode", "fjall"], "the edge knows the cluster only by its surface"),
    (
        "jepsen",
        &["use oncegate", "use cluster", "use protocol", "oncegate::"],
        "a judge that shares the code shares the defect",
    ),
];

/// What only one place may do: the needle, the places that may, and why.
const ONLY_IN: &[(&str, &[&str], &str)] = &[
    ("openraft", &["cluster/src/raft"], "one folder follows openraft's changes"),
    ("bincode::", &["cluster/src/codec"], "one place encodes bytes"),
    ("SystemTime::now", &["cluster/src/clock"], "one place reads the wall clock"),
    ("fjall::", &["cluster/src/storage"], "records are kept in one place"),
];

/// File names that say nothing about what is inside.
const VAGUE_NAMES: &[&str] = &["util", "utils", "helper", "helpers", "common", "manager", "misc"];

/// Marks of unfinished work.
const UNFINISHED: &[&str] = &[
    concat!("todo", "!("),
    concat!("unimplemented", "!("),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

struct Source {
    path: String,
    text: String,
}

impl Source {
    fn is_test(&self) -> bool {
        let path = &self.path;
        path.starts_with("tests/")
            || path.contains("/tests/")
            || path.ends_with("/tests.rs")
            || path.ends_with("/fixtures.rs")
            || path.contains("/tests_")
            || path.contains("/benches/")
            || path.contains("/examples/")
    }

    /// The code before the file's own test module.
    fn production(&self) -> &str {
        match self.text.find("#[cfg(test)]\nmod ") {
            Some(at) => &self.text[..at],
            None => &self.text,
        }
    }

    /// Numbered lines of production code without comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let lines = self.production().lines().enumerate();
        lines.map(|(number, line)| (number + 1, line)).filter(|(_, line)| {
            let line = line.trim_start();
            !line.starts_with("//")
        })
    }
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn sources() -> Vec<Source> {
    let mut found = Vec::new();
    for folder in ["src", "protocol", "cluster", "jepsen", "tests"] {
        collect(&root().join(folder), &mut found);
    }
    assert!(found.len() > 30, "the sources were not found");
    found
}

fn collect(folder: &Path, found: &mut Vec<Source>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for entry in entries {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if !path.ends_with("target") {
                collect(&path, found);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).unwrap();
            let path = path.strip_prefix(root()).unwrap().to_str().unwrap().to_owned();
            found.push(Source { path, text });
        }
    }
}

fn check(complaints: &str) {
    assert!(complaints.is_empty(), "\n{complaints}");
}

fn within(path: &str, folder: &str) -> bool {
    path.strip_prefix(folder).is_some_and(|rest| rest.starts_with(['/', '.']))
}

#[test]
fn imports_point_one_way() {
    let mut complaints = String::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        for (folder, needles, why) in FORBIDDEN {
            if !within(&source.path, folder) {
                continue;
            }
            for (number, line) in source.code() {
                for needle in *needles {
                    if line.contains(needle) {
                        writeln!(complaints, "{}:{number}: `{needle}`: {why}", source.path)
                            .unwrap();
                    }
                }
            }
        }
    }
    check(&complaints);
}

#[test]
fn what_has_one_home_stays_there() {
    let mut complaints = String::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        for (needle, homes, why) in ONLY_IN {
            if homes.iter().any(|home| within(&source.path, home)) {
                continue;
            }
            for (number, line) in source.code().filter(|(_, line)| line.contains(needle)) {
                let line = line.trim();
                writeln!(complaints, "{}:{number}: {why}: {line}", source.path).unwrap();
            }
        }
    }
    check(&complaints);
}

#[test]
fn no_unwrap_outside_tests() {
    let mut complaints = String::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        for (number, line) in source.code().filter(|(_, line)| line.contains(".unwrap()")) {
            writeln!(complaints, "{}:{number}: {}", source.path, line.trim()).unwrap();
        }
    }
    check(&complaints);
}

#[test]
fn files_and_lines_are_short() {
    let mut complaints = String::new();
    for source in &sources() {
        let lines = source.text.lines().count();
        if lines > FILE_LINES_MAX {
            writeln!(complaints, "{}: {lines} lines: split it by concept", source.path).unwrap();
        }
        for (number, line) in source.text.lines().enumerate() {
            let chars = line.chars().count();
            // A row of a table in a comment cannot be wrapped.
            if chars > LINE_CHARS_MAX && !line.trim_start().starts_with("//! |") {
                writeln!(complaints, "{}:{}: {chars} characters", source.path, number + 1).unwrap();
            }
        }
    }
    check(&complaints);
}

#[test]
fn functions_fit_a_screen() {
    let mut complaints = String::new();
    for source in sources().iter().filter(|source| !source.is_test()) {
        for (name, start, lines) in functions(source.production()) {
            if lines > FUNCTION_LINES_MAX {
                writeln!(complaints, "{}:{start}: `{name}` has {lines} lines", source.path)
                    .unwrap();
            }
        }
    }
    check(&complaints);
}

/// Functions with the line they begin in and their length. Relies on rustfmt: a function ends at
/// the first line that is a lone closing brace at its own indentation, or with its signature.
fn functions(text: &str) -> Vec<(String, usize, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (start, line) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let Some(name) = function_name(line.trim_start()) else { continue };
        let end = (start..lines.len()).find(|&at| {
            lines[at].trim_end().ends_with(';') && at == start
                || lines[at].starts_with(&format!("{})", " ".repeat(indent)))
                    && lines[at].ends_with(';')
                || lines[at] == format!("{}}}", " ".repeat(indent))
                || at == start && lines[at].trim_end().ends_with('}')
        });
        if let Some(end) = end {
            found.push((name, start + 1, end - start + 1));
        }
    }
    found
}

fn function_name(line: &str) -> Option<String> {
    let rest = line.split("fn ").nth(1)?;
    let before = line.split("fn ").next()?;
    let only_qualifiers = before.split_whitespace().all(|word| {
        matches!(word, "pub" | "async" | "const" | "unsafe" | "extern") || word.starts_with("pub(")
    });
    let name = rest.split(['(', '<']).next()?.to_owned();
    only_qualifiers.then_some(name)
}

#[test]
fn nothing_is_unfinished_and_no_name_is_vague() {
    let mut complaints = String::new();
    for source in &sources() {
        let stem = Path::new(&source.path).file_stem().unwrap().to_str().unwrap();
        if VAGUE_NAMES.contains(&stem) {
            writeln!(complaints, "{}: name it after what it holds", source.path).unwrap();
        }
        for (number, line) in source.text.lines().enumerate() {
            for mark in UNFINISHED.iter().filter(|mark| line.contains(**mark)) {
                writeln!(complaints, "{}:{}: {mark}", source.path, number + 1).unwrap();
            }
        }
    }
    check(&complaints);
}

#[test]
fn every_crate_forbids_unsafe_code_and_opens_with_its_purpose() {
    let roots = [
        "src/lib.rs",
        "src/main.rs",
        "protocol/src/lib.rs",
        "cluster/src/lib.rs",
        "jepsen/src/lib.rs",
        "jepsen/src/main.rs",
    ];
    for root_file in roots {
        let text = fs::read_to_string(root().join(root_file)).unwrap();
        assert!(text.contains("#![forbid(unsafe_code)]"), "{root_file} allows unsafe code");
    }
    let silent: Vec<_> = sources()
        .into_iter()
        .filter(|source| !source.is_test() && !source.text.starts_with("//!"))
        .map(|source| source.path)
        .collect();
    assert!(silent.is_empty(), "files that do not say what they are for: {silent:#?}");
}

#[test]
fn versions_stand_in_one_place() {
    for manifest in ["protocol/Cargo.toml", "cluster/Cargo.toml", "jepsen/Cargo.toml"] {
        let text = fs::read_to_string(root().join(manifest)).unwrap();
        let versions: Vec<_> = text
            .lines()
            .filter(|line| line.contains("version = \"") || line.contains("= \"^"))
            .collect();
        assert!(versions.is_empty(), "{manifest} names versions: {versions:?}");
    }
}

#[test]
fn the_fault_tests_depend_on_nothing_of_the_product() {
    let manifest = fs::read_to_string(root().join("jepsen/Cargo.toml")).unwrap();
    for crate_name in ["oncegate", "cluster", "protocol"] {
        let named = manifest.lines().any(|line| {
            line.strip_prefix(crate_name).is_some_and(|rest| rest.starts_with(['.', ' ', '=']))
        });
        assert!(!named, "jepsen depends on {crate_name}");
    }
}

#[test]
fn every_dependency_has_its_reason_in_the_architecture() {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).unwrap();
    let architecture = fs::read_to_string(root().join("ARCHITECTURE.md")).unwrap();
    let dependencies = manifest
        .split("[workspace.dependencies]")
        .nth(1)
        .and_then(|rest| rest.split("\n[").next())
        .unwrap();
    let names: BTreeMap<&str, bool> = dependencies
        .lines()
        .filter_map(|line| line.split_once(" = ").map(|(name, _)| name.trim()))
        .filter(|name| !matches!(*name, "cluster" | "protocol"))
        .map(|name| (name, architecture.contains(&format!("`{name}`"))))
        .collect();
    assert!(names.len() > 20, "dependencies were not found");
    let unexplained: Vec<_> = names.iter().filter(|(_, said)| !**said).map(|(n, _)| n).collect();
    assert!(unexplained.is_empty(), "no reason in ARCHITECTURE.md for {unexplained:?}");
}

#[test]
fn the_readmes_commands_exist() {
    let readme = fs::read_to_string(root().join("README.md")).unwrap();
    for command in ["cargo run --release -- dev", "cargo test --workspace"] {
        assert!(readme.contains(command), "the README does not name `{command}`");
    }
    for word in readme.split(|c: char| c.is_whitespace() || matches!(c, '`' | '(' | ')' | ',')) {
        if word.starts_with("scripts/") || word.starts_with("docs/") {
            let path = word.trim_end_matches(['.', ':']);
            assert!(root().join(path).exists(), "the README names {path}, which does not exist");
        }
    }
}

/// The names of the tests in a file: functions behind an attribute `test`.
fn tests_of(text: &str) -> impl Iterator<Item = String> {
    let mut behind_attribute = false;
    text.lines().filter_map(move |line| {
        let line = line.trim_start();
        if line.starts_with("#[test") || line.starts_with("#[tokio::test") {
            behind_attribute = true;
        }
        let name = function_name(line)?;
        std::mem::take(&mut behind_attribute).then_some(name)
    })
}

#[test]
fn the_index_of_rules_names_tests_that_exist() {
    let index = fs::read_to_string(root().join("docs/test-index.md")).unwrap();
    let tests: BTreeSet<_> = sources().iter().flat_map(|it| tests_of(&it.text)).collect();
    assert!(tests.len() > 500, "the tests were not found: {}", tests.len());
    let mut complaints = String::new();
    let rows = index.lines().filter(|line| line.starts_with("| ") && !line.contains("| held by |"));
    let (mut count, mut cases) = (0, BTreeSet::new());
    for row in rows {
        count += 1;
        let Some((rule, held_by)) = row.trim_matches([' ', '|']).split_once(" | ") else {
            writeln!(complaints, "no test holds: {row}").unwrap();
            continue;
        };
        let names: Vec<_> = held_by.split('`').skip(1).step_by(2).collect();
        if names.is_empty() {
            writeln!(complaints, "no test holds: {rule}").unwrap();
        }
        for name in names.iter().filter(|name| !tests.contains(**name)) {
            writeln!(complaints, "{rule}: there is no test `{name}`").unwrap();
        }
        let case = rule.split_once(": ").and_then(|(case, _)| case.strip_prefix('C'));
        if let Some(case) = case.filter(|case| case.parse::<u8>().is_ok()) {
            cases.insert(case.to_owned());
            let number = format!("c{case}_");
            for name in names.iter().filter(|name| !name.contains(&number)) {
                writeln!(complaints, "{rule}: `{name}` is of another case").unwrap();
            }
        }
    }
    assert!(count > 100, "the rules were not found: {count}");
    // Every case that a test names is in the index.
    for case in tests.iter().flat_map(|name| cases_of(name)).filter(|case| !cases.contains(*case)) {
        writeln!(complaints, "case C{case} is not in the index").unwrap();
    }
    check(&complaints);
}

/// The numbers of the cases that a test's name begins with: `c01_c04_name` is about two.
fn cases_of(name: &str) -> impl Iterator<Item = &str> {
    let number = |part: &&str| part.len() == 2 && part.bytes().all(|byte| byte.is_ascii_digit());
    name.split('_').map_while(move |part| part.strip_prefix('c').filter(number))
}
