//! An execution under test: what happens to it, and what it must do about that.

use std::collections::VecDeque;

use crate::command::{Basis, Claim, Command, Decided, Grant, Outcome};
use crate::execution::{
    Action, Answer, Disposition, Event, Execution, Failure, RecordAt, Upstream,
};
use crate::fingerprint::Fingerprint;
use crate::lease::{Fence, HolderId, Token};
use crate::record::{Generation, OnUnknown, Record, Retention, Revision, State, Terms};
use crate::response::{StoredBody, StoredResponse};
use crate::scope::RecordName;
use crate::time::{Millis, Timestamp};

/// What the leader's clock shows when the boot-time clock shows zero.
const LEADER_AT_ZERO: u64 = 1_000_000;

/// When the executions under test begin, on the boot-time clock.
pub(super) const BEGUN: u64 = 10_000;
pub(super) const LEASE: u64 = 10_000;
pub(super) const ANSWER_WITHIN: u64 = 30_000;
pub(super) const MAX_EXECUTION: u64 = 60_000;

/// An execution with its clock, and those of its actions that the test has not looked at yet. A
/// test looks at every action before the next event.
pub(super) struct Life {
    pub(super) execution: Execution,
    pub(super) now: u64,
    actions: VecDeque<Action>,
    /// The number of the last submission or read that the test has looked at.
    pub(super) number: u32,
    /// The shard's last applied index.
    index: u64,
}

impl Life {
    /// One whose claim is on its way.
    pub(super) fn begin() -> Self {
        Self::begin_with(LEASE, ANSWER_WITHIN)
    }

    pub(super) fn begin_with(lease: u64, answer_within: u64) -> Self {
        let claim = claim(lease, Basis { time: leader_time(BEGUN), ..Basis::default() });
        let (execution, actions) =
            Execution::begin(claim, Millis::new(answer_within), Millis::new(BEGUN));
        let actions = actions.into();
        Self { execution, now: BEGUN, actions, number: 0, index: 40 }
    }

    /// One whose claim was granted as this attempt, and whose connection is being made.
    pub(super) fn granted(attempt_no: u32) -> Self {
        let mut life = Self::begin();
        life.claims();
        life.reply(granted(attempt_no));
        let fence = grant().fence;
        let generation = first_fence(attempt_no);
        let connect = Action::Connect { fence, generation, attempt_no, fresh: false };
        assert_eq!(life.next(), connect);
        life
    }

    /// One whose bytes may have left.
    pub(super) fn sent(attempt_no: u32) -> Self {
        let mut life = Self::granted(attempt_no);
        life.upstream(Upstream::Ready);
        assert_eq!(life.next(), Action::Send);
        life
    }

    /// Sets the clock.
    pub(super) fn at(&mut self, now: u64) -> &mut Self {
        assert!(now >= self.now, "time does not go back");
        self.now = now;
        self
    }

    pub(super) fn handle(&mut self, event: Event) {
        self.rests();
        self.actions = self.execution.handle(Millis::new(self.now), event).into();
    }

    /// The last submission is answered with this outcome.
    pub(super) fn reply(&mut self, outcome: Outcome) {
        self.reply_to(self.number, outcome);
    }

    pub(super) fn reply_to(&mut self, number: u32, outcome: Outcome) {
        self.index += 1;
        let basis = Basis { epoch: 0, index: self.index, time: leader_time(self.now) };
        self.handle(Event::Reply { number, reply: Ok(Decided { outcome, basis }) });
    }

