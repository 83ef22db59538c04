//! The API behind the gateways: it counts what it does, whoever asks and whatever becomes of the
//! answer.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::sync::oneshot;
use tokio::time::sleep;

use super::history::{Execution, History, Name, What};

/// The API. Clones are the same one.
#[derive(Clone)]
pub(crate) struct Upstream {
    history: History,
    state: Arc<Mutex<State>>,
}

struct State {
    random: StdRng,
    executions: u64,
}

/// What became of a request.
pub(crate) enum Reply {
    /// Done; the answer tells of this execution.
    Done { nonce: String },
    /// Not done: try again.
    Retryable,
    /// The answer does not say whether it was done.
    Ambiguous,
    /// The connection broke.
    Broken,
}

/// What a request is about.
#[derive(Clone)]
pub(crate) struct Job {
    pub(crate) name: Name,
    pub(crate) payload: u8,
    pub(crate) generation: u64,
    pub(crate) fence: u64,
}

/// What the API does with a request; the shares add up to 100.
#[derive(Clone, Copy)]
enum Mood {
    Well,
    Slow,
    Retryable,
    BreaksAfter,
    BreaksBefore,
    Ambiguous,
}

const MOODS: [(u32, Mood); 6] = [
    (78, Mood::Well),
    (6, Mood::Slow),
    (6, Mood::Retryable),
    (5, Mood::BreaksAfter),
    (3, Mood::BreaksBefore),
    (2, Mood::Ambiguous),
];

impl Upstream {
    pub(crate) fn new(history: History, seed: u64) -> Self {
        let state = State { random: StdRng::seed_from_u64(seed), executions: 0 };
        Self { history, state: Arc::new(Mutex::new(state)) }
    }

    /// How long it takes to get a connection; `None` where there is none to be had.
    pub(crate) fn connecting(&self) -> (Duration, bool) {
        let mut state = self.state.lock().unwrap();
        let slow = state.random.random_ratio(1, 40);
        let took = if slow { 500..4000 } else { 1..20 };
        (Duration::from_millis(state.random.random_range(took)), state.random.random_ratio(39, 40))
    }

    /// Takes a request. It goes on whatever becomes of the caller.
    pub(crate) fn send(&self, job: Job) -> oneshot::Receiver<Reply> {
        let (sender, receiver) = oneshot::channel();
        let (mood, transit, takes) = {
            let mut state = self.state.lock().unwrap();
            let mood = mood(&mut state.random);
            let transit = state.random.random_range(1..6);
            let takes = match mood {
                Mood::Slow => state.random.random_range(1500..7000),
                _ => state.random.random_range(2..250),
            };
            (mood, Duration::from_millis(transit), Duration::from_millis(takes))
        };
        let upstream = self.clone();
        tokio::spawn(async move {
            sleep(transit).await;
            let reply = upstream.answer(mood, job);
            sleep(takes).await;
            drop(sender.send(reply));
        });
        receiver
    }

    /// Does a job, and says so in the ledger at once.
    pub(crate) fn execute(&self, job: Job) -> String {
        let nonce = {
            let mut state = self.state.lock().unwrap();
            state.executions += 1;
            format!("{} payload {} execution {}", job.name, job.payload, state.executions)
        };
        let Job { name, payload, generation, fence } = job;
        let execution = Execution { name, payload, generation, fence, nonce: nonce.clone() };
        self.history.add(What::Executed(execution));
        nonce
    }

    fn answer(&self, mood: Mood, job: Job) -> Reply {
        match mood {
            Mood::Retryable => Reply::Retryable,
            Mood::BreaksBefore => Reply::Broken,
            Mood::Well | Mood::Slow => Reply::Done { nonce: self.execute(job) },
            Mood::BreaksAfter => {
                self.execute(job);
                Reply::Broken
            }
            Mood::Ambiguous => {
                self.execute(job);
                Reply::Ambiguous
            }
        }
    }
}

fn mood(random: &mut StdRng) -> Mood {
    let mut drawn = random.random_range(0..100);
    for (share, mood) in MOODS {
        if drawn < share {
            return mood;
        }
        drawn -= share;
    }
    Mood::Well
}
