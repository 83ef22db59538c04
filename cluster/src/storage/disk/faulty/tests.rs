use std::collections::BTreeSet;

use super::*;

const DIR: &str = "dir";

fn disk() -> FaultyDisk {
    let disk = FaultyDisk::default();
    disk.create_dir(Path::new(DIR)).unwrap();
    disk
}

fn path(name: &str) -> PathBuf {
    Path::new(DIR).join(name)
}

/// A durable file of 1,000 bytes `a`.
fn with_file(name: &str) -> (FaultyDisk, Box<dyn DiskFile>) {
    let disk = disk();
    let file = disk.create(&path(name)).unwrap();
    file.write_at(&[b'a'; 1000], 0).unwrap();
    file.sync_all().unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    (disk, file)
}

#[test]
fn what_was_synced_survives_every_crash() {
    let (disk, _) = with_file("file");
    for seed in 0..100 {
        assert_eq!(disk.crash(seed).read(&path("file")).unwrap(), [b'a'; 1000]);
    }
}

#[test]
fn what_was_not_synced_is_lost_kept_or_torn() {
    let (disk, file) = with_file("file");
    file.write_at(&[b'b'; 1000], 0).unwrap();
    let kept: Vec<usize> = (0..100)
        .map(|seed| disk.crash(seed).read(&path("file")).unwrap())
        .map(|content| content.iter().filter(|byte| **byte == b'b').count())
        .collect();
    assert!(kept.contains(&0) && kept.contains(&1000));
    assert!(kept.iter().any(|kept| (1..1000).contains(kept)));
}

#[test]
fn names_need_a_sync_of_their_directory() {
    let (disk, _) = with_file("old");
    disk.rename(&path("old"), &path("new")).unwrap();
    let seen: BTreeSet<Vec<String>> =
        (0..50).map(|seed| disk.crash(seed).list(Path::new(DIR)).unwrap()).collect();
    assert_eq!(seen, BTreeSet::from([vec!["new".to_string()], vec!["old".to_string()]]));
}

#[test]
fn a_synced_directory_keeps_its_names() {
    let (disk, _) = with_file("old");
    disk.rename(&path("old"), &path("new")).unwrap();
    disk.sync_dir(Path::new(DIR)).unwrap();
    for seed in 0..50 {
        assert_eq!(disk.crash(seed).list(Path::new(DIR)).unwrap(), ["new"]);
    }
}

#[test]
fn after_a_failed_sync_a_second_one_proves_nothing() {
    let (disk, file) = with_file("file");
    file.write_at(&[b'b'; 1000], 0).unwrap();
    disk.fail_sync_after(0);
    file.sync_data().unwrap_err();
    file.sync_data().unwrap();
    let content = |seed| disk.as_after_crash(seed).read(&path("file")).unwrap();
    assert!((0..50).any(|seed| content(seed) != [b'b'; 1000]));
    // What is written again is as good as new, and what lies around it as bad as before.
    file.write_at(&[b'c'; 100], 450).unwrap();
    file.sync_data().unwrap();
    assert!((0..50).all(|seed| content(seed)[450..550] == [b'c'; 100]));
    for around in [0..450, 550..1000] {
        let seen: BTreeSet<u8> =
            (0..50).flat_map(|seed| content(seed)[around.clone()].to_vec()).collect();
        assert_eq!(seen, BTreeSet::from([b'a', b'b']));
    }
}

#[test]
fn nothing_works_once_the_power_is_gone() {
    let (disk, file) = with_file("file");
    disk.halt_after(1);
    file.write_at(b"x", 0).unwrap();
    file.sync_data().unwrap_err();
    file.write_at(b"y", 0).unwrap_err();
    disk.read(&path("file")).unwrap_err();
    let after: BTreeSet<u8> =
        (0..50).map(|seed| disk.crash(seed).read(&path("file")).unwrap()[0]).collect();
    assert_eq!(after, BTreeSet::from([b'a', b'x']));
}

#[test]
fn a_full_disk_takes_writes_in_place_only() {
    let (disk, file) = with_file("file");
    disk.set_full(true);
    file.write_at(b"x", 999).unwrap();
    file.allocate(1000).unwrap();
    let full = io::ErrorKind::StorageFull;
    assert_eq!(file.write_at(b"xy", 999).unwrap_err().kind(), full);
    assert_eq!(file.allocate(1001).unwrap_err().kind(), full);
    assert_eq!(disk.counts().refused, 2);
    disk.set_full(false);
    file.allocate(1001).unwrap();
    assert_eq!(file.bytes().unwrap(), 1001);
}

#[test]
fn what_a_killed_process_wrote_is_there_and_not_yet_durable() {
    let (disk, file) = with_file("file");
    file.write_at(&[b'b'; 1000], 0).unwrap();
    disk.rename(&path("file"), &path("new")).unwrap();
    let next = disk.kill();
    file.sync_data().unwrap_err();
    assert_eq!(next.read(&path("new")).unwrap(), [b'b'; 1000]);
    let intact =
        |disk: FaultyDisk| disk.read(&path("new")).is_ok_and(|content| content == [b'b'; 1000]);
    assert!((0..50).any(|seed| !intact(next.as_after_crash(seed))));
    next.open(&path("new")).unwrap().sync_all().unwrap();
    next.sync_dir(Path::new(DIR)).unwrap();
    assert!((0..50).all(|seed| intact(next.as_after_crash(seed))));
}
