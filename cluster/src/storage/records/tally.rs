//! How many records there are, and how large they are, by groups that their owner makes.
//!
//! A shard's tallies are in memory, since there are few groups; every change of one is committed
//! with the records that it comes from, so a restart finds what the records add up to. The sums
//! over all shards of the node are in memory only.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use serde::{Deserialize, Serialize};

use super::RecordsError;
use super::keys::{self, Kind};
use super::store::{self, Store};
use crate::codec;
use crate::placement::ShardId;

/// What the records of a group come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Tally {
    /// How many there are.
    pub(crate) records: u64,
    /// Their sizes, as their owner reckons them, added up.
    pub(crate) bytes: u64,
}

/// What one record adds to the tally of its group.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Share {
    /// The group. Each takes some memory for as long as it has records.
    pub(crate) group: Bytes,
    /// The record's size, as its owner reckons it: the same number for the same record.
    pub(crate) bytes: u64,
}

/// By how much tallies change.
#[derive(Debug, Default)]
pub(super) struct Shifts(HashMap<Bytes, Shift>);

#[derive(Clone, Copy, Debug, Default)]
struct Shift {
    records: i64,
    bytes: i64,
}

/// The tallies of one shard, and its part in the sums of the node.
#[derive(Debug)]
pub(super) struct Tallies {
    groups: Mutex<HashMap<Bytes, Tally>>,
    sums: Sums,
}

/// The sums over all shards of a node. Clones share them.
#[derive(Clone, Debug, Default)]
pub(super) struct Sums(Arc<Mutex<HashMap<Bytes, Tally>>>);

impl Tally {
    fn shifted(self, by: Shift) -> Self {
        Self {
            records: self.records.saturating_add_signed(by.records),
            bytes: self.bytes.saturating_add_signed(by.bytes),
        }
    }

    pub(super) fn encode(&self) -> Vec<u8> {
        codec::encode(codec::TALLY, self)
    }
}

impl Shift {
    fn between(before: Tally, after: Tally) -> Self {
        let by = |before: u64, after: u64| after.wrapping_sub(before).cast_signed();
        Self { records: by(before.records, after.records), bytes: by(before.bytes, after.bytes) }
    }
}

impl Shifts {
    /// A record of this share is there from now on.
    pub(super) fn add(&mut self, share: Share) {
        self.shift(share, 1);
    }

    /// One is there no more.
    pub(super) fn remove(&mut self, share: Share) {
        self.shift(share, -1);
    }

    fn shift(&mut self, Share { group, bytes }: Share, sign: i64) {
        let shift = self.0.entry(group).or_default();
        shift.records += sign;
        shift.bytes += sign * bytes.cast_signed();
    }

    /// What groups come to that had nothing before.
    pub(super) fn tallies(self) -> HashMap<Bytes, Tally> {
        let tallies = self.0.into_iter();
        tallies.map(|(group, by)| (group, Tally::default().shifted(by))).collect()
    }
}

impl Tallies {
    /// Those of a shard that has no records.
    pub(super) fn none(sums: Sums) -> Self {
        Self { groups: Mutex::default(), sums }
    }

    /// Those that are stored for a generation of a shard.
    pub(super) fn stored(
        store: &Store,
        shard: ShardId,
        generation: u32,
        sums: Sums,
    ) -> Result<Self, RecordsError> {
        let mut groups = HashMap::new();
        for entry in store.range(store::keys(Kind::Tally.range(shard, generation))) {
            let (key, bytes) = entry?;
            let tally = codec::decode(codec::TALLY, &bytes).map_err(RecordsError::Stored)?;
            groups.insert(Bytes::copy_from_slice(keys::tally_group(&key)), tally);
        }
        let tallies = Self::none(sums);
        tallies.replace(groups);
        Ok(tallies)
    }

    /// Makes changes; what is to be stored comes back: each group with what it comes to, `None`
    /// where no record is left.
    pub(super) fn shift(&self, by: Shifts) -> Vec<(Bytes, Option<Tally>)> {
        let mut groups = lock(&self.groups);
        let changed = by.0.into_iter().filter(|(_, by)| (by.records, by.bytes) != (0, 0));
        let changed = changed.map(|(group, by)| {
            let before = groups.get(&group).copied().unwrap_or_default();
            let after = before.shifted(by);
            self.sums.shift(&group, Shift::between(before, after));
            set(&mut groups, &group, after);
            (group, (after.records > 0).then_some(after))
        });
        changed.collect()
    }

    /// Puts others in their place.
    pub(super) fn replace(&self, groups: HashMap<Bytes, Tally>) {
        let mut own = lock(&self.groups);
        for (group, tally) in own.iter() {
            self.sums.shift(group, Shift::between(*tally, Tally::default()));
        }
        for (group, tally) in &groups {
            self.sums.shift(group, Shift::between(Tally::default(), *tally));
        }
        *own = groups;
    }
}

impl Sums {
    pub(super) fn of(&self, group: &[u8]) -> Tally {
        lock(&self.0).get(group).copied().unwrap_or_default()
    }

    pub(super) fn over(&self, counts: impl Fn(&[u8]) -> bool) -> Tally {
        let sums = lock(&self.0);
        let counted = sums.iter().filter(|(group, _)| counts(group));
        counted.fold(Tally::default(), |sum, (_, tally)| Tally {
            records: sum.records + tally.records,
            bytes: sum.bytes + tally.bytes,
        })
    }

    fn shift(&self, group: &Bytes, by: Shift) {
        let mut sums = lock(&self.0);
        let after = sums.get(group).copied().unwrap_or_default().shifted(by);
        set(&mut sums, group, after);
    }
}

/// A group without records is forgotten, so that groups that come and go leave nothing behind.
fn set(tallies: &mut HashMap<Bytes, Tally>, group: &Bytes, tally: Tally) {
    if tally.records == 0 {
        tallies.remove(group);
    } else {
        tallies.insert(group.clone(), tally);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().expect("no holder panics")
}
