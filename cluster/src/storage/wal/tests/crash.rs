//! Power cuts and killed processes at every moment of random workloads, against a model that knows
//! no disk.

use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};

use super::*;

const SEGMENT: u64 = 800;

/// What a driver asks of the log, in order.
#[derive(Clone, Debug)]
enum Step {
    Append(ShardId, Vec<(u64, Bytes)>),
    Truncate(ShardId, Option<u64>),
    Purge(ShardId, u64, Bytes),
    Vote(ShardId, Bytes),
    Commit(ShardId, Bytes),
}

impl Step {
    /// A step that the shard's owner could take now. `number` makes its bytes unlike all others.
    fn random(states: &States, number: u64, rng: &mut StdRng) -> Self {
        // Shard C is idle most of the time: it must not keep the log, nor lose anything when old
        // segments go.
        let shard = [A, A, A, A, B, B, B, B, C][rng.random_range(0..9)];
        let state = states.get(&shard).cloned().unwrap_or_default();
        let first = state.purged.as_ref().map_or(0, |(upto, _)| upto + 1);
        let next = state.entries.last().map_or(first, |(last, _)| last + 1);
        let bytes = |rng: &mut StdRng| {
            Bytes::from(format!("{number} {}", "x".repeat(rng.random_range(0..60))))
        };
        match rng.random_range(0..20) {
            0 if next > first => {
                let kept = rng.random_range(first..=next).checked_sub(1);
                Self::Truncate(shard, kept.filter(|kept| *kept + 1 > first))
            }
            1..=4 if shard != C || rng.random_ratio(1, 9) => {
                Self::Purge(shard, rng.random_range(first..next + 2), bytes(rng))
            }
            5..=6 => Self::Vote(shard, bytes(rng)),
            7..=9 => Self::Commit(shard, bytes(rng)),
            _ => {
                let count = rng.random_range(0..4);
                Self::Append(shard, (next..next + count).map(|index| (index, bytes(rng))).collect())
            }
        }
    }

    fn model(&self, states: &mut States) {
        match self.clone() {
            Self::Append(shard, entries) => {
                states.entry(shard).or_default().entries.extend(entries);
            }
            Self::Truncate(shard, kept) => {
                let end = kept.map_or(0, |kept| kept + 1);
                states.entry(shard).or_default().entries.retain(|(index, _)| *index < end);
            }
            Self::Purge(shard, upto, mark) => {
                let state = states.entry(shard).or_default();
                state.entries.retain(|(index, _)| *index > upto);
                state.purged = Some((upto, mark));
            }
            Self::Vote(shard, vote) => states.entry(shard).or_default().vote = Some(vote),
            Self::Commit(shard, committed) => {
                states.entry(shard).or_default().committed = Some(committed);
            }
        }
        states.retain(|_, state| *state != State::default());
    }

    /// Takes the step; what is told when it is durable, if anything is.
    fn take(&self, wal: &Wal) -> Option<Told> {
        let (callback, told) = synced();
        match self.clone() {
            Self::Append(shard, entries) => wal.shard(shard).append(entries, callback),
            Self::Vote(shard, vote) => wal.shard(shard).save_vote(vote, callback),
            Self::Truncate(shard, kept) => {
                wal.shard(shard).truncate_after(kept);
                return None;
            }
            Self::Purge(shard, upto, mark) => {
                wal.shard(shard).purge(upto, mark);
                return None;
            }
            Self::Commit(shard, committed) => {
                wal.shard(shard).save_committed(committed);
                return None;
            }
        }
        Some(told)
    }
}

/// A log through several lives, and what it may hold after the last one.
struct History {
    disk: FaultyDisk,
    /// What the log held when it was opened.
    base: States,
    steps: Vec<Step>,
    /// That many steps are durable.
    acknowledged: usize,
    number: u64,
    segments_seen: u64,
}

impl History {
    fn new() -> Self {
        Self {
            disk: FaultyDisk::default(),
            base: States::new(),
            steps: Vec::new(),
            acknowledged: 0,
            number: 0,
            segments_seen: 0,
        }
    }

    fn options() -> WalOptions {
        WalOptions { segments_held: 2, ..options(SEGMENT) }
    }

