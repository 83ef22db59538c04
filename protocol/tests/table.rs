//! The decision table, whole: every record with every command, against rules written as text.

#[path = "table/expect.rs"]
mod expect;
#[path = "table/fixture.rs"]
mod fixture;
#[path = "table/kinds.rs"]
mod kinds;
#[path = "table/rules.rs"]
mod rules;

use std::collections::BTreeMap;

use protocol::command::{Command, Outcome};
use protocol::decide::{Context, Decision, Next, Standing, decide, standing};
use protocol::{Record, RecordName, Timestamp};

use expect::Case;
use kinds::Kinds;
use rules::{Facts, Rules};

/// How many records there are: one absent, 3·2 tombstones, 3·4·2·3·2·2 in flight,
/// 2·2·4·2·3·2·2 over, 2·4·2·3·2·2 indeterminate, 5·2·3·2 done, 3·2·2 forgotten.
const RECORDS: usize = 1 + 6 + 288 + 384 + 192 + 60 + 12;

/// How many commands there are: 3·2·2·7·2 claims, 4·4 renew, 4·3 complete, 4 release, 4 unknown,
/// 3·2·2 resolve, 3 forget, 3·3 revise, one expire.
const COMMANDS: usize = 168 + 16 + 12 + 4 + 4 + 12 + 3 + 9 + 1;

#[test]
fn every_record_meets_every_command_as_the_table_says() {
    let rules = Rules::read();
    let mut used = vec![0_usize; rules.len()];
    let cases = each(|record_facts, record, command_facts, command| {
        let index = rules.only(record_facts, command_facts);
        let rule = rules.at(index);
        used[index] += 1;
        let decision = decide(&fixture::context(), record, command);
        let case = Case { record, command };
        let place = || format!("{}\n{record_facts:?}\n{command_facts:?}", rule.line);
        assert_eq!(decision.outcome, case.answer(rule.answer), "{}", place());
        assert_eq!(after(record, &decision), case.after(rule.after).as_ref(), "{}", place());
    });
    assert_eq!(cases, RECORDS * COMMANDS);
    for (index, times) in used.iter().enumerate() {
        assert!(*times > 0, "no combination matches: {}", rules.at(index).line);
    }
}

#[test]
fn only_grants_and_verdicts_take_a_fence_and_a_refusal_writes_nothing() {
    let context = fixture::context();
    each(|_, record, _, command| {
        let decision = decide(&context, record, command);
        let named = match &decision.outcome {
            Outcome::Granted { grant, .. } => grant.fence == context.next_fence,
            Outcome::Resolved { fence } => *fence == context.next_fence,
            Outcome::Stale { .. } | Outcome::Conflict | Outcome::Nothing => {
                assert_eq!(decision.next, Next::Keep, "{record:?} {command:?}");
                false
            }
            _ => false,
        };
        assert_eq!(decision.took_fence, named, "{record:?} {command:?}");
        let written = decision.next != Next::Keep;
        assert_eq!(written, after(record, &decision) != record, "{record:?} {command:?}");
    });
}

#[test]
fn a_record_is_due_exactly_when_expire_changes_it_and_never_twice_at_once() {
    let context = fixture::context();
    let is_due = |record: &Record| record.due_at().is_some_and(|at| at <= context.now);
    let expire = Command::Expire { name: RecordName::from_bytes(b"a name".to_vec()) };
    for mut facts in product("is", kinds::RECORDS) {
        let record = fixture::record(&mut facts);
        let decision = decide(&context, record.as_ref(), &expire);
        let was_due = record.as_ref().is_some_and(is_due);
        assert_eq!(decision.outcome == Outcome::Expired, was_due, "{facts:?}");
        let still_due = after(record.as_ref(), &decision).is_some_and(is_due);
        assert!(!still_due, "{facts:?}");
    }
}

