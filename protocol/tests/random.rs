//! Seeded random lives of a few keys: against a naive second idea, and the promises that hold for
//! every log.

#[path = "random/generator.rs"]
mod generator;
#[path = "random/key.rs"]
mod key;
#[path = "random/naive.rs"]
mod naive;

use std::collections::{BTreeMap, BTreeSet};

use protocol::machine::{Machine, MemoryRecords, RecordStore};
use protocol::{Batch, Decided, Fence, Outcome, Record, RecordName};

use generator::Generator;
use key::Held;
use naive::Naive;

const SEEDS: u64 = 12;
const ENTRIES: u64 = 1500;
/// The entry before which the shard is restored from a backup, which begins an epoch.
const RESTORED: u64 = 1000;

#[test]
fn every_answer_is_the_one_of_a_naive_second_model() {
    let mut answered = BTreeMap::new();
    for seed in 0..SEEDS {
        let (mut machine, mut records) = (Machine::default(), MemoryRecords::default());
        let mut naive = Naive::default();
        run(seed, 4, |index, batch, epoch| {
            (machine.epoch, naive.epoch) = (epoch, epoch);
            let Ok(decided) = machine.apply(&mut records, index, batch);
            let expected = naive.apply(index, batch);
            for ((command, decided), expected) in batch.commands.iter().zip(&decided).zip(expected)
            {
                let outcome = without_record(&decided.outcome);
                *answered.entry(kind(&outcome)).or_insert(0) += 1;
                assert_eq!(outcome, expected, "seed {seed}, entry {index}: {command:?}");
            }
            for command in &batch.commands {
                let Ok(record) = records.get(command.name());
                let held = record.as_ref().map(Held::of);
                assert_eq!(held, naive.held(command.name()), "seed {seed}, entry {index}");
            }
            decided
        });
    }
    assert_eq!(answered.len(), 20, "an outcome never came: {answered:?}");
    for (kind, times) in answered {
        assert!(times >= 100, "{kind} came only {times} times");
    }
}

#[test]
fn two_machines_that_were_fed_one_log_are_equal_to_the_byte() {
    for seed in 0..SEEDS {
        let mut log = Vec::new();
        let mut first = (Machine::default(), MemoryRecords::default());
        run(seed, 4, |index, batch, epoch| {
            log.push((index, epoch, bytes(batch)));
            first.0.epoch = epoch;
            let Ok(decided) = first.0.apply(&mut first.1, index, batch);
            decided
        });
        let mut second = (Machine::default(), MemoryRecords::default());
        for (index, epoch, entry) in &log {
            let config = bincode::config::standard();
            let (batch, read): (Batch, usize) =
                bincode::serde::decode_from_slice(entry, config).expect("an entry");
            assert_eq!(read, entry.len());
            second.0.epoch = *epoch;
            let Ok(_) = second.0.apply(&mut second.1, *index, &batch);
        }
        assert_eq!(first, second, "seed {seed}");
        let stored = |records: &MemoryRecords| {
            let all: Vec<(RecordName, Record)> =
                records.iter().map(|(name, record)| (name.clone(), record.clone())).collect();
            bytes(&all)
        };
        assert_eq!(bytes(&first.0), bytes(&second.0), "seed {seed}");
        assert_eq!(stored(&first.1), stored(&second.1), "seed {seed}");
    }
}

#[test]
fn fences_only_rise_and_a_stale_command_changes_nothing() {
    for seed in 0..SEEDS {
        let (mut machine, mut records) = (Machine::default(), MemoryRecords::default());
        let mut highest: BTreeMap<RecordName, Fence> = BTreeMap::new();
        let mut refused = 0;
        run(seed, 1, |index, batch, epoch| {
            machine.epoch = epoch;
            let name = batch.commands[0].name();
            let Ok(before) = records.get(name);
            let Ok(decided) = machine.apply(&mut records, index, batch);
            let Ok(after) = records.get(name);
            let last = highest.get(name).copied();
            match &decided[0].outcome {
                Outcome::Granted { grant, .. } if before == after => {
                    assert_eq!(Some(grant.fence), last, "only the current grant is given again");
                }
                Outcome::Granted { grant: protocol::command::Grant { fence, .. }, .. }
                | Outcome::Resolved { fence } => {
                    assert!(Some(*fence) > last, "seed {seed}, entry {index}");
                    highest.insert(name.clone(), *fence);
                }
                Outcome::Stale { record } => {
                    refused += 1;
                    assert_eq!(record.as_deref(), before.as_ref());
                    assert_eq!(before, after, "seed {seed}, entry {index}");
                }
                Outcome::Conflict | Outcome::Nothing => {
                    assert_eq!(before, after, "seed {seed}, entry {index}");
                }
                _ => {}
            }
            decided
        });
        assert!(refused > 100, "seed {seed}: only {refused} stale commands");
    }
}

#[test]
fn the_index_of_due_records_finds_exactly_what_is_due() {
    for seed in 0..SEEDS {
        let (mut machine, mut records) = (Machine::default(), MemoryRecords::default());
        run(seed, 4, |index, batch, epoch| {
            machine.epoch = epoch;
            let Ok(decided) = machine.apply(&mut records, index, batch);
            let due = |record: &Record| record.due_at().is_some_and(|at| at <= machine.time);
            let expected: BTreeSet<_> = records
                .iter()
                .filter(|(_, record)| due(record))
                .map(|(name, _)| name.clone())
                .collect();
            let found = records.due(machine.time, usize::MAX);
            assert!(records.due(machine.time, 1).len() == found.len().min(1));
            assert_eq!(found.into_iter().collect::<BTreeSet<_>>(), expected);
            decided
        });
    }
}

/// Makes a log and feeds it to `apply`, which gets index, entry and restore epoch.
fn run(seed: u64, most: usize, mut apply: impl FnMut(u64, &Batch, u8) -> Vec<Decided>) {
    let mut generator = Generator::new(seed);
    for index in 1..=ENTRIES {
        let batch = generator.batch(most);
        let decided = apply(index, &batch, u8::from(index >= RESTORED));
        assert_eq!(decided.len(), batch.commands.len());
        generator.learn(&batch, &decided);
    }
}

fn without_record(outcome: &Outcome) -> Outcome {
    match outcome {
        Outcome::Stale { .. } => Outcome::Stale { record: None },
        other => other.clone(),
    }
}

/// The outcome's name.
fn kind(outcome: &Outcome) -> String {
    let text = format!("{outcome:?}");
    text.split(|letter: char| !letter.is_ascii_alphabetic()).next().unwrap_or_default().to_owned()
}

fn bytes<T: serde::Serialize>(value: &T) -> Vec<u8> {
    let config = bincode::config::standard();
    bincode::serde::encode_to_vec(value, config).expect("it can be encoded")
}
