//! The actor of one shard: takes what waits in the mailbox, stamps the time, proposes one log entry
//! for all of it.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use protocol::decide::Standing;
use protocol::{Batch, Command, RecordName, Timestamp};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::time::{Interval, MissedTickBehavior, interval};

use super::Submit;
use super::hand_over::{HandOver, hand_over};
use super::quota::Quotas;
use super::rounds::Rounds;
use super::waiters::Waiters;
use crate::clock::{self, ClockGuard};
use crate::codec;
use crate::error::SubmitError;
use crate::raft::Replica;
use crate::storage::space::DiskWatch;

/// Log entries under way at once. While one travels, the next gathers: commands per entry are what
/// throughput depends on. With two, entries held 1.7 commands instead of 2.4 at 64 connections.
const ENTRIES_UNDER_WAY: usize = 1;

/// Most commands in one entry.
const BATCH_MAX: usize = 512;

/// An entry takes no further command once its responses hold this many bytes.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// How often a leader looks for records that are due. Nothing depends on it being soon: every
/// command decides by the time itself; this only frees space and settles what nobody asks about.
const EXPIRY_INTERVAL: Duration = Duration::from_millis(250);

/// Most records expired by one entry, so that a sweep never holds up claims for long.
const EXPIRY_MAX: usize = 256;

pub(super) struct Actor {
    replica: Replica,
    guard: Arc<ClockGuard>,
    disk: Arc<DiskWatch>,
    quotas: Arc<Quotas>,
    mailbox: mpsc::Receiver<Submit>,
    hand_overs: mpsc::Receiver<HandOver>,
    /// Taken from the mailbox, but too large for the last entry.
    waiting: VecDeque<Submit>,
    under_way: Arc<Semaphore>,
    rounds: Rounds,
    expiry: Interval,
}

impl Actor {
    pub(super) fn new(
        replica: Replica,
        guard: Arc<ClockGuard>,
        disk: Arc<DiskWatch>,
        quotas: Arc<Quotas>,
        rounds: Rounds,
        mailbox: mpsc::Receiver<Submit>,
        hand_overs: mpsc::Receiver<HandOver>,
    ) -> Self {
        let mut expiry = interval(EXPIRY_INTERVAL);
        expiry.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let under_way = Arc::new(Semaphore::new(ENTRIES_UNDER_WAY));
        Self {
            replica,
            guard,
            disk,
            quotas,
            mailbox,
            hand_overs,
            waiting: VecDeque::new(),
            under_way,
            rounds,
            expiry,
        }
    }

    /// Runs until every handle to the shard is gone.
    pub(super) async fn run(mut self) {
        let mut taken = Vec::with_capacity(BATCH_MAX);
        loop {
            // The permit comes first: while entries are under way the mailbox fills, and the next
            // entry takes all of it.
            let permit = self.under_way.clone().acquire_owned().await;
            let permit = permit.expect("the actor never closes its own semaphore");
            if let Ok(asked) = self.hand_overs.try_recv() {
                self.hand_over(asked).await;
            }
            if self.waiting.is_empty() {
                tokio::select! {
                    biased;
                    Some(asked) = self.hand_overs.recv() => {
                        self.hand_over(asked).await;
                        continue;
                    }
                    count = self.mailbox.recv_many(&mut taken, BATCH_MAX) => {
                        if count == 0 {
                            return;
                        }
                    }
                    _ = self.expiry.tick() => {
                        self.propose_due(permit).await;
                        continue;
                    }
                }
                self.waiting.extend(taken.drain(..));
                self.rounds.wait().await;
            }
            while self.waiting.len() < BATCH_MAX
                && let Ok(submit) = self.mailbox.try_recv()
            {
                self.waiting.push_back(submit);
            }
            self.propose_waiting(permit).await;
        }
    }

    /// Lets another node lead. Nothing is under way, so no answer is lost with the leadership.
    async fn hand_over(&self, asked: HandOver) {
        if asked.done.is_closed() {
            // Whoever asked was told that it took too long, and may have asked for something else.
            return;
        }
        let moved = hand_over(&self.replica, asked.to).await;
        if let Err(reason) = moved {
            tracing::info!(to = asked.to.0, %reason, "a leadership stayed");
        }
        // Whoever asked may have gone.
        let _ = asked.done.send(moved);
    }

