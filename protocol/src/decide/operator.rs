//! What people and the upstream's own service say about a record: resolve, forget, revise. `None`
//! is a stale command.

use crate::command::{Outcome, Verdict};
use crate::lease::{FORGET_WAIT, Fence};
use crate::record::{Generation, HISTORY_MAX, REVISIONS_MAX, Resolution, Revision, State};
use crate::response::StoredResponse;

use super::row::{Completion, Row};
use super::{Context, Decision};

/// What an operator decides, who and why.
pub(super) struct Decree<'a> {
    pub(super) verdict: &'a Verdict,
    pub(super) by: &'a str,
    pub(super) reason: &'a str,
    pub(super) force: bool,
}

/// Settles an indeterminate record, under a fence of its own: whatever the holder says from now on
/// is stale. Only a release waits: a stored outcome lets nothing run.
pub(super) fn resolve(
    context: &Context,
    row: Row<'_>,
    fence: Fence,
    decree: &Decree<'_>,
) -> Option<Decision> {
    let conflict = Decision::keep(Outcome::Conflict);
    let Some(generation) = current(row) else { return Some(conflict) };
    if generation.fence != fence {
        return None;
    }
    let released = matches!(decree.verdict, Verdict::Released);
    let early = released && context.now < generation.drained_at();
    if !matches!(row, Row::Indeterminate(_)) || (early && !decree.force) {
        return Some(conflict);
    }
    let fence = context.next_fence;
    let history = remembering(
        generation,
        Resolution {
            at: context.now,
            generation: generation.id,
            fence,
            released,
            forced: early,
            by: decree.by.to_owned(),
            reason: decree.reason.to_owned(),
        },
    );
    let outcome = Outcome::Resolved { fence };
    let decision = match decree.verdict {
        Verdict::Released => Decision::put(generation.buried_with(context, history), outcome),
        Verdict::Completed(response) => {
            let state = generation.done(context, response.clone(), true);
            let settled = Generation { fence, history, ..generation.in_state(state) };
            Decision::put(settled, outcome)
        }
    };
    Some(decision.with_fence())
}

/// Removes an outcome, after a time in which no replica can replay it any more. It may come twice.
pub(super) fn forget(context: &Context, row: Row<'_>, fence: Fence) -> Option<Decision> {
    let Some(generation) = current(row) else { return Some(Decision::keep(Outcome::Conflict)) };
    if generation.fence != fence {
        return None;
    }
    Some(match row {
        Row::Done(..) => {
            let until = context.now.plus(FORGET_WAIT);
            let forgotten = generation.in_state(State::Forgotten { until });
            Decision::put(forgotten, Outcome::Forgotten { until })
        }
        Row::Forgotten(_, until) => Decision::keep(Outcome::Forgotten { until }),
        _ => Decision::keep(Outcome::Conflict),
    })
}

/// Adds a state to the outcome. The first one is never overwritten, and the newest one again is no
/// change, so that the command may be repeated.
pub(super) fn revise(
    context: &Context,
    row: Row<'_>,
    operation: Option<&str>,
    response: &StoredResponse,
) -> Decision {
    let Row::Done(generation, done) = row else { return Decision::keep(Outcome::Conflict) };
    if generation.operation.as_deref() != operation {
        return Decision::keep(Outcome::OtherOperation);
    }
    let Completion { completed_at, retain_until, revisions, by_operator } = done;
    if done.latest().response == *response {
        return Decision::keep(revised(revisions));
    }
    if revisions.len() >= REVISIONS_MAX {
        return Decision::keep(Outcome::Conflict);
    }
    let newest = Revision { at: context.now, response: response.clone() };
    let revisions: Vec<_> = revisions.iter().cloned().chain([newest]).collect();
    let outcome = revised(&revisions);
    let state = State::Done { completed_at, retain_until, revisions, by_operator };
    Decision::put(generation.in_state(state), outcome)
}

/// The generation that an operator's command can be about: one whose time has not passed.
fn current(row: Row<'_>) -> Option<&Generation> {
    match row {
        Row::Leased(generation, _)
        | Row::Over(generation, _)
        | Row::Indeterminate(generation)
        | Row::Done(generation, _)
        | Row::Forgotten(generation, _) => Some(generation),
        Row::Absent | Row::Tombstone(_) | Row::Lapsed(_) => None,
    }
}

/// The generation's history with one more decision.
fn remembering(generation: &Generation, resolution: Resolution) -> Vec<Resolution> {
    let forgotten = (generation.history.len() + 1).saturating_sub(HISTORY_MAX);
    generation.history.iter().skip(forgotten).cloned().chain([resolution]).collect()
}

fn revised(revisions: &[Revision]) -> Outcome {
    let newest = u32::try_from(revisions.len() - 1).expect("a record keeps few revisions");
    Outcome::Revised { revision: newest }
}
