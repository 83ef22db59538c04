//! A judge that decides with the real machine over records in memory, by a clock that the test
//! turns.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cluster::{
    Found, MemberStatus, NodeId, NodeStatus, NotMoved, Peer, Readiness, ReplicaStatus, ShardDigest,
    ShardId, ShardStatus, SubmitError, Unsettled,
};
use protocol::machine::MemoryRecords;
use protocol::{
    Basis, Batch, Claim, Command, Decided, Machine, Millis, RecordName, RecordStore, Timestamp,
};

use crate::judge::Judge;

/// The wall clock's reading when a test begins: 2023-11-14T22:13:20Z.
const START: Timestamp = Timestamp::from_millis(1_700_000_000_000);

/// The judge. Clones share it.
#[derive(Clone)]
pub(in crate::api) struct MemoryJudge(Arc<Mutex<Shard>>);

struct Shard {
    machine: Machine,
    records: MemoryRecords,
    index: u64,
    now: Timestamp,
    submitted: usize,
    faults: VecDeque<Fault>,
    clock_trusted: bool,
    /// Whether the sender has forgotten how far it had seen the shard.
    index_forgotten: bool,
}

/// What goes wrong with the next submission.
enum Fault {
    Refused(SubmitError),
    AnswerLost,
}

impl Default for MemoryJudge {
    fn default() -> Self {
        Self(Arc::new(Mutex::new(Shard {
            machine: Machine::default(),
            records: MemoryRecords::default(),
            index: 0,
            now: START,
            submitted: 0,
            faults: VecDeque::new(),
            clock_trusted: true,
            index_forgotten: false,
        })))
    }
}

impl MemoryJudge {
    pub(in crate::api) fn advance(&self, span: Millis) {
        let mut shard = self.0.lock().unwrap();
        shard.now = shard.now.plus(span);
    }

    pub(in crate::api) fn submitted(&self) -> usize {
        self.0.lock().unwrap().submitted
    }

    /// The next command is decided, but its answer is lost.
    pub(in crate::api) fn lose_answer(&self) {
        self.0.lock().unwrap().faults.push_back(Fault::AnswerLost);
    }

    /// The next command is not decided.
    pub(in crate::api) fn refuse(&self, error: SubmitError) {
        self.0.lock().unwrap().faults.push_back(Fault::Refused(error));
    }

    pub(in crate::api) fn distrust_clock(&self) {
        self.0.lock().unwrap().clock_trusted = false;
    }

    pub(super) fn forget_index(&self) {
        self.0.lock().unwrap().index_forgotten = true;
    }
}

impl Judge for MemoryJudge {
    async fn submit(&self, command: Command, _: Instant) -> Result<Decided, SubmitError> {
        let mut shard = self.0.lock().unwrap();
        shard.submitted += 1;
        let fault = shard.faults.pop_front();
        if let Some(Fault::Refused(error)) = fault {
            return Err(error);
        }
        shard.index += 1;
        let (index, at) = (shard.index, shard.now);
        let Shard { machine, records, .. } = &mut *shard;
        let Ok(mut decided) = machine.apply(records, index, &Batch { at, commands: vec![command] });
        match fault {
            Some(Fault::AnswerLost) => Err(SubmitError::Lost),
            _ => Ok(decided.remove(0)),
        }
    }

    fn answer_applied(&self, _: &Claim) -> Option<Decided> {
        None
    }

    async fn read(&self, name: &RecordName, _: Instant) -> Result<Found, SubmitError> {
        let shard = self.0.lock().unwrap();
        let Ok(record) = shard.records.get(name);
        Ok(Found { record, basis: Basis { epoch: 0, index: shard.index, time: shard.now } })
    }

    async fn unsettled(
        &self,
        after: Option<(Timestamp, RecordName)>,
        limit: usize,
        _: Instant,
    ) -> Result<Vec<Unsettled>, SubmitError> {
        let shard = self.0.lock().unwrap();
        let mut all: Vec<_> = shard
            .records
            .iter()
            .filter_map(|(name, record)| {
                let since = record.indeterminate_since()?;
                Some(Unsettled { since, name: name.clone(), record: record.clone() })
            })
            .filter(|it| {
                after.as_ref().is_none_or(|after| (it.since, &it.name) > (after.0, &after.1))
            })
            .collect();
        all.sort_by(|a, b| (a.since, &a.name).cmp(&(b.since, &b.name)));
        all.truncate(limit);
        Ok(all)
    }

    fn seen(&self, _: &RecordName) -> Result<Basis, SubmitError> {
        let shard = self.0.lock().unwrap();
        let index = if shard.index_forgotten { 0 } else { shard.index };
        let basis = Basis { epoch: 0, index, time: shard.now };
        shard.clock_trusted.then_some(basis).ok_or(SubmitError::ClockNotTrusted)
    }

    fn wall(&self) -> Timestamp {
        self.0.lock().unwrap().now
    }

    fn boot(&self) -> Duration {
        self.wall().since(Timestamp::ZERO).to_std()
    }

    fn outline_secret(&self) -> [u8; 32] {
        [7; 32]
    }

    fn readiness(&self) -> Readiness {
        match self.0.lock().unwrap().clock_trusted {
            true => Readiness::Ready,
            false => Readiness::NotReady("the clock is not trusted".to_owned()),
        }
    }

    /// Three nodes, of which the last is away, and two shards; the first has no leader.
    fn status(&self) -> NodeStatus {
        let member = |id: u64, region: &str| MemberStatus {
            peer: Peer {
                id: NodeId(id),
                addr: ([127, 0, 0, 1], 7100 + id as u16).into(),
                region: region.to_owned(),
            },
            connected: id < 3,
            fit: id < 3,
        };
        let shard = |shard: u16, leader: Option<u64>| ShardStatus {
            shard: ShardId(shard),
            leader: leader.map(NodeId),
            replica: Some(ReplicaStatus {
                term: 4,
                last_index: 30,
                applied_index: 29,
                purged_index: 7,
            }),
        };
        NodeStatus {
            id: Some(NodeId(1)),
            shards: vec![shard(0, None), shard(1, Some(2))],
            clock_offset_ms: Some(-3),
            clock_trusted: true,
            members: vec![member(1, "eu"), member(2, "us"), member(3, "ap")],
        }
    }

    async fn digest(&self, shard: ShardId) -> Result<Option<ShardDigest>, SubmitError> {
        let inner = self.0.lock().unwrap();
        if !inner.clock_trusted {
            return Err(SubmitError::Stopping);
        }
        let digest = ShardDigest { applied_index: inner.index, digest: [0xab; 32] };
        Ok((shard == ShardId(0)).then_some(digest))
    }

    /// Each node is a reason of its own; only node 2 takes over.
    async fn transfer(&self, shard: ShardId, to: NodeId) -> Result<(), NotMoved> {
        match (shard.0, to.0) {
            (0 | 1, 2) => Ok(()),
            (0 | 1, 1) => Err(NotMoved::NotLeader),
            (0 | 1, 3) => Err(NotMoved::Behind),
            (0 | 1, 4) => Err(NotMoved::NotElected),
            (0 | 1, 5) => Err(NotMoved::UnderWay),
            (0 | 1, _) => Err(NotMoved::NoReplica),
            _ => Err(NotMoved::NoShard),
        }
    }
}
