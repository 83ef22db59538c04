//! The only reader of wall time, and the guard that says whether it may be stamped on the log.

use protocol::Timestamp;
use std::time::Duration;

/// Reads clocks; a parameter everywhere, so that tests own time.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock.
    fn wall(&self) -> Timestamp;
    /// Time since some fixed moment, that never jumps and also runs while the machine sleeps.
    fn boot(&self) -> Duration;
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;
