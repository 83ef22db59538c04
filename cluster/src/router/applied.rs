//! Answers from this node's own replicas, without an entry of the log and without a crossing.
//!
//! A replica may be far behind without knowing it. So the leaders of the shards are asked, again
//! and again, how far the log was surely applied when they last heard from a majority. A replica
//! that has applied so much knows every completed record of that moment; and as long as the moment
//! is recent, none of them can have been removed and its key have run again: a forgotten record
//! answers "later" for longer than that.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use bytes::Bytes;
use futures_util::future::join_all;
use protocol::decide::answer_applied;
use protocol::{Claim, Decided};
use serde::{Deserialize, Serialize};

use super::Router;
use crate::clock;
use crate::codec;
use crate::config::NodeId;
use crate::placement::ShardId;
use crate::raft::{self, Confirmed};
use crate::transport::{Reply, Request, Transport};

/// How far the log of every shard that a node leads was applied.
pub(crate) const CONFIRM: u8 = raft::kind::NEXT + 5;

/// How old the moment may be. Half a second less than what a forgotten record waits for beyond the
/// clocks' differences ([`FORGET_WAIT`](protocol::lease::FORGET_WAIT)): that is for the entry that
/// forgets, which is stamped before it is applied.
pub(crate) const AGE_MAX: Duration = Duration::from_millis(1500);

/// How often the leaders are asked: a few times within [`AGE_MAX`], so that an answer that is late
/// does no harm.
pub(crate) const CONFIRM_INTERVAL: Duration = Duration::from_millis(300);

/// What a node says of itself and of the shards that it leads.
#[derive(Serialize, Deserialize)]
pub(crate) struct Confirmation {
    /// Whether it can lead shards.
    pub(crate) fit: bool,
    /// Those that it leads.
    pub(crate) shards: Vec<Entry>,
}

/// What a leader says of one shard.
#[derive(Serialize, Deserialize)]
pub(crate) struct Entry {
    pub(crate) shard: u16,
    /// How far the shard's log was applied at the moment that is meant.
    pub(crate) index: u64,
    /// How long ago that moment is.
    pub(crate) age_ms: u64,
}

/// What this node knows of one shard from its leader.
#[derive(Default)]
pub(super) struct Known(Mutex<Samples>);

/// The last two: under load a replica is an answer behind the newest one.
#[derive(Clone, Copy, Default)]
struct Samples {
    newest: Option<Sample>,
    before: Option<Sample>,
}

#[derive(Clone, Copy)]
struct Sample {
    index: u64,
    /// A moment that is no later than the one that the leader meant.
    moment: Instant,
}

impl Known {
    fn add(&self, sample: Sample) {
        let mut samples = self.lock();
        samples.before = samples.newest.replace(sample);
    }

    /// Whether a replica that has applied the log up to `applied` knows enough now.
    fn covers(&self, applied: u64, now: Instant) -> bool {
        let samples = *self.lock();
        [samples.newest, samples.before].into_iter().flatten().any(|sample| {
            applied >= sample.index && now.saturating_duration_since(sample.moment) <= AGE_MAX
        })
    }

    fn lock(&self) -> MutexGuard<'_, Samples> {
        self.0.lock().expect("nothing panics while it holds the samples")
    }
}

impl Router {
    /// What a claim is answered from this node's own replica, where it is a repeat of a request
    /// whose outcome is known. `None`: the log must decide.
    pub(crate) fn answer_applied(&self, claim: &Claim) -> Option<Decided> {
        if claim.name.is_too_long() {
            return None;
        }
        let id = self.table.shard_of(&claim.name);
        let replica = self.shard(id)?.replica();
        let local = self.guard.stamp().ok()?;
        let basis = replica.basis();
        let leads = || replica.confirmed().is_some_and(|confirmed| confirmed.age <= AGE_MAX);
        if !self.known[usize::from(id.0)].covers(basis.index, clock::now()) && !leads() {
            return None;
        }
        let record = replica.peek(&claim.name).ok()?;
        let outcome = answer_applied(record.as_ref(), claim, local)?;
        Some(Decided { outcome, basis })
    }

    /// Asks the other nodes how far the shards that they lead were applied.
    pub(crate) async fn confirm(&self) {
        join_all(self.transport.connected().into_iter().map(|peer| self.confirm_by(peer))).await;
    }

    async fn confirm_by(&self, peer: NodeId) {
        let Some((said, asked)) = ask(&*self.transport, peer).await else { return };
        self.fitness.heard(peer, said.fit, asked);
        for Entry { shard, index, age_ms } in said.shards {
            let moment = asked.checked_sub(Duration::from_millis(age_ms));
            if let (Some(known), Some(moment)) = (self.known.get(usize::from(shard)), moment) {
                known.add(Sample { index, moment });
            }
        }
    }

    /// Says how far the shards that this node leads were applied.
    pub(crate) fn serve_confirm(&self, reply: Reply) {
        let entry = |(shard, handle): (usize, &crate::shard::ShardHandle)| {
            let Confirmed { index, age } = handle.replica().confirmed()?;
            // Rounded up: the moment must not seem younger than it is.
            Some(Entry { shard: shard as u16, index, age_ms: age.as_millis() as u64 + 1 })
        };
        let shards = self.shards.iter().enumerate().filter_map(entry).collect();
        let said = Confirmation { fit: self.fitness.own(), shards };
        reply.send(codec::encode(codec::CONFIRMED, &said).into());
    }
}

/// Asks a node for its confirmation; also when the question left. What a leader means happened
/// after that, less the age that it says.
pub(crate) async fn ask(
    transport: &dyn Transport,
    peer: NodeId,
) -> Option<(Confirmation, Instant)> {
    let asked = clock::now();
    let request = Request { kind: CONFIRM, shard: ShardId(0), body: Bytes::new() };
    let reply = transport.call(peer, request, AGE_MAX).await.ok()?;
    let said = codec::decode::<Confirmation>(codec::CONFIRMED, &reply);
    if said.is_err() {
        tracing::warn!(peer = peer.0, "confirmation is unreadable");
    }
    Some((said.ok()?, asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_replica_answers_only_for_what_it_has_applied_and_only_for_a_while() {
        let known = Known::default();
        let moment = Instant::now();
        assert!(!known.covers(u64::MAX, moment), "nobody has said anything yet");
        known.add(Sample { index: 10, moment });
        assert!(!known.covers(9, moment));
        assert!(known.covers(10, moment + AGE_MAX));
        assert!(!known.covers(10, moment + AGE_MAX + Duration::from_millis(1)));
        // The newest is not applied here yet; the one before is still recent enough.
        let later = moment + Duration::from_millis(300);
        known.add(Sample { index: 20, moment: later });
        assert!(known.covers(10, moment + AGE_MAX));
        assert!(!known.covers(10, later + AGE_MAX));
        assert!(known.covers(20, later + AGE_MAX));
    }
}
