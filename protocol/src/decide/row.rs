//! The row of the decision table that a record stands in.

use crate::record::{Generation, Record, Revision, State, Tombstone, Watermark};
use crate::response::StoredResponse;
use crate::time::Timestamp;

/// The row of the decision table that a record stands in at some time; the parent module says when
/// which.
#[derive(Clone, Copy, Debug)]
pub(super) enum Row<'a> {
    Absent,
    Tombstone(&'a Tombstone),
    Leased(&'a Generation, Timestamp),
    Over(&'a Generation, Option<Watermark>),
    Indeterminate(&'a Generation),
    Done(&'a Generation, Completion<'a>),
    Forgotten(&'a Generation, Timestamp),
    Lapsed(&'a Generation),
}

/// What a done generation holds besides what every generation does.
#[derive(Clone, Copy, Debug)]
pub(super) struct Completion<'a> {
    pub(super) completed_at: Timestamp,
    pub(super) retain_until: Option<Timestamp>,
    pub(super) revisions: &'a [Revision],
    pub(super) by_operator: bool,
}

impl<'a> Row<'a> {
    /// The row of `record` at `now`. An instant that ends something belongs to what comes after it,
    /// except that a tombstone and a takeover window still last at their last instant.
    pub(super) fn at(now: Timestamp, record: Option<&'a Record>) -> Self {
        match record {
            None => Self::Absent,
            Some(Record::Tombstone(tombstone)) if now > tombstone.keep_until => Self::Absent,
            Some(Record::Tombstone(tombstone)) => Self::Tombstone(tombstone),
            Some(Record::Live(generation)) => Self::of(now, generation),
        }
    }

    fn of(now: Timestamp, generation: &'a Generation) -> Self {
        match &generation.state {
            State::InFlight { lease_until } if now < *lease_until => {
                Self::Leased(generation, *lease_until)
            }
            State::InFlight { .. } => Self::ended(now, generation, None),
            State::Over { watermark } => Self::ended(now, generation, *watermark),
            State::Indeterminate { .. } => Self::Indeterminate(generation),
            State::Done { retain_until: Some(end), .. } if now >= *end => Self::Lapsed(generation),
            State::Done { completed_at, retain_until, revisions, by_operator } => {
                let (completed_at, retain_until) = (*completed_at, *retain_until);
                let by_operator = *by_operator;
                let done = Completion { completed_at, retain_until, revisions, by_operator };
                Self::Done(generation, done)
            }
            State::Forgotten { until } if now >= *until => Self::Lapsed(generation),
            State::Forgotten { until } => Self::Forgotten(generation, *until),
        }
    }

    fn ended(now: Timestamp, generation: &'a Generation, watermark: Option<Watermark>) -> Self {
        if may_take_over(generation, now) {
            Self::Over(generation, watermark)
        } else {
            Self::Indeterminate(generation)
        }
    }
}

impl Completion<'_> {
    /// The first outcome.
    pub(super) fn first(&self) -> &Revision {
        self.revisions.first().expect("a completed record holds its first outcome")
    }

    /// The same, where the first outcome is known as `response` by now.
    pub(super) fn measured(&self, response: &StoredResponse) -> State {
        let first = Revision { at: self.first().at, response: response.clone() };
        let later = self.revisions.iter().skip(1).cloned();
        State::Done {
            completed_at: self.completed_at,
            retain_until: self.retain_until,
            revisions: std::iter::once(first).chain(later).collect(),
            by_operator: self.by_operator,
        }
    }

    /// The newest revision of the outcome.
    pub(super) fn latest(&self) -> &Revision {
        self.revisions.last().expect("a completed record holds its first outcome")
    }
}

/// Whether another attempt with the same lease may take over at `now`.
pub(super) fn may_take_over(generation: &Generation, now: Timestamp) -> bool {
    generation.takeover_until(generation.lease).is_some_and(|last| now <= last)
}
