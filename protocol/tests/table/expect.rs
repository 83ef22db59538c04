//! What the words of `rows.txt` mean: the answer and the record afterwards, written out.

use protocol::command::{Grant, Outcome, Replay};
use protocol::record::{
    Generation, Record, Resolution, Retention, Revision, State, Tombstone, Watermark,
};
use protocol::response::StoredResponse;
use protocol::{Command, Millis, Timestamp, Token};

use super::fixture::{self, DECIDED_AT, INDEX, LEASE, MAX_EXECUTION, NOW, at, fence};

/// One combination: what `decide` is given.
pub(crate) struct Case<'a> {
    pub(crate) record: Option<&'a Record>,
    pub(crate) command: &'a Command,
}

impl Case<'_> {
    /// The answer that `word` stands for.
    pub(crate) fn answer(&self, word: &str) -> Outcome {
        let renewed = |millis| Outcome::Renewed { lease_until: at(millis) };
        match word {
            "stale" => Outcome::Stale { record: self.record.cloned().map(Box::new) },
            "conflict" => Outcome::Conflict,
            "nothing" => Outcome::Nothing,
            "expired" => Outcome::Expired,
            "superseded" => Outcome::Superseded,
            "indeterminate" => Outcome::Indeterminate,
            "completed" => Outcome::Completed,
            "released" => Outcome::Released,
            "reused" => Outcome::Reused { stored: Box::new(fixture::print(1).into()) },
            "other operation" => Outcome::OtherOperation,
            "granted" => self.granted(),
            "granted again" => Outcome::Granted {
                grant: self.stored_grant(),
                generation: self.live().id,
                attempt_no: self.live().attempts,
                lease_until: at(NOW + 1),
            },
            "in progress" => Outcome::InProgress { lease_until: at(NOW + 1) },
            "spent" => Outcome::Spent { grant: self.stored_grant() },
            "replay" => self.replay(),
            "renewed unchanged" => renewed(NOW + 1),
            "renewed as asked" => renewed(NOW + 10_000),
            "renewed to cap" => renewed(NOW - 5000 + MAX_EXECUTION + LEASE),
            "unknown takeover" => Outcome::Unknown { takeover: true },
            "unknown closed" => Outcome::Unknown { takeover: false },
            "resolved" => Outcome::Resolved { fence: fence(77) },
            "forgotten" => Outcome::Forgotten { until: at(NOW + 3000) },
            "forgotten before" => Outcome::Forgotten { until: at(NOW + 1) },
            "forgetting" => Outcome::Forgetting { until: at(NOW + 1) },
            "revised" => Outcome::Revised { revision: self.revisions().len() as u32 },
            "revised before" => Outcome::Revised { revision: self.revisions().len() as u32 - 1 },
            other => panic!("no such answer: {other}"),
        }
    }

    /// The record that `word` stands for.
    pub(crate) fn after(&self, word: &str) -> Option<Record> {
        let indeterminate = match self.record {
            Some(Record::Live(generation)) => match generation.state {
                State::Indeterminate { since } => State::Indeterminate { since },
                _ => State::Indeterminate { since: at(NOW) },
            },
            _ => State::Indeterminate { since: at(NOW) },
        };
        let over = State::Over { watermark: Some(Watermark { index: INDEX, time: at(NOW) }) };
        let lease = |millis| State::InFlight { lease_until: at(millis) };
        let after = match word {
            "same" => return self.record.cloned(),
            "absent" => return None,
            "tombstone" => return Some(self.tombstone(&[])),
            "tombstone by operator" => return Some(self.tombstone(&[self.decision(true, false)])),
            "tombstone by force" => return Some(self.tombstone(&[self.decision(true, true)])),
            "first grant" => self.first_grant(),
            "taken over" => self.taken_over(),
            "over" => Generation { state: over, ..self.live() },
            "over unheld" => Generation { state: over, holder: None, ..self.live() },
            "indeterminate" => Generation { state: indeterminate, ..self.live() },
            "indeterminate unheld" => {
                Generation { state: indeterminate, holder: None, ..self.live() }
            }
            "longer lease" => Generation { state: lease(NOW + 10_000), ..self.live() },
            "lease to cap" => {
                Generation { state: lease(NOW - 5000 + MAX_EXECUTION + LEASE), ..self.live() }
            }
            "done" => Generation { state: self.done(false), ..self.live() },
            "done by operator" => {
                let mut history = self.live().history;
                history.push(self.decision(false, false));
                Generation { state: self.done(true), fence: fence(77), history, ..self.live() }
            }
            "forgotten" => {
                Generation { state: State::Forgotten { until: at(NOW + 3000) }, ..self.live() }
            }
            "revised" => self.revised(),
            other => panic!("no such record: {other}"),
        };
        Some(Record::Live(Box::new(after)))
    }

    fn live(&self) -> Generation {
        match self.record {
            Some(Record::Live(generation)) => (**generation).clone(),
            other => panic!("a rule about a generation met {other:?}"),
        }
    }

    fn stored_grant(&self) -> Grant {
        Grant { fence: fence(50), token: Token::new([7; 16]) }
    }

    fn granted(&self) -> Outcome {
        let (generation, attempt_no) = match self.record {
            Some(Record::Live(generation)) => (generation.id, generation.attempts + 1),
            _ => (fence(77), 1),
        };
        let grant = Grant { fence: fence(77), token: Token::new([9; 16]) };
        let lease_until = self.new_lease().1;
        Outcome::Granted { grant, generation, attempt_no, lease_until }
    }

    /// The lease that the claim asks for, and when it ends.
    fn new_lease(&self) -> (Millis, Timestamp) {
        let Command::Claim(claim) = self.command else { panic!("only claims are granted") };
        (claim.lease, at(NOW + claim.lease.get()))
    }

    fn first_grant(&self) -> Generation {
        let Command::Claim(claim) = self.command else { panic!("only claims are granted") };
        let (lease, lease_until) = self.new_lease();
        Generation {
            id: fence(77),
            fence: fence(77),
            token: Token::new([9; 16]),
            holder: Some(claim.holder),
            print: claim.print.clone(),
            terms: fixture::claimed_terms(),
            first_granted_at: at(NOW),
            granted_at: at(NOW),
            lease,
            attempts: 1,
            tainted: false,
            operation: claim.operation.clone(),
            state: State::InFlight { lease_until },
            history: match self.record {
                Some(Record::Tombstone(kept)) if kept.keep_until >= at(NOW) => kept.history.clone(),
                _ => Vec::new(),
            },
        }
    }

    fn taken_over(&self) -> Generation {
        let Command::Claim(claim) = self.command else { panic!("only claims are granted") };
        let (lease, lease_until) = self.new_lease();
        Generation {
            fence: fence(77),
            token: Token::new([9; 16]),
            holder: Some(claim.holder),
            granted_at: at(NOW),
            lease,
            attempts: self.live().attempts + 1,
            tainted: true,
            state: State::InFlight { lease_until },
            ..self.live()
        }
    }

    /// The state after a completion by the holder or an operator.
    fn done(&self, by_operator: bool) -> State {
        let response = match self.command {
            Command::Complete { response, .. } => response.clone(),
            _ => fixture::response("verdict"),
        };
        State::Done {
            completed_at: at(NOW),
            retain_until: match self.live().terms.retention {
                Retention::For(span) => Some(at(NOW + span.get())),
                Retention::Forever => None,
            },
            revisions: vec![Revision { at: at(NOW), response }],
            by_operator,
        }
    }

    fn tombstone(&self, decisions: &[Resolution]) -> Record {
        let Generation { mut history, terms, .. } = self.live();
        history.extend_from_slice(decisions);
        let decided_at = match (decisions.is_empty(), history.is_empty()) {
            (false, _) => Some(NOW),
            (true, false) => Some(DECIDED_AT),
            (true, true) => None,
        };
        let keep_until = match (decided_at, terms.retention) {
            (None, _) => NOW + 7500,
            (Some(_), Retention::Forever) => u64::MAX,
            (Some(decided_at), Retention::For(span)) => decided_at + span.get(),
        };
        let watermark = Watermark { index: INDEX, time: at(NOW) };
        Record::Tombstone(Tombstone { watermark, keep_until: at(keep_until), history })
    }

    fn decision(&self, released: bool, forced: bool) -> Resolution {
        Resolution {
            at: at(NOW),
            generation: self.live().id,
            fence: fence(77),
            released,
            forced,
            by: "ann".to_owned(),
            reason: "looked".to_owned(),
        }
    }

    fn revisions(&self) -> Vec<Revision> {
        match self.live().state {
            State::Done { revisions, .. } => revisions,
            other => panic!("a rule about an outcome met {other:?}"),
        }
    }

    fn replay(&self) -> Outcome {
        match self.live().state {
            State::Done { completed_at, retain_until, .. } => Outcome::Replay(Box::new(Replay {
                response: fixture::response("outcome 0"),
                newest: self.revisions()[1..].last().map(|newest| newest.response.clone()),
                generation: fence(50),
                completed_at,
                retain_until,
            })),
            other => panic!("a rule about an outcome met {other:?}"),
        }
    }

    fn revised(&self) -> Generation {
        let Command::Revise { response, .. } = self.command else { panic!("only revise revises") };
        let mut revised = self.live();
        if let State::Done { revisions, .. } = &mut revised.state {
            let response: StoredResponse = response.clone();
            revisions.push(Revision { at: at(NOW), response });
        }
        revised
    }
}
