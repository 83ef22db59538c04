//! What the machine adds to single decisions: order, time, fences, and faults of the store.

use crate::Fingerprint;
use crate::command::{Claim, Grant};
use crate::lease::{HolderId, Token};
use crate::record::{OnUnknown, Retention, Terms};
use crate::time::Millis;

use super::*;

#[test]
fn every_command_of_a_batch_sees_what_the_ones_before_it_did() {
    let (mut machine, mut records) = (Machine::default(), no_records());
    let decided = apply(&mut machine, &mut records, 1, 1000, vec![claim("a", 1), claim("a", 2)]);
    assert!(matches!(decided[0].outcome, Outcome::Granted { .. }));
    assert!(matches!(decided[1].outcome, Outcome::InProgress { .. }));
}

/// Such a command does not get into a log; one that is there all the same must not stop a replica.
#[test]
fn a_command_for_a_name_that_is_too_long_changes_nothing() {
    let (mut machine, mut records) = (Machine::default(), no_records());
    let long = "a".repeat(crate::scope::NAME_BYTES_MAX + 1);
    let commands = vec![claim(&long, 1), expire(&long), claim("b", 1)];
    let decided = apply(&mut machine, &mut records, 1, 1000, commands);
    assert_eq!(
        (&decided[0].outcome, &decided[1].outcome),
        (&Outcome::Conflict, &Outcome::Conflict)
    );
    assert!(matches!(decided[2].outcome, Outcome::Granted { .. }));
    assert_eq!(records.iter().count(), 1);
}

#[test]
fn every_answer_carries_the_position_of_its_entry() {
    let (mut machine, mut records) = (Machine { epoch: 4, ..Machine::default() }, no_records());
    let decided = apply(&mut machine, &mut records, 9, 1000, vec![expire("a"), expire("b")]);
    let basis = Basis { epoch: 4, index: 9, time: Timestamp::from_millis(1000) };
    assert!(decided.iter().all(|decided| decided.basis == basis));
}

#[test]
fn shard_time_never_goes_back() {
    let (mut machine, mut records) = (Machine::default(), no_records());
    apply(&mut machine, &mut records, 1, 5000, vec![]);
    let decided = apply(&mut machine, &mut records, 2, 1000, vec![expire("a")]);
    assert_eq!(decided[0].basis.time, Timestamp::from_millis(5000));
    assert_eq!(machine.time, Timestamp::from_millis(5000));
}

#[test]
fn fences_are_counted_by_the_shard_within_its_restore_epoch() {
    let (mut machine, mut records) = (Machine::default(), no_records());
    let commands = vec![claim("a", 1), claim("a", 2), claim("b", 1)];
    let decided = apply(&mut machine, &mut records, 1, 1000, commands);
    assert_eq!(fence_of(&decided[0]), Fence::new(0, 1));
    assert_eq!(fence_of(&decided[2]), Fence::new(0, 2));
    assert_eq!(machine.grants, 2);

    machine.epoch = 1;
    let mut claim = claim("c", 1);
    if let Command::Claim(claim) = &mut claim {
        claim.seen.epoch = 1;
    }
    let decided = apply(&mut machine, &mut records, 2, 1000, vec![claim]);
    assert_eq!(fence_of(&decided[0]), Fence::new(1, 3));
}

#[test]
fn a_fault_of_the_store_stops_the_batch_and_leaves_the_machine_as_it_was() {
    let before = Machine { time: Timestamp::from_millis(7), ..Machine::default() };
    let mut machine = before;
    let mut records = Broken { records: no_records(), writes_left: 1 };
    let at = Timestamp::from_millis(1000);
    let batch = Batch { at, commands: vec![claim("a", 1), claim("b", 1)] };
    assert_eq!(machine.apply(&mut records, 1, &batch), Err("the disk is gone"));
    assert_eq!(machine, before);
}

#[test]
fn due_records_come_longest_due_first_and_no_more_than_asked_for() {
    let (mut machine, mut records) = (Machine::default(), no_records());
    apply(&mut machine, &mut records, 1, 1000, vec![claim("late", 1)]);
    apply(&mut machine, &mut records, 2, 500, vec![claim("late too", 1)]);
    let mut short = claim("early", 1);
    if let Command::Claim(claim) = &mut short {
        claim.lease = Millis::new(2000);
    }
    apply(&mut machine, &mut records, 3, 1000, vec![short]);

    let due = |until, limit| records.due(Timestamp::from_millis(until), limit);
    assert_eq!(due(2999, 10), vec![]);
    assert_eq!(due(3000, 10), vec![name("early")]);
    assert_eq!(due(11_000, 2), vec![name("early"), name("late")]);
    assert_eq!(due(11_000, 10).len(), 3);
    assert_eq!(records.iter().count(), 3);
}

#[test]
fn a_record_leaves_the_index_of_due_records_when_it_leaves_its_state() {
    let (mut machine, mut records) = (Machine::default(), no_records());
    let decided = apply(&mut machine, &mut records, 1, 1000, vec![claim("a", 1)]);
    let Outcome::Granted { grant, .. } = decided[0].outcome else { panic!("it was granted") };
    let later = Timestamp::from_millis(1_000_000);
    assert_eq!(records.due(later, 10), vec![name("a")]);
    let unknown = Command::Unknown { name: name("a"), grant };
    apply(&mut machine, &mut records, 2, 2000, vec![unknown]);
    assert_eq!(records.due(later, 10), vec![]);
}

/// A store that fails after some writes.
struct Broken {
    records: MemoryRecords,
    writes_left: usize,
}

impl RecordStore for Broken {
    type Error = &'static str;

    fn get(&self, name: &RecordName) -> Result<Option<Record>, Self::Error> {
        let Ok(record) = self.records.get(name);
        Ok(record)
    }

    fn replace(
        &mut self,
        name: &RecordName,
        before: Option<&Record>,
        after: Option<&Record>,
    ) -> Result<(), Self::Error> {
        self.writes_left = self.writes_left.checked_sub(1).ok_or("the disk is gone")?;
        let Ok(()) = self.records.replace(name, before, after);
        Ok(())
    }
}

fn apply(
    machine: &mut Machine,
    records: &mut MemoryRecords,
    index: u64,
    at: u64,
    commands: Vec<Command>,
) -> Vec<Decided> {
    let batch = Batch { at: Timestamp::from_millis(at), commands };
    let Ok(decided) = machine.apply(records, index, &batch);
    decided
}

fn fence_of(decided: &Decided) -> Fence {
    match decided.outcome {
        Outcome::Granted { grant: Grant { fence, .. }, .. } => fence,
        ref other => panic!("not granted but {other:?}"),
    }
}

fn claim(key: &str, attempt: u8) -> Command {
    Command::Claim(Claim {
        operation: None,
        name: name(key),
        holder: HolderId::of(b"tests", &[attempt]),
        seen: Basis { epoch: 0, index: 0, time: Timestamp::from_millis(1000) },
        print: Fingerprint { version: 1, digest: [0; 32] }.into(),
        lease: Millis::new(10_000),
        terms: Terms {
            retention: Retention::Forever,
            on_unknown: OnUnknown::FailClosed,
            max_execution: Millis::new(60_000),
        },
        token: Token::new([attempt; 16]),
    })
}

fn expire(key: &str) -> Command {
    Command::Expire { name: name(key) }
}

fn name(key: &str) -> RecordName {
    RecordName::from_bytes(key.as_bytes().to_vec())
}

fn no_records() -> MemoryRecords {
    MemoryRecords::default()
}
