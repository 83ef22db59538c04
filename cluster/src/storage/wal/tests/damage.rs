//! What recovery accepts, and what it refuses.

use std::collections::BTreeSet;

use super::super::super::frame;
use super::*;

type Image = BTreeMap<PathBuf, Vec<u8>>;

const SEGMENT: u64 = 800;

/// A log of three segments and one that is ready, and what it holds after each group. Small: its
/// every bit will be flipped.
struct Sample {
    disk: FaultyDisk,
    wal: Wal,
    after: Vec<States>,
}

fn sample() -> Sample {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    let mut after = vec![states(&wal)];
    vote(&wal, A, "vote 1");
    after.push(states(&wal));
    for at in 0..8 {
        let shard = [A, B][at as usize % 2];
        wal.shard(A).save_committed(format!("committed {at}").into());
        if at == 3 {
            // The purge and what waits for it must be one group, so that groups and states stay in
            // step.
            let release = hold(&wal);
            after.push(states(&wal));
            wal.shard(A).purge(1, "purged 1".into());
            let (callback, told) = synced();
            wal.shard(ShardId(99)).save_vote("settle".into(), callback);
            release.send(()).unwrap();
            told.wait().unwrap();
            after.push(states(&wal));
        }
        if at == 6 {
            wal.shard(B).truncate_after(Some(4));
        }
        let first = wal.shard(shard).last_index().map_or(0, |last| last + 1);
        append(&wal, shard, first..first + 2);
        after.push(states(&wal));
    }
    disk.wait_until("a segment is ready", |_, names| segments(names) == [1, 2, 3, 4]);
    Sample { disk, wal, after }
}

fn file(sequence: u64) -> PathBuf {
    segment::path(Path::new(DIR), sequence)
}

fn recover(image: &Image) -> Result<States, WalError> {
    let disk = FaultyDisk::with_files(image);
    let names: Vec<&Path> = image.keys().map(PathBuf::as_path).collect();
    let found = recovery::recover(&disk, Path::new(DIR), &segments(&names))?;
    let shards = Shards::new(Arc::new(Queue::new()));
    let mut entries = found.entries;
    for (shard, written) in found.ledger.shards() {
        shards.insert(shard, written, entries.remove(&shard).unwrap());
    }
    let states = [A, B, C].map(|shard| (shard, state(&shards.get(shard))));
    Ok(states.into_iter().filter(|(_, state)| *state != State::default()).collect())
}

/// Where the groups of a segment begin and end.
fn groups(image: &Image, sequence: u64) -> Vec<Range<usize>> {
    let bytes = &image[&file(sequence)];
    let salt = segment::Header { sequence, log: LOG }.salt();
    let (mut groups, mut start, mut at) =
        (Vec::new(), HEADER_BYTES as usize, HEADER_BYTES as usize);
    while let Ok((frame, taken)) = frame::decode(&bytes[at..], salt) {
        at += taken;
        if frame.last {
            groups.push(start..at);
            start = at;
        }
    }
    groups
}

#[test]
fn the_last_segment_may_be_cut_anywhere_behind_its_header() {
    let Sample { disk, wal, after } = sample();
    let image = disk.files();
    drop(wal);
    let groups = groups(&image, 3);
    let before = after.len() - groups.len();
    let mut seen = BTreeSet::new();
    for cut in 0..image[&file(3)].len() {
        for zeroed in [false, true] {
            // Where the bytes were zero anyway, zeros take nothing away.
            let harmless = |end: usize| zeroed && image[&file(3)][cut..end].iter().all(|b| *b == 0);
            let is_complete = |group: &&Range<usize>| group.end <= cut || harmless(group.end);
            let complete = before + groups.iter().filter(is_complete).count();
            let mut image = image.clone();
            image.remove(&file(4));
            let bytes = image.get_mut(&file(3)).unwrap();
            if zeroed {
                bytes[cut..].fill(0)
            } else {
                bytes.truncate(cut)
            }
            if cut < HEADER_BYTES as usize {
                assert_eq!(damage(recover(&image).unwrap_err()).0, file(3), "cut at {cut}");
                continue;
            }
            assert_eq!(recover(&image).unwrap(), after[complete - 1], "cut at {cut}");
            seen.insert(complete);
        }
    }
    assert_eq!(seen.len(), groups.len() + 1, "the cuts met every group");
}

#[test]
fn a_log_that_was_cut_goes_on_from_there() {
    let Sample { disk, wal, .. } = sample();
    let image = disk.files();
    drop(wal);
    for cut in (HEADER_BYTES as usize..image[&file(3)].len()).step_by(5) {
        let mut image = image.clone();
        image.get_mut(&file(3)).unwrap()[cut..].fill(0);
        let disk = FaultyDisk::with_files(&image);
        let wal = open(&disk, SEGMENT);
        let next = wal.shard(A).last_index().unwrap() + 1;
        append(&wal, A, next..next + 9);
        let expected = states(&wal);
        assert_eq!(states(&open(&disk.crash(cut as u64), SEGMENT)), expected, "cut at {cut}");
    }
}

