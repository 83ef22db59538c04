//! A judge that decides with the real machine, in memory, and fails where a test says so.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use cluster::{
    Found, NodeId, NodeStatus, NotMoved, Readiness, ShardDigest, ShardId, SubmitError, Unsettled,
};
use protocol::machine::MemoryRecords;
use protocol::{
    Basis, Batch, Claim, Command, Decided, Machine, Outcome, Record, RecordName, RecordStore,
    Timestamp,
};
use tokio::sync::watch;
use tokio::time::timeout;

use super::stub::PATIENCE;
use crate::judge::Judge;

/// The wall clock's reading when a test begins.
const START: u64 = 1_700_000_000_000;

/// The kinds of commands that a gateway submits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Kind {
    Claim,
    Renew,
    Complete,
    Release,
    Unknown,
}

/// What goes wrong with the next submission of a kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum Fault {
    /// It is not decided, and this is what its sender learns.
    Refused(SubmitErrorKind),
    /// It is decided, but the answer is lost.
    AnswerLost,
}

/// The errors that tests use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::gateway) enum SubmitErrorKind {
    NoLeader,
    DiskFull,
    ConfigMismatch,
    Lost,
}

/// The judge. Clones share it.
#[derive(Clone)]
pub(in crate::gateway) struct TestJudge(Arc<Inner>);

struct Inner {
    started: Instant,
    state: Mutex<Shard>,
    /// Kinds that wait until the test lets them go.
    held: watch::Sender<Vec<Kind>>,
    /// Number of commands submitted so far, decided or not.
    count: watch::Sender<usize>,
}

#[derive(Default)]
struct Shard {
    machine: Machine,
    records: MemoryRecords,
    index: u64,
    log: Vec<(Kind, Option<Outcome>)>,
    faults: VecDeque<(Kind, Fault)>,
    clock_lost: bool,
}

impl TestJudge {
    pub(in crate::gateway) fn new() -> Self {
        Self(Arc::new(Inner {
            started: Instant::now(),
            state: Mutex::default(),
            held: watch::Sender::new(Vec::new()),
            count: watch::Sender::new(0),
        }))
    }

    /// Lets the next submissions of this kind fail, one fault each.
    pub(in crate::gateway) fn fail(&self, kind: Kind, fault: Fault) {
        self.0.state.lock().unwrap().faults.push_back((kind, fault));
    }

    /// Holds submissions of this kind back, undecided, until [`TestJudge::let_go`].
    pub(in crate::gateway) fn hold(&self, kind: Kind) {
        self.0.held.send_modify(|held| held.push(kind));
    }

    /// Decides what was held back.
    pub(in crate::gateway) fn let_go(&self) {
        self.0.held.send_modify(Vec::clear);
    }

    /// From now on this process's clock is not trusted.
    pub(in crate::gateway) fn lose_clock(&self) {
        self.0.state.lock().unwrap().clock_lost = true;
    }

    /// How often this kind was submitted.
    pub(in crate::gateway) fn submitted(&self, kind: Kind) -> usize {
        self.kinds().iter().filter(|&&submitted| submitted == kind).count()
    }

    /// What was submitted, in order.
    pub(in crate::gateway) fn kinds(&self) -> Vec<Kind> {
        self.0.state.lock().unwrap().log.iter().map(|(kind, _)| *kind).collect()
    }

    /// Waits until this kind was submitted so many times.
    pub(in crate::gateway) async fn until(&self, kind: Kind, times: usize) {
        let mut count = self.0.count.subscribe();
        let enough = async {
            while self.submitted(kind) < times {
                count.changed().await.unwrap();
            }
        };
        timeout(PATIENCE, enough)
            .await
            .unwrap_or_else(|_| panic!("no {kind:?}: {:?}", self.kinds()));
    }

    /// Waits until the only record there is satisfies `wanted`.
    pub(in crate::gateway) async fn until_record(&self, wanted: impl Fn(&Record) -> bool) {
        let mut count = self.0.count.subscribe();
        let there = async {
            loop {
                if self.record().as_ref().is_some_and(&wanted) {
                    return;
                }
                count.changed().await.unwrap();
            }
        };
        let waited = timeout(PATIENCE, there).await;
        assert!(waited.is_ok(), "the record is {:?}", self.record());
    }

    /// The only record there is.
    pub(in crate::gateway) fn record(&self) -> Option<Record> {
        let shard = self.0.state.lock().unwrap();
        let mut records = shard.records.iter().map(|(_, record)| record.clone());
        let record = records.next();
        assert!(records.next().is_none(), "more than one record");
        record
    }

