//! Whole lives of records, as scripts with the answers written below the commands.
//!
//! A script in `scenarios/` holds comments (`#`), defaults of claims (`claims lease=5s …`), and
//! entries of a shard's log: a line with the entry's stamp (`@2s`) and one line for each command.
//! Below them stand the answers (`->`) and what is held for the names (`=`). `script.rs` lists the
//! commands. Set `ONCEGATE_REWRITE_SCENARIOS=1` to write down what the machine answers now; then
//! read the difference, since that is the test.

#[path = "scenarios/diff.rs"]
mod diff;
#[path = "scenarios/render.rs"]
mod render;
#[path = "scenarios/script.rs"]
mod script;

use std::fs;
use std::path::{Path, PathBuf};

use protocol::machine::{Machine, MemoryRecords, RecordStore};
use protocol::{Basis, Batch, Command, Outcome, RecordName};

use script::Script;

/// How many scripts there are; a script that is not found is not run.
const SCRIPTS: usize = 28;

#[test]
fn every_script_ends_as_it_is_written() {
    let mut failures = Vec::new();
    let scripts = scripts();
    for path in &scripts {
        let written = fs::read_to_string(path).expect("a script can be read");
        let played = play(&written);
        if played == written {
            continue;
        }
        if rewriting() {
            fs::write(path, played).expect("a script can be written");
        } else {
            let name = path.file_name().expect("a script has a name").display();
            failures.push(format!("{name}\n{}", diff::of(&written, &played)));
        }
    }
    assert!(failures.is_empty(), "\n{}", failures.join("\n"));
    assert_eq!(scripts.len(), SCRIPTS, "scripts in tests/scenarios");
}

#[test]
fn a_wrong_answer_in_a_script_is_found_and_shown() {
    let written = "@1s\nclaim a by=A\n-> in progress until 11s\n= a: absent\n";
    let played = play(written);
    assert_ne!(played, written);
    let shown = diff::of(written, &played);
    assert!(shown.contains("- -> in progress until 11s\n"), "{shown}");
    assert!(shown.contains("+ -> granted: fence 1, attempt 1, lease until 11s\n"), "{shown}");
    assert!(shown.contains("  claim a by=A\n"), "{shown}");
}

#[test]
fn a_script_that_was_played_plays_the_same_again() {
    for path in scripts() {
        let played = play(&fs::read_to_string(path).expect("a script can be read"));
        assert_eq!(play(&played), played);
    }
}

/// The script with what the machine answers now.
fn play(text: &str) -> String {
    let mut script = Script::default();
    let mut shard = Shard::default();
    let mut played = String::new();
    let mut lines = text.lines().filter(|line| !is_output(line)).peekable();
    while let Some(line) = lines.next() {
        played.push_str(line);
        played.push('\n');
        let Some(at) = script::stamp(line) else {
            script.read_defaults(line);
            continue;
        };
        let mut commands = Vec::new();
        while let Some(line) = lines.next_if(|line| script::is_command(line)) {
            played.push_str(line);
            played.push('\n');
            let seen = Basis { epoch: 0, index: shard.index, time: at };
            commands.push(script.command(line, seen));
        }
        for line in shard.apply(&mut script, Batch { at, commands }) {
            played.push_str(&line);
            played.push('\n');
        }
    }
    played
}

/// A shard of one replica.
#[derive(Default)]
struct Shard {
    index: u64,
    machine: Machine,
    records: MemoryRecords,
}

impl Shard {
    /// Applies one entry: the answers, then the records it was about.
    fn apply(&mut self, script: &mut Script, batch: Batch) -> Vec<String> {
        self.index += 1;
        let Ok(decided) = self.machine.apply(&mut self.records, self.index, &batch);
        let mut lines = Vec::new();
        for decided in &decided {
            if let Outcome::Granted { grant, .. } = &decided.outcome {
                script.granted(*grant);
            }
            lines.push(format!("-> {}", render::outcome(&decided.outcome)));
        }
        let mut names: Vec<&RecordName> = batch.commands.iter().map(Command::name).collect();
        names.sort();
        names.dedup();
        for name in names {
            let Ok(record) = self.records.get(name);
            let name = render::name(name);
            let words = render::record(record.as_ref());
            lines.extend(words.into_iter().map(|words| format!("= {name}: {words}")));
        }
        lines
    }
}

fn is_output(line: &str) -> bool {
    line.starts_with("-> ") || line.starts_with("= ")
}

fn scripts() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/scenarios");
    let entries = fs::read_dir(folder).expect("the folder of scripts");
    let paths = entries.map(|entry| entry.expect("an entry of the folder").path());
    let mut scripts: Vec<_> =
        paths.filter(|path| path.extension().is_some_and(|end| end == "txt")).collect();
    scripts.sort();
    scripts
}

#[expect(clippy::disallowed_methods, reason = "how a person asks a test to rewrite its goldens")]
fn rewriting() -> bool {
    std::env::var("ONCEGATE_REWRITE_SCENARIOS").is_ok_and(|value| value == "1")
}
