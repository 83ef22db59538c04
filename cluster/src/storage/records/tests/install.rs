//! Chunks, views, and records that take the place of others.

use std::sync::atomic::{AtomicBool, Ordering};

use bytes::Bytes;

use super::images::{self, Tear};
use super::*;

/// Due times of the records in these tests: the number that the record is. An even one is unsettled
/// since then, too.
fn indexed(record: &[u8]) -> Result<Vec<(Index, u64)>, CodecError> {
    if record == b"never" {
        return Ok(vec![]);
    }
    let text = std::str::from_utf8(record).map_err(|_| CodecError::Invalid("record"))?;
    let time = text.trim_end().parse().map_err(|_| CodecError::Invalid("record"))?;
    let unsettled = (time % 2 == 0).then_some((Index::Unsettled, time));
    Ok([(Index::Due, time)].into_iter().chain(unsettled).collect())
}

/// What is derived from a record: half of them are in one group, half in the other.
fn derived(name: &[u8], record: &[u8]) -> Result<Derived, CodecError> {
    Ok(Derived { entries: indexed(record)?, share: share(name, record) })
}

fn share(name: &[u8], record: &[u8]) -> Share {
    let group = name.last().map_or(0, |last| last % 2);
    Share { group: vec![group].into(), bytes: record.len() as u64 }
}

/// Gives the shard `count` records, each due at its number times `factor`.
fn fill(shard: &ShardRecords, count: u64, factor: u64, meta: &str) {
    for first in (0..count).step_by(10) {
        commit(shard, |batch| {
            for number in first..count.min(first + 10) {
                let (name, time) = (format!("n-{number:04}"), number * factor);
                let record = time.to_string();
                batch.move_share(None, Some(share(name.as_bytes(), record.as_bytes())));
                batch.put(name.as_bytes(), record.into_bytes());
                for (index, time) in indexed(time.to_string().as_bytes()).unwrap() {
                    batch.put_index(index, time, name.as_bytes());
                }
            }
            batch.set_meta(meta.as_bytes().to_vec());
        });
    }
}

/// Asserts that the shard holds what [`fill`] gave it, and nothing else.
fn assert_filled(shard: &ShardRecords, count: u64, factor: u64, meta: &str) {
    assert_eq!(shard.meta().unwrap().unwrap(), meta);
    let entries = all(&shard.view().unwrap(), 1000);
    let expected: Vec<_> = (0..count).map(|n| (format!("n-{n:04}"), n * factor)).collect();
    let found = entries.into_iter().map(|(name, record)| {
        let text = |bytes: &Bytes| String::from_utf8(bytes.to_vec()).unwrap();
        (text(&name), text(&record).parse().unwrap())
    });
    assert_eq!(found.collect::<Vec<_>>(), expected);
    let by_time = expected.into_iter().map(|(name, time)| (time, name)).collect::<BTreeSet<_>>();
    let by_time: Vec<_> = by_time.into_iter().collect();
    assert_eq!(due(shard, u64::MAX, usize::MAX), by_time);
    let even = by_time.into_iter().filter(|(time, _)| time % 2 == 0);
    assert_eq!(unsettled(shard, None, usize::MAX), even.collect::<Vec<_>>());
}

/// Asserts what the groups of [`share`] come to when a store holds what [`fill`] gave it and no
/// more.
fn assert_tallied(records: &Records, count: u64, factor: u64) {
    let mut expected = [Tally::default(); 2];
    for number in 0..count {
        let group = &mut expected[usize::from(format!("n-{number:04}").as_bytes()[5] % 2)];
        group.records += 1;
        group.bytes += (number * factor).to_string().len() as u64;
    }
    assert_eq!([records.tally(&[0]), records.tally(&[1])], expected);
    let all = records.tally_over(|_| true);
    assert_eq!(all.records, count, "no other group has any");
    assert_eq!(all.bytes, expected[0].bytes + expected[1].bytes);
}

fn chunks(view: &RecordsView, bytes_max: usize) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    loop {
        let cursor = chunks.last().and_then(|chunk| chunk.next.clone());
        chunks.push(view.chunk(cursor.as_ref(), bytes_max).unwrap());
        if chunks.last().unwrap().next.is_none() {
            return chunks;
        }
    }
}

fn all(view: &RecordsView, bytes_max: usize) -> Vec<(Bytes, Bytes)> {
    chunks(view, bytes_max).into_iter().flat_map(|chunk| chunk.entries).collect()
}

/// Sends `view` to `shard` as it would be sent between nodes, without the end.
fn receive(view: &RecordsView, shard: &ShardRecords, bytes_max: usize) -> Installer {
    let mut installer = shard.begin_install().unwrap();
    for chunk in chunks(view, bytes_max) {
        let mut bytes = Vec::new();
        chunk.encode_into(&mut bytes);
        installer.add(&Chunk::decode(&bytes).unwrap(), derived).unwrap();
    }
    installer
}

