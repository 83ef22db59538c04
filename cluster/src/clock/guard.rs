//! Says whether this node's wall clock may be stamped on the log, and what its peers' clocks show.

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use protocol::lease::MAX_CLOCK_SKEW;
use protocol::{Millis, Timestamp};

use super::Clock;
use super::offsets::{Distrust, Look, Offsets, Round, Standing};
use crate::config::NodeId;

/// Wall clock and boot-time clock count as read together when at most this lies between the
/// readings before and after: far above what reading takes, far below the skew.
const TOGETHER: Duration = Duration::from_millis(1);

/// How often to try for such a reading: a machine so busy that it misses four has worse problems.
const READINGS_MAX: u32 = 4;

/// How far the wall clock is ahead of the cluster's median, in seconds.
const OFFSET: &str = "oncegate_clock_offset_seconds";
/// How often the wall clock jumped against the boot-time clock.
const JUMPS: &str = "oncegate_clock_jumps_total";

/// Compares this node's wall clock with its peers' and with its own boot-time clock.
///
/// The transport feeds it with answers of peers; leaders ask it for stamps, followers whether a
/// stamp can be right. In a cluster of one there is nobody to compare with: its clock is believed,
/// and a jump only warned of.
pub(crate) struct ClockGuard {
    clock: Arc<dyn Clock>,
    own: NodeId,
    members: Vec<NodeId>,
    state: Mutex<State>,
}

struct State {
    offsets: Offsets,
    trusted: bool,
}

/// The clock as operators see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Reading {
    /// How far the wall clock is ahead of the cluster's median, in milliseconds; `None` while no
    /// majority was heard.
    pub(crate) offset_ms: Option<i64>,
    /// Why the wall clock may not be stamped now; `None` when it may.
    pub(crate) distrust: Option<Distrust>,
}

impl ClockGuard {
    /// Guards the clock of the node `own`. `members` are all nodes of the cluster; others have no
    /// say in what time it is.
    pub(crate) fn new(clock: Arc<dyn Clock>, own: NodeId, members: Vec<NodeId>) -> Self {
        let others = members.iter().filter(|member| **member != own).count();
        let state = State { offsets: Offsets::new(others + 1), trusted: false };
        Self { clock, own, members, state: Mutex::new(state) }
    }

    /// The wall clock, trusted or not: for rendering, and for telling it to peers.
    pub(crate) fn wall(&self) -> Timestamp {
        self.clock.wall()
    }

    /// Time since a fixed moment, on a clock that never jumps and runs while the machine sleeps.
    pub(crate) fn boot(&self) -> Duration {
        self.clock.boot()
    }

    /// Takes a peer's answer to the question for its time.
    pub(crate) fn sample(&self, peer: NodeId, round: Round) {
        if peer == self.own || !self.members.contains(&peer) {
            return;
        }
        let now = self.read();
        let mut state = self.lock();
        // A jump is noticed first, so that it cannot wipe out the answer that came after it.
        self.judge(&mut state, now);
        state.offsets.sample(peer, round);
        let standing = self.judge(&mut state, now);
        drop(state);
        if let Some(offset_us) = standing.offset_us {
            // Several nodes of a trial cluster may share a process, hence the label.
            let node = self.own.to_string();
            metrics::gauge!(OFFSET, "node" => node).set(offset_us as f64 / 1e6);
        }
    }

    /// What a leader stamps on an entry: the wall clock.
    ///
    /// # Errors
    /// Why the wall clock is not to be stamped.
    pub(crate) fn stamp(&self) -> Result<Timestamp, Distrust> {
        let now = self.read();
        self.judge(&mut self.lock(), now).trust.map(|()| now.wall)
    }

    /// Whether the wall clock is surely within its bound of the cluster's median.
    pub(crate) fn trusted(&self) -> bool {
        self.stamp().is_ok()
    }

