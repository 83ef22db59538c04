//! Whole clusters in one thread, on simulated time, network and disks: many seeds, each a history
//! that is checked. docs/simulation.md says what is simulated and how far a seed repeats itself.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "a test that cannot go on has failed, and says so"
)]

mod checks;
mod gateway;
mod history;
mod nemesis;
mod planted;
mod run;
mod upstream;
mod workload;
mod world;

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use self::checks::Violation;
use self::history::What;
use self::nemesis::Fault;

/// Seeds of every commit's run.
const SEEDS: u64 = 100;

/// A number that the environment gives.
fn setting(name: &str) -> Option<u64> {
    #[expect(clippy::disallowed_methods, reason = "a person asks for more seeds, or for one again")]
    let text = std::env::var(name).ok()?;
    Some(text.parse().unwrap_or_else(|_| panic!("{name} must be a number")))
}

/// What was seen in all runs together.
#[derive(Default)]
struct Coverage {
    counts: BTreeMap<&'static str, u64>,
}

impl Coverage {
    fn add(&mut self, events: &[history::Event]) {
        for event in events {
            let what = match &event.what {
                What::Installed(fault) => *fault,
                What::Executed(_) => "executed",
                What::Told { told: history::Told::Own { .. }, .. } => "told its own answer",
                What::Told { told: history::Told::Replay { .. }, .. } => "replayed",
                What::Told { told: history::Told::InProgress, .. } => "in progress",
                What::Told { told: history::Told::Reused, .. } => "reused",
                What::Told { told: history::Told::Indeterminate, .. } => "indeterminate",
                What::Told { .. } => "told nothing",
                What::Operator { .. } => "operator",
                What::Read { .. } => "read",
                What::Leads { .. } => "led",
                _ => continue,
            };
            *self.counts.entry(what).or_default() += 1;
        }
    }

    fn missing(&self) -> Vec<&'static str> {
        let kinds = ["executed", "replayed", "in progress", "reused", "indeterminate", "operator"];
        let needed = Fault::ALL.into_iter().map(Fault::name).chain(kinds);
        needed.filter(|kind| !self.counts.contains_key(kind)).collect()
    }
}

/// Runs seeds on all processors; what each that fails has broken.
fn run_all(seeds: std::ops::Range<u64>) -> (Coverage, BTreeMap<u64, Vec<Violation>>) {
    let (next, end) = (AtomicU64::new(seeds.start), seeds.end);
    let coverage = Mutex::new(Coverage::default());
    let failed = Mutex::new(BTreeMap::new());
    let work = || {
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return;
            }
            let outcome = run::simulate(seed);
            let violations = checks::check(&outcome);
            coverage.lock().unwrap().add(&outcome.events);
            if !violations.is_empty() {
                println!("seed {seed}: {} (SIM_SEED={seed} shows it)", violations[0]);
                failed.lock().unwrap().insert(seed, violations);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(work);
        }
    });
    (coverage.into_inner().unwrap(), failed.into_inner().unwrap())
}

/// `SIM_SEEDS=5000` runs more seeds, `SIM_FIRST=1000` others, `SIM_SEED=17` one of them with its
/// whole history.
#[test]
fn no_seed_breaks_a_rule() {
    if let Some(seed) = setting("SIM_SEED") {
        return show(seed);
    }
    let first = setting("SIM_FIRST").unwrap_or(1);
    let seeds = first..first + setting("SIM_SEEDS").unwrap_or(SEEDS);
    let (coverage, failed) = run_all(seeds);
    println!("{:#?}", coverage.counts);
    let mut complaint = String::new();
    for (seed, violations) in &failed {
        for violation in violations.iter().take(3) {
            writeln!(complaint, "seed {seed}: {violation}").unwrap();
        }
    }
    assert!(failed.is_empty(), "\n{complaint}run one again: SIM_SEED=17 cargo test --test sim");
    assert_eq!(coverage.missing(), [""; 0], "what was never there was not tested");
}

fn show(seed: u64) {
    let outcome = run::simulate(seed);
    for event in &outcome.events {
        println!("{event}");
    }
    let violations = checks::check(&outcome);
    violations.iter().for_each(|violation| println!("BROKEN {violation}"));
    assert!(violations.is_empty(), "seed {seed} breaks {} rules", violations.len());
}

#[test]
fn a_seed_gives_the_same_history_twice() {
    for seed in [1, 2, 3] {
        let (one, two) = (run::simulate(seed), run::simulate(seed));
        for (first, second) in one.events.iter().zip(&two.events) {
            assert_eq!(first, second, "seed {seed}");
        }
        assert_eq!(one.events.len(), two.events.len(), "seed {seed}");
        // Nor does anything else differ that the machines did.
        assert_eq!(one.steps, two.steps, "seed {seed}");
        assert_ne!(one.steps, run::simulate(seed + 100).steps, "seeds differ");
    }
}
