use super::super::super::frame;
use super::*;

const A: ShardId = ShardId(1);
const B: ShardId = ShardId(2);

fn entries(ledger: &mut Ledger, shard: ShardId, indexes: Range<u64>) {
    for index in indexes {
        ledger.note(shard, &Change::Entry { index, data: b"" }).unwrap();
    }
}

fn purge(ledger: &mut Ledger, shard: ShardId, upto: u64) {
    ledger.note(shard, &Change::Purge { upto, mark: b"mark" }).unwrap();
}

fn pinning(ledger: &Ledger) -> Vec<(ShardId, Range<u64>)> {
    ledger.pinning().collect()
}

/// Segment 1 holds entries 0 to 9 of shard A and 5 to 7 of shard B, segment 2 some more of A.
fn two_segments() -> Ledger {
    let mut ledger = Ledger::default();
    ledger.begin(1);
    entries(&mut ledger, A, 0..10);
    entries(&mut ledger, B, 5..8);
    ledger.begin(2);
    entries(&mut ledger, A, 10..20);
    ledger
}

#[test]
fn a_segment_is_released_when_every_shard_purged_what_it_has_there() {
    let mut ledger = two_segments();
    purge(&mut ledger, A, 9);
    assert_eq!(ledger.release(), None);
    assert_eq!(pinning(&ledger), [(B, 5..8)]);
    purge(&mut ledger, B, 7);
    assert_eq!(ledger.release(), Some(1));
    purge(&mut ledger, A, 19);
    assert_eq!(ledger.release(), None, "the segment being written stays");
    assert_eq!(ledger.held(), 1);
}

#[test]
fn truncated_entries_do_not_keep_a_segment_though_their_indexes_are_used_again() {
    let mut ledger = two_segments();
    purge(&mut ledger, B, 100);
    ledger.note(A, &Change::Truncate { end: 0 }).unwrap();
    entries(&mut ledger, A, 0..10);
    assert_eq!(ledger.release(), Some(1));
}

#[test]
fn entries_written_again_do_not_keep_their_old_segment() {
    let mut ledger = two_segments();
    purge(&mut ledger, A, 6);
    for index in 7..10 {
        assert_eq!(pinning(&ledger), [(A, index..10), (B, 5..8)]);
        ledger.note(A, &Change::Moved { index, data: b"" }).unwrap();
    }
    assert_eq!(ledger.release(), None);
    purge(&mut ledger, B, 7);
    assert_eq!(ledger.release(), Some(1));
    ledger.begin(3);
    assert_eq!(ledger.release(), None, "they keep the new one");
}

#[test]
fn an_entry_written_again_out_of_turn_frees_nothing_before_it() {
    let mut ledger = two_segments();
    purge(&mut ledger, B, 7);
    ledger.note(A, &Change::Moved { index: 5, data: b"" }).unwrap();
    assert_eq!(pinning(&ledger), [(A, 0..10)]);
}

#[test]
fn the_state_that_begins_a_segment_is_taken_as_the_whole_truth() {
    let mut ledger = two_segments();
    purge(&mut ledger, A, 3);
    ledger.note(B, &Change::Vote(b"vote")).unwrap();
    ledger.note(B, &Change::Committed(b"old")).unwrap();
    ledger.note(B, &Change::Committed(b"committed")).unwrap();
    let mut state = Vec::new();
    ledger.push_state(&mut state);

    let mut fresh = Ledger::default();
    fresh.begin(3);
    for frame in frame::walk(&state) {
        let change = Change::of(&frame).unwrap();
        fresh.note(frame.shard, &change).unwrap();
        ledger.note(frame.shard, &change).expect("it says nothing new");
    }
    let shards: Vec<_> = fresh.shards().collect();
    let [(A, a), (B, b)] = &shards[..] else { panic!("two shards") };
    assert_eq!((&a.entries, &a.purged), (&(4..20), &Some(b"mark".to_vec())));
    assert_eq!((&a.vote, &a.committed), (&None, &None));
    assert_eq!((&b.entries, &b.purged), (&(5..8), &None));
    assert_eq!(b.vote.as_deref(), Some(&b"vote"[..]));
    assert_eq!(b.committed.as_deref(), Some(&b"committed"[..]));
}

#[test]
fn changes_that_cannot_follow_are_disorder() {
    let impossible = [
        (A, Change::Entry { index: 21, data: b"" }),
        (A, Change::Entry { index: 19, data: b"" }),
        (A, Change::Moved { index: 20, data: b"" }),
        (A, Change::Moved { index: 3, data: b"" }),
        (A, Change::Truncate { end: 3 }),
        (A, Change::Truncate { end: 21 }),
        (A, Change::Purge { upto: 2, mark: b"" }),
        (A, Change::Purge { upto: u64::MAX, mark: b"" }),
        (A, Change::Range { start: 4, end: 19 }),
        (A, Change::Range { start: 9, end: 8 }),
        (ShardId(3), Change::Range { start: 0, end: 0 }),
        (ShardId(3), Change::Entry { index: u64::MAX, data: b"" }),
    ];
    for (shard, change) in impossible {
        let mut ledger = two_segments();
        purge(&mut ledger, A, 3);
        assert!(ledger.note(shard, &change).is_err(), "{change:?}");
    }
}

#[test]
fn a_log_that_was_never_purged_begins_where_its_first_entry_is() {
    let mut ledger = two_segments();
    ledger.note(B, &Change::Truncate { end: 5 }).unwrap();
    entries(&mut ledger, B, 1..3);
    let (_, written) = ledger.shards().last().unwrap();
    assert_eq!(written.entries, 1..3);
    purge(&mut ledger, B, 9);
    assert!(ledger.note(B, &Change::Entry { index: 11, data: b"" }).is_err());
    entries(&mut ledger, B, 10..11);
}