    /// What `peer`'s wall clock shows now, as best this node can tell. The own wall clock stands in
    /// for a peer that was never heard.
    pub(crate) fn estimate(&self, peer: NodeId) -> Timestamp {
        let now = self.read();
        let known = self.lock().offsets.estimate(peer, now.boot);
        known.unwrap_or(now.wall)
    }

    /// By how much a leader's stamp is ahead of this node's wall clock, when that is more than two
    /// clocks may differ: the entry must not be taken then.
    pub(crate) fn too_far_ahead(&self, stamp: Timestamp) -> Option<Millis> {
        let ahead = stamp.since(self.clock.wall());
        (ahead > MAX_CLOCK_SKEW.times(2)).then_some(ahead)
    }

    /// The clock as operators see it.
    pub(crate) fn reading(&self) -> Reading {
        let now = self.read();
        let standing = self.judge(&mut self.lock(), now);
        Reading {
            offset_ms: standing.offset_us.map(|offset_us| offset_us / 1000),
            distrust: standing.trust.err(),
        }
    }

    fn judge(&self, state: &mut State, now: Look) -> Standing {
        if let Some(jump_us) = state.offsets.look(now) {
            metrics::counter!(JUMPS).increment(1);
            tracing::warn!(
                jump_ms = jump_us / 1000,
                "wall clock jumped against the boot-time clock"
            );
        }
        let standing = state.offsets.standing(now);
        if state.trusted != standing.trust.is_ok() {
            state.trusted = standing.trust.is_ok();
            match standing.trust {
                Ok(()) => tracing::info!("wall clock is trusted"),
                Err(reason) => tracing::warn!(%reason, "wall clock is not trusted"),
            }
        }
        standing
    }