#[test]
fn a_cut_of_any_other_segment_is_refused() {
    let Sample { disk, wal, after } = sample();
    let image = disk.files();
    drop(wal);
    for sequence in [1, 2] {
        let end = groups(&image, sequence).last().unwrap().end;
        for cut in 0..image[&file(sequence)].len() {
            let mut image = image.clone();
            image.get_mut(&file(sequence)).unwrap().truncate(cut);
            match recover(&image) {
                Ok(states) => {
                    assert_eq!(states, after[after.len() - 1]);
                    assert!(cut >= end, "segment {sequence} cut at {cut}");
                }
                Err(error) => {
                    let (damaged, offset, _) = damage(error);
                    assert_eq!(damaged, file(sequence), "cut at {cut}");
                    assert!(offset <= cut as u64 && cut < end, "{offset} and {cut}");
                }
            }
        }
    }
}

/// Flips every bit of the log in turn. A log that is not refused must hold everything, or, if the
/// flip was in `last`, all but the last group.
fn flip_every_bit(image: &Image, after: &[States], last: Option<(u64, Range<usize>)>) {
    let (whole, shorter) = (&after[after.len() - 1], &after[after.len() - 2]);
    assert_ne!(whole, shorter);
    let (mut refused, mut intact, mut dropped) = (0, 0, 0);
    for (path, bytes) in image {
        // Of the segment that is ready there is nothing but the header.
        let used = if *path == file(4) { 64 } else { bytes.len() };
        for bit in 0..used * 8 {
            let mut image = image.clone();
            image.get_mut(path).unwrap()[bit / 8] ^= 1 << (bit % 8);
            let in_last = last.as_ref().is_some_and(|(sequence, group)| {
                *path == file(*sequence) && group.contains(&(bit / 8))
            });
            match recover(&image) {
                Ok(states) if states == *whole => intact += 1,
                Ok(states) => {
                    assert!(in_last, "{} bit {bit} lost something", path.display());
                    assert_eq!(states, *shorter, "bit {bit} made something up");
                    dropped += 1;
                }
                Err(error) => {
                    let (damaged, offset, _) = damage(error);
                    assert!(damaged == *path && offset <= bit as u64 / 8, "bit {bit}: {offset}");
                    assert!(!in_last, "bit {bit} could have been torn");
                    refused += 1;
                }
            }
        }
    }
    assert!(refused > 5_000 && intact > 500, "{refused} refused, {intact} intact");
    assert_eq!(dropped, last.map_or(0, |(_, group)| group.len() * 8));
}

#[test]
fn a_flipped_bit_is_refused_or_loses_the_group_that_was_being_written() {
    let Sample { disk, wal, after } = sample();
    let image = disk.files();
    drop(wal);
    let last = groups(&image, 3).pop().unwrap();
    flip_every_bit(&image, &after, Some((3, last)));
}

#[test]
fn a_log_that_was_closed_in_order_loses_nothing_to_a_flipped_bit() {
    let Sample { disk, wal, after } = sample();
    wal.close();
    flip_every_bit(&disk.files(), &after, None);
}

#[test]
fn a_missing_segment_is_refused() {
    let Sample { disk, wal, .. } = sample();
    drop(wal);
    for missing in [1, 2, 3] {
        let mut image = disk.files();
        image.remove(&file(missing));
        let (_, _, what) = damage(recover(&image).unwrap_err());
        let expected = if missing == 1 { "no segment holds entry" } else { "segment is missing" };
        assert!(what.contains(expected), "{what}");
    }
}

#[test]
fn an_entry_that_is_promised_and_found_nowhere_is_refused() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, SEGMENT);
    append(&wal, B, 0..3);
    append(&wal, A, 0..20);
    append(&wal, A, 20..40);
    drop(wal);
    let mut image = disk.files();
    image.remove(&file(1));
    let (_, _, what) = damage(recover(&image).unwrap_err());
    assert_eq!(what, "no segment holds entry 0 of shard 2");
}

#[test]
fn a_segment_of_another_log_or_under_another_name_is_refused() {
    let Sample { disk, wal, .. } = sample();
    drop(wal);
    let mut image = disk.files();
    image.insert(file(3), image[&file(2)].clone());
    assert_eq!(damage(recover(&image).unwrap_err()).0, file(3));

    let mut image = disk.files();
    let foreign = segment::Header { sequence: 2, log: LOG + 1 }.encode();
    image.get_mut(&file(2)).unwrap()[..foreign.len()].copy_from_slice(&foreign);
    let (damaged, _, what) = damage(recover(&image).unwrap_err());
    assert_eq!((damaged, what.as_str()), (file(2), "segment belongs to another log"));
}