/// A view of `count` records in a store of their own.
fn source(count: u64, factor: u64) -> (Fixture, RecordsView) {
    let fixture = Fixture::new();
    fill(&fixture.shard(), count, factor, "sent");
    let view = fixture.shard().view().unwrap();
    (fixture, view)
}

/// Keys of records and of the due index in the whole store, garbage included.
fn stored_keys(records: &Records) -> usize {
    let shards: Vec<_> = records.shards.lock().unwrap().values().cloned().collect();
    shards.iter().for_each(|shard| shard.flush().unwrap());
    let range = |kind: keys::Kind| records.store.keyspace().range(kind.all()).count();
    range(keys::Kind::Record) + range(keys::Kind::Index(Index::Due))
}

fn sweep(records: &Records) {
    while records.sweep().unwrap() {}
}

fn refused(result: Result<(), RecordsError>, says: &str) {
    let Err(error) = result else { panic!("not refused: {says}") };
    assert!(error.to_string().contains(says), "{error}");
}

#[test]
fn chunks_hold_what_they_may_and_a_large_record_travels_alone() {
    let fixture = Fixture::new();
    let shard = fixture.shard();
    commit(&shard, |batch| {
        for number in 0..100 {
            batch.put(format!("a-{number:03}").as_bytes(), [1; 95].to_vec());
        }
        batch.put(b"b", vec![2; 1 << 20]);
        batch.put(b"c", b"3".to_vec());
    });
    let view = shard.view().unwrap();
    let sizes: Vec<_> = chunks(&view, 1000).iter().map(|chunk| chunk.entries.len()).collect();
    assert_eq!(sizes, [vec![10; 10], vec![1, 1]].concat());
    assert_eq!(chunks(&view, 8 << 20).len(), 1);
    assert_eq!(chunks(&view, 0).len(), 102);
    let names = all(&view, 1000);
    assert!(names.is_sorted() && names.len() == 102);

    let empty = fixture.records.shard(ShardId(9)).view().unwrap();
    assert_eq!(empty.chunk(None, 1000).unwrap(), Chunk { entries: vec![], next: None });
    assert_eq!(empty.meta(), None);
}

#[test]
fn a_view_does_not_change() {
    let fixture = Fixture::new();
    let shard = fixture.shard();
    fill(&shard, 50, 2, "before");
    let view = shard.view().unwrap();
    let first = view.chunk(None, 100).unwrap();
    fill(&shard, 60, 3, "after");
    commit(&shard, |batch| (0..60).for_each(|n| batch.remove(format!("n-{n:04}").as_bytes())));
    fixture.flush_to_tables();
    assert_eq!(view.meta(), Some(&b"before"[..]));
    let (second, whole) = (Fixture::new(), all(&view, 100));
    assert_eq!(whole[..first.entries.len()], first.entries);
    receive(&view, &second.shard(), 100).finish(b"before").unwrap();
    assert_filled(&second.shard(), 50, 2, "before");
}

#[test]
fn a_damaged_chunk_is_refused() {
    let (_fixture, view) = source(5, 1);
    for (bytes_max, chunks_expected) in [(1000, 1), (14, 3)] {
        let chunks = chunks(&view, bytes_max);
        assert_eq!(chunks.len(), chunks_expected);
        for chunk in chunks {
            let mut bytes = b"head".to_vec();
            chunk.encode_into(&mut bytes);
            assert_eq!(Chunk::decode(&bytes[4..]).unwrap(), chunk);
            for bit in 0..(bytes.len() - 4) * 8 {
                let mut damaged = bytes[4..].to_vec();
                damaged[bit / 8] ^= 1 << (bit % 8);
                assert!(matches!(Chunk::decode(&damaged), Err(RecordsError::Chunk(_))), "{bit}");
            }
            for cut in 4..bytes.len() {
                assert!(Chunk::decode(&bytes[4..cut]).is_err(), "cut at {cut}");
            }
        }
    }
}

#[test]
fn hostile_bytes_with_a_good_checksum_are_refused() {
    let sealed = |body: &[u8]| [body, &crc32fast::hash(body).to_le_bytes()].concat();
    let mut rng = StdRng::seed_from_u64(11);
    let huge = [&[codec_version(), 253][..], &[0xFF; 8], &[1; 40]].concat();
    assert!(Chunk::decode(&sealed(&huge)).is_err());
    assert!(Chunk::decode(&sealed(&[codec_version(), 0, 0])).is_err(), "empty, and more to come");
    for _ in 0..2000 {
        let mut body: Vec<u8> = (0..rng.random_range(0..60)).map(|_| rng.random()).collect();
        body.insert(0, codec_version());
        if let Ok(chunk) = Chunk::decode(&sealed(&body)) {
            let mut again = Vec::new();
            chunk.encode_into(&mut again);
            assert_eq!(Chunk::decode(&again).unwrap(), chunk);
        }
    }
}

