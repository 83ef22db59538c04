//! A rule counts only if it finds a bug that is there.

use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use cluster::failpoint::{Bug, plant};

use super::{checks, run};

/// Runs in which a planted bug must be found.
const RUNS_MAX: u64 = 50;

/// Bugs that nearly every run finds; the others are for the long set.
const CHEAP: [Bug; 6] = [
    Bug::StaleRead,
    Bug::LocalClock,
    Bug::FingerprintIgnored,
    Bug::AnswersOutOfOrder,
    Bug::TenantLeftOut,
    Bug::ReleasedAfterSent,
];

/// The first run that finds the bug, and the rule that it breaks.
fn hunt(bug: Bug) -> Option<(u64, String)> {
    plant(Some(bug));
    let caught = (1..=RUNS_MAX).find_map(|seed| {
        let violations = checks::check(&run::simulate(seed));
        violations.first().map(|violation| (seed, violation.to_string()))
    });
    plant(None);
    caught
}

fn hunt_all(bugs: &[Bug]) {
    let (next, escaped) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let work = || {
        while let Some(bug) = bugs.get(next.fetch_add(1, Ordering::Relaxed)) {
            match hunt(*bug) {
                Some((seed, what)) => println!("{bug:?}: run {seed}, {what}"),
                None => escaped.lock().unwrap().push(*bug),
            }
        }
    };
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(work);
        }
    });
    let escaped = escaped.into_inner().unwrap();
    assert!(escaped.is_empty(), "not found in {RUNS_MAX} runs: {escaped:?}");
}

#[test]
fn bugs_that_are_easy_to_find_are_found() {
    hunt_all(&CHEAP);
}

#[test]
#[ignore = "takes minutes; part of the nightly set"]
fn every_planted_bug_is_found() {
    hunt_all(&Bug::ALL);
}