#[test]
fn frames_of_a_group_in_pieces_are_cleared_before_anything_is_written() {
    let disk = FaultyDisk::default();
    let wal = open(&disk, 4096);
    append(&wal, A, 0..2);
    let expected = states(&wal);
    append(&wal, A, 2..12);
    let mut image = disk.files();
    drop(wal);
    // The group lost its first frame; the other nine are intact.
    let torn = groups(&image, 1).pop().unwrap();
    image.get_mut(&file(1)).unwrap()[torn.start..torn.start + 8].fill(0);
    let disk = FaultyDisk::with_files(&image);
    let wal = open(&disk, 4096);
    assert_eq!(states(&wal), expected);
    assert!(disk.files()[&file(1)][torn.start..].iter().all(|byte| *byte == 0));
    // The new group with the old group's number is shorter. What stands behind it must not become
    // part of it.
    append(&wal, A, 2..3);
    let expected = states(&wal);
    assert_eq!(states(&open(&disk.crash(0), 4096)), expected);
}

/// The sample as a crash left it in the first group of segment 4, when 5 was ready already.
fn torn_at_a_new_segment() -> (Image, States, u64) {
    let Sample { disk, wal, after } = sample();
    let mut image = disk.files();
    drop(wal);
    let group = after.len() as u64;
    let mut frames = Vec::new();
    change::Change::Vote(b"one").push(&mut frames, A);
    change::Change::Vote(b"two").push(&mut frames, A);
    frame::seal(&mut frames, group, segment::Header { sequence: 4, log: LOG }.salt());
    let bytes = image.get_mut(&file(4)).unwrap();
    bytes[HEADER_BYTES as usize..][..frames.len() / 2].copy_from_slice(&frames[..frames.len() / 2]);
    let mut next = vec![0; SEGMENT as usize];
    next[..HEADER_BYTES as usize]
        .copy_from_slice(&segment::Header { sequence: 5, log: LOG }.encode());
    image.insert(file(5), next);
    (image, after.last().unwrap().clone(), group)
}

#[test]
fn a_group_torn_at_the_start_of_a_segment_leaves_no_trace() {
    let (image, expected, _) = torn_at_a_new_segment();
    let disk = FaultyDisk::with_files(&image);
    // Nothing can take the place of the segment that was begun.
    disk.set_full(true);
    let wal = open(&disk, SEGMENT);
    assert_eq!(states(&wal), expected);
    for number in 0..3 {
        settle(&wal);
        let after = open(&disk.as_after_crash(number), SEGMENT);
        assert_eq!(states(&after), states(&wal));
    }
}

#[test]
fn a_crash_during_recovery_is_recovered_from() {
    let (image, expected, _) = torn_at_a_new_segment();
    for operations in 0.. {
        let disk = FaultyDisk::with_files(&image);
        disk.halt_after(operations);
        let opened = Wal::open(Arc::new(disk.clone()), options(SEGMENT));
        for seed in 0..10 {
            let wal = open(&disk.as_after_crash(seed), SEGMENT);
            assert_eq!(states(&wal), expected, "operation {operations}, seed {seed}");
        }
        if opened.is_ok() {
            assert!(operations > 6, "{operations}");
            return;
        }
    }
}

#[test]
fn pieces_of_two_groups_are_no_torn_tail() {
    let (image, _, group) = torn_at_a_new_segment();
    // Segment 3 loses a byte of its last group, which was durable before segment 4 was begun.
    let last = groups(&image, 3).pop().unwrap();
    let mut other = image.clone();
    other.get_mut(&file(3)).unwrap()[last.end - 9] ^= 1;
    let (damaged, offset, _) = damage(recover(&other).unwrap_err());
    assert_eq!((damaged, offset), (file(3), last.start as u64));
    // The same, with the pieces in segment 4 made to look like parts of that group.
    let mut frames = Vec::new();
    change::Change::Vote(b"one").push(&mut frames, A);
    frame::seal(&mut frames, group - 1, segment::Header { sequence: 4, log: LOG }.salt());
    for complete in [true, false] {
        let mut other = other.clone();
        let bytes = &mut other.get_mut(&file(4)).unwrap()[HEADER_BYTES as usize..];
        bytes[..frames.len()].copy_from_slice(&frames);
        if !complete {
            bytes[frames.len() - 1] ^= 1;
        }
        let (damaged, offset, what) = damage(recover(&other).unwrap_err());
        assert_eq!((damaged, offset), (file(3), last.start as u64));
        assert!(what.contains("cannot have been the last"), "{what}");
    }
}

#[test]
fn a_lost_log_is_not_taken_for_a_new_one() {
    let disk = FaultyDisk::default();
    let existing = WalOptions { create: false, ..options(SEGMENT) };
    let open = || Wal::open(Arc::new(disk.clone()), existing.clone());
    assert!(matches!(open(), Err(WalError::Missing { .. })));
    disk.create_dir(Path::new(DIR)).unwrap();
    assert!(matches!(open(), Err(WalError::Missing { .. })));
    assert_eq!(disk.counts().operations, 1);
    super::open(&disk, SEGMENT).close();
    open().unwrap();
}
