//! A second idea of one key, as plain as can be: numbers and booleans, and questions asked of them
//! in order. It shares no code with `decide`, only the vocabulary of commands and answers.

use std::collections::BTreeMap;

use protocol::command::{Claim, Grant, Replay, Verdict};
use protocol::{Batch, Command, Fence, Outcome, RecordName, StoredResponse};

use super::key::{Held, Key, NEVER};

/// All keys of a shard.
#[derive(Default)]
pub(crate) struct Naive {
    pub(crate) epoch: u8,
    given: u64,
    now: u64,
    index: u64,
    keys: BTreeMap<RecordName, Key>,
}

impl Naive {
    /// Answers one entry.
    pub(crate) fn apply(&mut self, index: u64, batch: &Batch) -> Vec<Outcome> {
        self.now = self.now.max(batch.at.as_millis());
        self.index = index;
        batch.commands.iter().map(|command| self.run(command)).collect()
    }

    /// What is held for a name.
    pub(crate) fn held(&self, name: &RecordName) -> Option<Held> {
        self.keys.get(name).and_then(Key::summary)
    }

    fn run(&mut self, command: &Command) -> Outcome {
        let mut key = self.keys.remove(command.name()).unwrap_or_default();
        let outcome = match command {
            Command::Claim(claim) => self.claim(&mut key, claim),
            Command::Expire { .. } => match key.pass_time(self.now, self.index) {
                true => Outcome::Expired,
                false => Outcome::Nothing,
            },
            Command::Resolve { fence, verdict, force, .. } => {
                self.resolve(&mut key, *fence, verdict, *force)
            }
            Command::Forget { fence, .. } => self.forget(&mut key, *fence),
            Command::Revise { operation, response, .. } => {
                self.revise(&mut key, operation.as_ref(), response)
            }
            Command::Renew { grant, lease, .. } => {
                let asked = self.now + lease.get();
                let cap = key.granted + key.max_execution() + key.lease;
                if key.silent(grant) || key.lease_over(self.now) {
                    stale()
                } else {
                    key.lease_end = key.lease_end.max(asked.min(cap));
                    Outcome::Renewed { lease_until: at(key.lease_end) }
                }
            }
            Command::Complete { grant, response, .. } => self.complete(&mut key, grant, response),
            Command::Release { grant, .. } => self.release(&mut key, grant),
            Command::Unknown { grant, .. } => self.unknown(&mut key, grant),
        };
        self.keys.insert(command.name().clone(), key);
        outcome
    }

    fn claim(&mut self, key: &mut Key, claim: &Claim) -> Outcome {
        let rotten = key.buried && self.now > key.end;
        if key.forgotten && self.now < key.end {
            return Outcome::Forgetting { until: at(key.end) };
        }
        let ttl = (claim.lease.get().saturating_sub(1000) / 2).min(4000);
        let fresh = claim.seen.epoch == self.epoch
            && claim.seen.time.as_millis() + ttl >= self.now
            && (rotten || claim.seen.index >= key.mark);
        if !key.begun {
            if !fresh {
                return Outcome::Superseded;
            }
            if rotten {
                *key = Key::default();
            }
            return self.grant(key, claim);
        }
        if (key.done || key.forgotten) && self.now >= key.end {
            key.pass_time(self.now, self.index);
            return Outcome::Superseded;
        }
        let over = !key.done && key.lease_over(self.now);
        if over && !key.takeover_fits(self.now, key.lease) {
            key.closed = true;
        }
        if key.operation != claim.operation {
            return Outcome::OtherOperation;
        }
        if key.print != Some(claim.print.fingerprint) {
            return Outcome::Reused { stored: Box::new(key.print.expect("a print").into()) };
        }
        if key.done {
            return Outcome::Replay(Box::new(Replay {
                response: key.answers[0].clone(),
                newest: key.answers[1..].last().cloned(),
                generation: number(key.generation),
                completed_at: at(key.completed),
                retain_until: (key.end != NEVER).then(|| at(key.end)),
            }));
        }
        self.unfinished(key, claim, over, fresh)
    }

    /// A claim that meets a generation without outcome.
    fn unfinished(&mut self, key: &mut Key, claim: &Claim, over: bool, fresh: bool) -> Outcome {
        let mine = key.held && key.holder == Some(claim.holder);
        if !over && !mine {
            return Outcome::InProgress { lease_until: at(key.lease_end) };
        }
        let grant = Grant { fence: number(key.fence), token: key.token.expect("a token") };
        if !over {
            let (attempt_no, lease_until) = (key.attempts, at(key.lease_end));
            let generation = number(key.generation);
            return Outcome::Granted { grant, generation, attempt_no, lease_until };
        }
        if mine {
            return Outcome::Spent { grant };
        }
        if key.closed {
            return Outcome::Indeterminate;
        }
        if !key.opened {
            key.pass_time(self.now, self.index);
            return Outcome::Superseded;
        }
        match (fresh, key.takeover_fits(self.now, claim.lease.get())) {
            (false, _) => Outcome::Superseded,
            (true, false) => Outcome::Indeterminate,
            (true, true) => self.grant(key, claim),
        }
    }

