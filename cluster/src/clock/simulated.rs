//! A clock whose error a test sets.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use protocol::Timestamp;
use tokio::time::Instant;

use super::Clock;

/// What the wall clock of a simulated machine without error shows when the clock is made.
const ORIGIN_MS: i64 = 1_800_000_000_000;

/// What the boot-time clock shows then: a machine that has been up for an hour.
const UPTIME: Duration = Duration::from_secs(3600);

/// A machine's clocks, running with tokio's time, so that a paused runtime moves them too. Clones
/// share the error that was set.
#[derive(Clone, Debug)]
pub struct SimulatedClock {
    started: Instant,
    error_ms: Arc<AtomicI64>,
}

impl SimulatedClock {
    /// A clock whose wall time is `error_ms` milliseconds ahead of the true time.
    pub fn new(error_ms: i64) -> Self {
        Self { started: Instant::now(), error_ms: Arc::new(AtomicI64::new(error_ms)) }
    }

    /// A clock on the same true time as this one, with an error of its own: another machine's.
    pub fn beside(&self, error_ms: i64) -> Self {
        Self { started: self.started, error_ms: Arc::new(AtomicI64::new(error_ms)) }
    }

    /// Makes the wall clock jump to `error_ms` milliseconds ahead of the true time.
    pub fn jump_to(&self, error_ms: i64) {
        self.error_ms.store(error_ms, Ordering::SeqCst);
    }
}

impl Clock for SimulatedClock {
    fn wall(&self) -> Timestamp {
        let elapsed = i64::try_from(self.started.elapsed().as_millis()).unwrap_or(i64::MAX);
        let wall = ORIGIN_MS.saturating_add(elapsed);
        let wall = wall.saturating_add(self.error_ms.load(Ordering::SeqCst));
        Timestamp::from_millis(u64::try_from(wall).unwrap_or(0))
    }

    fn boot(&self) -> Duration {
        UPTIME + self.started.elapsed()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn simulated_clock_runs_with_tokio_time_and_jumps_when_told() {
        let clock = SimulatedClock::new(0);
        let (wall, boot) = (clock.wall(), clock.boot());
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(clock.wall().since(wall).get(), 2000);
        clock.jump_to(-500);
        assert_eq!(clock.wall().since(wall).get(), 1500);
        assert_eq!(clock.boot() - boot, Duration::from_secs(2), "boot time never jumps");
    }

    #[tokio::test(start_paused = true)]
    async fn machines_beside_each_other_share_true_time_only() {
        let one = SimulatedClock::new(0);
        let other = one.beside(700);
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(other.wall().since(one.wall()).get(), 700);
    }
}
