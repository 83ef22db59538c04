//! The only reader of wall time, and the guard that says whether it may be stamped on the log.

mod guard;
mod offsets;
#[cfg(any(test, feature = "testing"))]
mod simulated;

use std::time::{Duration, Instant};

use nix::time::{ClockId, clock_gettime};
use protocol::Timestamp;

pub(crate) use self::guard::ClockGuard;
pub(crate) use self::offsets::Round;
#[cfg(any(test, feature = "testing"))]
pub use self::simulated::SimulatedClock;

/// The clock that runs on while the machine sleeps. macOS has it under another name.
#[cfg(target_os = "linux")]
const BOOT: ClockId = ClockId::CLOCK_BOOTTIME;
#[cfg(not(target_os = "linux"))]
const BOOT: ClockId = ClockId::CLOCK_MONOTONIC;

/// Reads clocks; a parameter everywhere, so that tests own time.
pub trait Clock: Send + Sync + 'static {
    /// The wall clock.
    fn wall(&self) -> Timestamp;
    /// Time since some fixed moment, that never jumps and also runs while the machine sleeps.
    fn boot(&self) -> Duration;
}

/// The moment, on the clock that timeouts are counted by. A paused runtime, and so a simulation,
/// has its own.
pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}

/// The machine's clocks.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    /// A wall clock set before 1970 reads as 1970: it cannot be trusted anyway.
    fn wall(&self) -> Timestamp {
        let since_epoch = read(ClockId::CLOCK_REALTIME).as_millis();
        Timestamp::from_millis(u64::try_from(since_epoch).unwrap_or(u64::MAX))
    }

    fn boot(&self) -> Duration {
        read(BOOT)
    }
}

fn read(clock: ClockId) -> Duration {
    let time = clock_gettime(clock).expect("every supported system has this clock");
    let seconds = u64::try_from(time.tv_sec()).unwrap_or(0);
    let nanos = u32::try_from(time.tv_nsec()).expect("a part of a second fits");
    Duration::new(seconds, nanos)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first millisecond of 2024 and of 2100: where a sane machine's clock stands.
    const SANE: std::ops::Range<u64> = 1_704_067_200_000..4_102_444_800_000;

    #[test]
    fn system_clock_reads_a_sane_wall_and_a_boot_time_that_never_goes_back() {
        let clock = SystemClock;
        assert!(SANE.contains(&clock.wall().as_millis()), "{:?}", clock.wall());
        let first = clock.boot();
        assert!(first > Duration::ZERO);
        assert!(clock.boot() >= first);
    }
}
