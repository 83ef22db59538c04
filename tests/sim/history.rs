//! What happened in a run, in order, on simulated time.

use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

/// A record's name as the harness knows it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Name {
    pub(crate) tenant: &'static str,
    pub(crate) key: String,
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.tenant, self.key)
    }
}

/// What the upstream did once: the text is in every answer that tells of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Execution {
    pub(crate) name: Name,
    pub(crate) payload: u8,
    pub(crate) generation: u64,
    pub(crate) fence: u64,
    /// Tells it from every other execution.
    pub(crate) nonce: String,
}

/// What a client was told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Told {
    /// The answer of its own execution, durable.
    Own {
        generation: u64,
        nonce: String,
    },
    /// A stored answer.
    Replay {
        generation: u64,
        nonce: String,
    },
    InProgress,
    Reused,
    Indeterminate,
    /// Nothing that says anything about the key's outcome.
    Other(String),
    /// The node died under it.
    Gone,
}

/// What a record is found to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Seen {
    Absent,
    Done { generation: u64, fence: u64, nonce: String },
    Forgotten,
    Other(&'static str),
}

/// What an operator asked for. It may take effect later, or never.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Completed,
    Released,
    Forgotten,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum What {
    Asked {
        request: u64,
        name: Name,
        payload: u8,
        node: usize,
    },
    Told {
        request: u64,
        name: Name,
        payload: u8,
        told: Told,
    },
    Executed(Execution),
    /// A holder says that it sent nothing under its grant.
    Released {
        name: Name,
        fence: u64,
    },
    /// An operator's decision about the fence that it saw.
    Operator {
        name: Name,
        fence: u64,
        verdict: Verdict,
    },
    Read {
        asked_at: Duration,
        name: Name,
        node: usize,
        seen: Seen,
    },
    /// A read after everything was healed.
    Final {
        name: Name,
        node: usize,
        seen: Seen,
    },
    /// A process of a node leads a shard in a term.
    Leads {
        shard: u16,
        term: u64,
        node: usize,
        process: u64,
    },
    /// A process has started: its term, and the one in which its node told a peer that it voted.
    Term {
        shard: u16,
        term: u64,
        promised: u64,
        node: usize,
    },
    /// Somebody who executed says so for the first time.
    Completing {
        name: Name,
        fence: u64,
    },
    Digest {
        shard: u16,
        node: usize,
        applied: u64,
        sha256: [u8; 4],
    },
    Fault(String),
    /// A fault that was really there.
    Installed(&'static str),
    /// What a node said when it could not go on, or did not start.
    Failed {
        node: usize,
        error: String,
        expected: bool,
    },
    Unhealed(String),
}

/// One line of the history.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Event {
    pub(crate) at: Duration,
    pub(crate) what: What,
}

/// The history of a run. Clones share it.
#[derive(Clone)]
pub(crate) struct History {
    begin: Instant,
    events: Arc<Mutex<Vec<Event>>>,
}

impl History {
    pub(crate) fn begin() -> Self {
        Self { begin: Instant::now(), events: Arc::default() }
    }

    pub(crate) fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    pub(crate) fn add(&self, what: What) {
        let event = Event { at: self.now(), what };
        self.lock().push(event);
    }

    pub(crate) fn events(&self) -> Vec<Event> {
        self.lock().clone()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Event>> {
        self.events.lock().unwrap()
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:>9.3} {:?}", self.at.as_secs_f64(), self.what)
    }
}
