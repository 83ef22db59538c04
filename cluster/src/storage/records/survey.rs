//! What of which shard is stored, found out when the records are opened.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use super::flusher::Bell;
use super::keys::{self, Kind};
use super::shard::{Shard, Stored};
use super::store::{self, Store};
use super::tally::Tallies;
use super::{Head, RecordsError};
use crate::placement::ShardId;

#[derive(Default)]
struct Found {
    current: u32,
    /// Every generation that has keys.
    generations: BTreeSet<u32>,
}

/// All shards of which anything is stored. What a crash left of generations that are not in force
/// is garbage.
pub(super) fn shards(
    store: &Store,
    bell: &Arc<Bell>,
) -> Result<BTreeMap<ShardId, Arc<Shard>>, RecordsError> {
    let mut found: BTreeMap<ShardId, Found> = BTreeMap::new();
    for entry in store.range(store::keys(keys::heads())) {
        let (key, bytes) = entry?;
        if let Some(shard) = keys::head_shard(&key) {
            found.entry(shard).or_default().current = Head::decode(&bytes)?.generation;
        }
    }
    for kind in Kind::ALL {
        generations(store, kind, &mut found)?;
    }
    let shards = found.into_iter().map(|(id, found)| {
        let newest = found.generations.last().copied().unwrap_or(0).max(found.current);
        let current = found.current;
        let garbage: VecDeque<_> =
            found.generations.into_iter().filter(|generation| *generation != current).collect();
        let tallies = Tallies::stored(store, id, current, store.sums.clone())?;
        let stored = Stored { current, newest, garbage };
        let shard = Shard::recovered(store.clone(), id, Arc::clone(bell), tallies, stored);
        Ok((id, Arc::new(shard)))
    });
    shards.collect()
}

/// Notes the generations that have keys of `kind`, by one look-up for each.
fn generations(
    store: &Store,
    kind: Kind,
    found: &mut BTreeMap<ShardId, Found>,
) -> Result<(), RecordsError> {
    let all = kind.all();
    let mut next = all.start;
    while let Some(entry) =
        store.range((Bound::Included(next), Bound::Excluded(all.end.clone()))).next()
    {
        let (key, _) = entry?;
        let Some((shard, generation)) = keys::place(&key) else { return Ok(()) };
        found.entry(shard).or_default().generations.insert(generation);
        next = kind.range(shard, generation).end;
    }
    Ok(())
}
