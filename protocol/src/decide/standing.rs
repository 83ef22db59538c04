//! Where a record stands, as it is shown to people.

use super::row::Row;
use crate::record::Record;
use crate::time::Timestamp;

/// Where a record stands at some time: its row in the decision table, without what the row knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Standing {
    /// There is nothing, or nothing that counts any more: the key is a new one.
    Absent,
    /// The key was given back, or freed by an operator, and may run.
    Released,
    /// Somebody executes.
    Claimed,
    /// The lease is over, and another attempt may take over.
    Claimable,
    /// Nobody can tell whether the work was done.
    Indeterminate,
    /// The outcome is known and kept.
    Completed,
    /// An operator removed the outcome moments ago.
    Forgotten,
}

/// Where `record` stands at shard time `now`.
pub fn standing(now: Timestamp, record: Option<&Record>) -> Standing {
    match Row::at(now, record) {
        Row::Absent | Row::Lapsed(_) => Standing::Absent,
        Row::Tombstone(_) => Standing::Released,
        Row::Leased(..) => Standing::Claimed,
        Row::Over(..) => Standing::Claimable,
        Row::Indeterminate(_) => Standing::Indeterminate,
        Row::Done(..) => Standing::Completed,
        Row::Forgotten(..) => Standing::Forgotten,
    }
}
