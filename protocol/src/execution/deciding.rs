//! Deciding: the one terminal decision of a grant, repeated until the shard has answered it.

use crate::command::{Command, Decided, Grant, Outcome, Replay};
use crate::lease::Fence;
use crate::record::Record;
use crate::response::StoredResponse;
use crate::time::{Millis, Timestamp};

use super::action::Doubt;
use super::event::{Disposition, Failure, Upstream};
use super::pursuit::{BACKOFF_MAX, Pursuit};
use super::running::means_in_use;
use super::{Action, Answer, Execution, Phase};

/// A terminal decision on its way to the shard.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Deciding {
    grant: Grant,
    decision: Decision,
    pursuit: Pursuit,
    /// The connection on which a late answer may come; only after [`Decision::Unknown`].
    open: Option<OpenUpstream>,
}

/// A terminal decision about a grant.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Decision {
    /// The outcome is this.
    Complete(StoredResponse),
    /// Nothing was done.
    Release(Release),
    /// It may have been done.
    Unknown(Doubt),
}

/// Why nothing was done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Release {
    /// The grant came too late to be used. While the client waits, the claim is made again.
    Unused,
    /// The upstream could not be reached.
    Unreachable {
        /// Whether an earlier attempt of the generation may have run.
        earlier_may_have_run: bool,
    },
    /// The upstream said so itself, with a whole answer.
    PassThrough,
}

/// A connection to the upstream that is kept open for a late answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct OpenUpstream {
    pub(super) attempt_no: u32,
    /// When the lease ends at the earliest: from then on a late answer is not waited for.
    pub(super) until: Millis,
}

impl Deciding {
    /// When the next try or the end of the open connection is due.
    pub(super) fn due_at(&self) -> Option<Millis> {
        let closing = self.open.map(|open| open.until);
        [self.pursuit.due_at(), closing].into_iter().flatten().min()
    }

    /// Whether the claim is made again once the decision is definite.
    pub(super) fn claims_again(&self) -> bool {
        self.decision == Decision::Release(Release::Unused)
    }

    /// What a client is told that cannot wait for the decision to become definite.
    pub(super) fn answer_when_overdue(&self) -> Answer {
        match &self.decision {
            Decision::Complete(_) => Answer::OutcomeUnknown(Doubt::NotDurable),
            Decision::Unknown(doubt) => Answer::OutcomeUnknown(*doubt),
            Decision::Release(release) => release.answer(),
        }
    }

    /// What a client is told when the first try has failed. An outcome must be durable first, and a
    /// claim that may be made again has not failed yet; the rest is true whether or not the shard
    /// knows it already.
    fn answer_when_failed(&self) -> Option<Answer> {
        match &self.decision {
            Decision::Complete(_) | Decision::Release(Release::Unused) => None,
            _ => Some(self.answer_when_overdue()),
        }
    }

    /// What a client is told when the shard refused the decision: the record's own outcome, and
    /// never an answer that only this execution knows.
    fn answer_when_stale(&self, record: Option<&Record>, now: Timestamp) -> Answer {
        if let Some(replay) = record.and_then(|record| outcome_of(record, self.grant.fence, now)) {
            return Answer::Replay(Box::new(replay));
        }
        match self.decision {
            Decision::Release(Release::Unreachable { .. }) => {
                Answer::Unreachable { earlier_may_have_run: true }
            }
            Decision::Release(Release::Unused) => Answer::ShardUnavailable,
            Decision::Unknown(doubt) => Answer::OutcomeUnknown(doubt),
            Decision::Complete(_) | Decision::Release(Release::PassThrough) => {
                Answer::OutcomeUnknown(Doubt::GrantLost)
            }
        }
    }
}

impl Release {
    fn answer(self) -> Answer {
        match self {
            Self::Unused => Answer::ShardUnavailable,
            Self::Unreachable { earlier_may_have_run } => {
                Answer::Unreachable { earlier_may_have_run }
            }
            Self::PassThrough => Answer::PassThrough,
        }
    }
}

impl Execution {
    /// Takes the terminal decision about `grant`. It is the only one, but that a whole answer on
    /// the `open` connection may still follow [`Decision::Unknown`].
    pub(super) fn decide(
        &mut self,
        grant: Grant,
        decision: Decision,
        open: Option<OpenUpstream>,
        actions: &mut Vec<Action>,
    ) {
        let number = self.take_number();
        let command = self.command_of(grant, &decision);
        let pursuit = Pursuit::sent(number);
        self.phase = Phase::Deciding(Deciding { grant, decision, pursuit, open });
        actions.push(Action::Submit { number, command });
    }

