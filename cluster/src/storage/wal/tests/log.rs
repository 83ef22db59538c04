//! The log as its owners use it.

use super::*;

#[test]
fn entries_are_readable_at_once_and_durable_when_told() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, 4096);
    let log = wal.shard(A);
    assert_eq!((log.last_index(), log.bytes()), (None, 0));
    let (callback, told) = synced();
    log.append(entries(A, 3..6), callback);
    assert_eq!(log.last_index(), Some(5));
    assert_eq!(wal.shard(A).read(0, 9, 999), entries(A, 3..6));
    told.wait().unwrap();
    let expected = states(&wal);
    let after = open(&disk.crash(0), 4096);
    assert_eq!(states(&after), expected);
}

#[test]
fn a_read_is_bounded_by_range_and_bytes_and_gives_at_least_one() {
    let wal = open(&FaultyDisk::default(), 4096);
    append(&wal, A, 3..9);
    let log = wal.shard(A);
    let one = entries(A, 3..4)[0].1.len();
    assert_eq!(log.read(4, 7, 999), entries(A, 4..7));
    assert_eq!(log.read(4, 7, 0), entries(A, 4..5));
    assert_eq!(log.read(4, 7, 2 * one), entries(A, 4..6));
    assert_eq!(log.read(4, 7, 3 * one - 1), entries(A, 4..6));
    assert_eq!(log.read(0, 4, 999), entries(A, 3..4));
    for (from, to) in [(0, 3), (9, 12), (7, 4), (5, 5)] {
        assert_eq!(log.read(from, to, 999), []);
    }
}

#[test]
fn truncation_and_purge_are_seen_at_once_and_survive() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, 4096);
    append(&wal, A, 0..10);
    append(&wal, B, 0..4);
    append(&wal, C, 5..8);
    let (a, b, c) = (wal.shard(A), wal.shard(B), wal.shard(C));
    a.truncate_after(Some(6));
    a.truncate_after(Some(8));
    a.purge(2, "mark".into());
    a.purge(1, "older".into());
    assert_eq!(a.read(0, 99, 999), entries(A, 3..7));
    assert_eq!(a.purged(), Some((2, "mark".into())));
    b.purge(11, "beyond".into());
    assert_eq!(b.last_index(), None);
    c.truncate_after(None);
    append(&wal, A, 7..8);
    append(&wal, B, 12..13);
    append(&wal, C, 1..3);
    c.purge(0, "nothing".into());
    assert_eq!(c.read(0, 99, 999), entries(C, 1..3));
    let expected = states(&wal);
    wal.close();
    assert_eq!(states(&open(&disk, 4096)), expected);
}

#[test]
fn the_memory_of_entries_is_accounted_for() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, 4096);
    append(&wal, A, 0..10);
    let log = wal.shard(A);
    let full = log.bytes();
    log.truncate_after(Some(7));
    log.purge(4, "mark".into());
    assert_eq!(log.bytes(), full * 3 / 10);
    settle(&wal);
    assert_eq!(open(&disk.crash(0), 4096).shard(A).bytes(), full * 3 / 10);
    log.purge(20, "mark".into());
    assert_eq!(log.bytes(), 0);
}

#[test]
#[should_panic(expected = "a log has no holes")]
fn a_hole_is_a_bug_of_the_caller() {
    let wal = open(&FaultyDisk::default(), 4096);
    append(&wal, A, 0..3);
    wal.shard(A).append(entries(A, 4..5), Box::new(|_| ()));
}

#[test]
fn everything_that_waits_is_written_with_one_write_and_one_sync() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, 1 << 20);
    disk.wait_until("a segment is ready", |_, names| segments(names).len() == 2);
    let release = hold(&wal);
    let before = disk.counts();
    let told: Vec<Told> = (0..100)
        .map(|index| {
            let (callback, told) = synced();
            let shard = ShardId(index % 7);
            let at = u64::from(index / 7);
            wal.shard(shard).append(entries(shard, at..at + 1), callback);
            told
        })
        .collect();
    release.send(()).unwrap();
    told.iter().for_each(|told| told.wait().unwrap());
    let after = disk.counts();
    assert_eq!((after.writes, after.syncs), (before.writes + 1, before.syncs + 1));
}

#[test]
fn a_committed_position_waits_for_the_next_group() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, 4096);
    disk.wait_until("a segment is ready", |_, names| segments(names).len() == 2);
    let before = disk.counts().syncs;
    for position in 0..100 {
        wal.shard(A).save_committed(format!("{position}").into());
    }
    append(&wal, B, 0..1);
    assert_eq!(disk.counts().syncs, before + 1);
    assert_eq!(open(&disk.crash(0), 4096).shard(A).committed(), Some("99".into()));
}

#[test]
fn a_closed_log_refuses_and_keeps_what_it_took() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, 4096);
    let (callback, told) = synced();
    wal.shard(A).append(entries(A, 0..3), callback);
    wal.shard(A).save_committed("committed".into());
    let expected = states(&wal);
    wal.close();
    wal.close();
    told.wait().unwrap();
    let (callback, told) = synced();
    wal.shard(B).save_vote("late".into(), callback);
    assert_eq!(told.wait().unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    assert_eq!(states(&open(&disk.crash(0), 4096)), expected);
}

#[test]
fn opening_and_closing_alone_writes_nothing() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, 4096);
    append(&wal, A, 0..3);
    wal.close();
    let first = segment::path(Path::new(DIR), 1);
    let content = disk.files()[&first].clone();
    for _ in 0..3 {
        open(&disk, 4096).close();
    }
    assert_eq!(disk.files()[&first], content);
}

#[tokio::test]
async fn callers_wait_for_room_while_too_much_is_queued() {
    let wal = open(&FaultyDisk::default(), 32 << 20);
    let log = wal.shard(A);
    let release = hold(&wal);
    let large = Bytes::from(vec![0; 1 << 20]);
    let mut waited = false;
    for index in 0..24 {
        let room = tokio::time::timeout(Duration::from_millis(1), log.room()).await;
        if room.is_err() {
            waited = true;
            break;
        }
        log.append(vec![(index, large.clone())], Box::new(|_| ()));
    }
    assert!(waited);
    release.send(()).unwrap();
    tokio::time::timeout(PATIENCE, log.room()).await.unwrap();
}
