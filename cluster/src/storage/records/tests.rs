//! What a batch does, what the index finds, and a random run against a plain map.

mod claims;
mod crash;
mod images;
mod install;
mod recent;

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tempfile::TempDir;

use super::*;

const SHARD: ShardId = ShardId(3);

/// Records in a folder of their own.
struct Fixture {
    folder: TempDir,
    records: Records,
}

impl Fixture {
    fn new() -> Self {
        let folder = TempDir::new().unwrap();
        let records = Records::open(&folder.path().join("records")).unwrap();
        Self { folder, records }
    }

    fn shard(&self) -> ShardRecords {
        self.records.shard(SHARD)
    }

    /// Closes the records and opens them again.
    fn reopened(self) -> Self {
        let Self { folder, records } = self;
        drop(records);
        let records = Records::open(&folder.path().join("records")).unwrap();
        Self { folder, records }
    }

    /// Hands everything to the engine.
    fn flush(&self) {
        let shards: Vec<_> = self.records.shards.lock().unwrap().values().cloned().collect();
        shards.iter().for_each(|shard| shard.flush().unwrap());
    }

    /// Puts everything into tables.
    fn flush_to_tables(&self) {
        self.flush();
        self.records.store.keyspace().rotate_memtable_and_wait().unwrap();
    }
}

fn get(shard: &ShardRecords, name: &str) -> Option<Vec<u8>> {
    shard.get(name.as_bytes()).unwrap().map(|record| record.to_vec())
}

fn due(shard: &ShardRecords, until_ms: u64, limit: usize) -> Vec<(u64, String)> {
    let due = shard.due(until_ms, limit).unwrap();
    due.into_iter().map(|(time, name)| (time, String::from_utf8(name).unwrap())).collect()
}

fn unsettled(shard: &ShardRecords, after: Option<(u64, &str)>, limit: usize) -> Vec<(u64, String)> {
    let after = after.map(|(time, name)| (time, name.as_bytes()));
    let found = shard.unsettled(after, limit).unwrap();
    found.into_iter().map(|(time, name)| (time, String::from_utf8(name).unwrap())).collect()
}

fn commit(shard: &ShardRecords, change: impl FnOnce(&mut WriteBatch)) {
    let mut batch = shard.batch();
    change(&mut batch);
    batch.commit().unwrap();
}

#[test]
fn a_batch_is_seen_from_its_commit_on_and_after_a_restart() {
    let fixture = Fixture::new();
    let shard = fixture.shard();
    let mut batch = shard.batch();
    batch.put(b"a", b"record".to_vec());
    batch.put_index(Index::Due, 7, b"a");
    batch.set_meta(b"at 1".to_vec());
    assert_eq!((get(&shard, "a"), shard.meta().unwrap()), (None, None));
    batch.commit().unwrap();
    drop(shard);

    let fixture = fixture.reopened();
    let shard = fixture.shard();
    assert_eq!(get(&shard, "a").unwrap(), b"record");
    assert_eq!(shard.meta().unwrap().unwrap(), "at 1");
    assert_eq!(due(&shard, 7, 10), [(7, "a".to_owned())]);
    commit(&shard, |batch| {
        batch.remove(b"a");
        batch.remove_index(Index::Due, 7, b"a");
    });
    assert_eq!((get(&shard, "a"), due(&shard, 7, 10)), (None, vec![]));
    assert_eq!(shard.meta().unwrap().unwrap(), "at 1", "a batch without meta keeps it");
}

/// The thread that flushes waits for its first shard when everything comes and ends.
#[test]
fn what_is_committed_within_the_first_moment_is_there_after_a_restart() {
    let fixture = Fixture::new();
    while !fixture.records.bell.has_waited() {
        std::thread::yield_now();
    }
    commit(&fixture.shard(), |batch| batch.put(b"a", b"record".to_vec()));
    let fixture = fixture.reopened();
    assert_eq!(get(&fixture.shard(), "a").unwrap(), b"record");
}

#[test]
fn shards_keep_apart_what_has_the_same_name() {
    let fixture = Fixture::new();
    for shard in [0, 3, 255, 256, u16::MAX] {
        commit(&fixture.records.shard(ShardId(shard)), |batch| {
            batch.put(b"a", shard.to_be_bytes().to_vec());
            batch.put_index(Index::Due, u64::from(shard), b"a");
            batch.set_meta(shard.to_be_bytes().to_vec());
        });
    }
    fixture.flush_to_tables();
    for shard in [0, 3, 255, 256, u16::MAX] {
        let records = fixture.records.shard(ShardId(shard));
        assert_eq!(get(&records, "a").unwrap(), shard.to_be_bytes());
        assert_eq!(records.meta().unwrap().unwrap(), shard.to_be_bytes()[..]);
        assert_eq!(due(&records, u64::MAX, 10), [(u64::from(shard), "a".to_owned())]);
    }
}