fn codec_version() -> u8 {
    crate::codec::SNAPSHOT_RECORDS
}

#[test]
fn installed_records_take_the_place_of_the_old_ones() {
    let mut fixture = Fixture::new();
    fill(&fixture.shard(), 80, 7, "old");
    fill(&fixture.records.shard(ShardId(4)), 10, 1, "beside");
    let (_source, view) = source(50, 3);
    let installer = receive(&view, &fixture.shard(), 64);
    assert_filled(&fixture.shard(), 80, 7, "old");
    installer.finish(view.meta().unwrap()).unwrap();
    for restart in 0..2 {
        assert_filled(&fixture.shard(), 50, 3, "sent");
        assert_filled(&fixture.records.shard(ShardId(4)), 10, 1, "beside");
        if restart == 0 {
            fixture = fixture.reopened();
        }
    }
    assert_eq!(stored_keys(&fixture.records), 2 * (80 + 50 + 10), "the old ones are still there");
    sweep(&fixture.records);
    assert_eq!(stored_keys(&fixture.records), 2 * (50 + 10));
    assert_filled(&fixture.shard(), 50, 3, "sent");
}

#[test]
fn an_installation_without_an_end_changes_nothing_and_is_swept() {
    let mut fixture = Fixture::new();
    fill(&fixture.shard(), 20, 7, "old");
    let (_source, view) = source(50, 3);
    receive(&view, &fixture.shard(), 64).abort();
    assert_eq!(stored_keys(&fixture.records), 2 * (20 + 50));
    sweep(&fixture.records);
    assert_eq!(stored_keys(&fixture.records), 2 * 20);

    // A crash runs no destructor: what it leaves is found when the records are opened.
    std::mem::forget(receive(&view, &fixture.shard(), 64));
    fixture.shard().sync().unwrap();
    let image = images::image(&fixture.folder.path().join("records"));
    let crashed = Records::open(&image.path().join("records")).unwrap();
    assert_filled(&crashed.shard(SHARD), 20, 7, "old");
    assert_tallied(&crashed, 20, 7);
    let installer = receive(&view, &crashed.shard(SHARD), 64);
    sweep(&crashed);
    assert_eq!(stored_keys(&crashed), 2 * (20 + 50), "what is being received is no garbage");
    assert_tallied(&crashed, 20, 7);
    installer.finish(b"sent").unwrap();
    assert_tallied(&crashed, 50, 3);
    sweep(&crashed);
    assert_eq!(stored_keys(&crashed), 2 * 50);
    assert_filled(&crashed.shard(SHARD), 50, 3, "sent");
    fixture = Fixture { folder: image, records: crashed }.reopened();
    assert_filled(&fixture.shard(), 50, 3, "sent");
    assert_tallied(&fixture.records, 50, 3);
}

#[test]
fn a_crash_at_any_moment_leaves_the_old_records_or_the_new() {
    let fixture = Fixture::new();
    let dir = fixture.folder.path().join("records");
    fill(&fixture.shard(), 20, 7, "old");
    fixture.shard().sync().unwrap();
    let before = images::journal_bytes(&dir);
    let (_source, view) = source(30, 3);
    receive(&view, &fixture.shard(), 100).finish(b"sent").unwrap();
    sweep(&fixture.records);
    drop(fixture.records);
    let end = images::journal_bytes(&dir);
    let (mut old, mut new) = (0, 0);
    for step in 0..=12 {
        let image = images::image(&dir);
        let torn = image.path().join("records");
        Tear::Zeros(before + (end - before) * step / 12).apply(&torn);
        let records = Records::open(&torn).unwrap();
        let shard = records.shard(SHARD);
        if shard.meta().unwrap().unwrap() == "old" {
            assert_eq!(new, 0, "a later crash left an older state");
            assert_filled(&shard, 20, 7, "old");
            assert_tallied(&records, 20, 7);
            old += 1;
        } else {
            assert_filled(&shard, 30, 3, "sent");
            assert_tallied(&records, 30, 3);
            new += 1;
        }
        let kept = if new == 0 { 20 } else { 30 };
        sweep(&records);
        assert_eq!(stored_keys(&records), 2 * kept);
    }
    assert!(old > 1 && new > 1, "old {old}, new {new}");
}