    /// Opens the log, checks what it holds, works, and loses power. The power may go during any of
    /// that; whether it went at the end only.
    fn live(&mut self, halt_after: Option<u64>, steps: usize, rng: &mut StdRng) -> bool {
        if let Some(operations) = halt_after {
            self.disk.halt_after(operations);
        }
        match Wal::open(Arc::new(self.disk.clone()), Self::options()) {
            Ok(wal) => {
                self.check(&states(&wal));
                self.work(&wal, steps, rng);
            }
            Err(WalError::Io { source, .. }) => assert_eq!(source.to_string(), "the power is gone"),
            Err(other) => panic!("a crash was taken for damage: {other}"),
        }
        let survived = halt_after.is_none_or(|limit| self.disk.counts().operations <= limit);
        let killed = rng.random_ratio(1, 3);
        self.disk = if killed { self.disk.kill() } else { self.disk.crash(rng.random()) };
        survived
    }

    fn work(&mut self, wal: &Wal, steps: usize, rng: &mut StdRng) {
        let mut now = self.base.clone();
        let mut waiting = Vec::new();
        for _ in 0..steps {
            self.number += 1;
            let step = Step::random(&now, self.number, rng);
            step.model(&mut now);
            self.steps.push(step.clone());
            let Some(told) = step.take(wal) else { continue };
            if rng.random_ratio(1, 2) {
                match told.wait() {
                    Ok(()) => self.acknowledged = self.steps.len(),
                    Err(_) => break,
                }
            } else {
                waiting.push((self.steps.len(), told));
            }
        }
        assert_eq!(states(wal), self.after(self.steps.len()));
        let in_order = rng.random_ratio(1, 4);
        if in_order {
            wal.close();
        }
        let names = self.disk.files();
        let names: Vec<&Path> = names.keys().map(PathBuf::as_path).collect();
        self.segments_seen = self.segments_seen.max(segments(&names).last().copied().unwrap_or(0));
        // Callbacks come in the order of the steps, so the last one that was told of success speaks
        // for all before it.
        for (steps, told) in waiting {
            let told = if in_order { Some(told.wait()) } else { told.already() };
            if matches!(told, Some(Ok(()))) {
                self.acknowledged = self.acknowledged.max(steps);
            }
        }
    }

    fn after(&self, steps: usize) -> States {
        let mut states = self.base.clone();
        self.steps.iter().take(steps).for_each(|step| step.model(&mut states));
        states
    }

    /// The log must hold what some moment between the last acknowledged step and the last step
    /// held: all shards at the same moment, since one file stream carries them all.
    fn check(&mut self, found: &States) {
        let mut moments = self.acknowledged..=self.steps.len();
        let plausible = moments.any(|steps| self.after(steps) == *found);
        assert!(
            plausible,
            "found {found:#?}\nacknowledged {} of {} steps: {:#?}",
            self.acknowledged,
            self.steps.len(),
            self.steps
        );
        self.base = found.clone();
        self.steps.clear();
        self.acknowledged = 0;
    }
}

#[test]
fn random_lives_lose_nothing_acknowledged_and_make_nothing_up() {
    let mut segments_seen = 0;
    for seed in 0..150 {
        println!("seed {seed}");
        let mut rng = StdRng::seed_from_u64(seed);
        let mut history = History::new();
        for _ in 0..8 {
            let halt_after = rng.random_bool(0.8).then(|| rng.random_range(0..150));
            history.live(halt_after, 60, &mut rng);
        }
        history.live(None, 0, &mut rng);
        segments_seen = segments_seen.max(history.segments_seen);
    }
    assert!(segments_seen > 20, "segments came and went: {segments_seen}");
}

#[test]
fn a_crash_at_every_operation_of_a_workload_is_survived() {
    for operations in 0.. {
        let mut history = History::new();
        // The same work each time, so that the crash moves through it step by step.
        let mut work = StdRng::seed_from_u64(7);
        let survived = history.live(Some(operations), 100, &mut work);
        let mut rng = StdRng::seed_from_u64(operations);
        history.live(None, 5, &mut rng);
        history.live(None, 0, &mut rng);
        if survived {
            assert!(operations > 200, "the work took {operations} operations only");
            return;
        }
    }
}
