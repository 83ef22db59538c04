//! The thread that hands committed changes to the engine.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use tokio::sync::watch;

use super::RecordsError;
use super::shard::Shard;
use crate::placement::ShardId;

/// How long a change stays in memory: longer than most executions take, so that a claim and its
/// completion are one write; little of the log to apply again after a crash.
const STAY: Duration = Duration::from_secs(1);

/// The shards that are flushed, as they come.
pub(super) type Shards = Arc<Mutex<BTreeMap<ShardId, Arc<Shard>>>>;

/// Flushes one shard after the other, evenly over time, and sooner what has grown large. Dropping
/// it flushes everything.
pub(super) struct Flusher {
    bell: Arc<Bell>,
    failure: watch::Sender<Option<Arc<RecordsError>>>,
    thread: Option<JoinHandle<()>>,
}

/// Wakes the thread.
#[derive(Default)]
pub(super) struct Bell {
    rung: Mutex<Rung>,
    changed: Condvar,
}

#[derive(Clone, Copy, Default)]
struct Rung {
    hurry: bool,
    close: bool,
    /// Whether the thread has ever waited.
    #[cfg(test)]
    waited: bool,
}

impl Flusher {
    /// Starts the thread.
    pub(super) fn start(shards: Shards, bell: Arc<Bell>) -> std::io::Result<Self> {
        let failure = watch::Sender::new(None);
        let (ringing, failed) = (Arc::clone(&bell), failure.clone());
        let work = move || {
            let end = Watch { failed, shards };
            if let Err(error) = run(&end.shards, &ringing) {
                end.fail(error);
            }
        };
        let thread = thread::Builder::new().name("records".into()).spawn(work)?;
        Ok(Self { bell, failure, thread: Some(thread) })
    }

    /// Starts a task that does what the thread does, on tokio's time.
    #[cfg(feature = "testing")]
    pub(super) fn start_task(shards: Shards, bell: Arc<Bell>) -> Self {
        let failure = watch::Sender::new(None);
        let end = Watch { failed: failure.clone(), shards };
        crate::task::spawn(async move {
            loop {
                let round: Vec<_> =
                    end.shards.lock().expect("no holder panics").values().cloned().collect();
                for shard in round {
                    tokio::time::sleep(STAY / 4).await;
                    if let Err(error) = shard.flush() {
                        return end.fail(error);
                    }
                }
                tokio::time::sleep(STAY / 4).await;
            }
        });
        Self { bell, failure, thread: None }
    }

    /// Resolves when changes can no longer be handed on.
    pub(super) async fn failed(&self) -> Arc<RecordsError> {
        let mut failure = self.failure.subscribe();
        loop {
            if let Some(error) = failure.borrow_and_update().clone() {
                return error;
            }
            if failure.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Drop for Flusher {
    fn drop(&mut self) {
        self.bell.ring(|rung| rung.close = true);
        if let Some(thread) = self.thread.take() {
            // A thread that panicked has said so.
            drop(thread.join());
        }
    }
}

impl Bell {
    /// Has what is large flushed now.
    pub(super) fn hurry(&self) {
        self.ring(|rung| rung.hurry = true);
    }

    fn ring(&self, how: impl FnOnce(&mut Rung)) {
        how(&mut self.lock());
        self.changed.notify_one();
    }

    /// Waits for a ring, at most for `time`.
    fn wait(&self, time: Duration) -> Rung {
        let quiet = |rung: &mut Rung| !rung.hurry && !rung.close;
        #[cfg_attr(not(test), expect(unused_mut, reason = "only tests look at it"))]
        let mut rung = self.lock();
        #[cfg(test)]
        {
            rung.waited = true;
        }
        let waited = self.changed.wait_timeout_while(rung, time, quiet);
        let (mut rung, _) = waited.expect(UNPOISONED);
        let rung_for = *rung;
        rung.hurry = false;
        rung_for
    }

    /// Whether the thread has ever waited.
    #[cfg(test)]
    pub(super) fn has_waited(&self) -> bool {
        self.lock().waited
    }

    fn lock(&self) -> MutexGuard<'_, Rung> {
        self.rung.lock().expect(UNPOISONED)
    }
}

const UNPOISONED: &str = "nothing panics while it holds the bell";

fn run(shards: &Shards, bell: &Bell) -> Result<(), RecordsError> {
    let all = || -> Vec<Arc<Shard>> {
        shards.lock().expect("no holder panics").values().cloned().collect()
    };
    // Asked anew each time: shards come while the thread waits.
    let flush_all = || all().iter().try_for_each(|shard| shard.flush());
    loop {
        let round = all();
        let pause = STAY / u32::try_from(round.len().max(1)).unwrap_or(u32::MAX);
        if round.is_empty() && bell.wait(pause).close {
            return flush_all();
        }
        for shard in round {
            let rung = bell.wait(pause);
            if rung.close {
                return flush_all();
            }
            if rung.hurry {
                all()
                    .iter()
                    .filter(|shard| shard.is_large())
                    .try_for_each(|shard| shard.flush())?;
            }
            shard.flush()?;
        }
    }
}

/// Says so when the thread ends by an error or a panic: nothing is flushed any more, so no shard
/// may take changes, and nobody may wait for room.
struct Watch {
    failed: watch::Sender<Option<Arc<RecordsError>>>,
    shards: Shards,
}

impl Watch {
    fn fail(&self, error: RecordsError) {
        let shards = self.shards.lock().expect("no holder panics");
        shards.values().for_each(|shard| shard.give_up());
        self.failed.send_replace(Some(Arc::new(error)));
    }
}

impl Drop for Watch {
    fn drop(&mut self) {
        if thread::panicking() {
            self.fail(RecordsError::Stopped);
        }
    }
}
