//! The decision table: what becomes of a record, and what is answered.
//!
//! A record stands in one row at a time. The row is chosen by shard time alone, so it does not
//! matter whether the leader's [`Expire`](Command::Expire) came before another command or not.
//!
//! | row | when |
//! |---|---|
//! | absent | no record, or a tombstone that is kept no longer |
//! | tombstone | a key that became claimable again, at a *watermark* |
//! | leased | in flight, lease live |
//! | over | the lease ended, or the holder does not know; another attempt may take over in time |
//! | indeterminate | the same, where nobody may take over |
//! | done | the outcome is known and kept |
//! | forgotten | an operator removed the outcome moments ago |
//! | lapsed | done or forgotten, and its time has passed |
//!
//! **Claim.** A claim of another operation (where the name leaves that open) is of an *other
//! operation*, and one with another fingerprint is *reused*, wherever a request can be compared
//! with the record: leased, over, indeterminate, done. The operation comes first, since it says
//! more. Then:
//!
//! - absent, tombstone: if *admitted*, a new generation begins with a new fence.
//! - leased: the same holder gets its grant again, with the lease it has; others, *in progress*.
//! - over: the holder itself is *spent*. While no watermark is set, the claim sets it and is
//!   *superseded*. If admitted, the generation goes on under a new fence, *tainted*: from now on
//!   nobody can say that it never ran.
//! - indeterminate: the holder itself is *spent*; others, *indeterminate*.
//! - done: the outcome is replayed. Forgotten: "later".
//! - lapsed: the record becomes a tombstone, and the claim is *superseded*.
//!
//! *Admitted* is a copy of a claim that is of this restore epoch, no older than its time to live,
//! and made by somebody who had seen the watermark. Anything else is *superseded*: its sender makes
//! a new copy at once. So a delayed copy can never take a key for a holder that is not there any
//! more, and this is why a clock alone never makes a key claimable: a log event does, and its index
//! is the watermark.
//!
//! **Renew, complete, release, unknown** need the current fence and token, and a holder; without
//! them they are *stale* and change nothing.
//!
//! | row | renew | complete | release: nothing was sent | unknown: it may have run |
//! |---|---|---|---|---|
//! | leased | longer, up to a cap | done | tombstone; tainted: over, without holder | over |
//! | over | stale | done | as leased | no change |
//! | indeterminate | stale | done | tombstone; tainted: without holder | no change |
//! | done | stale | the same answer again: fine; else stale | stale | stale |
//! | any other | stale | stale | stale | stale |
//!
//! Wherever the table says *over* and nobody may take over (any more), it is *indeterminate*.
//!
//! **Operators.** Resolve settles an indeterminate record: it takes a fence of its own, so that no
//! late complete can overwrite it, and leaves a trace in the record's history, which goes through
//! the tombstone into the next generation. A release by an operator waits until everything that the
//! holder may have sent has ended, unless it is forced. Forget turns a done record into a forgotten
//! one. Both need the current fence, or they are stale; in any other row they *conflict*. Revise
//! adds a state to a done record's outcome, unless that is of an *other operation*; it has no
//! fence, and *conflicts* elsewhere.
//!
//! **Expire** does what time asks for: an ended lease makes *over* (with a watermark) or
//! *indeterminate*, the end of the takeover window *indeterminate*, a lapsed record a tombstone, an
//! old tombstone nothing at all. [`Record::due_at`] tells when.

mod applied;
mod claim;
mod expire;
mod hold;
mod operator;
mod row;
mod standing;

use crate::command::{Command, Outcome};
use crate::lease::{Fence, TOMBSTONE_LIFE};
use crate::record::{Generation, Record, Resolution, Revision, State, Tombstone, Watermark};
use crate::response::StoredResponse;
use crate::time::Timestamp;

use row::Row;

pub use applied::answer_applied;
pub use standing::{Standing, standing};

/// What a decision may know besides the record and the command.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Shard time: the entry's stamp, or the shard's own time where that is later.
    pub now: Timestamp,
    /// Index of the log entry.
    pub index: u64,
    /// The restore epoch.
    pub epoch: u8,
    /// The fence that a grant or an operator's decision takes.
    pub next_fence: Fence,
}

