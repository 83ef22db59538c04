//! Running: the upstream request under a grant, and the lease that is renewed meanwhile.

use crate::command::{Command, Decided, Outcome};
use crate::lease::send_window;
use crate::time::Millis;

use super::action::Doubt;
use super::deciding::{Decision, OpenUpstream, Release};
use super::event::{Disposition, Failure, Upstream};
use super::pursuit::Pursuit;
use super::{Action, Execution, Held, Phase};

/// The HTTP status codes with which a key layer says "in use".
const CONFLICT: u16 = 409;
const TOO_EARLY: u16 = 425;

/// A lease is renewed when this part of it is over, so that two renewals in a row may fail.
const RENEWALS_PER_LEASE: u64 = 3;

/// An execution of which bytes may have left.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Running {
    held: Held,
    /// When the bytes were allowed to leave.
    sent_at: Millis,
    /// When the lease ends at the earliest.
    lease_ends: Millis,
    /// The renewals of the lease; `None` once the shard has refused one.
    renewal: Option<Renewal>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Renewal {
    pursuit: Pursuit,
    /// When the last one was asked for.
    asked_at: Millis,
}

impl Running {
    /// When the next renewal or the end of the longest execution is due.
    pub(super) fn due_at(&self, max_execution: Millis) -> Millis {
        let ends = self.sent_at.plus(max_execution);
        let renewal = self.renewal.and_then(|renewal| renewal.pursuit.due_at());
        renewal.map_or(ends, |at| at.min(ends))
    }
}

impl Execution {
    /// Until when bytes may leave. The lease counts from the first copy that can have been granted,
    /// whichever it was; renewals do not prolong this time.
    ///
    /// A driver compares its clock with this once more when the first byte leaves, since a task may
    /// wait long between [`Action::Send`] and its write.
    pub fn send_before(&self) -> Millis {
        self.first_send.plus(send_window(self.claim.lease))
    }

    pub(super) fn connect(&mut self, held: Held, actions: &mut Vec<Action>) {
        self.phase = Phase::Connecting(held);
        actions.push(Action::Connect {
            fence: held.grant.fence,
            generation: held.generation,
            attempt_no: held.attempt_no,
            fresh: held.fresh,
        });
    }

    /// Takes news of the upstream.
    pub(super) fn upstream(&mut self, now: Millis, news: Upstream, actions: &mut Vec<Action>) {
        match &self.phase {
            Phase::Connecting(held) => {
                let held = *held;
                match news {
                    Upstream::Ready if now < self.send_before() => self.send(now, held, actions),
                    Upstream::Ready => self.too_late(held, actions),
                    Upstream::Unsent { pooled } => self.unsent(held, pooled, actions),
                    // Nothing was allowed to leave, so there is nothing that could be answered.
                    Upstream::Answered { .. } | Upstream::Broken => {}
                }
            }
            Phase::Running(running) => {
                let held = running.held;
                match news {
                    Upstream::Unsent { pooled } => self.unsent(held, pooled, actions),
                    Upstream::Answered { status, disposition } => {
                        self.answered(held, status, disposition, actions);
                    }
                    Upstream::Broken => {
                        let decision = Decision::Unknown(Doubt::Reset);
                        self.decide(held.grant, decision, None, actions);
                    }
                    Upstream::Ready => {}
                }
            }
            Phase::Deciding(_) | Phase::Lingering { .. } => self.late_news(news, actions),
            Phase::Claiming(_) | Phase::Settling { .. } | Phase::Finished => {}
        }
    }

    /// Takes the reply to a renewal. A refused one ends the renewals but not the execution: its
    /// outcome may still settle the record.
    pub(super) fn renewal_reply(
        &mut self,
        now: Millis,
        number: u32,
        reply: &Result<Decided, Failure>,
    ) {
        let interval = self.renewal_interval();
        let lease = self.claim.lease;
        let Phase::Running(running) = &mut self.phase else { return };
        let Some(renewal) = &mut running.renewal else { return };
        if !renewal.pursuit.takes(number, now) {
            return;
        }
        match reply.as_ref().map(|decided| &decided.outcome) {
            Ok(Outcome::Renewed { .. }) => {
                running.lease_ends = running.lease_ends.max(renewal.asked_at.plus(lease));
                renewal.pursuit.succeeded(renewal.asked_at.plus(interval));
            }
            Ok(Outcome::Stale { .. }) => running.renewal = None,
            Ok(_) | Err(_) => renewal.pursuit.failed(now, interval),
        }
    }