    fn grant(&mut self, key: &mut Key, claim: &Claim) -> Outcome {
        let fence = self.take_fence();
        if !key.begun {
            let decided = std::mem::take(&mut key.decided);
            *key = Key { begun: true, decided, ..Key::default() };
            key.generation = fence;
            key.first = self.now;
            key.print = Some(claim.print.fingerprint);
            key.operation = claim.operation.clone();
            key.terms = Some(claim.terms);
        } else {
            key.tainted = true;
        }
        key.opened = false;
        key.mark = 0;
        key.held = true;
        key.holder = Some(claim.holder);
        key.fence = fence;
        key.token = Some(claim.token);
        key.granted = self.now;
        key.lease = claim.lease.get();
        key.lease_end = self.now + key.lease;
        key.attempts += 1;
        let grant = Grant { fence: number(fence), token: claim.token };
        Outcome::Granted {
            grant,
            generation: number(key.generation),
            attempt_no: key.attempts,
            lease_until: at(key.lease_end),
        }
    }

    fn complete(&mut self, key: &mut Key, grant: &Grant, response: &StoredResponse) -> Outcome {
        if key.done && key.proves(grant) {
            let same = self.now < key.end && key.answers[0] == *response;
            return if same { Outcome::Completed } else { stale() };
        }
        if key.silent(grant) {
            return stale();
        }
        key.finish(self.now, response);
        Outcome::Completed
    }

    fn release(&mut self, key: &mut Key, grant: &Grant) -> Outcome {
        if key.silent(grant) {
            return stale();
        }
        if key.tainted {
            key.closed |= key.lease_over(self.now) && !key.takeover_fits(self.now, key.lease);
            key.open(self.now, self.index);
            key.held = false;
        } else {
            key.bury(self.now, self.index);
        }
        Outcome::Released
    }

    fn unknown(&mut self, key: &mut Key, grant: &Grant) -> Outcome {
        if key.silent(grant) {
            return stale();
        }
        if !key.lease_over(self.now) {
            key.open(self.now, self.index);
        }
        Outcome::Unknown { takeover: !key.closed && key.takeover_fits(self.now, key.lease) }
    }

    fn resolve(&mut self, key: &mut Key, seen: Fence, what: &Verdict, force: bool) -> Outcome {
        if !key.begun || (key.done || key.forgotten) && self.now >= key.end {
            return Outcome::Conflict;
        }
        if number(key.fence) != seen {
            return stale();
        }
        let over = key.lease_over(self.now) && !key.done && !key.forgotten;
        if !over || !key.closed && key.takeover_fits(self.now, key.lease) {
            return Outcome::Conflict;
        }
        let drained = key.granted + key.lease + key.max_execution() + 1000;
        if *what == Verdict::Released && self.now < drained && !force {
            return Outcome::Conflict;
        }
        key.fence = self.take_fence();
        key.decided.push(self.now);
        let outcome = Outcome::Resolved { fence: number(key.fence) };
        match what {
            Verdict::Released => key.bury(self.now, self.index),
            Verdict::Completed(response) => key.finish(self.now, response),
        }
        outcome
    }

    fn forget(&mut self, key: &mut Key, seen: Fence) -> Outcome {
        if !key.begun || (key.done || key.forgotten) && self.now >= key.end {
            return Outcome::Conflict;
        }
        if number(key.fence) != seen {
            return stale();
        }
        if key.done {
            (key.done, key.forgotten, key.end) = (false, true, self.now + 3000);
        }
        if !key.forgotten {
            return Outcome::Conflict;
        }
        Outcome::Forgotten { until: at(key.end) }
    }

    fn revise(
        &mut self,
        key: &mut Key,
        operation: Option<&String>,
        response: &StoredResponse,
    ) -> Outcome {
        if !key.done || self.now >= key.end {
            return Outcome::Conflict;
        }
        if key.operation.as_ref() != operation {
            return Outcome::OtherOperation;
        }
        if key.answers.last() != Some(response) {
            if key.answers.len() == 16 {
                return Outcome::Conflict;
            }
            key.answers.push(response.clone());
        }
        Outcome::Revised { revision: key.answers.len() as u32 - 1 }
    }

    fn take_fence(&mut self) -> u64 {
        self.given += 1;
        Fence::new(self.epoch, self.given).as_number()
    }
}

/// Stale answers are compared without the record that they show.
fn stale() -> Outcome {
    Outcome::Stale { record: None }
}

fn at(millis: u64) -> protocol::Timestamp {
    protocol::Timestamp::from_millis(millis)
}

fn number(fence: u64) -> Fence {
    Fence::from_number(fence)
}
