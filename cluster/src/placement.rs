//! Which shard judges a name. Pure and stable for ever: golden values pin it.

use std::fmt;

use protocol::RecordName;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// Number of slots that names hash to. Slots map to shards by a table fixed when the cluster is
/// created, so that a later version may split shards without moving names between slots.
pub const SLOTS: u16 = 4096;

/// Identifies a shard of a cluster: 0 to one less than the number of shards.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct ShardId(pub u16);

impl fmt::Display for ShardId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The slot of a name: the first eight bytes of its SHA-256, big endian, modulo [`SLOTS`].
pub fn slot_of(name: &RecordName) -> u16 {
    let digest = Sha256::digest(name.as_bytes());
    let mut head = [0; 8];
    head.copy_from_slice(&digest[..8]);
    (u64::from_be_bytes(head) % u64::from(SLOTS)) as u16
}

/// Maps slots to shards: slots in order, dealt out evenly in runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlotTable {
    shards: u16,
}

impl SlotTable {
    /// The table of a cluster with `shards` shards.
    ///
    /// # Panics
    /// When `shards` is 0 or above [`SLOTS`]; the configuration layer refuses such a number.
    pub fn new(shards: u16) -> Self {
        assert!((1..=SLOTS).contains(&shards), "a cluster has 1 to {SLOTS} shards");
        Self { shards }
    }

    /// Number of shards.
    pub fn shards(&self) -> u16 {
        self.shards
    }

    /// The shard that judges `name`.
    pub fn shard_of(&self, name: &RecordName) -> ShardId {
        let slot = u32::from(slot_of(name));
        ShardId((slot * u32::from(self.shards) / u32::from(SLOTS)) as u16)
    }
}

#[cfg(test)]
mod tests {
    use protocol::{IdempotencyKey, Scope};

    use super::*;

    fn name(tenant: &str, key: &str) -> RecordName {
        let scope = Scope {
            tenant: tenant.into(),
            sub_account: vec![],
            credential: None,
            operation: Some("orders".into()),
        };
        RecordName::new(&scope, &IdempotencyKey::from_text(key, 255).unwrap())
    }

    #[test]
    fn every_shard_owns_an_equal_share_of_slots() {
        for shards in [1_u16, 3, 16, 48, 4096] {
            let mut owned = vec![0; usize::from(shards)];
            for slot in 0..u32::from(SLOTS) {
                owned[(slot * u32::from(shards) / u32::from(SLOTS)) as usize] += 1;
            }
            let (least, most) = (owned.iter().min().unwrap(), owned.iter().max().unwrap());
            assert!(most - least <= 1, "{shards} shards: {least}..{most}");
        }
    }

    #[test]
    fn golden_slots_never_move() {
        let golden = [("acme", "a", 3671), ("acme", "b", 2180), ("other", "a", 3530)];
        for (tenant, key, slot) in golden {
            assert_eq!(slot_of(&name(tenant, key)), slot, "{tenant}/{key}");
        }
    }
}
