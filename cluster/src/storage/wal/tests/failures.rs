//! Disks that fail, and disks that are full.

use super::*;

const SEGMENT: u64 = 1000;

fn ready(disk: &FaultyDisk, newest: u64) {
    disk.wait_until("a segment is ready", |counts, names| {
        segments(names).last() == Some(&newest) && counts.pending == 0
    });
}

/// Everybody who waits now or later gets the error, the node is told, and the disk is left alone.
async fn fails_for_good(disk: FaultyDisk, wal: Wal, expected: &str) {
    let told: Vec<Told> = (0..5)
        .map(|number| {
            let (callback, told) = synced();
            wal.shard(A).append(entries(A, number..number + 1), callback);
            told
        })
        .collect();
    let failures = told.iter().filter(|told| told.wait().is_err()).count();
    assert!(failures >= 1);
    let failed = tokio::time::timeout(PATIENCE, wal.failed()).await.unwrap();
    assert!(failed.to_string().contains(expected), "{failed}");
    let counts = disk.counts();
    for shard in [A, B] {
        let (callback, told) = synced();
        wal.shard(shard).save_vote("late".into(), callback);
        assert!(told.wait().unwrap_err().to_string().contains(expected));
    }
    wal.close();
    assert_eq!(disk.counts().operations, counts.operations, "nothing is tried again");
}

#[tokio::test]
async fn a_failed_sync_is_final() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    append(&wal, B, 0..3);
    ready(&disk, 2);
    disk.fail_sync_after(0);
    fails_for_good(disk.clone(), wal, "sync: planned sync error").await;
    for seed in 0..20 {
        let after = open(&disk.crash(seed), SEGMENT);
        assert_eq!(state(&after.shard(B)).entries, entries(B, 0..3));
        assert_eq!(after.shard(A).vote(), None);
    }
}

#[test]
fn what_a_restart_finds_after_a_failed_sync_is_durable_from_then_on() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    append(&wal, B, 0..3);
    ready(&disk, 2);
    disk.fail_sync_after(0);
    let (callback, told) = synced();
    wal.shard(A).append(entries(A, 0..3), callback);
    told.wait().unwrap_err();
    let disk = disk.kill();
    let wal = open(&disk, SEGMENT);
    let found = states(&wal);
    assert_eq!(found[&A].entries, entries(A, 0..3), "the write itself was made");
    for seed in 0..50 {
        assert_eq!(states(&open(&disk.as_after_crash(seed), SEGMENT)), found);
    }
}

#[tokio::test]
async fn a_failed_write_is_final() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    append(&wal, B, 0..3);
    ready(&disk, 2);
    disk.fail_write_after(0);
    fails_for_good(disk.clone(), wal, "write: planned write error").await;
    let after = open(&disk.crash(0), SEGMENT);
    assert_eq!(state(&after.shard(B)).entries, entries(B, 0..3));
}

#[tokio::test]
async fn a_segment_that_cannot_be_made_durable_stops_the_log() {
    let disk = FaultyDisk::default();
    // Segment 1 is made durable by whoever opens the log, and segment 2 by the thread that
    // prepares.
    disk.fail_sync_after(1);
    let wal = open(&disk, SEGMENT);
    let failed = tokio::time::timeout(PATIENCE, wal.failed()).await.unwrap();
    assert!(failed.to_string().contains("spare: sync: planned sync error"), "{failed}");
    let (callback, told) = synced();
    wal.shard(B).save_vote("late".into(), callback);
    told.wait().unwrap_err();
}

#[tokio::test]
async fn a_directory_that_cannot_be_synced_stops_the_log() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    ready(&disk, 2);
    disk.fail_sync_dir();
    append(&wal, A, 0..10);
    append(&wal, A, 10..20);
    let failed = tokio::time::timeout(PATIENCE, wal.failed()).await.unwrap();
    assert!(failed.to_string().starts_with("wal: sync directory: "), "{failed}");
}

#[tokio::test]
async fn a_thread_that_panics_raises_the_alarm() {
    let wal = open(&FaultyDisk::default(), SEGMENT);
    wal.shard(A).save_vote("vote".into(), Box::new(|_| panic!("planned panic")));
    let failed = tokio::time::timeout(PATIENCE, wal.failed()).await.unwrap();
    assert_eq!(failed.to_string(), "wal: run: the thread panicked");
}

/// A log on a full disk: the current segment has no room for what waits.
fn full() -> (FaultyDisk, Wal, Told) {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    ready(&disk, 2);
    disk.set_full(true);
    assert_eq!(wal.space(), Space::Ok);
    append(&wal, A, 0..10);
    // Segment 2 is begun with this one, and 3 cannot be prepared.
    append(&wal, A, 10..20);
    disk.wait_until("the disk is found full", |counts, _| counts.refused > 0);
    let (callback, told) = synced();
    wal.shard(A).append(entries(A, 20..30), callback);
    (disk, wal, told)
}

#[test]
fn a_full_disk_is_waited_for() {
    let (disk, wal, told) = full();
    disk.wait_until("it was tried again", |counts, _| counts.refused > 1);
    assert_eq!(wal.space(), Space::Low);
    assert!(told.already().is_none());
    disk.wait_until("what was begun is removed", |_, names| spares(names) == 0);
    disk.set_full(false);
    told.wait().unwrap();
    ready(&disk, 4);
    assert_eq!(wal.space(), Space::Ok);
    assert_eq!(states(&open(&disk.crash(0), SEGMENT))[&A].entries, entries(A, 0..30));
}

#[test]
fn a_purge_makes_room_on_a_full_disk() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    ready(&disk, 2);
    disk.set_full(true);
    append(&wal, A, 0..10);
    append(&wal, A, 10..20);
    disk.wait_until("the disk is found full", |counts, _| counts.refused > 0);
    wal.shard(A).purge(9, "mark".into());
    ready(&disk, 3);
    append(&wal, A, 20..30);
    assert_eq!(states(&open(&disk.crash(0), SEGMENT))[&A].entries, entries(A, 10..30));
}

#[test]
fn a_log_on_a_full_disk_can_be_closed() {
    let (disk, wal, told) = full();
    wal.close();
    assert_eq!(told.wait().unwrap_err().kind(), io::ErrorKind::StorageFull);
    disk.set_full(false);
    assert_eq!(states(&open(&disk, SEGMENT))[&A].entries, entries(A, 0..20));
}

#[test]
fn a_full_disk_is_no_place_for_a_new_log_and_keeps_an_old_one() {
    let disk = FaultyDisk::default();
    disk.set_full(true);
    match Wal::open(Arc::new(disk.clone()), options(SEGMENT)) {
        Err(WalError::Io { source, .. }) => assert_eq!(source.kind(), io::ErrorKind::StorageFull),
        _ => panic!("there is no room for a log"),
    }
    disk.set_full(false);
    append(&open(&disk, SEGMENT), A, 0..3);
    let disk = disk.crash(0);
    disk.set_full(true);
    let wal = open(&disk, SEGMENT);
    append(&wal, A, 3..6);
    assert_eq!(wal.shard(A).read(0, 9, 999), entries(A, 0..6));
}
