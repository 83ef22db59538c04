//! Time as the protocol sees it: numbers with units. There is no clock here; every instant is an
//! argument.

use serde::{Deserialize, Serialize};

/// A point in *shard time*: milliseconds since the Unix epoch, as stamped on log entries by
/// leaders.
///
/// A shard's time never goes back: it is the largest stamp of the entries that the shard has
/// applied.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Timestamp(u64);

impl Timestamp {
    /// The Unix epoch.
    pub const ZERO: Self = Self(0);

    /// The end of time: an instant that no shard reaches.
    pub const MAX: Self = Self(u64::MAX);

    /// The instant `millis` milliseconds after the Unix epoch.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis)
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_millis(self) -> u64 {
        self.0
    }

    /// The instant `span` later; stays at the largest instant instead of overflowing.
    pub const fn plus(self, span: Millis) -> Self {
        Self(self.0.saturating_add(span.0))
    }

    /// The instant `span` earlier; `None` when that is before the Unix epoch.
    pub const fn minus(self, span: Millis) -> Option<Self> {
        match self.0.checked_sub(span.0) {
            Some(millis) => Some(Self(millis)),
            None => None,
        }
    }

    /// The instant one millisecond later; `None` at the largest instant.
    pub const fn following(self) -> Option<Self> {
        match self.0.checked_add(1) {
            Some(millis) => Some(Self(millis)),
            None => None,
        }
    }

    /// How much later this is than `earlier`; zero when it is not later.
    pub const fn since(self, earlier: Self) -> Millis {
        Millis(self.0.saturating_sub(earlier.0))
    }
}

/// A span of time in milliseconds.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize,
)]
pub struct Millis(u64);

impl Millis {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// A span of `millis` milliseconds.
    pub const fn new(millis: u64) -> Self {
        Self(millis)
    }

    /// A span of `seconds` seconds.
    pub const fn from_secs(seconds: u64) -> Self {
        Self(seconds.saturating_mul(1000))
    }

    /// The span in milliseconds.
    pub const fn get(self) -> u64 {
        self.0
    }

    /// The sum of both spans, at most the largest span.
    pub const fn plus(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }

    /// This span without `other`; zero when `other` is longer.
    pub const fn minus(self, other: Self) -> Self {
        Self(self.0.saturating_sub(other.0))
    }

    /// `factor` times this span, at most the largest span.
    pub const fn times(self, factor: u64) -> Self {
        Self(self.0.saturating_mul(factor))
    }

    /// This span as the standard library has it.
    pub const fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_and_spans_stop_at_their_ends() {
        let (end, span) = (Timestamp::MAX, Millis::new(u64::MAX));
        assert_eq!(end.plus(Millis::new(1)), end);
        assert_eq!(end.following(), None);
        assert_eq!(Timestamp::ZERO.following(), Some(Timestamp::from_millis(1)));
        assert_eq!(Timestamp::ZERO.minus(Millis::new(1)), None);
        assert_eq!(end.minus(span), Some(Timestamp::ZERO));
        assert_eq!(Timestamp::ZERO.since(end), Millis::ZERO);
        assert_eq!(end.since(Timestamp::ZERO), span);
        assert_eq!(span.plus(span), span);
        assert_eq!(span.times(2), span);
        assert_eq!(Millis::from_secs(u64::MAX), span);
        assert_eq!(Millis::ZERO.minus(span), Millis::ZERO);
    }
}
