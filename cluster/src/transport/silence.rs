//! Notices that a peer has gone silent, long before TCP gives up.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::time::{MissedTickBehavior, interval};

/// How often a connection is looked at. The dialing side also pings as often, so both sides hear
/// something in every such span.
pub(super) const TICK: Duration = Duration::from_secs(1);

/// After so many looks without a sign of life the connection is given up. TCP itself would repeat a
/// lost segment less and less often, and after a partition of a minute wait for another.
const SILENT_TICKS_MAX: u32 = 3;

/// Signs of life of the peer since the last look.
#[derive(Debug, Default)]
pub(super) struct Signs(AtomicBool);

impl Signs {
    /// Notes that the peer lives.
    pub(super) fn seen(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Returns when the peer has been silent for too long. Calls `tick` once a second.
    ///
    /// It counts its own ticks and not the time that has passed: a process that stood still itself
    /// must not think that all of its peers did.
    pub(super) async fn silent(&self, mut tick: impl FnMut()) {
        let mut ticks = interval(TICK);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut silent = 0;
        self.seen();
        while silent < SILENT_TICKS_MAX {
            ticks.tick().await;
            silent = if self.0.swap(false, Ordering::Relaxed) { 0 } else { silent + 1 };
            tick();
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::time::{Instant, advance};

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_peer_without_sign_of_life_is_silent_after_three_ticks() {
        let started = Instant::now();
        let mut ticks = 0;
        Signs::default().silent(|| ticks += 1).await;
        assert_eq!(started.elapsed(), TICK * 3);
        assert_eq!(ticks, 4, "one at once, then one a second");
    }

    #[tokio::test(start_paused = true)]
    async fn any_sign_of_life_starts_the_count_anew() {
        let signs = Signs::default();
        let started = Instant::now();
        let mut ticks = 0;
        let answer_nine_times = || {
            ticks += 1;
            if ticks < 10 {
                signs.seen();
            }
        };
        signs.silent(answer_nine_times).await;
        assert_eq!(started.elapsed(), TICK * 12);
    }

    #[tokio::test(start_paused = true)]
    async fn standing_still_oneself_is_not_the_peers_silence() {
        let signs = Signs::default();
        let mut silent = std::pin::pin!(signs.silent(|| {}));
        for _ in 0..2 {
            // A whole minute passes between two polls, as when this process is stopped.
            assert!(silent.as_mut().now_or_never().is_none());
            advance(Duration::from_secs(60)).await;
        }
        assert!(silent.as_mut().now_or_never().is_none());
    }
}
