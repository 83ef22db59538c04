//! The engine's twin: an ordered map that loses in a crash what the engine may lose, and no more.
//!
//! Of every shard a prefix of its committed batches is left, at least everything before the last
//! sync. How long the prefixes are is drawn from a seed, each shard's by itself.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::{Arc, Mutex, MutexGuard};

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::{Batch, KeyRange, Slice};
use crate::placement::ShardId;
use crate::storage::records::RecordsError;

/// A store that outlives the process which uses it. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct MemoryEngine {
    state: Arc<Mutex<State>>,
}

#[derive(Default)]
struct State {
    /// As the process sees it.
    seen: Contents,
    /// As it is after a crash that loses all that it may.
    durable: Contents,
    /// Committed since the last sync, in order.
    pending: Vec<(ShardId, Batch)>,
    /// The process has ended.
    halted: bool,
}

/// Keys and values. Clones share them until one is changed.
#[derive(Clone, Default)]
pub(in crate::storage::records) struct Contents(Arc<BTreeMap<Slice, Slice>>);

impl MemoryEngine {
    pub(super) fn contents(&self) -> Contents {
        self.lock().seen.clone()
    }

    pub(super) fn commit(&self, shard: ShardId, batch: Batch) -> Result<(), RecordsError> {
        let mut state = self.lock();
        if state.halted {
            return Err(RecordsError::Stopped);
        }
        state.seen.apply(&batch);
        state.pending.push((shard, batch));
        Ok(())
    }

    pub(super) fn sync(&self) -> Result<(), RecordsError> {
        let mut state = self.lock();
        if state.halted {
            return Err(RecordsError::Stopped);
        }
        state.pending.clear();
        state.durable = state.seen.clone();
        Ok(())
    }

    /// Ends the process: this store fails from now on. The store as the next process finds it.
    pub(crate) fn crash(&self, seed: u64) -> Self {
        let mut state = self.lock();
        state.halted = true;
        let mut random = StdRng::seed_from_u64(seed);
        let mut left: BTreeMap<ShardId, usize> = BTreeMap::new();
        for (shard, _) in &state.pending {
            *left.entry(*shard).or_default() += 1;
        }
        for batches in left.values_mut() {
            *batches = random.random_range(0..=*batches);
        }
        let mut found = state.durable.clone();
        for (shard, batch) in &state.pending {
            if let Some(batches) = left.get_mut(shard).filter(|batches| **batches > 0) {
                *batches -= 1;
                found.apply(batch);
            }
        }
        let state = State { seen: found.clone(), durable: found, ..State::default() };
        Self { state: Arc::new(Mutex::new(state)) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics while it holds the store")
    }
}

impl Contents {
    pub(super) fn get(&self, key: &[u8]) -> Option<Slice> {
        self.0.get(key).cloned()
    }

    pub(super) fn range(&self, range: KeyRange) -> std::vec::IntoIter<(Slice, Slice)> {
        let bounds = (as_slice(&range.0), as_slice(&range.1));
        let found = self.0.range::<[u8], _>(bounds);
        found.map(|(key, value)| (key.clone(), value.clone())).collect::<Vec<_>>().into_iter()
    }

    fn apply(&mut self, batch: &Batch) {
        let map = Arc::make_mut(&mut self.0);
        for (key, value) in &batch.changes {
            match value {
                Some(value) => drop(map.insert(key.clone(), value.clone())),
                None => drop(map.remove(key)),
            }
        }
    }
}

fn as_slice(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
    bound.as_ref().map(Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn put(engine: &MemoryEngine, shard: u16, key: &str) {
        let mut batch = Batch::default();
        batch.insert(key.as_bytes(), b"x");
        engine.commit(ShardId(shard), batch).unwrap();
    }

    fn keys(engine: &MemoryEngine) -> Vec<String> {
        let all = engine.contents().range((Bound::Unbounded, Bound::Unbounded));
        all.map(|(key, _)| String::from_utf8(key.to_vec()).unwrap()).collect()
    }

    #[test]
    fn a_crash_leaves_of_each_shard_a_prefix_that_holds_what_was_synced() {
        let mut lengths = std::collections::BTreeSet::new();
        for seed in 0..100 {
            let engine = MemoryEngine::default();
            put(&engine, 1, "a-synced");
            engine.sync().unwrap();
            for number in 0..3 {
                put(&engine, 1, &format!("b{number}"));
                put(&engine, 2, &format!("c{number}"));
            }
            let found = keys(&engine.crash(seed));
            let of = |first: char| -> Vec<_> {
                found.iter().filter(|key| key.starts_with(first)).cloned().collect()
            };
            let (ones, twos) = (of('b'), of('c'));
            assert_eq!(of('a'), ["a-synced"]);
            assert_eq!(ones, ["b0", "b1", "b2"][..ones.len()]);
            assert_eq!(twos, ["c0", "c1", "c2"][..twos.len()]);
            lengths.insert((ones.len(), twos.len()));
            let gone = engine.commit(ShardId(1), Batch::default());
            assert!(gone.is_err(), "the process has ended");
        }
        assert_eq!(lengths.len(), 16, "each shard's prefix is of any length");
    }
}
