//! Changes that the engine has not been given yet are seen like those that it has.

use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::FutureExt;

use super::*;
use crate::storage::records::recent::{Change, Recent};

fn put(name: &'static str, record: &'static str) -> Change {
    Change::Record(name.into(), Some(record.into()))
}

fn due_change(time_ms: u64, there: bool) -> Change {
    Change::Entry(Index::Due, time_ms, "x".into(), there)
}

/// In the middle of a flush, what came later hides what is being handed on.
#[test]
fn the_newest_change_counts() {
    let mut recent = Recent::default();
    assert!(recent.begin_flush().is_none(), "there is nothing to hand on");
    recent.add([put("a", "1"), put("b", "1"), due_change(1, true), due_change(2, true)]);
    recent.add([Change::Meta("first".into())]);
    assert!(recent.begin_flush().is_some());
    assert_eq!(recent.bytes(), 0);
    recent.add([put("a", "2"), Change::Record("b".into(), None), due_change(1, false)]);
    recent.add([due_change(3, true)]);
    assert_eq!(recent.record(b"a"), Some(Some("2".into())));
    assert_eq!(recent.record(b"b"), Some(None));
    assert_eq!(recent.record(b"c"), None);
    assert_eq!(recent.meta().unwrap(), "first");
    let due: Vec<_> = recent
        .entries(Index::Due, (0, b""), 2)
        .into_iter()
        .map(|((time, _), there)| (time, there))
        .collect();
    assert_eq!(due, [(1, false), (2, true)]);
    assert!(recent.earliest_due().unwrap() <= 2);
    recent.end_flush();
    assert_eq!(recent.record(b"a"), Some(Some("2".into())));
    assert_eq!(recent.meta(), None, "the engine has it");
    assert_eq!(recent.earliest_due(), Some(3));
}

#[test]
fn bytes_are_those_of_what_is_kept() {
    let mut recent = Recent::default();
    recent.add([put("a", "12345"), due_change(1, true)]);
    let once = recent.bytes();
    for _ in 0..5 {
        recent.add([put("a", "1"), put("a", "12345"), due_change(1, false)]);
    }
    assert_eq!(recent.bytes(), once);
    recent.add([Change::Record("a".into(), None)]);
    assert_eq!(recent.bytes(), once - 5);
    recent.clear();
    assert_eq!(recent.bytes(), 0);
}

#[test]
fn changes_are_seen_at_every_moment_of_a_flush() {
    let fixture = Fixture::new();
    let shard = fixture.shard();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let flushes = scope.spawn(|| {
            let mut flushes = 0;
            while !done.load(Ordering::Relaxed) {
                shard.flush().unwrap();
                flushes += 1;
            }
            flushes
        });
        for number in 1..=2000_u64 {
            commit(&shard, |batch| {
                batch.put(b"counter", number.to_be_bytes().to_vec());
                batch.put_index(Index::Due, number, b"x");
                batch.remove_index(Index::Due, number - 1, b"x");
                batch.set_meta(number.to_be_bytes().to_vec());
            });
            assert_eq!(get(&shard, "counter").unwrap(), number.to_be_bytes());
            assert_eq!(shard.meta().unwrap().unwrap(), number.to_be_bytes()[..]);
            assert_eq!(due(&shard, u64::MAX, 10), [(number, "x".to_owned())]);
        }
        done.store(true, Ordering::Relaxed);
        assert!(flushes.join().unwrap() > 0);
    });
}

#[test]
fn an_entry_that_is_due_later_than_a_search_looks_is_found_by_a_later_one() {
    let fixture = Fixture::new();
    let shard = fixture.shard();
    commit(&shard, |batch| batch.put_index(Index::Due, 90, b"stored"));
    shard.flush().unwrap();
    commit(&shard, |batch| batch.put_index(Index::Due, 60, b"recent"));
    assert_eq!(due(&shard, 50, 10), []);
    assert_eq!(due(&shard, 50, 0), []);
    assert_eq!(due(&shard, 70, 10), [(60, "recent".to_owned())]);
}

#[test]
fn a_view_and_a_sync_have_what_was_committed_before() {
    let fixture = Fixture::new();
    let shard = fixture.shard();
    let put = |name: &str, meta: &str| {
        commit(&shard, |batch| {
            batch.put(name.as_bytes(), b"1".to_vec());
            batch.set_meta(meta.as_bytes().to_vec());
        });
    };
    put("a", "first");
    let view = shard.view().unwrap();
    put("b", "second");
    assert_eq!(view.meta().unwrap(), b"first");
    assert_eq!(view.chunk(None, 1000).unwrap().entries.len(), 1);
    shard.sync().unwrap();
    let image = images::image(&fixture.folder.path().join("records"));
    let crashed = Records::open(&image.path().join("records")).unwrap();
    assert_eq!(crashed.shard(SHARD).meta().unwrap().unwrap(), "second");
    assert_eq!(get(&crashed.shard(SHARD), "b").unwrap(), b"1");
}

/// The thread flushes what has grown large without waiting for its turn.
#[tokio::test]
async fn who_commits_much_waits_until_it_is_flushed() {
    let fixture = Fixture::new();
    let shard = fixture.shard();
    let inner = fixture.records.shards.lock().unwrap()[&SHARD].clone();
    let held_up = inner.generations();
    // The lock keeps flushes from beginning.
    commit(&shard, |batch| batch.put(b"a", vec![1; 2 << 20]));
    assert!(shard.room().now_or_never().is_none());
    drop(held_up);
    shard.room().await;
}

/// Also on the shards whose own changes could have been written.
#[tokio::test]
async fn after_a_failed_flush_nothing_is_taken_and_nobody_waits() {
    let fixture = Fixture::new();
    let (shard, other) = (fixture.shard(), fixture.records.shard(ShardId(9)));
    let inner = fixture.records.shards.lock().unwrap()[&SHARD].clone();
    commit(&other, |batch| batch.put(b"a", vec![1; 2 << 20]));
    inner.give_up();
    assert!(matches!(*fixture.records.failed().await, RecordsError::Stopped));
    for shard in [shard, other] {
        let mut batch = shard.batch();
        batch.put(b"a", vec![1; 2 << 20]);
        assert!(matches!(batch.commit(), Err(RecordsError::Stopped)));
        shard.room().await;
        assert!(matches!(shard.sync(), Err(RecordsError::Stopped)));
    }
}
