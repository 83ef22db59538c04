//! The bounds of a record, what is learned of a body late, and what may be said without the log.
//! What each command does is tested against the table in `tests/table.rs`.

use crate::Fingerprint;
use crate::command::{Basis, Claim, Grant, Verdict};
use crate::lease::{HolderId, MAX_CLOCK_SKEW, Token};
use crate::record::{HISTORY_MAX, OnUnknown, Retention, Terms};
use crate::response::{Measure, StoredBody};
use crate::scope::RecordName;
use crate::time::Millis;

use super::*;

const NOW: Timestamp = Timestamp::from_millis(1_000_000);

#[test]
fn a_record_remembers_only_the_newest_decisions() {
    let earlier = |count: usize| (1..=count).map(|number| decision(number as u64)).collect();
    for (before, after) in [(0, 1), (HISTORY_MAX - 1, HISTORY_MAX), (HISTORY_MAX, HISTORY_MAX)] {
        let Next::Put(Record::Tombstone(released)) = released(earlier(before)) else {
            panic!("a released key has a tombstone")
        };
        assert_eq!(released.history.len(), after);
        assert_eq!(released.history.last().map(|last| last.fence), Some(Fence::new(0, 99)));
        let dropped = (before + 1 - after) as u64;
        assert_eq!(
            released.history[0].fence.as_number(),
            if before == 0 { 99 } else { 1 + dropped }
        );
    }
}

/// What an operator's release makes of an indeterminate record with this history.
fn released(history: Vec<Resolution>) -> Next {
    let generation = generation(State::Indeterminate { since: Timestamp::ZERO }, history);
    let command = Command::Resolve {
        name: RecordName::from_bytes(vec![1]),
        fence: generation.fence,
        verdict: Verdict::Released,
        by: "ann".to_owned(),
        reason: "checked".to_owned(),
        force: false,
    };
    decided(&generation, &command).next
}

#[test]
fn what_is_known_of_an_omitted_body_is_added_once_and_never_taken_back() {
    let measure = |bytes| StoredBody::Measured(Measure { bytes, sha256: [7; 32] });
    let omitted = done(vec![answer(201, StoredBody::Omitted), answer(200, whole("refunded"))]);
    let told = complete(answer(201, measure(9)));
    let Decision { next: Next::Put(Record::Live(known)), outcome, .. } = decided(&omitted, &told)
    else {
        panic!("the record holds what is known")
    };
    assert_eq!(outcome, Outcome::Completed);
    let wanted = done(vec![answer(201, measure(9)), answer(200, whole("refunded"))]);
    assert_eq!(*known, wanted);

    // The marker itself may come again, from a copy that was delayed; and so may the measure.
    for repeated in [StoredBody::Omitted, measure(9)] {
        let decision = decided(&wanted, &complete(answer(201, repeated)));
        assert_eq!((decision.next, decision.outcome), (Next::Keep, Outcome::Completed));
    }
    for other in [answer(201, measure(8)), answer(202, measure(9)), answer(201, whole("late"))] {
        for record in [&omitted, &wanted] {
            let decision = decided(record, &complete(other.clone()));
            let says_more = record == &omitted && other == answer(201, measure(8));
            assert_eq!(matches!(decision.outcome, Outcome::Stale { .. }), !says_more, "{other:?}");
        }
    }
    let kept = done(vec![answer(201, whole("all of it"))]);
    let decision = decided(&kept, &told);
    assert!(matches!(decision.outcome, Outcome::Stale { .. }), "{decision:?}");
}

fn decided(generation: &Generation, command: &Command) -> Decision {
    let context = Context { now: NOW, index: 7, epoch: 0, next_fence: Fence::new(0, 99) };
    decide(&context, Some(&generation.clone().into()), command)
}

fn complete(response: StoredResponse) -> Command {
    let grant = Grant { fence: Fence::new(0, 50), token: Token::new([0; 16]) };
    Command::Complete { name: RecordName::from_bytes(vec![1]), grant, response }
}

