//! The gateway's part of the claim protocol: one execution, from the claim to the durable outcome.
//!
//! An [`Execution`] is a pure machine. Its driver, an async loop in the gateway, owns it, tells it
//! what happened ([`Event`]) together with a fresh reading of the boot-time clock, and carries out
//! the [`Action`]s that come back, in order. The driver takes no decision of the protocol itself:
//!
//! ```text
//! let (mut execution, mut actions) = Execution::begin(claim, answer_within, now());
//! loop {
//!     carry out `actions`; return after `Action::Finish`
//!     wait for the next reply, the next news of the upstream, or `execution.wake_at()`
//!     actions = execution.handle(now(), event);
//! }
//! ```
//!
//! A client that leaves is no event: the execution goes on, and its outcome is stored.
//!
//! The life of an execution, phase by phase:
//!
//! ```text
//! Claiming ── granted ──► Connecting ── may send ──► Running ──► Deciding ──► Finished
//!    │  ▲                     │ (nothing sent)          (an outcome)  ▲  │
//!    │  └──── claim again ◄───┴──────── release ─────────────────────┘  └─► Lingering ─► Finished
//!    └─ no answer ──► Settling ── held by us ──► Deciding (release)         (unknown; a late
//!                        └─ not held by us ──► Finished                     answer completes)
//! ```

mod action;
mod claiming;
mod deciding;
mod event;
mod pursuit;
mod running;
#[cfg(test)]
mod tests;

pub use action::{Action, Answer, Doubt};
pub use claiming::{CLAIM_PATIENCE, COPIES_MAX, COPY_PAUSE_MAX, ROUNDS_MAX};
pub use event::{Disposition, Event, Failure, RecordAt, Upstream};
pub use pursuit::{BACKOFF_FIRST, BACKOFF_MAX};

use crate::command::{Basis, Claim, Grant};
use crate::lease::Fence;
use crate::time::{Millis, Timestamp};

use deciding::{Deciding, OpenUpstream};
use pursuit::Pursuit;
use running::Running;

/// One execution of a protected request by this process.
///
/// It makes the outcome durable before it lets the client be answered with it, takes one terminal
/// decision per fence and repeats that until the shard has answered it definitely.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Execution {
    /// The newest copy of the claim.
    claim: Claim,
    /// When the execution began, on the boot-time clock.
    begun: Millis,
    /// The estimate of the leader's clock at that moment.
    begun_leader: Timestamp,
    /// How far the shard is, as far as its replies have told.
    heard: Basis,
    /// When the client must have been answered if nothing better is known by then.
    deadline: Millis,
    /// Whether the client has been answered.
    answered: bool,
    /// The number of the next submission or read.
    next_number: u32,
    /// Copies of the claim made so far, over all rounds.
    copies: u32,
    /// Rounds of claiming begun so far; each but the first follows a definite release.
    rounds: u32,
    /// When the first copy of this round was made that can have been granted: the lease counts from
    /// here. A copy that failed definitely cannot.
    first_send: Millis,
    /// The last shard time at which an unanswered copy of this round may still be admitted.
    open_until: Option<Timestamp>,
    phase: Phase,
}

/// Where an execution is in its life.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Phase {
    /// The newest copy of the claim waits for its reply, or the next one for its time.
    Claiming(Pursuit),
    /// The claim was given up, but a copy of it may still be granted: the client has been told to
    /// come back, and reads through the log show in the end what became of the claim.
    Settling {
        /// The newest copy, while its reply may come.
        copy: Option<u32>,
        /// The read that is repeated.
        read: Pursuit,
    },
    /// The claim is granted and a connection to the upstream is being made; no byte has left.
    Connecting(Held),
    /// Bytes may have left.
    Running(Running),
    /// The terminal decision is repeated until the shard has answered it.
    Deciding(Deciding),
    /// The outcome is recorded as unknown, but a whole answer on the open connection may still
    /// settle it.
    Lingering {
        /// The grant that the answer would complete.
        grant: Grant,
        open: OpenUpstream,
    },
    /// Nothing is left to do.
    Finished,
}

/// A grant that this execution holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Held {
    grant: Grant,
    /// The generation that is executed, by its first fence.
    generation: Fence,
    /// 1 unless an earlier attempt of the same generation may have run.
    attempt_no: u32,
    /// Whether the connection to the upstream must be a new one, since a pooled one was dead.
    fresh: bool,
}

impl Execution {
    /// Begins an execution with the first copy of its claim, of which `seen.time` is the estimate
    /// of the leader's clock at this moment.
    ///
    /// `answer_within` is the client's deadline, counted from `now`. Every time given to an
    /// execution is a reading of one clock that counts on while the machine sleeps (the boot-time
    /// clock), taken after whatever happened and before the actions are carried out.
    pub fn begin(claim: Claim, answer_within: Millis, now: Millis) -> (Self, Vec<Action>) {
        let mut execution = Self {
            begun: now,
            begun_leader: claim.seen.time,
            heard: claim.seen,
            deadline: now.plus(answer_within),
            answered: false,
            next_number: 0,
            copies: 0,
            rounds: 0,
            first_send: now,
            open_until: None,
            phase: Phase::Finished,
            claim,
        };
        let mut actions = Vec::new();
        execution.claim_round(now, &mut actions);
        (execution, actions)
    }

