//! Who holds a claim, until when and with which number; and the numbers that make leases safe.
//!
//! The bounds below hold together (see [`claim_ttl`]); they were checked with an explicit-state
//! model. `skew` is how far one clock may be from the median of the cluster, so two clocks differ
//! by at most twice that.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::time::Millis;

/// How far a clock may be from the cluster's median before its node stops stamping time.
pub const MAX_CLOCK_SKEW: Millis = Millis::new(500);

/// How long a process may stand still between its last look at the clock and the bytes on the wire.
pub const PAUSE: Millis = Millis::new(250);

/// The shortest lease: four times the skew, so that a claim has time to travel inside it.
pub const LEASE_MIN: Millis = Millis::new(4 * MAX_CLOCK_SKEW.get());

/// The longest time for which a copy of a claim may still be admitted.
pub const CLAIM_TTL_MAX: Millis = Millis::new(4000);

/// How long a forgotten record keeps answering "later".
///
/// A replica replays only while it has heard from its leader within two seconds, so by then no
/// stale one can replay the record any more.
pub const FORGET_WAIT: Millis = Millis::new(2000 + 2 * MAX_CLOCK_SKEW.get());

/// How long a tombstone must outlive its watermark: until no copy made before it can be admitted,
/// plus the two seconds by which a replica's answer may be late.
pub const TOMBSTONE_LIFE: Millis =
    Millis::new(CLAIM_TTL_MAX.get() + 3 * MAX_CLOCK_SKEW.get() + 2000);

/// How long an operator waits, after a grant's lease and its longest execution have passed, before
/// releasing the key: two clocks may differ by this.
pub const DRAIN_MARGIN: Millis = MAX_CLOCK_SKEW.times(2);

/// How long after its `seen` time a copy of a claim with this lease may be admitted.
///
/// It is `min(4 s, (lease - 2 skew) / 2)`: shorter than the lease, so that a copy cannot be granted
/// after its sender has stopped waiting for it; zero for a lease that no claim may ask for.
pub const fn claim_ttl(lease: Millis) -> Millis {
    let half = lease.minus(MAX_CLOCK_SKEW.times(2)).get() / 2;
    if half < CLAIM_TTL_MAX.get() { Millis::new(half) } else { CLAIM_TTL_MAX }
}

/// For how long after the first send of its first copy a holder with this lease may still let bytes
/// leave.
pub const fn send_window(lease: Millis) -> Millis {
    lease.minus(MAX_CLOCK_SKEW.times(2)).minus(PAUSE)
}

/// The fencing token: a number that is larger than every earlier one of the same name.
///
/// It is the restore epoch (8 bits), then the shard's grant counter (45 bits), so it fits exactly
/// into the integers of a JSON number. The first fence of a generation names the generation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct Fence(u64);

impl Fence {
    const COUNTER_BITS: u32 = 45;

    /// The fence of the `counter`th grant of a shard in a restore epoch.
    ///
    /// # Panics
    /// When the counter needs more than 45 bits: a shard would have to grant a million claims a
    /// second for a year.
    pub const fn new(epoch: u8, counter: u64) -> Self {
        assert!(counter >> Self::COUNTER_BITS == 0, "a shard's grant counter fits 45 bits");
        Self(((epoch as u64) << Self::COUNTER_BITS) | counter)
    }

    /// The fence that a client sent back, as it came.
    pub const fn from_number(number: u64) -> Self {
        Self(number)
    }

    /// The fence as a number of at most 53 bits.
    pub const fn as_number(self) -> u64 {
        self.0
    }
}

impl fmt::Display for Fence {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Who claims: a digest of the credential and of the attempt id that it chose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct HolderId([u8; 16]);

impl HolderId {
    /// The holder of an attempt: half of the SHA-256 of both, each prefixed by its length.
    pub fn of(credential: &[u8], attempt: &[u8]) -> Self {
        use sha2::{Digest, Sha256};
        let mut digest = Sha256::new();
        digest.update(b"oncegate holder 1\0");
        for part in [credential, attempt] {
            digest.update((part.len() as u64).to_be_bytes());
            digest.update(part);
        }
        let mut half = [0; 16];
        half.copy_from_slice(&digest.finalize()[..16]);
        Self(half)
    }
}

/// The secret that comes with a grant; `renew`, `complete`, `release` and `unknown` must bring it
/// back.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Token([u8; 16]);

impl Token {
    /// A token of these random bytes.
    pub const fn new(random: [u8; 16]) -> Self {
        Self(random)
    }

    /// The token's bytes.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(secret)")
    }
}

#[cfg(test)]
mod tests;
