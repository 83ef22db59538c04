//! What clients ask, drawn from a seed and bounded: so many calls to one key, so many keys at a
//! time.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use rand::rngs::StdRng;
use rand::seq::IndexedRandom;
use rand::{RngExt, SeedableRng};

use crate::cluster::NODES;
use crate::operation::{How, Name};

/// How many old keys are remembered, to be asked for again.
const OLD_MAX: usize = 256;

/// The keys that clients race for. Clones share them.
#[derive(Clone)]
pub struct Keys(Arc<Mutex<Pool>>);

struct Pool {
    prefix: String,
    drawn: u64,
    /// Keys in use, with how many more calls each may get.
    live: VecDeque<(Name, u32)>,
    /// Keys that had their calls, newest last.
    old: VecDeque<Name>,
    live_max: usize,
    calls_max: u32,
}

impl Keys {
    /// Keys that begin with `prefix`: `live_max` in use at a time, each for `calls_max` turns.
    pub fn new(prefix: &str, live_max: usize, calls_max: u32) -> Self {
        let (live, old) = (VecDeque::new(), VecDeque::new());
        let pool = Pool { prefix: prefix.to_owned(), drawn: 0, live, old, live_max, calls_max };
        Self(Arc::new(Mutex::new(pool)))
    }

    /// A key in use, or a new one, which `name` makes of its text.
    pub fn draw(
        &self,
        random: &mut StdRng,
        name: impl FnOnce(&mut StdRng, String) -> Name,
    ) -> Name {
        let mut pool = self.lock();
        if pool.live.len() < pool.live_max {
            pool.drawn += 1;
            let name = name(random, format!("{}-{}", pool.prefix, pool.drawn));
            let calls = pool.calls_max;
            pool.live.push_back((name, calls));
        }
        let index = random.random_range(0..pool.live.len());
        let (name, calls) = &mut pool.live[index];
        let drawn = name.clone();
        *calls = calls.saturating_sub(1);
        if *calls == 0 {
            pool.live.remove(index);
            pool.old.push_back(drawn.clone());
            if pool.old.len() > OLD_MAX {
                pool.old.pop_front();
            }
        }
        drawn
    }

    /// A key that had its calls.
    pub fn old(&self, random: &mut StdRng) -> Option<Name> {
        let pool = self.lock();
        let index = (!pool.old.is_empty()).then(|| random.random_range(0..pool.old.len()))?;
        pool.old.get(index).cloned()
    }

    fn lock(&self) -> MutexGuard<'_, Pool> {
        self.0.lock().expect("nothing panics while it draws")
    }
}

/// The randomness of one client: the same for the same run and client.
pub fn of_client(seed: u64, process: u32) -> StdRng {
    StdRng::seed_from_u64(seed.wrapping_mul(1_000_003).wrapping_add(u64::from(process)))
}

/// Any node.
pub fn node(random: &mut StdRng) -> u8 {
    random.random_range(1..=NODES)
}

/// One of these.
pub fn one_of(random: &mut StdRng, texts: &[&str]) -> String {
    texts.choose(random).map_or_else(String::new, |text| (*text).to_owned())
}

/// The pause before a client's next turn.
pub fn pause(random: &mut StdRng, most_ms: u64) -> Duration {
    Duration::from_millis(random.random_range(1..=most_ms))
}

/// How the upstream should behave: mostly well.
pub fn how(random: &mut StdRng) -> How {
    match random.random_range(0..100) {
        0..80 => How::After(random.random_range(0..30)),
        80..85 => How::After(random.random_range(300..1500)),
        85..88 => How::Status(422),
        88..91 => How::Status(503),
        91..93 => How::Status(500),
        93..94 => How::Status(502),
        94..95 => How::Hang,
        95..97 => How::ResetBefore,
        _ => How::ResetAfter,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(_: &mut StdRng, key: String) -> Name {
        Name { key, ..Name::default() }
    }

    #[test]
    fn a_key_gets_so_many_calls_and_no_more() {
        let keys = Keys::new("k", 3, 5);
        let mut random = of_client(1, 1);
        let mut calls = std::collections::BTreeMap::<String, u32>::new();
        for _ in 0..1000 {
            *calls.entry(keys.draw(&mut random, named).key).or_default() += 1;
        }
        assert!(calls.values().all(|calls| *calls <= 5));
        assert!(calls.values().filter(|calls| **calls < 5).count() <= 3);
    }

    #[test]
    fn a_seed_draws_the_same_again() {
        let draw = || {
            let (keys, mut random) = (Keys::new("k", 3, 5), of_client(7, 2));
            let one = |_| (keys.draw(&mut random, named), node(&mut random), how(&mut random));
            (0..100).map(one).collect::<Vec<_>>()
        };
        assert_eq!(draw(), draw());
    }
}