    /// Takes the reply to the decision.
    pub(super) fn decision_reply(
        &mut self,
        now: Millis,
        number: u32,
        reply: Result<Decided, Failure>,
        actions: &mut Vec<Action>,
    ) {
        let Phase::Deciding(deciding) = &mut self.phase else { return };
        if !deciding.pursuit.takes(number, now) {
            return;
        }
        let answer = match (&deciding.decision, reply.map(|d| (d.outcome, d.basis.time))) {
            (_, Ok((Outcome::Stale { record }, time))) => {
                // Without the grant a late answer could not settle anything.
                if deciding.open.take().is_some() {
                    actions.push(Action::CloseUpstream);
                }
                deciding.answer_when_stale(record.as_deref(), time)
            }
            (Decision::Complete(_), Ok((Outcome::Completed, _))) => Answer::Own,
            (Decision::Release(release), Ok((Outcome::Released, _))) => release.answer(),
            (Decision::Unknown(doubt), Ok((Outcome::Unknown { .. }, _))) => {
                Answer::OutcomeUnknown(*doubt)
            }
            _ => {
                deciding.pursuit.failed(now, BACKOFF_MAX);
                if let Some(answer) = deciding.answer_when_failed() {
                    self.answer(answer, actions);
                }
                return;
            }
        };
        self.decided(now, answer, actions);
    }

    /// Takes news of the connection that was left open after [`Decision::Unknown`].
    pub(super) fn late_news(&mut self, news: Upstream, actions: &mut Vec<Action>) {
        let (grant, open) = match &mut self.phase {
            Phase::Deciding(deciding) => (deciding.grant, deciding.open.take()),
            Phase::Lingering { grant, open } => (*grant, Some(*open)),
            _ => return,
        };
        let Some(open) = open else { return };
        match news {
            Upstream::Answered { status, disposition: Disposition::Store(response) }
                if !means_in_use(open.attempt_no, status) =>
            {
                self.decide(grant, Decision::Complete(response), None, actions);
            }
            _ if matches!(self.phase, Phase::Lingering { .. }) => self.finish(actions),
            _ => {}
        }
    }

    /// Repeats the decision, or closes the connection that was left open, when that is due.
    pub(super) fn keep_deciding(&mut self, now: Millis, actions: &mut Vec<Action>) {
        match &mut self.phase {
            Phase::Deciding(deciding) => {
                if deciding.open.is_some_and(|open| open.until <= now) {
                    deciding.open = None;
                    actions.push(Action::CloseUpstream);
                }
                if deciding.pursuit.is_due(now) {
                    self.decide_again(actions);
                }
            }
            Phase::Lingering { open, .. } if open.until <= now => {
                actions.push(Action::CloseUpstream);
                self.finish(actions);
            }
            _ => {}
        }
    }

    /// The decision is definite.
    fn decided(&mut self, now: Millis, answer: Answer, actions: &mut Vec<Action>) {
        let Phase::Deciding(deciding) = &self.phase else { return };
        let (grant, open) = (deciding.grant, deciding.open);
        let replay = matches!(answer, Answer::Replay(_));
        if deciding.claims_again() && !replay && self.may_claim_again(now) {
            return self.claim_round(now, actions);
        }
        self.answer(answer, actions);
        match open {
            Some(open) => self.phase = Phase::Lingering { grant, open },
            None => self.finish(actions),
        }
    }

    fn decide_again(&mut self, actions: &mut Vec<Action>) {
        let number = self.take_number();
        if let Phase::Deciding(deciding) = &mut self.phase {
            deciding.pursuit.resent(number);
        }
        if let Phase::Deciding(deciding) = &self.phase {
            let command = self.command_of(deciding.grant, &deciding.decision);
            actions.push(Action::Submit { number, command });
        }
    }

    fn command_of(&self, grant: Grant, decision: &Decision) -> Command {
        let name = self.claim.name.clone();
        match decision {
            Decision::Complete(response) => {
                Command::Complete { name, grant, response: response.clone() }
            }
            Decision::Release(_) => Command::Release { name, grant },
            Decision::Unknown(_) => Command::Unknown { name, grant },
        }
    }
}

/// The outcome of the generation that `fence` belongs to, where the record still holds it at `now`.
///
/// Fences only grow and a generation is named by its first one, so the record's generation is the
/// fence's own when the fence lies between its first and its current one.
fn outcome_of(record: &Record, fence: Fence, now: Timestamp) -> Option<Replay> {
    let Record::Live(generation) = record else { return None };
    let own = generation.id <= fence && fence <= generation.fence;
    let live = |replay: &Replay| replay.retain_until.is_none_or(|until| now < until);
    Replay::of(generation).filter(|replay| own && live(replay))
}
