//! Expire: what time asks for.

use crate::command::Outcome;
use crate::record::{Record, State};

use super::row::Row;
use super::{Context, Decision};

/// Does what is due, if anything is: the leader only proposes it, and something else may have done
/// it since.
pub(super) fn expire(context: &Context, row: Row<'_>, record: Option<&Record>) -> Decision {
    let nothing = Decision::keep(Outcome::Nothing);
    match row {
        Row::Absent if record.is_some() => Decision::remove(Outcome::Expired),
        Row::Lapsed(generation) => Decision::put(generation.buried(context), Outcome::Expired),
        Row::Over(_, Some(_)) => nothing,
        Row::Over(generation, None) | Row::Indeterminate(generation) => match generation.state {
            State::Indeterminate { .. } => nothing,
            _ => {
                Decision::put(generation.in_state(generation.unsettled(context)), Outcome::Expired)
            }
        },
        Row::Absent | Row::Tombstone(_) | Row::Leased(..) | Row::Done(..) | Row::Forgotten(..) => {
            nothing
        }
    }
}
