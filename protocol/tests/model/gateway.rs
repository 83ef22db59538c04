//! The state of a gateway with its one execution.

use std::collections::BTreeMap;
use std::sync::Arc;

use protocol::StoredResponse;
use protocol::command::{Command, Decided};
use protocol::execution::Execution;
use protocol::lease::Fence;

use super::config::Config;
use super::variant::Variant;
use super::world::Ask;

/// A gateway with its one execution.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Gateway {
    /// Where its process is.
    pub(crate) stage: Stage,
    /// Whether it sleeps past the time at which its execution wants to be woken.
    pub(crate) asleep: bool,
    /// Requests to the shard that have not been reported as answered or unanswered.
    pub(crate) awaited: BTreeMap<u32, Arc<Ask>>,
    /// Replies to claims that are on their way, where replies are slow.
    pub(crate) replies: BTreeMap<u32, SlowReply>,
    /// The connection to the upstream that it is making.
    pub(crate) connecting: Option<Connecting>,
    /// Its request to the upstream.
    pub(crate) request: Option<Request>,
    /// The whole answer of the upstream, and the fence that went with the request.
    pub(crate) kept: Option<(Fence, StoredResponse)>,
    /// What its client was told.
    pub(crate) told: Option<Told>,
    /// When the first and the newest copy of this round of claiming were made.
    pub(crate) copies: Option<(u64, u64)>,
    /// Rounds of claiming so far.
    pub(crate) rounds: u8,
    /// Whether its claim was ever granted.
    pub(crate) was_granted: bool,
}

/// A reply to a claim on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct SlowReply {
    /// What the shard has decided.
    pub(crate) decided: Decided,
    /// Whether it takes its time.
    pub(crate) delayed: bool,
}

/// Where a gateway's process is.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Stage {
    /// Its client's request has not come yet.
    Idle,
    /// It executes.
    Live(Arc<Execution>),
    /// The execution has ended.
    Finished,
    /// The process is gone.
    Crashed,
}

/// What a gateway knows of the shard when it begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Knowing {
    /// Whether it knows how far the shard is.
    pub(crate) warm: bool,
    /// By how much its estimate of the leader's clock is off, in milliseconds.
    pub(crate) estimate: i64,
}

/// A connection to the upstream that is being made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Connecting {
    /// The fence that will go with the request.
    pub(crate) fence: Fence,
    /// When the grant was learnt, in true time.
    pub(crate) since: u64,
    /// Whether it takes its time.
    pub(crate) delayed: bool,
}

/// A request to the upstream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Request {
    /// The fence that goes with it.
    pub(crate) fence: Fence,
    /// When the bytes left, in true time.
    pub(crate) sent_at: u64,
    /// Whether the upstream has executed it.
    pub(crate) executed: bool,
    /// Whether the gateway still waits for the answer.
    pub(crate) heard: bool,
    /// Whether it takes its time.
    pub(crate) delayed: bool,
}

/// What a client was told, as far as it matters here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Told {
    /// The outcome.
    Outcome,
    /// A refusal that rests on another execution.
    Refused,
    /// That its request did not run.
    NotRun,
    /// That nobody knows, or not yet.
    Unknown,
}

impl Gateway {
    /// One whose client's request has not come yet.
    pub(crate) fn idle() -> Self {
        Self {
            stage: Stage::Idle,
            asleep: false,
            awaited: BTreeMap::new(),
            replies: BTreeMap::new(),
            connecting: None,
            request: None,
            kept: None,
            told: None,
            copies: None,
            rounds: 0,
            was_granted: false,
        }
    }

    /// Its execution is over.
    pub(crate) fn leave(&mut self) {
        self.drop_execution(Stage::Finished);
    }

    /// Its process is gone.
    pub(crate) fn crash(&mut self) {
        self.drop_execution(Stage::Crashed);
    }

    /// It does not wait for the upstream any more.
    pub(crate) fn close(&mut self) {
        self.connecting = None;
        if let Some(request) = &mut self.request {
            request.heard = false;
        }
    }

    fn drop_execution(&mut self, stage: Stage) {
        self.stage = stage;
        self.asleep = false;
        self.close();
        self.awaited.clear();
        self.replies.clear();
        self.kept = None;
        self.copies = None;
    }

    /// The execution, while it lives.
    pub(crate) fn execution(&self) -> Option<&Execution> {
        match &self.stage {
            Stage::Live(execution) => Some(execution),
            _ => None,
        }
    }

    /// By how much a variant's clock is behind.
    pub(crate) fn clock_is_behind(&self, config: &Config, now: u64) -> u64 {
        let Some(connecting) = self.connecting else { return 0 };
        match (config.variant, self.copies) {
            (Some(Variant::SendsLate), _) => now - connecting.since,
            (Some(Variant::LeaseFromNewestCopy), Some((first, newest))) => newest - first,
            _ => 0,
        }
    }

    /// When the execution wants to be woken, in true time.
    pub(crate) fn wakes_at(&self, config: &Config, now: u64) -> Option<u64> {
        let at = self.execution()?.wake_at()?.get();
        if self.asleep || (config.breaks(Variant::SendsLate) && self.connecting.is_some()) {
            return None;
        }
        Some(at + self.clock_is_behind(config, now))
    }

    /// Remembers when copies of the claim were made.
    pub(crate) fn note_copies(&mut self, command: &Command, now: u64) {
        match (command, self.copies) {
            (Command::Claim(_), Some((first, _))) => self.copies = Some((first, now)),
            (Command::Claim(_), None) => {
                self.copies = Some((now, now));
                self.rounds += 1;
            }
            (Command::Release { .. }, _) => self.copies = None,
            _ => {}
        }
    }
}
