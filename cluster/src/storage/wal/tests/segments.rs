//! Segments come, go, and come again.

use super::super::super::frame;
use super::*;

const SEGMENT: u64 = 1000;

fn newest(disk: &FaultyDisk) -> u64 {
    let files = disk.files();
    let names: Vec<&Path> = files.keys().map(PathBuf::as_path).collect();
    *segments(&names).last().unwrap()
}

/// Appends and purges until `segments` more were begun.
fn churn(disk: &FaultyDisk, wal: &Wal, shard: ShardId, segments: u64) {
    let until = newest(disk) + segments;
    let log = wal.shard(shard);
    while newest(disk) < until {
        let first = log.last_index().or(log.purged().map(|(upto, _)| upto)).map_or(0, |at| at + 1);
        append(wal, shard, first..first + 3);
        log.purge(first + 1, "mark".into());
    }
}

#[test]
fn purged_segments_are_used_again_and_few_are_held() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    churn(&disk, &wal, A, 30);
    settle(&wal);
    let few = |names: &[&Path]| segments(names).len() <= 4 && spares(names) <= SPARES_MAX;
    disk.wait_until("old segments are gone", |_, names| few(names));
    // Files are created for the first segments only.
    let files = disk.files().len();
    assert!(files <= 4 + SPARES_MAX, "{files} files");
    let expected = states(&wal);
    assert_eq!(states(&open(&disk.as_after_crash(0), SEGMENT)), expected);
}

#[test]
fn many_segments_purged_at_once_leave_few_spare_files() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    for at in 0..60 {
        append(&wal, A, 3 * at..3 * at + 3);
    }
    assert!(newest(&disk) > 8);
    wal.shard(A).purge(179, "mark".into());
    disk.wait_until("old segments are gone", |_, names| {
        segments(names).len() == 2 && (1..=SPARES_MAX).contains(&spares(names))
    });
    wal.close();
    let after = open(&disk.as_after_crash(0), SEGMENT);
    assert_eq!(after.shard(A).purged(), Some((179, "mark".into())));
    append(&after, A, 180..181);
}

#[test]
fn an_idle_shard_does_not_keep_the_log() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    vote(&wal, B, "vote of an idle shard");
    append(&wal, B, 5..8);
    let idle = state(&wal.shard(B));
    churn(&disk, &wal, A, 30);
    settle(&wal);
    disk.wait_until("the idle shard's segment is gone", |_, names| {
        segments(names).len() <= options(SEGMENT).segments_held + 2
    });
    for seed in 0..20 {
        let after = open(&disk.as_after_crash(seed), SEGMENT);
        assert_eq!(state(&after.shard(B)), idle);
    }
    // Its entries can still be truncated, and others appended in their place.
    wal.shard(B).truncate_after(Some(5));
    append(&wal, B, 6..10);
    wal.shard(B).purge(6, "mark".into());
    churn(&disk, &wal, A, 10);
    settle(&wal);
    assert_eq!(states(&open(&disk.as_after_crash(0), SEGMENT))[&B].entries, entries(B, 7..10));
}

#[test]
fn a_log_that_is_all_needed_is_not_written_again() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    for at in 0..100 {
        append(&wal, A, at..at + 1);
    }
    disk.wait_until("a segment is ready", |_, names| newest_of(names) > 5);
    wal.close();
    let begun = newest(&disk);
    // One write for each group, one for each header, one for the end: none for a second copy.
    assert_eq!(disk.counts().writes, 100 + begun + 1);
    assert_eq!(states(&open(&disk, SEGMENT))[&A].entries, entries(A, 0..100));
}

fn newest_of(names: &[&Path]) -> u64 {
    segments(names).last().copied().unwrap_or(0)
}

#[test]
fn an_entry_larger_than_a_segment_gets_a_larger_one() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    append(&wal, A, 0..1);
    disk.wait_until("a segment is ready", |_, names| newest_of(names) == 2);
    let huge = Bytes::from(vec![b'x'; 10_000]);
    let (callback, told) = synced();
    wal.shard(A).append(vec![(1, huge.clone())], callback);
    told.wait().unwrap();
    append(&wal, A, 2..3);
    let after = open(&disk.as_after_crash(0), SEGMENT);
    assert_eq!(after.shard(A).read(1, 2, 0), [(1, huge)]);
    churn(&disk, &wal, A, 10);
    settle(&wal);
    disk.wait_until("the large one is gone", |_, names| !segments(names).contains(&2));
    assert!(disk.files().values().all(|bytes| bytes.len() as u64 == SEGMENT));
}

#[test]
fn what_an_earlier_life_left_in_a_file_never_counts() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    churn(&disk, &wal, A, 10);
    settle(&wal);
    let expected = states(&wal);
    let mut stale = 0;
    for (path, bytes) in disk.files() {
        let Some(sequence) = segments(&[&path]).pop() else { continue };
        let salt = |sequence| segment::Header { sequence, log: LOG }.salt();
        for at in (HEADER_BYTES as usize..bytes.len()).step_by(frame::ALIGN) {
            let earlier =
                (1..sequence).any(|earlier| frame::group_at(&bytes[at..], salt(earlier)).is_some());
            stale += usize::from(earlier);
            assert!(!earlier || frame::group_at(&bytes[at..], salt(sequence)).is_none());
        }
    }
    assert!(stale > 3, "the test needs stale frames: {stale}");
    assert_eq!(states(&open(&disk.as_after_crash(0), SEGMENT)), expected);
}

#[test]
fn truncated_entries_do_not_come_back() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    append(&wal, A, 0..10);
    wal.shard(A).truncate_after(Some(4));
    let (callback, told) = synced();
    wal.shard(A).append(vec![(5, "another entry".into())], callback);
    told.wait().unwrap();
    for seed in 0..10 {
        let after = open(&disk.as_after_crash(seed), SEGMENT);
        let log = after.shard(A);
        assert_eq!(log.last_index(), Some(5));
        assert_eq!(log.read(5, 6, 0), [(5, "another entry".into())]);
    }
}

#[test]
fn a_segment_that_a_killed_process_took_out_is_not_written_before_its_name_is_gone() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    append(&wal, A, 0..10);
    append(&wal, A, 10..20);
    // Otherwise the one that is taken out may become the next.
    disk.wait_until("the next is ready", |_, names| segments(names) == [1, 2, 3]);
    wal.shard(A).purge(9, "mark".into());
    disk.wait_until("it is taken out", |_, names| segments(names) == [2, 3] && spares(names) == 1);
    let expected = states(&wal);
    let files = disk.files();
    let named = |sequence| segment::path(Path::new(DIR), sequence);
    let spare = files.keys().find(|path| path.extension().is_some_and(|end| end == "spare"));
    let spare = spare.unwrap().clone();
    // As it was in the middle of that, had there been no segment ready: the new name is seen, and
    // the old one is what a crash would bring back.
    let image = [(named(1), files[&spare].clone()), (named(2), files[&named(2)].clone())];
    let disk = FaultyDisk::with_files(&image.into());
    disk.rename(&named(1), &spare).unwrap();
    for operations in 0..15 {
        let disk = disk.as_after_kill();
        disk.halt_after(operations);
        let opened = Wal::open(Arc::new(disk.clone()), options(SEGMENT));
        if opened.is_ok() {
            disk.wait_until("it is used again, or the power is gone", |counts, names| {
                segments(names).contains(&3) || counts.operations > operations
            });
        }
        for seed in 0..10 {
            let after = open(&disk.as_after_crash(seed), SEGMENT);
            assert_eq!(states(&after), expected, "operation {operations}, seed {seed}");
        }
    }
}