fn answer(status: u16, body: StoredBody) -> StoredResponse {
    StoredResponse { status, headers: vec![], body }
}

fn whole(text: &str) -> StoredBody {
    StoredBody::Whole(text.into())
}

fn done(answers: Vec<StoredResponse>) -> Generation {
    let at = Timestamp::ZERO;
    let revisions = answers.into_iter().map(|response| Revision { at, response }).collect();
    let state = State::Done { completed_at: at, retain_until: None, revisions, by_operator: false };
    generation(state, Vec::new())
}

fn generation(state: State, history: Vec<Resolution>) -> Generation {
    let fence = Fence::new(0, 50);
    Generation {
        id: fence,
        fence,
        token: Token::new([0; 16]),
        holder: Some(HolderId::of(b"tests", b"1")),
        print: Fingerprint { version: 1, digest: [0; 32] }.into(),
        terms: Terms {
            retention: Retention::Forever,
            on_unknown: OnUnknown::FailClosed,
            max_execution: Millis::new(1000),
        },
        first_granted_at: Timestamp::ZERO,
        granted_at: Timestamp::ZERO,
        lease: Millis::new(2000),
        attempts: 1,
        tainted: false,
        operation: None,
        state,
        history,
    }
}

/// What a claim is told without the log of a record in this state, at this local time.
fn applied(state: State, digest: u8, local: Timestamp) -> Option<Outcome> {
    applied_of(None, state, digest, local)
}

/// The same for a claim of this operation; that of the record is none.
fn applied_of(
    operation: Option<&str>,
    state: State,
    digest: u8,
    local: Timestamp,
) -> Option<Outcome> {
    let generation = generation(state, Vec::new());
    let claim = Claim {
        name: RecordName::from_bytes(vec![1]),
        operation: operation.map(str::to_owned),
        holder: HolderId::of(b"tests", b"2"),
        seen: Basis::default(),
        print: Fingerprint { version: 1, digest: [digest; 32] }.into(),
        lease: generation.lease,
        terms: generation.terms,
        token: Token::new([1; 16]),
    };
    answer_applied(Some(&generation.into()), &claim, local)
}

#[test]
fn without_the_log_only_what_is_final_by_every_clock_is_told() {
    let response = StoredResponse { status: 201, headers: vec![], body: StoredBody::Omitted };
    let done = |retain_until| State::Done {
        completed_at: Timestamp::ZERO,
        retain_until,
        revisions: vec![Revision { at: Timestamp::ZERO, response: response.clone() }],
        by_operator: false,
    };
    let replayed = |outcome| matches!(outcome, Some(Outcome::Replay(_)));
    assert!(replayed(applied(done(None), 0, NOW)));
    assert!(matches!(applied(done(None), 1, NOW), Some(Outcome::Reused { .. })));
    for digest in [0, 1] {
        let other = applied_of(Some("other"), done(None), digest, NOW);
        assert_eq!(other, Some(Outcome::OtherOperation));
    }
    // The clock that ends the retention may be ahead of this one by twice the skew.
    let end = NOW.plus(MAX_CLOCK_SKEW.times(2));
    assert!(replayed(applied(done(Some(end.plus(Millis::new(1)))), 0, NOW)));
    for digest in [0, 1] {
        assert_eq!(applied(done(Some(end)), digest, NOW), None);
        for state in [
            State::InFlight { lease_until: Timestamp::MAX },
            State::InFlight { lease_until: Timestamp::ZERO },
            State::Over { watermark: None },
            State::Indeterminate { since: Timestamp::ZERO },
            State::Forgotten { until: Timestamp::MAX },
        ] {
            assert_eq!(applied(state, digest, NOW), None);
        }
    }
}

fn decision(fence: u64) -> Resolution {
    Resolution {
        at: Timestamp::ZERO,
        generation: Fence::new(0, 0),
        fence: Fence::new(0, fence),
        released: true,
        forced: false,
        by: "bob".to_owned(),
        reason: "asked the bank".to_owned(),
    }
}
