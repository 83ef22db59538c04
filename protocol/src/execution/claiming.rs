//! Claiming: copies of the claim until one of them is answered, and what must follow when none is.

use crate::command::{Basis, Command, Decided, Grant, Outcome};
use crate::fingerprint::Print;
use crate::lease::claim_ttl;
use crate::record::{Generation, Record, State};
use crate::time::Millis;

use super::deciding::{Decision, Release};
use super::event::{Failure, RecordAt};
use super::pursuit::{BACKOFF_MAX, Pursuit};
use super::{Action, Answer, Execution, Held, Phase};

/// For how long a client waits for its claim to be decided. A shard that has lost its leader has
/// another within two seconds, so one that takes longer than this has lost its majority.
pub const CLAIM_PATIENCE: Millis = Millis::new(5000);

/// The longest pause between two copies, so that a new leader is found soon after it is elected.
pub const COPY_PAUSE_MAX: Millis = Millis::new(500);

/// How many copies of its claim an execution makes. With the pauses between failed copies they last
/// longer than [`CLAIM_PATIENCE`]; only answers that ask for a new copy at once can use them up.
pub const COPIES_MAX: u32 = 16;

/// How often an execution claims: again only after its grant came too late to be used and was given
/// back, and three times in a row that is no accident.
pub const ROUNDS_MAX: u32 = 3;

impl Execution {
    /// Begins a round of claiming. Nothing of an earlier round can be granted any more: its release
    /// is definite, and every copy of it was made before that.
    pub(super) fn claim_round(&mut self, now: Millis, actions: &mut Vec<Action>) {
        self.rounds += 1;
        self.open_until = None;
        let number = self.send_copy(now, actions);
        self.phase = Phase::Claiming(Pursuit::sent(number));
    }

    /// When the client is told to come back later if the claim has not been decided.
    pub(super) fn patience_ends(&self) -> Millis {
        self.begun.plus(CLAIM_PATIENCE).min(self.deadline)
    }

    /// Whether the claim may be made once more after a definite release.
    pub(super) fn may_claim_again(&self, now: Millis) -> bool {
        !self.answered
            && self.rounds < ROUNDS_MAX
            && self.copies < COPIES_MAX
            && now < self.patience_ends()
    }

    /// Takes the reply to a copy. It counts only if it answers the newest copy: what an older copy
    /// was told may have been overtaken before the newest one was made.
    pub(super) fn claim_reply(
        &mut self,
        now: Millis,
        number: u32,
        reply: Result<Decided, Failure>,
        actions: &mut Vec<Action>,
    ) {
        if !self.takes_copy(now, number) {
            return;
        }
        let decided = match reply {
            Err(failure) => return self.copy_failed(now, failure, actions),
            Ok(decided) => decided,
        };
        match decided.outcome {
            Outcome::Granted { grant, generation, attempt_no, .. } => {
                let held = Held { grant, generation, attempt_no, fresh: false };
                self.granted(now, held, actions);
            }
            Outcome::Spent { grant } => self.give_back(grant, actions),
            // The answer has brought a basis for a new copy, which is made at once. It does not end
            // the attempt: an older copy, or a duplicate of this one, may still be granted once the
            // tombstone that stopped it is gone.
            Outcome::Superseded => self.newest_stays_open(),
            outcome => match refusal(outcome, decided.basis) {
                Some(answer) => {
                    self.answer(answer, actions);
                    self.finish(actions);
                }
                // An answer to some other command says nothing about this one.
                None => self.copy_failed(now, Failure::Indefinite, actions),
            },
        }
    }

    /// Takes the reply to a copy that was refused as reused, by a record that goes by other rules:
    /// `print` is the request's by these, and it is the record's. The claim goes on with it.
    ///
    /// One print takes the place of another only here, where no copy with the first can be granted
    /// any more: the refusal shows that a record is there, and the event that makes its key
    /// claimable again comes after what every copy so far has seen.
    pub(super) fn reprinted(
        &mut self,
        now: Millis,
        number: u32,
        print: Print,
        actions: &mut Vec<Action>,
    ) {
        if !self.takes_copy(now, number) {
            return;
        }
        self.claim.print = print;
        if matches!(self.phase, Phase::Settling { .. }) {
            self.finish(actions);
        }
    }

    /// Whether the newest copy has this number and waited for its reply.
    fn takes_copy(&mut self, now: Millis, number: u32) -> bool {
        match &mut self.phase {
            Phase::Claiming(claim) => claim.takes(number, now),
            Phase::Settling { copy, .. } => copy.take_if(|copy| *copy == number).is_some(),
            _ => false,
        }
    }

    /// Takes the result of a read through the log.
    pub(super) fn read_reply(
        &mut self,
        now: Millis,
        number: u32,
        reply: Result<RecordAt, Failure>,
        actions: &mut Vec<Action>,
    ) {
        let Phase::Settling { read, .. } = &mut self.phase else { return };
        if !read.takes(number, now) {
            return;
        }
        read.failed(now, BACKOFF_MAX);
        let Ok(found) = reply else { return };
        if let Some(grant) = self.held_in(&found) {
            self.give_back(grant, actions);
        } else if self.open_until.is_none_or(|until| until < found.at) {
            self.finish(actions);
        }
    }