/// A claim and its completion may be in one batch. The engine gives both changes one number.
#[test]
fn the_last_change_of_a_key_in_a_batch_counts() {
    let mut fixture = Fixture::new();
    let shard = fixture.shard();
    commit(&shard, |batch| {
        batch.put(b"kept", b"1".to_vec());
        batch.put(b"kept", b"2".to_vec());
        batch.put(b"gone", b"1".to_vec());
        batch.remove(b"gone");
        batch.remove(b"back");
        batch.put(b"back", b"3".to_vec());
        batch.put_index(Index::Due, 5, b"kept");
        batch.remove_index(Index::Due, 5, b"kept");
        batch.put_index(Index::Due, 6, b"kept");
    });
    drop(shard);
    for restart in 0..3 {
        let shard = fixture.shard();
        assert_eq!(get(&shard, "kept").unwrap(), b"2", "restart {restart}");
        assert_eq!(get(&shard, "gone"), None, "restart {restart}");
        assert_eq!(get(&shard, "back").unwrap(), b"3", "restart {restart}");
        assert_eq!(due(&shard, 9, 9), [(6, "kept".to_owned())], "restart {restart}");
        drop(shard);
        fixture = fixture.reopened();
        if restart == 1 {
            fixture.flush_to_tables();
        }
    }
}

#[test]
fn what_is_due_comes_in_order_of_time_and_within_its_limits() {
    let fixture = Fixture::new();
    let shard = fixture.shard();
    commit(&shard, |batch| {
        for (time, name) in [(300, "c"), (1, "a"), (256, "b"), (300, "a"), (u64::MAX, "z")] {
            batch.put_index(Index::Due, time, name.as_bytes());
        }
    });
    let named = |entries: &[(u64, &str)]| -> Vec<_> {
        entries.iter().map(|(time, name)| (*time, (*name).to_owned())).collect()
    };
    assert_eq!(due(&shard, 0, 10), []);
    assert_eq!(due(&shard, 300, 0), []);
    assert_eq!(due(&shard, 300, 3), named(&[(1, "a"), (256, "b"), (300, "a")]));
    assert_eq!(due(&shard, 299, 9), named(&[(1, "a"), (256, "b")]));
    commit(&shard, |batch| batch.remove_index(Index::Due, 1, b"a"));
    assert_eq!(due(&shard, 300, 1), named(&[(256, "b")]));
    commit(&shard, |batch| batch.put_index(Index::Due, 2, b"early"));
    assert_eq!(due(&shard, 300, 1), named(&[(2, "early")]), "an earlier entry was passed over");
    let all = due(&shard, u64::MAX, 10);
    assert_eq!(all.last(), named(&[(u64::MAX, "z")]).last());
    assert_eq!(all.len(), 5);
}

#[test]
fn unsettled_records_come_oldest_first_and_a_page_begins_behind_the_last() {
    let fixture = Fixture::new();
    let shard = fixture.shard();
    commit(&shard, |batch| {
        for (time, name) in [(7, "b"), (7, "a"), (3, "z"), (9, "stored")] {
            batch.put_index(Index::Unsettled, time, name.as_bytes());
        }
        batch.put_index(Index::Due, 5, b"due");
    });
    shard.flush().unwrap();
    commit(&shard, |batch| {
        batch.put_index(Index::Unsettled, 7, b"aa");
        batch.remove_index(Index::Unsettled, 9, b"stored");
        batch.remove_index(Index::Due, 5, b"due");
    });
    let named = |entries: &[(u64, &str)]| -> Vec<_> {
        entries.iter().map(|(time, name)| (*time, (*name).to_owned())).collect()
    };
    assert_eq!(unsettled(&shard, None, 3), named(&[(3, "z"), (7, "a"), (7, "aa")]));
    assert_eq!(unsettled(&shard, Some((7, "a")), 9), named(&[(7, "aa"), (7, "b")]));
    assert_eq!(unsettled(&shard, Some((7, "b")), 9), []);
    assert_eq!(due(&shard, u64::MAX, 9), []);
}

#[test]
#[should_panic(expected = "a name has at most")]
fn a_name_that_no_key_can_hold_is_a_bug() {
    Fixture::new().shard().batch().put(&[0; keys::NAME_BYTES_MAX + 1], vec![]);
}

#[test]
fn one_process_at_a_time_opens_the_records() {
    let fixture = Fixture::new();
    let Err(error) = Records::open(&fixture.folder.path().join("records")) else {
        panic!("opened twice")
    };
    assert!(matches!(error, StartError::InUse { .. }), "{error}");
}

