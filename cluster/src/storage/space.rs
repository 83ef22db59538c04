//! Watches the room left on the disk, so that claims are refused before writes fail.

use std::sync::atomic::{AtomicBool, Ordering};

/// Below this many free bytes a node takes no new claims. What it already holds must still be able
/// to finish, and the record store to compact: both write before they free anything.
pub(crate) const FREE_MIN: u64 = 64 << 20;

/// Claims are taken again above this many free bytes; the gap keeps the answer from flickering.
const FREE_AGAIN: u64 = 2 * FREE_MIN;

/// Whether the disk is nearly full, as last looked at.
#[derive(Debug, Default)]
pub(crate) struct DiskWatch {
    low: AtomicBool,
}

impl DiskWatch {
    /// Takes note of the bytes free, and of whether the log could prepare its next segment.
    pub(crate) fn observe(&self, free: u64, log_has_room: bool) {
        let limit = if self.is_low() { FREE_AGAIN } else { FREE_MIN };
        let low = free < limit || !log_has_room;
        if self.low.swap(low, Ordering::Relaxed) != low {
            match low {
                true => tracing::error!(free, "disk is nearly full: no new claims are taken"),
                false => tracing::info!(free, "disk has room again: claims are taken"),
            }
        }
    }

    /// Whether new claims are to be refused.
    pub(crate) fn is_low(&self) -> bool {
        self.low.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn claims_stop_below_the_limit_and_resume_well_above_it() {
        let watch = DiskWatch::default();
        for (free, room, low) in [
            (FREE_MIN, true, false),
            (FREE_MIN - 1, true, true),
            (FREE_AGAIN - 1, true, true),
            (FREE_AGAIN, true, false),
            (u64::MAX, false, true),
            (u64::MAX, true, false),
        ] {
            watch.observe(free, room);
            assert_eq!(watch.is_low(), low, "{free} bytes free, room in the log: {room}");
        }
    }
}