    /// Makes the next copy, or reads again, when that is due.
    pub(super) fn keep_claiming(&mut self, now: Millis, actions: &mut Vec<Action>) {
        match &self.phase {
            Phase::Claiming(claim) if claim.is_due(now) => self.next_copy(now, actions),
            Phase::Settling { read, .. } if read.is_due(now) => {
                let number = self.take_number();
                if let Phase::Settling { read, .. } = &mut self.phase {
                    read.resent(number);
                }
                let name = self.claim.name.clone();
                actions.push(Action::Read { number, name });
            }
            _ => {}
        }
    }

    /// Tells the client to come back, and stays until no copy can be granted any more.
    pub(super) fn stop_claiming(&mut self, now: Millis, actions: &mut Vec<Action>) {
        self.answer(Answer::ShardUnavailable, actions);
        let copy = match &self.phase {
            Phase::Claiming(claim) => claim.awaited(),
            _ => None,
        };
        if copy.is_some() {
            self.newest_stays_open();
        }
        match self.open_until {
            None => self.finish(actions),
            Some(until) => {
                let wait = until.since(self.leader_time(now)).plus(Millis::new(1));
                self.phase = Phase::Settling { copy, read: Pursuit::due(now.plus(wait)) };
            }
        }
    }

    fn granted(&mut self, now: Millis, held: Held, actions: &mut Vec<Action>) {
        if self.answered || now >= self.send_before() {
            self.give_back(held.grant, actions);
        } else {
            self.connect(held, actions);
        }
    }

    /// Gives back a grant that was never used. While the client waits, the claim is made again.
    fn give_back(&mut self, grant: Grant, actions: &mut Vec<Action>) {
        self.decide(grant, Decision::Release(Release::Unused), None, actions);
    }

    fn copy_failed(&mut self, now: Millis, failure: Failure, actions: &mut Vec<Action>) {
        if failure == Failure::Indefinite {
            self.newest_stays_open();
        }
        match &mut self.phase {
            Phase::Claiming(_) if failure == Failure::Lasting => self.stop_claiming(now, actions),
            Phase::Claiming(claim) => claim.failed(now, COPY_PAUSE_MAX),
            Phase::Settling { .. } if self.open_until.is_none() => self.finish(actions),
            _ => {}
        }
    }

    fn next_copy(&mut self, now: Millis, actions: &mut Vec<Action>) {
        if self.copies >= COPIES_MAX {
            return self.stop_claiming(now, actions);
        }
        let number = self.send_copy(now, actions);
        if let Phase::Claiming(claim) = &mut self.phase {
            claim.resent(number);
        }
    }

    fn send_copy(&mut self, now: Millis, actions: &mut Vec<Action>) -> u32 {
        self.copies += 1;
        if self.open_until.is_none() {
            self.first_send = now;
        }
        self.claim.seen = Basis { time: self.leader_time(now), ..self.heard };
        let number = self.take_number();
        actions.push(Action::Submit { number, command: Command::Claim(self.claim.clone()) });
        number
    }

    /// The newest copy may still be admitted for as long as it lives.
    fn newest_stays_open(&mut self) {
        let until = self.claim.seen.time.plus(claim_ttl(self.claim.lease));
        self.open_until = self.open_until.max(Some(until));
    }

    /// The grant that the record shows this execution to hold.
    fn held_in(&self, found: &RecordAt) -> Option<Grant> {
        match found.record.as_deref() {
            Some(Record::Live(generation)) if generation.holder == Some(self.claim.holder) => {
                unsettled(generation)
                    .then_some(Grant { fence: generation.fence, token: generation.token })
            }
            _ => None,
        }
    }
}

fn unsettled(generation: &Generation) -> bool {
    match generation.state {
        State::InFlight { .. } | State::Over { .. } | State::Indeterminate { .. } => true,
        State::Done { .. } | State::Forgotten { .. } => false,
    }
}

/// What a client is told about a claim that was refused at the shard's position `basis`; `None`
/// when the outcome does not refuse a claim.
fn refusal(outcome: Outcome, basis: Basis) -> Option<Answer> {
    Some(match outcome {
        Outcome::InProgress { lease_until } => {
            Answer::InProgress { lease_left: lease_until.since(basis.time) }
        }
        Outcome::Reused { stored } => Answer::Reused { stored },
        Outcome::OtherOperation => Answer::OtherOperation,
        Outcome::Indeterminate => Answer::Indeterminate,
        Outcome::Forgetting { until } => Answer::Forgetting { free_in: until.since(basis.time) },
        Outcome::Replay(replay) => Answer::Replay(replay),
        _ => return None,
    })
}