    /// The name of the only record there is.
    pub(in crate::gateway) fn name(&self) -> Option<RecordName> {
        self.0.state.lock().unwrap().records.iter().map(|(name, _)| name.clone()).next()
    }

    /// Decides one more command, as another process would.
    pub(in crate::gateway) fn decide(&self, command: Command) -> Decided {
        let at = self.wall();
        self.0.state.lock().unwrap().decide(command, at)
    }

    async fn wait_while_held(&self, kind: Kind) {
        let mut held = self.0.held.subscribe();
        let _ = held.wait_for(|held| !held.contains(&kind)).await;
    }
}

impl Shard {
    fn decide(&mut self, command: Command, at: Timestamp) -> Decided {
        self.index += 1;
        let batch = Batch { at, commands: vec![command] };
        let Ok(mut decided) = self.machine.apply(&mut self.records, self.index, &batch);
        decided.remove(0)
    }

    fn take_fault(&mut self, kind: Kind) -> Option<Fault> {
        let at = self.faults.iter().position(|(faulty, _)| *faulty == kind)?;
        self.faults.remove(at).map(|(_, fault)| fault)
    }
}

impl Judge for TestJudge {
    async fn submit(&self, command: Command, deadline: Instant) -> Result<Decided, SubmitError> {
        assert!(deadline > Instant::now(), "a submission has time");
        let kind = Kind::of(&command);
        self.0.state.lock().unwrap().log.push((kind, None));
        self.0.count.send_modify(|count| *count += 1);
        self.wait_while_held(kind).await;
        let at = self.wall();
        let decided = {
            let mut shard = self.0.state.lock().unwrap();
            match shard.take_fault(kind) {
                Some(Fault::Refused(SubmitErrorKind::NoLeader)) => Err(SubmitError::NoLeader),
                Some(Fault::Refused(SubmitErrorKind::DiskFull)) => Err(SubmitError::DiskFull),
                Some(Fault::Refused(SubmitErrorKind::ConfigMismatch)) => {
                    Err(SubmitError::ConfigMismatch)
                }
                Some(Fault::Refused(SubmitErrorKind::Lost)) => Err(SubmitError::Lost),
                Some(Fault::AnswerLost) => {
                    shard.decide(command, at);
                    Err(SubmitError::Lost)
                }
                None => Ok(shard.decide(command, at)),
            }
        };
        self.0.count.send_modify(|count| *count += 1);
        decided
    }

    fn answer_applied(&self, _: &Claim) -> Option<Decided> {
        None
    }

    async fn read(&self, name: &RecordName, _: Instant) -> Result<Found, SubmitError> {
        let mut shard = self.0.state.lock().unwrap();
        shard.index += 1;
        shard.machine.time = shard.machine.time.max(self.wall());
        let basis = Basis { epoch: 0, index: shard.index, time: shard.machine.time };
        let Ok(record) = shard.records.get(name);
        Ok(Found { record, basis })
    }

    async fn unsettled(
        &self,
        _: Option<(Timestamp, RecordName)>,
        _: usize,
        _: Instant,
    ) -> Result<Vec<Unsettled>, SubmitError> {
        unreachable!("a gateway lists no records")
    }

    fn seen(&self, _: &RecordName) -> Result<Basis, SubmitError> {
        let shard = self.0.state.lock().unwrap();
        let basis = Basis { epoch: 0, index: shard.index, time: self.wall() };
        (!shard.clock_lost).then_some(basis).ok_or(SubmitError::ClockNotTrusted)
    }

    fn wall(&self) -> Timestamp {
        let elapsed = u64::try_from(self.0.started.elapsed().as_millis()).unwrap();
        Timestamp::from_millis(START + elapsed)
    }

    fn boot(&self) -> Duration {
        self.0.started.elapsed()
    }

    fn outline_secret(&self) -> [u8; 32] {
        [7; 32]
    }

    fn readiness(&self) -> Readiness {
        Readiness::Ready
    }

    fn status(&self) -> NodeStatus {
        unreachable!("gateways do not ask")
    }

    async fn digest(&self, _: ShardId) -> Result<Option<ShardDigest>, SubmitError> {
        unreachable!("gateways do not ask")
    }

    async fn transfer(&self, _: ShardId, _: NodeId) -> Result<(), NotMoved> {
        unreachable!("gateways do not ask")
    }
}

impl Kind {
    fn of(command: &Command) -> Self {
        match command {
            Command::Claim(_) => Self::Claim,
            Command::Renew { .. } => Self::Renew,
            Command::Complete { .. } => Self::Complete,
            Command::Release { .. } => Self::Release,
            Command::Unknown { .. } => Self::Unknown,
            other => panic!("a gateway never submits {other:?}"),
        }
    }
}