    /// Reads both clocks at one moment: being put to sleep between the two readings would look like
    /// a jump of the wall clock.
    fn read(&self) -> Look {
        let mut before = self.clock.boot();
        for attempt in 1.. {
            let wall = self.clock.wall();
            let after = self.clock.boot();
            if after.saturating_sub(before) <= TOGETHER || attempt == READINGS_MAX {
                return Look { wall, boot: before };
            }
            before = after;
        }
        unreachable!("the last attempt returns")
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the clock's state")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::SimulatedClock;

    const OWN: NodeId = NodeId(1);

    fn guard(clock: &SimulatedClock, members: u64) -> ClockGuard {
        let members = (1..=members).map(NodeId).collect();
        ClockGuard::new(Arc::new(clock.clone()), OWN, members)
    }

    /// The answer of a peer whose clock is `clock`, over a connection without delay.
    fn ask(guard: &ClockGuard, clock: &SimulatedClock) -> Round {
        let boot = guard.boot();
        Round { asked: boot, wall: clock.wall(), heard: boot }
    }

    #[tokio::test(start_paused = true)]
    async fn a_cluster_of_one_believes_its_clock_and_a_jump_of_it() {
        let clock = SimulatedClock::new(0);
        let guard = guard(&clock, 1);
        assert_eq!(guard.stamp(), Ok(clock.wall()));
        clock.jump_to(3_600_000);
        assert_eq!(guard.stamp(), Ok(clock.wall()));
        assert_eq!(guard.reading(), Reading { offset_ms: Some(0), distrust: None });
    }

    #[tokio::test(start_paused = true)]
    async fn stamps_stop_at_a_jump_and_return_when_peers_confirm_the_clock() {
        let clock = SimulatedClock::new(0);
        let guard = guard(&clock, 3);
        assert!(!guard.trusted(), "nobody was heard yet");
        guard.sample(NodeId(2), ask(&guard, &clock.beside(0)));
        assert_eq!(guard.stamp(), Ok(clock.wall()));

        clock.jump_to(2_000);
        assert_eq!(guard.stamp(), Err(Distrust::Unconfirmed { heard: 1, needed: 2 }));
        guard.sample(NodeId(2), ask(&guard, &clock.beside(0)));
        guard.sample(NodeId(3), ask(&guard, &clock.beside(0)));
        assert_eq!(guard.stamp(), Err(Distrust::Off { offset_ms: 2_000 }));

        clock.jump_to(0);
        assert!(!guard.trusted(), "a second jump, back to the true time, needs confirming too");
        guard.sample(NodeId(2), ask(&guard, &clock.beside(0)));
        assert_eq!(guard.stamp(), Ok(clock.wall()));
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_reveals_a_jump_still_counts_as_heard_after_it() {
        let clock = SimulatedClock::new(0);
        let guard = guard(&clock, 3);
        guard.sample(NodeId(2), ask(&guard, &clock.beside(0)));
        clock.jump_to(-9_000);
        let peers = clock.beside(-9_000);
        guard.sample(NodeId(3), ask(&guard, &peers));
        assert!(guard.trusted(), "node 3 was heard after the jump and agrees");
    }

    #[tokio::test(start_paused = true)]
    async fn estimates_follow_the_peer_and_fall_back_on_the_own_clock() {
        let clock = SimulatedClock::new(0);
        let guard = guard(&clock, 3);
        let peer = clock.beside(-300);
        assert_eq!(guard.estimate(NodeId(2)), clock.wall());
        guard.sample(NodeId(2), ask(&guard, &peer));
        tokio::time::advance(Duration::from_secs(30)).await;
        assert_eq!(guard.estimate(NodeId(2)), peer.wall());
        assert_eq!(guard.estimate(OWN), clock.wall());
    }

    #[tokio::test(start_paused = true)]
    async fn strangers_have_no_say_in_what_time_it_is() {
        let clock = SimulatedClock::new(0);
        let guard = guard(&clock, 3);
        guard.sample(NodeId(9), ask(&guard, &clock.beside(0)));
        guard.sample(OWN, ask(&guard, &clock.beside(0)));
        assert_eq!(guard.stamp(), Err(Distrust::Unconfirmed { heard: 1, needed: 2 }));
    }

    #[tokio::test(start_paused = true)]
    async fn a_stamp_more_than_twice_the_skew_ahead_is_too_far_ahead() {
        let clock = SimulatedClock::new(0);
        let guard = guard(&clock, 3);
        let bound = MAX_CLOCK_SKEW.times(2);
        assert_eq!(guard.too_far_ahead(clock.wall().plus(bound)), None);
        let over = bound.plus(Millis::new(1));
        assert_eq!(guard.too_far_ahead(clock.wall().plus(over)), Some(over));
        assert_eq!(guard.too_far_ahead(Timestamp::ZERO), None);
    }

    /// Falls asleep for a second between the wall clock and the boot-time clock, once.
    struct Sleepy {
        inner: SimulatedClock,
        sleeps: std::sync::atomic::AtomicBool,
        slept_ms: std::sync::atomic::AtomicU64,
    }

    impl Clock for Sleepy {
        fn wall(&self) -> Timestamp {
            use std::sync::atomic::Ordering::SeqCst;
            let wall = self.inner.wall().plus(Millis::new(self.slept_ms.load(SeqCst)));
            if self.sleeps.swap(false, SeqCst) {
                self.slept_ms.fetch_add(1000, SeqCst);
            }
            wall
        }

        fn boot(&self) -> Duration {
            let slept_ms = self.slept_ms.load(std::sync::atomic::Ordering::SeqCst);
            self.inner.boot() + Duration::from_millis(slept_ms)
        }
    }

    #[tokio::test(start_paused = true)]
    async fn falling_asleep_between_two_readings_is_not_a_jump() {
        let clock = Arc::new(Sleepy {
            inner: SimulatedClock::new(0),
            sleeps: false.into(),
            slept_ms: 0.into(),
        });
        let guard = ClockGuard::new(clock.clone(), OWN, vec![OWN, NodeId(2), NodeId(3)]);
        let boot = guard.boot();
        guard.sample(NodeId(2), Round { asked: boot, wall: clock.wall(), heard: boot });
        assert!(guard.trusted());
        clock.sleeps.store(true, std::sync::atomic::Ordering::SeqCst);
        assert!(guard.trusted());
    }
}
