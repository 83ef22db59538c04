//! Every refusal, the lock, and a crash at every step of writing the identity.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use super::*;
use crate::storage::disk::DiskFile;

fn identity() -> Identity {
    Identity {
        cluster: "payments".to_owned(),
        node: NodeId(2),
        shards: 16,
        instance: [7; 16],
        formation: None,
        initialised: false,
    }
}

fn formation() -> Formation {
    let members = (1..=3).map(|id| (NodeId(id), [id as u8; 16])).collect();
    Formation { cluster: [9; 16], members }
}

fn open(path: &Path) -> Result<Directory, StartError> {
    Directory::open(path, "payments", NodeId(2), 16, [1; 16])
}

/// Every file below `dir` with its bytes.
fn content(dir: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|path| (path.clone(), fs::read(path).unwrap_or_default())).collect()
}

/// Asserts that opening is refused and changes nothing; returns the refusal.
fn refused(dir: &Path, open: impl FnOnce(&Path) -> Result<Directory, StartError>) -> StartError {
    let before = content(dir);
    let Err(error) = open(dir) else { panic!("directory was opened") };
    assert_eq!(content(dir), before, "a refusal wrote to the directory");
    error
}

fn assert_foreign(error: &StartError, says: &str) {
    let StartError::ForeignDirectory { found, remedy, .. } = error else { panic!("{error}") };
    assert!(format!("{found}; {remedy}").contains(says), "{error}");
}

#[test]
fn a_directory_remembers_what_it_belongs_to() {
    let root = TempDir::new().unwrap();
    let path = root.path().join("data/node-2");
    let mut directory = open(&path).unwrap();
    assert_eq!((directory.instance(), directory.formation()), ([1; 16], None));
    directory.set_formation(formation()).unwrap();
    assert!(!directory.is_initialised());
    directory.set_initialised().unwrap();
    drop(directory);

    let mut reopened = Directory::open(&path, "payments", NodeId(2), 16, [2; 16]).unwrap();
    assert_eq!(reopened.instance(), [1; 16], "the id is the one it was made with");
    assert_eq!(reopened.formation(), Some(&formation()));
    assert!(reopened.is_initialised());
    reopened.set_formation(formation()).unwrap();
    let other = Formation { cluster: [8; 16], ..formation() };
    assert_foreign(&reopened.set_formation(other).unwrap_err(), "another formation");
    assert_eq!(reopened.formation(), Some(&formation()));
}

#[test]
fn empty_directories_are_taken_as_they_are_made() {
    for remains in [&[][..], &[TEMPORARY], &[LOST_AND_FOUND]] {
        let root = TempDir::new().unwrap();
        for name in remains {
            fs::write(root.path().join(name), b"half of it").unwrap();
        }
        open(root.path()).unwrap();
        open(root.path()).unwrap();
    }
}

#[test]
fn a_second_process_is_refused_until_the_first_ends() {
    let root = TempDir::new().unwrap();
    let first = open(root.path()).unwrap();
    let error = refused(root.path(), open);
    assert!(matches!(error, StartError::InUse { .. }), "{error}");
    drop(first);
    open(root.path()).unwrap();
}

#[test]
fn foreign_directories_are_refused_with_what_to_do() {
    let root = TempDir::new().unwrap();
    drop(open(root.path()).unwrap());
    let cases = [
        ("billing", 2, 16, "it belongs to cluster \"payments\""),
        ("payments", 3, 16, "it belongs to node 2"),
        ("payments", 2, 48, "set shards = 16"),
    ];
    for (cluster, node, shards, says) in cases {
        let error = refused(root.path(), |path| {
            Directory::open(path, cluster, NodeId(node), shards, [0; 16])
        });
        assert_foreign(&error, says);
    }
}

#[test]
fn what_is_no_data_directory_is_refused() {
    let root = TempDir::new().unwrap();
    fs::write(root.path().join("notes.txt"), b"dear diary").unwrap();
    assert_foreign(&refused(root.path(), open), "\"notes.txt\"");

    fs::write(root.path().join(FILE), b"#!/usr/bin/env node\n").unwrap();
    assert_foreign(&refused(root.path(), open), "not an identity file");

    let file = root.path().join("notes.txt");
    let Err(error) = open(&file) else { panic!("a file was opened as a directory") };
    assert_foreign(&error, "not a directory");
}

#[test]
fn a_layout_of_another_release_is_refused() {
    let root = TempDir::new().unwrap();
    drop(open(root.path()).unwrap());
    let file = root.path().join(FILE);
    let mut bytes = fs::read(&file).unwrap();
    bytes.truncate(bytes.len() - 4);
    bytes[8] = codec_version() + 1;
    bytes.extend_from_slice(&crc32fast::hash(&bytes).to_le_bytes());
    fs::write(&file, bytes).unwrap();
    assert_foreign(&refused(root.path(), open), "start the release that wrote it");
}

