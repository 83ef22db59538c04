//! What a node looks after while it runs: formation, checkpoints, disk space, the clock, its own
//! failure.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval, timeout};

use super::{Inner, Node, balance};
use crate::config::NodeId;
use crate::error::StartError;
use crate::failpoint;
use crate::raft::tallies;
use crate::router::CONFIRM_INTERVAL;
use crate::storage::wal::Space;
use crate::task::{self, spawn_into};
use crate::transport::Refusal;

/// How often the node looks after things: soon enough to notice a filling disk or a jumped clock
/// before it does harm.
const ROUND: Duration = Duration::from_millis(500);

/// Between two steps of a sweep, and between two looks whether there is something to sweep.
const SWEEP_GAP: Duration = Duration::from_millis(10);
const SWEEP_IDLE: Duration = Duration::from_secs(10);

/// How long a stopping node waits for others to take its leaderships over.
const HAND_OVER: Duration = Duration::from_secs(3);

/// Between two leadership transfers: each costs its shard's claims a round trip, and they need not
/// all pay at once.
const TRANSFER_GAP: Duration = Duration::from_millis(20);

/// Starts the tasks of a node. They end when it stops.
pub(super) fn start(node: &Node) {
    let mut tasks = node.inner.tasks.lock().expect("no holder panics");
    spawn_into(&mut tasks, form(node.inner.clone()));
    spawn_into(&mut tasks, rounds(node.inner.clone()));
    spawn_into(&mut tasks, watch_log(node.inner.clone()));
    spawn_into(&mut tasks, watch_records(node.inner.clone()));
    spawn_into(&mut tasks, sweep(node.inner.clone()));
    spawn_into(&mut tasks, confirm(node.inner.clone()));
    spawn_into(&mut tasks, balance::run(node.inner.clone()));
}

async fn form(inner: Arc<Inner>) {
    let replicas = inner.replicas();
    if let Err(error) = inner.founder.form(&*inner.transport, &replicas).await {
        inner.fail(error);
    }
}

async fn watch_log(inner: Arc<Inner>) {
    let error = inner.wal.failed().await;
    inner.fail(error.into());
}

async fn watch_records(inner: Arc<Inner>) {
    let error = inner.records.failed().await;
    inner.fail(StartError::Engine(format!("records: {error}")));
}

/// Removes what snapshots have replaced, little by little and off the engine's thread.
async fn sweep(inner: Arc<Inner>) {
    loop {
        let records = inner.records.clone();
        match task::blocking(move || records.sweep()).await {
            Ok(Ok(true)) => tokio::time::sleep(SWEEP_GAP).await,
            Ok(Ok(false)) => tokio::time::sleep(SWEEP_IDLE).await,
            Ok(Err(error)) => return inner.fail(StartError::Engine(error.to_string())),
            Err(_) => return,
        }
    }
}

/// Keeps this node's replicas fit to answer by themselves.
async fn confirm(inner: Arc<Inner>) {
    let mut round = interval(CONFIRM_INTERVAL);
    round.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        round.tick().await;
        inner.router.confirm().await;
    }
}

async fn rounds(inner: Arc<Inner>) {
    let mut round = interval(ROUND);
    round.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        round.tick().await;
        look_at_disk(&inner);
        inner.router.set_fit(inner.is_fit());
        look_at_refusals(&inner);
        show_records(&inner);
        for replica in inner.replicas() {
            if let Some(reason) = replica.failure() {
                inner.fail(StartError::Engine(reason));
            }
            replica.checkpoint_if_due().await;
        }
        if !inner.guard.trusted() {
            // Whoever stamps no time cannot serve its shards: another node should lead them.
            // What does not go now is tried again in the next round.
            let _ =
                timeout(HAND_OVER, give_up_leaderships(&inner, &inner.router.fit_peers())).await;
        }
    }
}

fn look_at_disk(inner: &Inner) {
    let data_dir = &inner.config.data_dir;
    let free = match failpoint::pretended_free_bytes(data_dir) {
        Some(pretended) => Ok(pretended),
        None => inner.files.free_bytes(data_dir),
    };
    match free {
        Ok(free) => inner.disk.observe(free, inner.wal.space() == Space::Ok),
        Err(error) => tracing::warn!(%error, "free disk space cannot be read"),
    }
}

/// Shows how many records there are. Replicas of one shard hold the same, so every node shows the
/// whole cluster's, as far as it has applied the logs.
fn show_records(inner: &Inner) {
    let node = inner.config.id.to_string();
    let (live, tombstones) = tallies(&inner.records);
    for (state, tally) in [("live", live), ("tombstone", tombstones)] {
        let labels = [("node", node.clone()), ("state", state.to_owned())];
        metrics::gauge!("oncegate_records", &labels).set(tally.records as f64);
        metrics::gauge!("oncegate_record_bytes", &labels).set(tally.bytes as f64);
    }
}

/// A node that belongs to no cluster yet, and is refused by one that does, was wiped: it must not
/// wait for ever.
fn look_at_refusals(inner: &Inner) {
    if inner.founder.is_formed() {
        return;
    }
    let refused = inner.transport.refusals().into_iter().find(|refusal| !refusal.by_us);
    if let Some(Refusal { peer, reason, .. }) = refused {
        inner.fail(StartError::Refused { node: peer.0, reason });
    }
}

/// Lets `peers` take over what this node leads, spread over them. Returns how many leaderships this
/// node had.
async fn give_up_leaderships(inner: &Inner, peers: &[NodeId]) -> usize {
    if peers.is_empty() {
        return 0;
    }
    let shards = inner.router.shards().iter().enumerate();
    let led: Vec<_> = shards.filter(|(_, shard)| shard.replica().is_leader()).collect();
    for (index, (shard, handle)) in led.iter().enumerate() {
        let to: NodeId = peers[index % peers.len()];
        if let Err(reason) = handle.hand_over(to).await {
            tracing::info!(shard, to = to.0, %reason, "could not give up a leadership");
        }
        tokio::time::sleep(TRANSFER_GAP).await;
    }
    led.len()
}

/// Hands every leadership over before a stop, so that nobody has to notice it by a time-out.
pub(super) async fn hand_over(inner: &Inner) {
    inner.router.set_fit(false);
    let peers = || match inner.router.fit_peers() {
        // Nobody has said so yet; the node stops in any case.
        fit if fit.is_empty() => inner.transport.connected(),
        fit => fit,
    };
    let all = async {
        while give_up_leaderships(inner, &peers()).await > 0 {
            tokio::time::sleep(TRANSFER_GAP).await;
        }
    };
    if timeout(HAND_OVER, all).await.is_err() {
        tracing::warn!("leaderships could not be given away in time");
    }
}