#[test]
fn a_record_is_shown_to_stand_in_the_row_that_decides() {
    let rules = Rules::read();
    for mut facts in product("is", kinds::RECORDS) {
        let record = fixture::record(&mut facts);
        let shown = match rules.row(&facts) {
            "absent" | "lapsed" => Standing::Absent,
            "tombstone" => Standing::Released,
            "leased" => Standing::Claimed,
            "over" => Standing::Claimable,
            "indeterminate" => Standing::Indeterminate,
            "done" => Standing::Completed,
            "forgotten" => Standing::Forgotten,
            other => panic!("no such row: {other}"),
        };
        assert_eq!(standing(fixture::context().now, record.as_ref()), shown, "{facts:?}");
    }
}

#[test]
fn an_expire_in_front_changes_no_answer_but_the_one_that_has_not_seen_it() {
    each(|_, record, command_facts, command| {
        let context = fixture::context();
        let name = command.name().clone();
        let expired = decide(&context, record, &Command::Expire { name });
        let later = Context { index: context.index + 1, ..context };
        let without = decide(&later, record, command).outcome;
        let with = decide(&later, after(record, &expired), command).outcome;
        match (without, with) {
            // What a stale command is shown is the record as it was written down.
            (Outcome::Stale { .. }, Outcome::Stale { .. }) => {}
            (Outcome::Expired, Outcome::Nothing) => {}
            (without, with) => assert_eq!(without, with, "{record:?} {command_facts:?}"),
        }
    });
}

#[test]
fn the_largest_and_smallest_numbers_are_decided_too() {
    let extremes = [(0, 0), (0, u64::MAX), (1, u64::MAX - 1), (u64::MAX, 1), (u64::MAX, u64::MAX)];
    each(|_, record, _, command| {
        for (now, lease) in extremes {
            let mut command = command.clone();
            match &mut command {
                Command::Claim(claim) => {
                    claim.lease = protocol::Millis::new(lease);
                    claim.terms.max_execution = protocol::Millis::new(lease);
                }
                Command::Renew { lease: asked, .. } => *asked = protocol::Millis::new(lease),
                _ => {}
            }
            let context = Context { now: Timestamp::from_millis(now), ..fixture::context() };
            let decision = decide(&context, record, &command);
            let due = after(record, &decision).and_then(Record::due_at);
            assert!(decision.next == Next::Keep || due.is_none_or(|due| due >= context.now));
        }
    });
}

/// The record after a decision.
fn after<'a>(before: Option<&'a Record>, decision: &'a Decision) -> Option<&'a Record> {
    match &decision.next {
        Next::Keep => before,
        Next::Put(record) => Some(record),
        Next::Remove => None,
    }
}

/// Calls `check` for every combination; how many there were.
fn each(mut check: impl FnMut(&Facts, Option<&Record>, &Facts, &Command)) -> usize {
    let mut count = 0;
    let mut made = BTreeMap::new();
    for mut record_facts in product("is", kinds::RECORDS) {
        let record = fixture::record(&mut record_facts);
        // A command depends on these two facts of the record only, and making one takes long.
        let related = (record_facts.get("holder").copied(), record_facts.get("revisions").copied());
        let commands = made.entry(related).or_insert_with(|| {
            let facts = product("command", kinds::COMMANDS).into_iter();
            let commands = facts.map(|mut facts| {
                let command = fixture::command(&mut facts, &record_facts);
                (facts, command)
            });
            commands.collect::<Vec<_>>()
        });
        for (command_facts, command) in commands {
            check(&record_facts, record.as_ref(), command_facts, command);
            count += 1;
        }
    }
    count
}

/// All combinations of the facts of all kinds.
fn product(kind: &'static str, kinds: &Kinds) -> Vec<Facts> {
    let mut all = Vec::new();
    for (name, facts) in kinds {
        let mut some = vec![Facts::from([(kind, *name)])];
        for (fact, values) in *facts {
            some = some
                .iter()
                .flat_map(|facts| {
                    values.iter().map(|value| {
                        let mut more = facts.clone();
                        more.insert(fact, value);
                        more
                    })
                })
                .collect();
        }
        all.extend(some);
    }
    all
}