    /// Renews the lease, or ends what has taken too long, when that is due.
    pub(super) fn keep_running(&mut self, now: Millis, actions: &mut Vec<Action>) {
        match &self.phase {
            Phase::Connecting(held) if now >= self.send_before() => {
                self.too_late(*held, actions);
            }
            Phase::Running(running) => {
                let running = *running;
                if now >= running.sent_at.plus(self.claim.terms.max_execution) {
                    self.time_out(running, actions);
                } else if running.renewal.is_some_and(|renewal| renewal.pursuit.is_due(now)) {
                    self.renew(now, running, actions);
                }
            }
            _ => {}
        }
    }

    fn renewal_interval(&self) -> Millis {
        Millis::new(self.claim.lease.get() / RENEWALS_PER_LEASE)
    }

    fn send(&mut self, now: Millis, held: Held, actions: &mut Vec<Action>) {
        let first_renewal = self.first_send.plus(self.renewal_interval());
        self.phase = Phase::Running(Running {
            held,
            sent_at: now,
            lease_ends: self.first_send.plus(self.claim.lease),
            renewal: Some(Renewal { pursuit: Pursuit::due(first_renewal), asked_at: now }),
        });
        actions.push(Action::Send);
    }

    fn renew(&mut self, now: Millis, mut running: Running, actions: &mut Vec<Action>) {
        let number = self.take_number();
        if let Some(renewal) = &mut running.renewal {
            renewal.pursuit.resent(number);
            renewal.asked_at = now;
        }
        let command = Command::Renew {
            name: self.claim.name.clone(),
            grant: running.held.grant,
            lease: self.claim.lease,
        };
        self.phase = Phase::Running(running);
        actions.push(Action::Submit { number, command });
    }

    /// The execution has taken too long. A whole answer that comes while the lease lasts still
    /// settles it.
    fn time_out(&mut self, running: Running, actions: &mut Vec<Action>) {
        let Held { grant, attempt_no, .. } = running.held;
        let open = OpenUpstream { attempt_no, until: running.lease_ends };
        self.decide(grant, Decision::Unknown(Doubt::TimedOut), Some(open), actions);
    }

    /// A pooled connection that was dead proves nothing about the upstream: a new one is tried,
    /// once.
    fn unsent(&mut self, held: Held, pooled: bool, actions: &mut Vec<Action>) {
        if pooled && !held.fresh {
            self.connect(Held { fresh: true, ..held }, actions);
        } else {
            self.decide(held.grant, unreachable(held), None, actions);
        }
    }

    fn too_late(&mut self, held: Held, actions: &mut Vec<Action>) {
        actions.push(Action::CloseUpstream);
        self.decide(held.grant, unreachable(held), None, actions);
    }

    fn answered(
        &mut self,
        held: Held,
        status: u16,
        disposition: Disposition,
        actions: &mut Vec<Action>,
    ) {
        let decision = match disposition {
            _ if means_in_use(held.attempt_no, status) => Decision::Unknown(Doubt::Ambiguous),
            Disposition::Store(response) => Decision::Complete(response),
            Disposition::Retryable => Decision::Release(Release::PassThrough),
            Disposition::Unknown => Decision::Unknown(Doubt::Ambiguous),
        };
        self.decide(held.grant, decision, None, actions);
    }
}

/// Whether an answer may come from the upstream's own key layer, which still sees an earlier
/// attempt at work: then it tells nothing about the outcome, whatever the policy makes of it.
pub(super) fn means_in_use(attempt_no: u32, status: u16) -> bool {
    attempt_no > 1 && matches!(status, CONFLICT | TOO_EARLY)
}

fn unreachable(held: Held) -> Decision {
    Decision::Release(Release::Unreachable { earlier_may_have_run: held.attempt_no > 1 })
}