#[test]
fn an_interrupted_creation_is_begun_again() {
    let folder = TempDir::new().unwrap();
    let unfinished = folder.path().join("records.new");
    fs::create_dir(&unfinished).unwrap();
    fs::write(unfinished.join("0.jnl"), b"").unwrap();
    Records::open(&folder.path().join("records")).unwrap();
    assert!(!unfinished.exists());
}

#[test]
fn a_directory_without_a_database_is_refused() {
    let folder = TempDir::new().unwrap();
    fs::write(folder.path().join("version"), b"something else").unwrap();
    let Err(error) = Records::open(folder.path()) else { panic!("opened") };
    assert!(matches!(error, StartError::Damaged { .. }), "{error}");
}

/// What a shard must hold: records, and the index as time and name.
#[derive(Default)]
struct Model {
    records: BTreeMap<String, Vec<u8>>,
    due: BTreeSet<(u64, String)>,
    meta: Vec<u8>,
}

impl Model {
    fn change(&mut self, rng: &mut StdRng, batch: &mut WriteBatch) {
        let name = format!("name-{}", rng.random_range(0..40));
        let time = rng.random_range(0..50);
        match rng.random_range(0..5) {
            0 | 1 => {
                let record = vec![rng.random(); rng.random_range(0..3000)];
                batch.put(name.as_bytes(), record.to_vec());
                let after = Some(share(&name, &record));
                let before = self.records.insert(name.clone(), record);
                batch.move_share(before.map(|record| share(&name, &record)), after);
            }
            2 => {
                batch.remove(name.as_bytes());
                let before = self.records.remove(&name);
                batch.move_share(before.map(|record| share(&name, &record)), None);
            }
            3 => {
                batch.put_index(Index::Due, time, name.as_bytes());
                self.due.insert((time, name));
            }
            _ => {
                batch.remove_index(Index::Due, time, name.as_bytes());
                self.due.remove(&(time, name));
            }
        }
    }

    fn check(&self, rng: &mut StdRng, shard: &ShardRecords) {
        for name in (0..40).map(|name| format!("name-{name}")) {
            assert_eq!(get(shard, &name).as_ref(), self.records.get(&name), "{name}");
        }
        let (until, limit) = (rng.random_range(0..60), rng.random_range(1..30));
        let expected = self.due.iter().filter(|(time, _)| *time <= until).take(limit);
        assert_eq!(due(shard, until, limit), expected.cloned().collect::<Vec<_>>());
        assert_eq!(shard.meta().unwrap().unwrap_or_default(), self.meta);
    }
}

/// Records are tallied by the last digit of their names.
fn share(name: &str, record: &[u8]) -> Share {
    let group = name.as_bytes()[name.len() - 1..].to_vec();
    Share { group: group.into(), bytes: record.len() as u64 }
}

/// Asserts that the tallies are those of what all shards must hold.
fn check_tallies(models: &[Model], records: &Records) {
    let mut expected: BTreeMap<Bytes, Tally> = BTreeMap::new();
    for (name, record) in models.iter().flat_map(|model| &model.records) {
        let Share { group, bytes } = share(name, record);
        let tally = expected.entry(group).or_default();
        *tally = Tally { records: tally.records + 1, bytes: tally.bytes + bytes };
    }
    for group in (b'0'..=b'9').map(|digit| [digit]) {
        assert_eq!(records.tally(&group), expected.get(&group[..]).copied().unwrap_or_default());
    }
    let all: u64 = expected.values().map(|tally| tally.records).sum();
    assert_eq!(records.tally_over(|_| true).records, all);
}

#[test]
fn a_random_run_agrees_with_a_plain_map() {
    let seed = 20_260_101;
    let mut rng = StdRng::seed_from_u64(seed);
    let mut fixture = Fixture::new();
    let mut models: Vec<Model> = (0..3).map(|_| Model::default()).collect();
    for round in 0..400_u32 {
        let index = rng.random_range(0..models.len());
        let (model, shard) = (&mut models[index], fixture.records.shard(ShardId(index as u16)));
        let mut batch = shard.batch();
        for _ in 0..rng.random_range(1..12) {
            model.change(&mut rng, &mut batch);
        }
        model.meta = round.to_be_bytes().to_vec();
        batch.set_meta(model.meta.to_vec());
        batch.commit().unwrap();
        if rng.random_bool(0.3) {
            shard.flush().unwrap();
        }
        model.check(&mut rng, &shard);
        drop(shard);
        if round % 50 == 49 {
            fixture.flush_to_tables();
        }
        if round % 80 == 79 {
            fixture = fixture.reopened();
        }
        check_tallies(&models, &fixture.records);
    }
    for (index, model) in models.iter().enumerate() {
        model.check(&mut rng, &fixture.records.shard(ShardId(index as u16)));
    }
}
