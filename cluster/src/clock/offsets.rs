//! What a node knows of its peers' clocks, and what follows for its own. Pure: time is an argument.
//!
//! A peer's clock is kept as its distance from this node's *boot-time* clock, which neither jumps
//! nor stops, and not from this node's wall clock. So when the own wall clock jumps, it is at once
//! seen to be away from all the others.
//!
//! **The median.** A clock is trusted when it is surely within [`MAX_CLOCK_SKEW`] of the median of
//! *all* clocks of the cluster. A node hears some of them, each with an uncertainty, and others not
//! at all; so it computes the interval in which the median must lie whatever the unheard clocks
//! show, and asks how far its own clock may be from any point of it. Everything heard, the interval
//! is the median itself; with a bare majority it spans all that was heard, so that majority has to
//! agree closely. This keeps two leaders within twice the skew of each other, even when each heard
//! another majority.
//!
//! **Silence.** What was heard stays good for [`FRESH_FOR`]: a node that loses its peers keeps its
//! trust for that long, because its own clock can still be compared with theirs, and for no longer,
//! because they may have been set since. It loses nothing by it: without a majority nothing that it
//! stamps is committed, and the stamp of an entry that is committed after all is no older for that.

use std::collections::BTreeMap;
use std::time::Duration;

use protocol::Timestamp;
use protocol::lease::MAX_CLOCK_SKEW;
use thiserror::Error;

use crate::config::NodeId;

/// How long a peer's clock counts after it was last heard. Peers are asked once a second, so ten
/// answers in a row must be missing; a connection that broke is back, if at all, well within it.
pub(super) const FRESH_FOR: Duration = Duration::from_secs(10);

/// How much wider a sample gets with age: one part in a thousand, which is two clocks that NTP
/// slews in opposite directions as fast as it may (500 parts in a million each).
const DRIFT_PER_MILLE: i64 = 1;

/// Wall clocks are read in whole milliseconds, so any reading may be this much too low.
const RESOLUTION_US: i64 = 1000;

/// 36,000 years: longer than any clock shows, and short enough that sums and differences of a few
/// such spans cannot overflow.
const SPAN_US_MAX: i64 = i64::MAX / 8;

const SKEW_US: i64 = MAX_CLOCK_SKEW.get() as i64 * 1000;

/// Both clocks of this node, read together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Look {
    pub(super) wall: Timestamp,
    pub(super) boot: Duration,
}

/// A question for the time and its answer, as the asking node saw them.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Boot time when the question left.
    pub(crate) asked: Duration,
    /// The peer's wall clock when it answered.
    pub(crate) wall: Timestamp,
    /// Boot time when the answer came.
    pub(crate) heard: Duration,
}

/// Why a wall clock may not be stamped on the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum Distrust {
    /// Too few nodes, this one among them, have lately told their time.
    #[error("{heard} of the {needed} clocks that a majority needs were heard lately")]
    Unconfirmed {
        /// How many.
        heard: usize,
        /// How many a majority is.
        needed: usize,
    },
    /// The clock is, or may be, too far from the cluster's median.
    #[error("wall clock is {offset_ms} ms off the cluster's median")]
    Off {
        /// How far it is ahead, in milliseconds; below zero when it is behind.
        offset_ms: i64,
    },
}

/// How this node's wall clock stands in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Standing {
    /// How far it is ahead of the median, in microseconds; `None` without a majority.
    pub(super) offset_us: Option<i64>,
    pub(super) trust: Result<(), Distrust>,
}

/// The clocks of the other nodes, as far as they were heard.
#[derive(Debug)]
pub(super) struct Offsets {
    members: usize,
    peers: BTreeMap<NodeId, PeerClock>,
    last_base_us: Option<i64>,
}

#[derive(Clone, Copy, Debug)]
struct PeerClock {
    best: Sample,
    heard: Duration,
}

/// One estimate of a peer's clock, by Cristian's method: it showed its time somewhere between
/// question and answer, so at their midpoint, give or take half of the round trip.
#[derive(Clone, Copy, Debug)]
struct Sample {
    base_us: i64,
    half_us: i64,
    taken: Duration,
}

impl Offsets {
    /// Of a cluster with `members` nodes, this one among them.
    pub(super) fn new(members: usize) -> Self {
        Self { members, peers: BTreeMap::new(), last_base_us: None }
    }

    /// Compares the wall clock with the boot-time clock: by how many microseconds it has jumped
    /// since the last look, when that is more than the skew. After a jump all that was heard before
    /// is forgotten, since the machine may have stood still without any of its clocks knowing.
    pub(super) fn look(&mut self, now: Look) -> Option<i64> {
        let base_us = base_us(now.wall, now.boot);
        let last_base_us = self.last_base_us.replace(base_us)?;
        let jump_us = base_us - last_base_us;
        if jump_us.abs() <= SKEW_US {
            return None;
        }
        self.peers.clear();
        Some(jump_us)
    }

