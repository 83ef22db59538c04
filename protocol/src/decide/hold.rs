//! What the holder of a grant says: renew, complete, release, unknown. `None` is a stale command.

use crate::command::{Grant, Outcome};
use crate::record::{Generation, State};
use crate::response::{StoredBody, StoredResponse};
use crate::time::Millis;

use super::row::Row;
use super::{Context, Decision};

/// Prolongs a live lease, never past the time that an execution may take. An ended one stays ended:
/// somebody may have taken over since, or an operator may be about to decide.
pub(super) fn renew(
    context: &Context,
    row: Row<'_>,
    grant: &Grant,
    lease: Millis,
) -> Option<Decision> {
    let Row::Leased(generation, lease_until) = row else { return None };
    holds(generation, grant).then(|| {
        let cap = generation.granted_at.plus(generation.terms.max_execution).plus(generation.lease);
        let asked = context.now.plus(lease).min(cap);
        if asked <= lease_until {
            return Decision::keep(Outcome::Renewed { lease_until });
        }
        let renewed = generation.in_state(State::InFlight { lease_until: asked });
        Decision::put(renewed, Outcome::Renewed { lease_until: asked })
    })
}

/// Stores the outcome. It also settles a record whose lease has ended, as long as nobody else has
/// taken over or decided; and it may come twice. Of a body that was not kept, it may come once more
/// with what is known of it by then.
pub(super) fn complete(
    context: &Context,
    row: Row<'_>,
    grant: &Grant,
    response: &StoredResponse,
) -> Option<Decision> {
    if let Some(generation) = unfinished(row, grant) {
        let done = generation.done(context, response.clone(), false);
        return Some(Decision::put(generation.in_state(done), Outcome::Completed));
    }
    let Row::Done(generation, done) = row else { return None };
    let first = &done.first().response;
    if !proves(generation, grant) || !first.is_same_answer(response) {
        return None;
    }
    if first.body == response.body || response.body == StoredBody::Omitted {
        return Some(Decision::keep(Outcome::Completed));
    }
    Some(Decision::put(generation.in_state(done.measured(response)), Outcome::Completed))
}

/// Gives the grant back, since nothing was sent under it. The key is free at once, unless an
/// earlier attempt of the generation may have run.
pub(super) fn release(context: &Context, row: Row<'_>, grant: &Grant) -> Option<Decision> {
    let generation = unfinished(row, grant)?;
    if !generation.tainted {
        return Some(Decision::put(generation.buried(context), Outcome::Released));
    }
    let state = match generation.state {
        State::Indeterminate { since } => State::Indeterminate { since },
        _ => generation.unsettled(context),
    };
    let unheld = Generation { holder: None, ..generation.in_state(state) };
    Some(Decision::put(unheld, Outcome::Released))
}

/// Gives up without knowing whether the work was done. The holder stays: it may still complete.
pub(super) fn unknown(context: &Context, row: Row<'_>, grant: &Grant) -> Option<Decision> {
    let generation = unfinished(row, grant)?;
    Some(match row {
        Row::Leased(..) => {
            let state = generation.unsettled(context);
            let takeover = matches!(state, State::Over { .. });
            Decision::put(generation.in_state(state), Outcome::Unknown { takeover })
        }
        _ => Decision::keep(Outcome::Unknown { takeover: matches!(row, Row::Over(..)) }),
    })
}

/// The generation that `grant` holds and that has no outcome yet.
fn unfinished<'a>(row: Row<'a>, grant: &Grant) -> Option<&'a Generation> {
    match row {
        Row::Leased(generation, _) | Row::Over(generation, _) | Row::Indeterminate(generation) => {
            holds(generation, grant).then_some(generation)
        }
        Row::Absent | Row::Tombstone(_) | Row::Done(..) | Row::Forgotten(..) | Row::Lapsed(_) => {
            None
        }
    }
}

/// Whether `grant` is the current one and was not given back.
fn holds(generation: &Generation, grant: &Grant) -> bool {
    generation.holder.is_some() && proves(generation, grant)
}

fn proves(generation: &Generation, grant: &Grant) -> bool {
    generation.fence == grant.fence && generation.token == grant.token
}