    /// Proposes an entry of what waits, up to its bounds.
    async fn propose_waiting(&mut self, permit: OwnedSemaphorePermit) {
        let at = match self.guard.stamp() {
            Ok(at) => at,
            Err(_) => return self.refuse_waiting(&SubmitError::ClockNotTrusted),
        };
        if !self.replica.takes_proposals() {
            return self.refuse_waiting(&SubmitError::NoLeader);
        }
        if self.disk.is_low() {
            self.refuse_new_claims(at).await;
        }
        self.refuse_over_quota(at).await;
        let now = clock::now();
        let (mut commands, mut waiters, mut bytes) = (Vec::new(), Waiters::default(), 0);
        while bytes < BATCH_BYTES_MAX
            && let Some(submit) = self.waiting.pop_front()
        {
            if submit.respond.is_closed() || submit.deadline <= now {
                submit.respond.send(Err(SubmitError::Expired));
            } else {
                bytes += submit.command.content_bytes();
                commands.push(submit.command);
                waiters.push(submit.respond, submit.weight);
            }
        }
        if !commands.is_empty() {
            self.propose(Batch { at, commands }, waiters, permit).await;
        }
    }

    /// Refuses the claims that could begin an execution: what follows from them would have to be
    /// stored. A claim that cannot be granted stores nothing, so whoever repeats a request is told
    /// what became of it, as ever.
    async fn refuse_new_claims(&mut self, at: Timestamp) {
        let claimed = self.waiting.iter().filter_map(|submit| match &submit.command {
            Command::Claim(claim) => Some(claim.name.clone()),
            _ => None,
        });
        let standings = self.replica.standings(at, claimed.collect()).await;
        // Where nothing can be read, every claim is taken for a new one.
        let mut standings = standings.unwrap_or_default().into_iter();
        for submit in std::mem::take(&mut self.waiting) {
            let claims = matches!(submit.command, Command::Claim(_));
            if claims && standings.next().is_none_or(may_be_granted) {
                submit.respond.send(Err(SubmitError::DiskFull));
            } else {
                self.waiting.push_back(submit);
            }
        }
    }

    /// Refuses the claims that would make records for which their tenants have no room left.
    async fn refuse_over_quota(&mut self, at: Timestamp) {
        let quotas = Arc::clone(&self.quotas);
        let mut crowded = quotas.crowded(&self.waiting);
        if crowded.is_empty() {
            return;
        }
        let commands = self.waiting.iter().map(|submit| &submit.command);
        let claimed = commands.filter(|command| crowded.concerns(command));
        let names = claimed.map(|command| command.name().clone()).collect();
        // Where nothing can be read, no claim is let in that could be one too many.
        let standings = self.replica.standings(at, names).await;
        let mut standings = standings.unwrap_or_default().into_iter();
        for submit in std::mem::take(&mut self.waiting) {
            if !crowded.concerns(&submit.command) {
                self.waiting.push_back(submit);
                continue;
            }
            match standings.next() {
                Some(standing) if crowded.admits(&submit.command, standing) => {
                    self.waiting.push_back(submit);
                }
                Some(_) => submit.respond.send(Err(SubmitError::QuotaExceeded)),
                None => submit.respond.send(Err(SubmitError::Stopping)),
            }
        }
    }

    fn refuse_waiting(&mut self, error: &SubmitError) {
        for submit in self.waiting.drain(..) {
            submit.respond.send(Err(error.clone()));
        }
    }

    /// Proposes the expiry of records that are due, if this node leads the shard.
    async fn propose_due(&mut self, permit: OwnedSemaphorePermit) {
        if !self.replica.takes_proposals() {
            return;
        }
        let Ok(at) = self.guard.stamp() else { return };
        let Ok(due) = self.replica.due(at.as_millis(), EXPIRY_MAX).await else { return };
        if due.len() == EXPIRY_MAX {
            self.expiry.reset_immediately();
        }
        let expire = |name: RecordName| Command::Expire { name };
        let commands: Vec<_> = due.into_iter().map(expire).collect();
        if !commands.is_empty() {
            let waiters = Waiters::unowed(commands.len());
            self.propose(Batch { at, commands }, waiters, permit).await;
        }
    }

    /// From here on no error is definite.
    async fn propose(&self, batch: Batch, waiters: Waiters, permit: OwnedSemaphorePermit) {
        metrics::histogram!("oncegate_entry_commands").record(batch.commands.len() as f64);
        let encoded = codec::encode(codec::BATCH, &batch);
        let under_way = self.rounds.begin();
        let answer = move |decided| {
            drop((permit, under_way));
            crate::failpoint::hit("decided-before-reply");
            waiters.answer(decided);
        };
        if self.replica.propose(encoded.into(), answer).await.is_err() {
            tracing::debug!("proposal dropped: raft has stopped");
        }
    }
}

/// Whether a claim of a key that stands so may be granted.
fn may_be_granted(standing: Standing) -> bool {
    match standing {
        Standing::Absent | Standing::Released | Standing::Claimable => true,
        Standing::Claimed | Standing::Indeterminate | Standing::Completed | Standing::Forgotten => {
            false
        }
    }
}