    /// The last submission fails.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.handle(Event::Reply { number: self.number, reply: Err(failure) });
    }

    /// The last read finds this record, at the leader's time.
    pub(super) fn found(&mut self, record: Option<Record>) {
        let found = RecordAt { at: leader_time(self.now), record: record.map(Box::new) };
        self.handle(Event::Read { number: self.number, reply: Ok(found) });
    }

    pub(super) fn upstream(&mut self, news: Upstream) {
        self.handle(Event::Upstream(news));
    }

    /// The whole answer of the upstream comes.
    pub(super) fn answered(&mut self, status: u16, disposition: Disposition) {
        self.upstream(Upstream::Answered { status, disposition });
    }

    /// The clock goes on to when the execution wants to be woken.
    pub(super) fn sleep(&mut self) {
        let at = self.execution.wake_at().expect("an execution that wants to be woken");
        self.now = self.now.max(at.get());
        self.handle(Event::Wake);
    }

    /// The clock goes on to `until`; the execution is woken whenever it wants to be, and whatever
    /// it asks the shard for meanwhile fails. Returns how often it asked.
    pub(super) fn outage(&mut self, until: u64, failure: Failure) -> usize {
        let mut asked = 0;
        while self.execution.wake_at().is_some_and(|at| at.get() < until) {
            self.sleep();
            while let Some(action) = self.actions.pop_front() {
                match action {
                    Action::Submit { number, .. } | Action::Read { number, .. } => {
                        self.number = number;
                        asked += 1;
                    }
                    other => panic!("{other:?} while the shard is away"),
                }
            }
            self.fail(failure);
        }
        self.at(until);
        asked
    }

    /// The next action.
    pub(super) fn next(&mut self) -> Action {
        let action = self.actions.pop_front().expect("one more action");
        if let Action::Submit { number, .. } | Action::Read { number, .. } = &action {
            self.number = *number;
        }
        action
    }

    /// The next action is a submission of this.
    pub(super) fn submits(&mut self) -> Command {
        match self.next() {
            Action::Submit { command, .. } => command,
            other => panic!("{other:?} instead of a submission"),
        }
    }

    pub(super) fn claims(&mut self) -> Claim {
        match self.submits() {
            Command::Claim(claim) => claim,
            other => panic!("{other:?} instead of a claim"),
        }
    }

    pub(super) fn renews(&mut self) {
        assert!(matches!(self.submits(), Command::Renew { grant: g, .. } if g == grant()));
    }

    pub(super) fn completes(&mut self) {
        let command = Command::Complete { name: name(), grant: grant(), response: response(201) };
        assert_eq!(self.submits(), command);
    }

    pub(super) fn releases(&mut self) {
        assert_eq!(self.submits(), Command::Release { name: name(), grant: grant() });
    }

    pub(super) fn says_unknown(&mut self) {
        assert_eq!(self.submits(), Command::Unknown { name: name(), grant: grant() });
    }

    /// The next action is a read.
    pub(super) fn reads(&mut self) {
        assert!(matches!(self.next(), Action::Read { .. }));
    }

    /// The next action is this answer to the client.
    pub(super) fn answers(&mut self, answer: Answer) {
        assert_eq!(self.next(), Action::Answer(answer));
    }

    /// The next actions are this answer and the end.
    pub(super) fn ends_with(&mut self, answer: Answer) {
        self.answers(answer);
        self.ends();
    }

    pub(super) fn ends(&mut self) {
        assert_eq!(self.next(), Action::Finish);
        self.rests();
        assert_eq!(self.execution.wake_at(), None);
    }

    /// There is no action left.
    pub(super) fn rests(&self) {
        assert_eq!(self.actions, [], "at {}", self.now);
    }
}

pub(super) fn leader_time(boot: u64) -> Timestamp {
    Timestamp::from_millis(LEADER_AT_ZERO + boot)
}

pub(super) fn name() -> RecordName {
    RecordName::from_bytes(b"name".to_vec())
}

pub(super) fn claim(lease: u64, seen: Basis) -> Claim {
    Claim {
        operation: None,
        name: name(),
        holder: holder(),
        seen,
        print: Fingerprint { version: 1, digest: [7; 32] }.into(),
        lease: Millis::new(lease),
        terms: terms(),
        token: grant().token,
    }
}

pub(super) fn holder() -> HolderId {
    HolderId::of(b"gateway", b"attempt")
}

fn terms() -> Terms {
    Terms {
        retention: Retention::For(Millis::from_secs(86_400)),
        on_unknown: OnUnknown::FailClosed,
        max_execution: Millis::new(MAX_EXECUTION),
    }
}

pub(super) fn grant() -> Grant {
    Grant { fence: Fence::new(0, 5), token: Token::new([9; 16]) }
}

/// The first fence of the generation that [`grant`] is an attempt at.
fn first_fence(attempt_no: u32) -> Fence {
    Fence::new(0, 5 - u64::from(attempt_no - 1))
}

pub(super) fn granted(attempt_no: u32) -> Outcome {
    let generation = first_fence(attempt_no);
    let lease_until = leader_time(BEGUN + LEASE);
    Outcome::Granted { grant: grant(), generation, attempt_no, lease_until }
}

pub(super) fn response(status: u16) -> StoredResponse {
    StoredResponse { status, headers: Vec::new(), body: StoredBody::Whole(b"order 1".to_vec()) }
}

pub(super) fn stored(status: u16) -> Disposition {
    Disposition::Store(response(status))
}

/// A generation with these fences in this state, held by the execution under test.
pub(super) fn generation(first: u64, current: u64, state: State) -> Record {
    Record::Live(Box::new(Generation {
        id: Fence::new(0, first),
        fence: Fence::new(0, current),
        token: grant().token,
        holder: Some(holder()),
        print: Fingerprint { version: 1, digest: [7; 32] }.into(),
        terms: terms(),
        first_granted_at: leader_time(BEGUN),
        granted_at: leader_time(BEGUN),
        lease: Millis::new(LEASE),
        attempts: 1,
        tainted: false,
        operation: None,
        state,
        history: Vec::new(),
    }))
}

/// An outcome that was stored when the executions under test began, kept until this time.
pub(super) fn done(retain_until: u64) -> State {
    State::Done {
        completed_at: leader_time(BEGUN),
        retain_until: Some(leader_time(retain_until)),
        revisions: vec![
            Revision { at: leader_time(BEGUN), response: response(200) },
            Revision { at: leader_time(BEGUN), response: response(299) },
        ],
        by_operator: true,
    }
}
