//! Claim: who executes, and what everybody else is told.

use crate::command::{Basis, Claim, Grant, Outcome, Replay};
use crate::lease::claim_ttl;
use crate::record::{Generation, State, Tombstone, Watermark};
use crate::time::Timestamp;

use super::row::Row;
use super::{Context, Decision};

pub(super) fn claim(context: &Context, row: Row<'_>, claim: &Claim) -> Decision {
    match row {
        Row::Absent => begin(context, None, claim),
        Row::Tombstone(tombstone) => begin(context, Some(tombstone), claim),
        Row::Leased(generation, until) => leased(generation, until, claim),
        Row::Over(generation, watermark) => over(context, generation, watermark, claim),
        Row::Indeterminate(generation) => indeterminate(context, generation, claim),
        Row::Done(generation, _) => Decision::keep(done(generation, claim)),
        Row::Forgotten(_, until) => Decision::keep(Outcome::Forgetting { until }),
        Row::Lapsed(generation) => Decision::put(generation.buried(context), Outcome::Superseded),
    }
}

/// The key is free: a new generation begins.
fn begin(context: &Context, tombstone: Option<&Tombstone>, claim: &Claim) -> Decision {
    if !admitted(context, claim, tombstone.map(|tombstone| tombstone.watermark)) {
        return Decision::keep(Outcome::Superseded);
    }
    let fence = context.next_fence;
    grant(Generation {
        id: fence,
        fence,
        token: claim.token,
        holder: Some(claim.holder),
        print: claim.print.clone(),
        terms: claim.terms,
        first_granted_at: context.now,
        granted_at: context.now,
        lease: claim.lease,
        attempts: 1,
        tainted: false,
        operation: claim.operation.clone(),
        state: State::InFlight { lease_until: context.now.plus(claim.lease) },
        history: tombstone.map_or_else(Vec::new, |tombstone| tombstone.history.clone()),
    })
}

/// Somebody executes.
fn leased(generation: &Generation, lease_until: Timestamp, claim: &Claim) -> Decision {
    Decision::keep(if let Some(refusal) = another(generation, claim) {
        refusal
    } else if generation.holder == Some(claim.holder) {
        // The lease stays: it counts from the first copy, and this may be a late one.
        granted(generation, lease_until)
    } else {
        Outcome::InProgress { lease_until }
    })
}

/// The lease is over, and the downstream would recognise a second execution.
fn over(
    context: &Context,
    generation: &Generation,
    watermark: Option<Watermark>,
    claim: &Claim,
) -> Decision {
    if let Some(refusal) = another(generation, claim).or_else(|| spent(generation, claim)) {
        return Decision::keep(refusal);
    }
    if watermark.is_none() {
        // Nobody can have seen the event that makes the key claimable: it happens here.
        let opened = generation.in_state(generation.unsettled(context));
        return Decision::put(opened, Outcome::Superseded);
    }
    if !admitted(context, claim, watermark) {
        return Decision::keep(Outcome::Superseded);
    }
    // The row was chosen by the last grant's lease; this claim may ask for a longer one.
    if generation.takeover_until(claim.lease).is_none_or(|last| context.now > last) {
        return Decision::keep(Outcome::Indeterminate);
    }
    grant(Generation {
        fence: context.next_fence,
        token: claim.token,
        holder: Some(claim.holder),
        granted_at: context.now,
        lease: claim.lease,
        attempts: generation.attempts.saturating_add(1),
        tainted: true,
        ..generation.in_state(State::InFlight { lease_until: context.now.plus(claim.lease) })
    })
}

/// Nobody knows whether it ran. A lease that ended unseen is written down as what it is.
fn indeterminate(context: &Context, generation: &Generation, claim: &Claim) -> Decision {
    let outcome = another(generation, claim)
        .or_else(|| spent(generation, claim))
        .unwrap_or(Outcome::Indeterminate);
    match generation.state {
        State::Indeterminate { .. } => Decision::keep(outcome),
        _ => {
            Decision::put(generation.in_state(State::Indeterminate { since: context.now }), outcome)
        }
    }
}

/// The outcome is known.
pub(super) fn done(generation: &Generation, claim: &Claim) -> Outcome {
    another(generation, claim).unwrap_or_else(|| {
        let replay = Replay::of(generation).expect("a completed record holds its first outcome");
        Outcome::Replay(Box::new(replay))
    })
}

/// Whether this copy of a claim may be granted, where `watermark` made the key claimable.
fn admitted(context: &Context, claim: &Claim, watermark: Option<Watermark>) -> bool {
    let Basis { epoch, index, time } = claim.seen;
    epoch == context.epoch
        && context.now <= time.plus(claim_ttl(claim.lease))
        && watermark.is_none_or(|watermark| index >= watermark.index)
}

/// What a claim is told whose request is not the record's.
fn another(generation: &Generation, claim: &Claim) -> Option<Outcome> {
    if generation.operation != claim.operation {
        return Some(Outcome::OtherOperation);
    }
    (generation.print.fingerprint != claim.print.fingerprint)
        .then(|| Outcome::Reused { stored: Box::new(generation.print.clone()) })
}

fn spent(generation: &Generation, claim: &Claim) -> Option<Outcome> {
    (generation.holder == Some(claim.holder)).then(|| Outcome::Spent { grant: proof(generation) })
}

fn grant(generation: Generation) -> Decision {
    let lease_until = generation.granted_at.plus(generation.lease);
    let outcome = granted(&generation, lease_until);
    Decision::put(generation, outcome).with_fence()
}

fn granted(generation: &Generation, lease_until: Timestamp) -> Outcome {
    Outcome::Granted {
        grant: proof(generation),
        generation: generation.id,
        attempt_no: generation.attempts,
        lease_until,
    }
}

fn proof(generation: &Generation) -> Grant {
    Grant { fence: generation.fence, token: generation.token }
}
