//! What a claim may be answered from applied state alone, without an entry of the log.

use super::claim::done;
use super::row::Row;
use crate::command::{Claim, Outcome};
use crate::lease::MAX_CLOCK_SKEW;
use crate::record::Record;
use crate::time::Timestamp;

/// What `claim` is answered from `record` as a replica has applied it, at the replica's own wall
/// clock `local`; `None`: only the log can tell.
///
/// A completed record is final while its retention lasts, so what it says holds whatever was
/// decided since. Two clocks may differ by twice the skew, and the retention must last by either.
/// The caller makes sure that the clock is trusted, and that a majority confirmed so recently how
/// far the replica must have applied the log that nobody can have removed the record and run its
/// key again.
pub fn answer_applied(record: Option<&Record>, claim: &Claim, local: Timestamp) -> Option<Outcome> {
    match Row::at(local.plus(MAX_CLOCK_SKEW.times(2)), record) {
        Row::Done(generation, _) => Some(done(generation, claim)),
        _ => None,
    }
}
