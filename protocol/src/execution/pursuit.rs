//! One request to the shard that is repeated until its answer is definite.

use crate::time::Millis;

/// The pause after the first failure in a row: about the time of a fast retry on another node.
pub const BACKOFF_FIRST: Millis = Millis::new(50);

/// The longest pause between two tries. A shard that comes back is found within this time, and an
/// outage costs each waiting execution one small request per pause.
pub const BACKOFF_MAX: Millis = Millis::new(BACKOFF_FIRST.get() << DOUBLINGS_MAX);

/// How often the pause doubles.
const DOUBLINGS_MAX: u32 = 6;

/// A request that is repeated, with at most one try on its way at any time.
///
/// The number of tries is not bounded, since a decision that was taken must reach the shard for as
/// long as the process lives; their rate is, by [`BACKOFF_MAX`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Pursuit {
    step: Step,
    /// Failures in a row, counted up to [`DOUBLINGS_MAX`].
    failures: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Step {
    /// The try with this number is on its way.
    Awaiting(u32),
    /// The next try is due at this time.
    DueAt(Millis),
}

impl Pursuit {
    /// One whose first try is on its way.
    pub(super) const fn sent(number: u32) -> Self {
        Self { step: Step::Awaiting(number), failures: 0 }
    }

    /// One whose first try is due at this time.
    pub(super) const fn due(at: Millis) -> Self {
        Self { step: Step::DueAt(at), failures: 0 }
    }

    /// The number of the try that is on its way.
    pub(super) const fn awaited(&self) -> Option<u32> {
        match self.step {
            Step::Awaiting(number) => Some(number),
            Step::DueAt(_) => None,
        }
    }

    /// Whether the try with this number was on its way. It has come back now: unless more is said
    /// about it, the next one is due at once.
    pub(super) fn takes(&mut self, number: u32, now: Millis) -> bool {
        let awaited = self.step == Step::Awaiting(number);
        if awaited {
            self.step = Step::DueAt(now);
        }
        awaited
    }

    /// When the next try is due; `None` while one is on its way.
    pub(super) const fn due_at(&self) -> Option<Millis> {
        match self.step {
            Step::Awaiting(_) => None,
            Step::DueAt(at) => Some(at),
        }
    }

    /// Whether a try is due.
    pub(super) fn is_due(&self, now: Millis) -> bool {
        self.due_at().is_some_and(|at| at <= now)
    }

    /// The next try is on its way.
    pub(super) const fn resent(&mut self, number: u32) {
        self.step = Step::Awaiting(number);
    }

    /// The try that came back failed: the next one is due after a pause of at most `longest`.
    pub(super) fn failed(&mut self, now: Millis, longest: Millis) {
        let pause = Millis::new(BACKOFF_FIRST.get() << self.failures);
        self.step = Step::DueAt(now.plus(pause.min(longest)));
        if self.failures < DOUBLINGS_MAX {
            self.failures += 1;
        }
    }

    /// The try that came back succeeded: the next one is due at this time.
    pub(super) const fn succeeded(&mut self, next: Millis) {
        *self = Self::due(next);
    }
}