fn codec_version() -> u8 {
    crate::codec::IDENTITY
}

#[test]
fn every_flipped_bit_and_every_cut_is_refused() {
    let root = TempDir::new().unwrap();
    open(root.path()).unwrap().set_formation(formation()).unwrap();
    let file = root.path().join(FILE);
    let bytes = fs::read(&file).unwrap();
    for bit in 0..bytes.len() * 8 {
        let mut damaged = bytes.clone();
        damaged[bit / 8] ^= 1 << (bit % 8);
        assert!(file::decode(&damaged).is_err(), "bit {bit}");
    }
    for cut in 0..bytes.len() {
        assert!(file::decode(&bytes[..cut]).is_err(), "cut at {cut}");
    }
    fs::write(&file, &bytes[..bytes.len() - 1]).unwrap();
    let error = refused(root.path(), open);
    assert!(matches!(error, StartError::Damaged { .. }), "{error}");
}

#[test]
fn free_space_is_known_of_what_exists() {
    let root = TempDir::new().unwrap();
    assert!(OsDisk.free_bytes(root.path()).unwrap() > 0);
    assert!(OsDisk.free_bytes(&root.path().join("absent")).is_err());
}

/// Does the first `left` operations that change something and tears the next; then the machine is
/// off.
#[derive(Clone)]
struct Crashing {
    left: Arc<AtomicUsize>,
}

impl Crashing {
    fn after(operations: usize) -> Self {
        Self { left: Arc::new(AtomicUsize::new(operations)) }
    }

    fn step(&self) -> io::Result<()> {
        let step = self
            .left
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1));
        step.map(|_| ()).map_err(|_| io::Error::other("the machine is off"))
    }
}

impl Disk for Crashing {
    fn create_dir(&self, dir: &Path) -> io::Result<()> {
        self.step().and_then(|()| OsDisk.create_dir(dir))
    }

    fn list(&self, dir: &Path) -> io::Result<Vec<String>> {
        OsDisk.list(dir)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        OsDisk.read(path)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        self.step()?;
        Ok(Box::new(CrashingFile { disk: self.clone(), file: OsDisk.create(path)? }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn DiskFile>> {
        OsDisk.open(path)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.step().and_then(|()| OsDisk.rename(from, to))
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.step().and_then(|()| OsDisk.remove(path))
    }

    fn sync_dir(&self, dir: &Path) -> io::Result<()> {
        self.step().and_then(|()| OsDisk.sync_dir(dir))
    }

    fn free_bytes(&self, path: &Path) -> io::Result<u64> {
        OsDisk.free_bytes(path)
    }
}

struct CrashingFile {
    disk: Crashing,
    file: Box<dyn DiskFile>,
}

impl DiskFile for CrashingFile {
    fn bytes(&self) -> io::Result<u64> {
        self.file.bytes()
    }

    fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<()> {
        match self.disk.step() {
            Ok(()) => self.file.write_at(bytes, offset),
            Err(off) => self.file.write_at(&bytes[..bytes.len() / 2], offset).and(Err(off)),
        }
    }

    fn allocate(&self, bytes: u64) -> io::Result<()> {
        self.file.allocate(bytes)
    }

    fn sync_data(&self) -> io::Result<()> {
        self.disk.step().and_then(|()| self.file.sync_data())
    }

    fn sync_all(&self) -> io::Result<()> {
        self.disk.step().and_then(|()| self.file.sync_all())
    }
}

#[test]
fn a_crash_at_any_step_of_the_creation_leaves_a_directory_that_can_be_opened() {
    for operations in 0.. {
        let root = TempDir::new().unwrap();
        let path = root.path().join("data");
        let crashed = Directory::open_on(Box::new(Crashing::after(operations)), &path, identity());
        let done = crashed.is_ok();
        drop(crashed);
        let instance = open(&path).unwrap().instance();
        assert!(instance == [7; 16] || (instance == [1; 16] && !done), "{operations} operations");
        if done {
            assert!(operations >= 5, "creation skips a step: {operations} operations");
            return;
        }
    }
}

#[test]
fn a_crash_at_any_step_of_a_replacement_leaves_the_old_identity_or_the_new() {
    for operations in 0.. {
        let root = TempDir::new().unwrap();
        drop(open(root.path()).unwrap());
        let disk = Crashing::after(operations);
        let mut directory = Directory::open_on(Box::new(disk), root.path(), identity()).unwrap();
        let result = directory.set_formation(formation());
        assert_eq!(
            directory.formation().is_some(),
            result.is_ok(),
            "memory runs ahead of the disk"
        );
        drop(directory);

        let mut reopened = open(root.path()).unwrap();
        let kept = reopened.formation().cloned();
        match result {
            Ok(()) => return assert_eq!(kept, Some(formation())),
            Err(_) => assert!(kept.is_none_or(|kept| kept == formation())),
        }
        reopened.set_formation(formation()).unwrap();
    }
}