    /// Takes a peer's answer. The better of two samples is kept, a sample getting worse with age;
    /// but one that contradicts the kept sample replaces it, for then the peer's clock was set.
    pub(super) fn sample(&mut self, peer: NodeId, round: Round) {
        let half = round.heard.saturating_sub(round.asked) / 2;
        let sample = Sample {
            base_us: base_us(round.wall, round.asked + half),
            half_us: micros(half).saturating_add(RESOLUTION_US),
            taken: round.heard,
        };
        let heard = round.heard;
        let known = self.peers.entry(peer).or_insert(PeerClock { best: sample, heard });
        known.heard = known.heard.max(heard);
        let kept_half_us = known.best.half_at(heard);
        let apart_us = (sample.base_us - known.best.base_us).abs();
        let contradicts = apart_us > kept_half_us.saturating_add(sample.half_us);
        if contradicts || sample.half_us <= kept_half_us {
            known.best = sample;
        }
    }

    /// What the peer's wall clock shows at `boot`; `None` when it was never heard.
    pub(super) fn estimate(&self, peer: NodeId, boot: Duration) -> Option<Timestamp> {
        let base_us = self.peers.get(&peer)?.best.base_us;
        let wall_us = u64::try_from(base_us.saturating_add(micros(boot))).unwrap_or(0);
        Some(Timestamp::from_millis(wall_us / 1000))
    }

    /// Judges the own clock.
    pub(super) fn standing(&self, now: Look) -> Standing {
        let own_us = base_us(now.wall, now.boot);
        let fresh = self.peers.values().filter(|peer| now.boot <= peer.heard + FRESH_FOR);
        let (mut lows, mut middles, mut highs) = (vec![own_us], vec![own_us], vec![own_us]);
        for peer in fresh {
            let half_us = peer.best.half_at(now.boot);
            lows.push(peer.best.base_us.saturating_sub(half_us));
            middles.push(peer.best.base_us);
            highs.push(peer.best.base_us.saturating_add(half_us));
        }
        let (heard, needed) = (lows.len(), self.members / 2 + 1);
        if heard < needed {
            let trust = Err(Distrust::Unconfirmed { heard, needed });
            return Standing { offset_us: None, trust };
        }
        let low_us = median_range(&mut lows, self.members).0;
        let high_us = median_range(&mut highs, self.members).1;
        let (middle_low_us, middle_high_us) = median_range(&mut middles, self.members);
        // What is shown is the likely offset; what is judged is the worst that can be.
        let offset_us = own_us - middle_low_us.midpoint(middle_high_us);
        let farthest_us = (own_us - low_us).max(high_us - own_us);
        let off = Distrust::Off { offset_ms: offset_us / 1000 };
        let trust = if farthest_us <= SKEW_US { Ok(()) } else { Err(off) };
        Standing { offset_us: Some(offset_us), trust }
    }
}

impl Sample {
    /// Half the width of the interval that holds the peer's clock at `boot`.
    fn half_at(&self, boot: Duration) -> i64 {
        let age_us = micros(boot.saturating_sub(self.taken));
        self.half_us.saturating_add(age_us / 1000 * DRIFT_PER_MILLE)
    }
}

/// Between which two values the median of `members` clocks lies, whatever those show that were not
/// heard. `heard` are the values of the others, a majority.
fn median_range(heard: &mut [i64], members: usize) -> (i64, i64) {
    assert!(heard.len() > members / 2, "a majority was heard");
    heard.sort_unstable();
    // Unheard clocks may all be below the heard ones, or all above: that moves the median by as
    // many ranks. An even number of clocks has two middle ones, counted from one here.
    let unheard = members.saturating_sub(heard.len());
    let (lower_middle, upper_middle) = (members.div_ceil(2), members / 2 + 1);
    (heard[lower_middle - unheard - 1], heard[upper_middle - 1])
}

/// A wall clock as its distance from the boot-time clock, in microseconds.
fn base_us(wall: Timestamp, boot: Duration) -> i64 {
    micros(Duration::from_millis(wall.as_millis())) - micros(boot)
}

/// Spans beyond [`SPAN_US_MAX`] count as that.
fn micros(span: Duration) -> i64 {
    i64::try_from(span.as_micros()).map_or(SPAN_US_MAX, |micros| micros.min(SPAN_US_MAX))
}

#[cfg(test)]
mod tests;