    /// Tells the execution what happened, and returns what is to be done about it, in order.
    ///
    /// Events that no longer matter, such as the reply to a submission that was given up, are
    /// ignored, so the driver need not sort them out.
    pub fn handle(&mut self, now: Millis, event: Event) -> Vec<Action> {
        let mut actions = Vec::new();
        match event {
            Event::Reply { number, reply } => {
                if let Ok(decided) = &reply {
                    self.hear(decided.basis);
                }
                match self.phase {
                    Phase::Claiming(_) | Phase::Settling { .. } => {
                        self.claim_reply(now, number, reply, &mut actions);
                    }
                    Phase::Running(_) => self.renewal_reply(now, number, &reply),
                    Phase::Deciding(_) => self.decision_reply(now, number, reply, &mut actions),
                    Phase::Connecting(_) | Phase::Lingering { .. } | Phase::Finished => {}
                }
            }
            Event::Reprinted { number, basis, print } => {
                self.hear(basis);
                self.reprinted(now, number, *print, &mut actions);
            }
            Event::Read { number, reply } => self.read_reply(now, number, reply, &mut actions),
            Event::Upstream(news) => self.upstream(now, news, &mut actions),
            Event::Wake => {}
        }
        self.keep_time(now, &mut actions);
        actions
    }

    /// When the execution wants to be woken with [`Event::Wake`] unless something else happens
    /// before: later than the last event, since what is due is done with every event. `None` while
    /// it has nothing to do but wait for a reply, and after [`Action::Finish`].
    pub fn wake_at(&self) -> Option<Millis> {
        let phase = match &self.phase {
            Phase::Claiming(claim) => claim.due_at(),
            Phase::Settling { read, .. } => read.due_at(),
            Phase::Connecting(_) => Some(self.send_before()),
            Phase::Running(running) => Some(running.due_at(self.claim.terms.max_execution)),
            Phase::Deciding(deciding) => deciding.due_at(),
            Phase::Lingering { open, .. } => Some(open.until),
            Phase::Finished => None,
        };
        [phase, self.answer_due_at()].into_iter().flatten().min()
    }

    /// Does what has become due.
    fn keep_time(&mut self, now: Millis, actions: &mut Vec<Action>) {
        if self.answer_due_at().is_some_and(|at| at <= now) {
            self.answer_is_due(now, actions);
        }
        self.keep_claiming(now, actions);
        self.keep_running(now, actions);
        self.keep_deciding(now, actions);
    }

    /// When the client is answered if nothing better is known by then; `None` once it has been.
    fn answer_due_at(&self) -> Option<Millis> {
        if self.answered {
            return None;
        }
        let at = match &self.phase {
            Phase::Claiming(_) => self.patience_ends(),
            Phase::Deciding(deciding) if deciding.claims_again() => self.patience_ends(),
            Phase::Finished => return None,
            _ => self.deadline,
        };
        Some(at)
    }

    /// Answers a client that can wait no longer.
    fn answer_is_due(&mut self, now: Millis, actions: &mut Vec<Action>) {
        match &self.phase {
            Phase::Claiming(_) => self.stop_claiming(now, actions),
            Phase::Connecting(_) | Phase::Running(_) => {
                self.answer(Answer::OutcomePending, actions);
            }
            Phase::Deciding(deciding) => {
                let answer = deciding.answer_when_overdue();
                self.answer(answer, actions);
            }
            Phase::Settling { .. } | Phase::Lingering { .. } | Phase::Finished => {}
        }
    }

    /// Answers the client, unless that was done before.
    fn answer(&mut self, answer: Answer, actions: &mut Vec<Action>) {
        if !self.answered {
            self.answered = true;
            actions.push(Action::Answer(answer));
        }
    }

    fn finish(&mut self, actions: &mut Vec<Action>) {
        self.phase = Phase::Finished;
        actions.push(Action::Finish);
    }

    fn take_number(&mut self) -> u32 {
        let number = self.next_number;
        self.next_number = number.wrapping_add(1);
        number
    }

    /// Remembers how far the shard is. A reply that does not count tells that just as well.
    fn hear(&mut self, basis: Basis) {
        if basis.epoch > self.heard.epoch {
            self.heard = basis;
        } else if basis.epoch == self.heard.epoch {
            self.heard.index = self.heard.index.max(basis.index);
            self.heard.time = self.heard.time.max(basis.time);
        }
    }

    /// The estimate of the leader's clock. It is never behind the shard's own time as heard: a copy
    /// made with less could be out of its time to live before it arrives, again and again.
    fn leader_time(&self, now: Millis) -> Timestamp {
        self.begun_leader.plus(now.minus(self.begun)).max(self.heard.time)
    }
}