/// What becomes of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It stays as it is.
    Keep,
    /// This is the record now.
    Put(Record),
    /// The name is absent again.
    Remove,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What becomes of the record.
    pub next: Next,
    /// What is answered.
    pub outcome: Outcome,
    /// Whether the decision used [`Context::next_fence`].
    pub took_fence: bool,
}

/// Decides `command` for `record` (`None`: absent).
pub fn decide(context: &Context, record: Option<&Record>, command: &Command) -> Decision {
    let row = Row::at(context.now, record);
    let decision = match command {
        Command::Claim(claim) => Some(claim::claim(context, row, claim)),
        Command::Renew { grant, lease, .. } => hold::renew(context, row, grant, *lease),
        Command::Complete { grant, response, .. } => hold::complete(context, row, grant, response),
        Command::Release { grant, .. } => hold::release(context, row, grant),
        Command::Unknown { grant, .. } => hold::unknown(context, row, grant),
        Command::Resolve { fence, verdict, by, reason, force, .. } => {
            let decree = operator::Decree { verdict, by, reason, force: *force };
            operator::resolve(context, row, *fence, &decree)
        }
        Command::Forget { fence, .. } => operator::forget(context, row, *fence),
        Command::Revise { operation, response, .. } => {
            Some(operator::revise(context, row, operation.as_deref(), response))
        }
        Command::Expire { .. } => Some(expire::expire(context, row, record)),
    };
    decision
        .unwrap_or_else(|| Decision::keep(Outcome::Stale { record: record.cloned().map(Box::new) }))
}

impl Context {
    /// The watermark of what happens in this entry.
    fn watermark(&self) -> Watermark {
        Watermark { index: self.index, time: self.now }
    }
}

impl Decision {
    fn keep(outcome: Outcome) -> Self {
        Self { next: Next::Keep, outcome, took_fence: false }
    }

    fn put(record: impl Into<Record>, outcome: Outcome) -> Self {
        Self { next: Next::Put(record.into()), outcome, took_fence: false }
    }

    fn remove(outcome: Outcome) -> Self {
        Self { next: Next::Remove, outcome, took_fence: false }
    }

    fn with_fence(self) -> Self {
        Self { took_fence: true, ..self }
    }
}

impl Generation {
    /// This generation in another state. The old state is not copied: it may hold large bodies.
    fn in_state(&self, state: State) -> Self {
        Self {
            id: self.id,
            fence: self.fence,
            token: self.token,
            holder: self.holder,
            print: self.print.clone(),
            terms: self.terms,
            first_granted_at: self.first_granted_at,
            granted_at: self.granted_at,
            lease: self.lease,
            attempts: self.attempts,
            tainted: self.tainted,
            operation: self.operation.clone(),
            state,
            history: self.history.clone(),
        }
    }

    /// Where this generation stands once its lease is worth nothing any more: open to a takeover
    /// from this log entry on, or indeterminate where nobody may take over.
    fn unsettled(&self, context: &Context) -> State {
        if row::may_take_over(self, context.now) {
            State::Over { watermark: Some(context.watermark()) }
        } else {
            State::Indeterminate { since: context.now }
        }
    }

    /// The state in which the outcome is known from now on.
    fn done(&self, context: &Context, response: StoredResponse, by_operator: bool) -> State {
        State::Done {
            completed_at: context.now,
            retain_until: self.terms.retention.until(context.now),
            revisions: vec![Revision { at: context.now, response }],
            by_operator,
        }
    }

    /// What this generation leaves behind when its key becomes claimable in this log entry.
    fn buried(&self, context: &Context) -> Tombstone {
        self.buried_with(context, self.history.clone())
    }

    /// The same, with another history.
    ///
    /// The tombstone lives until no copy of a claim made before it can be admitted. Where operators
    /// have decided something it also lives for the record's retention, counted from the last
    /// decision, so that what they decided can be looked up as long as an outcome could.
    fn buried_with(&self, context: &Context, history: Vec<Resolution>) -> Tombstone {
        let unadmitted = context.now.plus(TOMBSTONE_LIFE);
        let audited = history.last().map_or(Timestamp::ZERO, |last| {
            self.terms.retention.until(last.at).unwrap_or(Timestamp::MAX)
        });
        let keep_until = unadmitted.max(audited);
        Tombstone { watermark: context.watermark(), keep_until, history }
    }
}

#[cfg(test)]
mod tests;
