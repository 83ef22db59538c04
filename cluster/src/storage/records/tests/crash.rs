//! Whatever the machine does, what is left is a prefix of the batches, and at least the synced
//! ones.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Command, Stdio};

use super::images::{self, Tear};
use super::*;

/// Gives the engine a batch: a record of its own, one that every batch writes, an index entry and
/// the meta.
fn write(shard: &ShardRecords, number: u64, bytes: usize) {
    commit(shard, |batch| {
        batch.put(format!("own-{number}").as_bytes(), vec![0xAB; bytes]);
        batch.put(b"counter", number.to_be_bytes().to_vec());
        batch.put_index(Index::Due, number, b"x");
        batch.move_share(None, Some(Share { group: "own".into(), bytes: 3 }));
        batch.set_meta(number.to_be_bytes().to_vec());
    });
    shard.flush().unwrap();
}

/// Asserts that exactly the batches up to some number are there, and returns the number.
fn prefix(shard: &ShardRecords) -> u64 {
    let number = |bytes: &[u8]| u64::from_be_bytes(bytes.try_into().unwrap());
    let last = shard.meta().unwrap().map_or(0, |meta| number(&meta));
    let counter = get(shard, "counter").map_or(0, |counter| number(&counter));
    assert_eq!(counter, last, "record and meta are of two moments");
    for own in 1..=last {
        assert!(get(shard, &format!("own-{own}")).is_some(), "batch {own} of {last} is missing");
    }
    assert_eq!(get(shard, &format!("own-{}", last + 1)), None);
    let index: Vec<_> =
        due(shard, u64::MAX, usize::MAX).into_iter().map(|(time, _)| time).collect();
    assert_eq!(index, (1..=last).collect::<Vec<_>>());
    last
}

fn bytes_of(number: u64) -> usize {
    if number.is_multiple_of(7) { 20_000 } else { 100 }
}

#[test]
fn a_torn_journal_leaves_a_prefix_with_everything_synced() {
    let fixture = Fixture::new();
    let dir = fixture.folder.path().join("records");
    let shard = fixture.shard();
    (1..=20).for_each(|number| write(&shard, number, bytes_of(number)));
    shard.sync().unwrap();
    let synced = images::journal_bytes(&dir);
    (21..=60).for_each(|number| write(&shard, number, bytes_of(number)));
    drop((shard, fixture.records));
    let end = images::journal_bytes(&dir);
    assert!(synced > 0 && end > synced);

    let mut rng = StdRng::seed_from_u64(7);
    let (mut least, mut most) = (60, 20);
    for round in 0..20 {
        // A hole begins at a page: the first one behind what was synced.
        let at = rng.random_range(synced..end);
        let tear = match round % 4 {
            0 => Tear::Zeros(at),
            1 => Tear::End(at),
            2 => Tear::Hole(at.max(synced.next_multiple_of(4096))),
            _ => Tear::Flip(at),
        };
        let image = images::image(&dir);
        let torn = image.path().join("records");
        tear.apply(&torn);
        let records = Records::open(&torn).unwrap_or_else(|error| panic!("{tear:?}: {error}"));
        let last = prefix(&records.shard(SHARD));
        assert_eq!(records.tally(b"own"), Tally { records: last, bytes: 3 * last }, "{tear:?}");
        assert!(last >= 20, "{tear:?}: batch 20 was synced, and {last} is the last");
        (least, most) = (least.min(last), most.max(last));
    }
    assert!(least < 40 && most > 40, "the tears are all alike: {least} to {most}");
}

#[test]
fn what_the_engine_would_refuse_for_ever_is_mended() {
    let fixture = Fixture::new();
    let dir = fixture.folder.path().join("records");
    let shard = fixture.shard();
    write(&shard, 1, 10);
    write(&shard, 2, 100_000);
    write(&shard, 3, 10);
    drop((shard, fixture.records));
    let (journal, _) = images::content(&images::journal(&dir));
    let value = journal.windows(16).position(|bytes| bytes == [0xAB; 16].as_slice());
    let inside = value.unwrap() + 50_000;
    for tear in [Tear::Hole(inside), Tear::Flip(inside)] {
        let image = images::image(&dir);
        let torn = image.path().join("records");
        tear.apply(&torn);
        assert!(Store::open(&torn).is_err(), "{tear:?}: mending is not needed any more");
        let records = Records::open(&torn).unwrap();
        assert_eq!(prefix(&records.shard(SHARD)), 1);
    }
}

#[test]
fn tables_ahead_of_the_journal_leave_a_prefix() {
    let fixture = Fixture::new();
    let dir = fixture.folder.path().join("records");
    let shard = fixture.shard();
    (1..=30).for_each(|number| write(&shard, number, bytes_of(number)));
    fixture.flush_to_tables();
    (31..=60).for_each(|number| write(&shard, number, bytes_of(number)));
    drop((shard, fixture.records));
    let end = images::journal_bytes(&dir);
    for at in [0, end / 4, end - 1] {
        let image = images::image(&dir);
        let torn = image.path().join("records");
        Tear::End(at).apply(&torn);
        let records = Records::open(&torn).unwrap();
        let last = prefix(&records.shard(SHARD));
        assert!(last >= 30 && (at > 0 || last == 30), "cut at {at}: {last}");
        write(&records.shard(SHARD), last + 1, 10);
        drop(records);
        let records = Records::open(&torn).unwrap();
        assert_eq!(prefix(&records.shard(SHARD)), last + 1, "a new batch is older than the tables");
    }
}

/// Writes until it is killed. Each batch is large enough for flushes and merges to happen
/// meanwhile.
#[test]
#[ignore = "a process of its own, started and killed by the test below"]
fn child() {
    let mut dir = String::new();
    std::io::stdin().read_line(&mut dir).unwrap();
    let records = Records::open(Path::new(dir.trim_end())).unwrap();
    let shard = records.shard(SHARD);
    for number in prefix(&shard) + 1.. {
        write(&shard, number, 150_000);
        if number % 16 == 0 {
            shard.sync().unwrap();
            println!("\nsynced {number}");
        }
    }
}

fn start_child(dir: &Path) -> Child {
    let name = format!("{}::child", module_path!().split_once("::").unwrap().1);
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", &name, "--ignored", "--nocapture"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    writeln!(stdin, "{}", dir.display()).unwrap();
    child
}

#[test]
fn a_killed_process_leaves_a_prefix_with_everything_synced() {
    let folder = TempDir::new().unwrap();
    let dir = folder.path().join("records");
    let mut synced = 0;
    for round in 1..=4 {
        let mut child = start_child(&dir);
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let reported = lines.filter_map(|line| line.unwrap().strip_prefix("synced ")?.parse().ok());
        // It is killed in the middle of whatever it does after it said this.
        synced = reported.take(5).last().unwrap_or_else(|| panic!("round {round}: no report"));
        child.kill().unwrap();
        child.wait().unwrap();
        let records = Records::open(&dir).unwrap();
        let last = prefix(&records.shard(SHARD));
        assert_eq!(records.tally(b"own").records, last, "round {round}");
        assert!(last >= synced, "round {round}: {synced} was synced, and {last} is the last");
    }
    assert!(synced >= 4 * 5 * 16, "the rounds began anew instead of going on: {synced}");
}
