//! What the tests of the log have in common: shards, callbacks, and everything a log says.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use bytes::Bytes;

use super::super::disk::faulty::FaultyDisk;
use super::preparer::SPARES_MAX;
use super::queue::Synced;
use super::segment::HEADER_BYTES;
use super::*;

mod crash;
mod damage;
mod failures;
mod log;
mod os;
mod segments;

const DIR: &str = "wal";
/// Number of the log; no byte of it is zero, so that a header cannot be cut without a trace.
const LOG: u64 = 0x1122_3344_5566_7788;

const A: ShardId = ShardId(1);
const B: ShardId = ShardId(2);
const C: ShardId = ShardId(3);

/// Far longer than any write takes, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

fn options(segment_bytes: u64) -> WalOptions {
    WalOptions { dir: DIR.into(), create: true, segment_bytes, segments_held: 4, log: LOG }
}

fn open(disk: &FaultyDisk, segment_bytes: u64) -> Wal {
    Wal::open(Arc::new(disk.clone()), options(segment_bytes)).unwrap()
}

/// A callback, and what it will have been told.
fn synced() -> (Synced, Told) {
    let (sender, receiver) = sync_channel(1);
    let tell = move |result| drop(sender.send(result));
    (Box::new(tell), Told(receiver))
}

struct Told(Receiver<io::Result<()>>);

impl Told {
    fn wait(&self) -> io::Result<()> {
        self.0.recv_timeout(PATIENCE).expect("everybody who waits is told")
    }

    fn already(&self) -> Option<io::Result<()>> {
        self.0.try_recv().ok()
    }
}

/// Entries whose bytes say whose they are.
fn entries(shard: ShardId, indexes: Range<u64>) -> Vec<(u64, Bytes)> {
    indexes.map(|index| (index, format!("entry {index} of shard {shard}").into())).collect()
}

/// Appends entries as one group, and waits until they are durable.
fn append(wal: &Wal, shard: ShardId, indexes: Range<u64>) {
    let (callback, told) = synced();
    wal.shard(shard).append(entries(shard, indexes), callback);
    told.wait().unwrap();
}

fn vote(wal: &Wal, shard: ShardId, vote: &'static str) {
    let (callback, told) = synced();
    wal.shard(shard).save_vote(vote.into(), callback);
    told.wait().unwrap();
}

/// Holds the log's thread up after a group of its own, until something is sent. Whatever is handed
/// in meanwhile makes one group.
fn hold(wal: &Wal) -> SyncSender<()> {
    let (release, held) = sync_channel(1);
    let (entered, entering) = sync_channel(1);
    let hold = move |_| {
        entered.send(()).expect("the test waits for it");
        held.recv_timeout(PATIENCE).expect("the log is released");
    };
    wal.shard(ShardId(99)).save_vote("hold".into(), Box::new(hold));
    entering.recv_timeout(PATIENCE).expect("the group is written");
    release
}

/// Waits until everything handed in so far is durable.
fn settle(wal: &Wal) {
    let (callback, told) = synced();
    wal.shard(ShardId(99)).save_vote("settle".into(), callback);
    told.wait().unwrap();
}

/// Everything that a shard's log says.
#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    vote: Option<Bytes>,
    committed: Option<Bytes>,
    purged: Option<(u64, Bytes)>,
    entries: Vec<(u64, Bytes)>,
}

type States = BTreeMap<ShardId, State>;

fn state(log: &ShardLog) -> State {
    State {
        vote: log.vote(),
        committed: log.committed(),
        purged: log.purged(),
        entries: log.read(0, u64::MAX, usize::MAX),
    }
}

/// What the shards of these tests hold.
fn states(wal: &Wal) -> States {
    let read = |shard| (shard, state(&wal.shard(shard)));
    [A, B, C].map(read).into_iter().filter(|(_, state)| *state != State::default()).collect()
}

fn damage(error: WalError) -> (PathBuf, u64, String) {
    match error {
        WalError::Damaged { file, offset, what } => (file, offset, what),
        other => panic!("not damage: {other}"),
    }
}

/// Sequences of the segments that are there.
fn segments(names: &[&Path]) -> Vec<u64> {
    let names = names.iter().filter_map(|path| path.file_name()?.to_str());
    names.filter_map(segment::sequence_of).collect()
}

fn spares(names: &[&Path]) -> usize {
    names.iter().filter(|path| path.extension().is_some_and(|end| end == "spare")).count()
}