#[test]
fn what_began_before_an_installation_ends_with_it() {
    let fixture = Fixture::new();
    let shard = fixture.shard();
    fill(&shard, 5, 7, "old");
    let (_source, view) = source(30, 3);
    let mut stale = shard.batch();
    stale.put(b"n-0000", b"0".to_vec());
    stale.move_share(None, Some(share(b"n-0000", b"0")));
    stale.set_meta(b"stale".to_vec());
    let mut first = receive(&view, &shard, 64);
    let second = receive(&view, &shard, 64);
    refused(first.add(&Chunk { entries: vec![], next: None }, derived), "follows the last");
    refused(first.finish(b"first"), "replaced");
    second.finish(b"sent").unwrap();
    refused(stale.commit(), "replaced");
    assert_filled(&shard, 30, 3, "sent");
    assert_tallied(&fixture.records, 30, 3);
    sweep(&fixture.records);
    assert_eq!(stored_keys(&fixture.records), 2 * 30);
}

#[test]
fn chunks_that_do_not_follow_each_other_are_refused() {
    let fixture = Fixture::new();
    let shard = fixture.shard();
    let (_source, view) = source(30, 3);
    let chunks = chunks(&view, 64);
    let mut installer = shard.begin_install().unwrap();
    installer.add(&chunks[0], derived).unwrap();
    installer.add(&chunks[1], derived).unwrap();
    refused(installer.add(&chunks[1], derived), "out of order");
    refused(installer.add(&chunks[0], derived), "out of order");
    let entries = |names: &[&'static str], record: &'static str| {
        let entry = |name: &&'static str| (Bytes::from(*name), Bytes::from(record));
        Chunk { entries: names.iter().map(entry).collect(), next: None }
    };
    refused(installer.add(&entries(&["z", "y"], "1"), derived), "out of order");
    refused(installer.add(&entries(&["z"], "no record"), derived), "record is not valid");
    let long = Bytes::from(vec![b'z'; keys::NAME_BYTES_MAX + 1]);
    let long = Chunk { entries: vec![(long, Bytes::from("1"))], next: None };
    refused(installer.add(&long, derived), "out of order");
    for chunk in &chunks[2..] {
        installer.add(chunk, derived).unwrap();
    }
    installer.finish(b"sent").unwrap();
    assert_filled(&shard, 30, 3, "sent");

    let mut half = shard.begin_install().unwrap();
    half.add(&chunks[0], derived).unwrap();
    refused(half.finish(b"half"), "last one is missing");
    assert_filled(&shard, 30, 3, "sent");
}

#[test]
fn a_record_that_is_never_due_has_no_index_entry() {
    let fixture = Fixture::new();
    let mut installer = fixture.shard().begin_install().unwrap();
    let entries = vec![(Bytes::from("a"), Bytes::from("never")), (Bytes::from("b"), "7".into())];
    installer.add(&Chunk { entries, next: None }, derived).unwrap();
    installer.finish(b"").unwrap();
    assert_eq!(due(&fixture.shard(), u64::MAX, 10), [(7, "b".to_owned())]);
}

#[test]
fn readers_find_a_record_that_is_in_the_old_and_the_new_records_at_all_times() {
    let fixture = Fixture::new();
    let shard = fixture.shard();
    fill(&shard, 20, 1, "sent");
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut reads = 0;
                    while !done.load(Ordering::Relaxed) {
                        assert_eq!(get(&shard, "n-0007").unwrap(), b"7");
                        assert!(due(&shard, 30, 3).len() <= 3);
                        reads += 1;
                    }
                    reads
                })
            })
            .collect();
        for _ in 0..20 {
            let view = shard.view().unwrap();
            receive(&view, &shard, 64).finish(view.meta().unwrap()).unwrap();
            sweep(&fixture.records);
        }
        done.store(true, Ordering::Relaxed);
        assert!(readers.into_iter().all(|reader| reader.join().unwrap() > 0));
    });
    assert_filled(&shard, 20, 1, "sent");
    assert_eq!(stored_keys(&fixture.records), 2 * 20);
}

#[test]
fn a_sweep_does_a_bounded_part_at_a_time() {
    let fixture = Fixture::new();
    let shard = fixture.shard();
    fill(&shard, 25, 1, "old");
    fixture.flush();
    let other = fixture.records.shard(ShardId(8));
    receive(&other.view().unwrap(), &shard, 64).finish(b"empty").unwrap();
    let inner = fixture.records.shards.lock().unwrap()[&SHARD].clone();
    let mut left = vec![stored_keys(&fixture.records)];
    while inner.sweep(10).unwrap() {
        left.push(stored_keys(&fixture.records));
    }
    assert_eq!(left, [50, 40, 30, 25, 25, 25, 25, 15, 5]);
    let of_unsettled = keys::Kind::Index(Index::Unsettled).all();
    for swept in [of_unsettled, keys::Kind::Tally.all()] {
        assert_eq!(fixture.records.store.keyspace().range(swept).count(), 0);
    }
    assert_eq!(stored_keys(&fixture.records), 0);
}
