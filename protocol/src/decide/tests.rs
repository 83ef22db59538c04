//! The bounds of a record. What each command does is tested against the table in `tests/table.rs`.

use crate::Fingerprint;
use crate::command::Verdict;
use crate::lease::{HolderId, Token};
use crate::record::{HISTORY_MAX, OnUnknown, Retention, Terms};
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
    let fence = Fence::new(0, 50);
    let generation = Generation {
        id: fence,
        fence,
        token: Token::new([0; 16]),
        holder: Some(HolderId::of(b"tests", b"1")),
        fingerprint: Fingerprint { version: 1, digest: [0; 32] },
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
        state: State::Indeterminate { since: Timestamp::ZERO },
        history,
    };
    let context = Context { now: NOW, index: 7, epoch: 0, next_fence: Fence::new(0, 99) };
    let command = Command::Resolve {
        name: RecordName::from_bytes(vec![1]),
        fence,
        verdict: Verdict::Released,
        by: "ann".to_owned(),
        reason: "checked".to_owned(),
        force: false,
    };
    decide(&context, Some(&generation.into()), &command).next
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
