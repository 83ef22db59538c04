//! How long executions take, against how long they may.
//!
//! An operation whose `max_execution` is near to what its upstream needs will have outcomes that
//! nobody knows. The slowest hundredth of the last minutes is held against it, and shown before it
//! comes to that.

use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use protocol::Millis;

use super::metrics;
use crate::config::Policy;
use crate::judge::BootClock;

/// Steps for each doubling of a time: a time is told up to a twelfth too long.
const STEPS: f64 = 8.0;

/// So many steps reach from a millisecond to nine hours, longer than any execution may take.
const BUCKETS: usize = 200;

/// What is shown rests on a window of this length and the one before it.
const WINDOW: Duration = Duration::from_secs(300);

/// Fewer executions than this say nothing about their slowest hundredth.
const COUNT_MIN: u64 = 100;

/// How often the slowest hundredth should fit into `max_execution`, in percent.
const ROOM_PERCENT: u64 = 150;

/// The paces of all listed operations, and of all unlisted routes together.
pub(crate) struct Paces {
    by_operation: HashMap<String, Arc<Pace>>,
}

/// How long the executions of one operation take.
pub(crate) struct Pace {
    operation: String,
    max_execution: Millis,
    clock: BootClock,
    windows: Mutex<Windows>,
}

/// One execution under way.
pub(crate) struct Timing {
    pace: Arc<Pace>,
    began: Duration,
    counts: bool,
}

struct Windows {
    began: Duration,
    current: [u32; BUCKETS],
    before: [u32; BUCKETS],
    /// Whether there is too little room.
    tight: bool,
}

impl Paces {
    pub(crate) fn new(policy: &Policy, clock: &BootClock) -> Self {
        let operations = policy.operations().iter().chain([policy.unlisted()]);
        let pace = |name: &String, max_execution| {
            Arc::new(Pace::new(name.clone(), max_execution, Arc::clone(clock)))
        };
        let paces = operations.map(|it| (it.name.clone(), pace(&it.name, it.max_execution)));
        Self { by_operation: paces.collect() }
    }

    /// The pace of an operation of the policy.
    pub(crate) fn of(&self, operation: &str) -> Option<Arc<Pace>> {
        self.by_operation.get(operation).cloned()
    }
}

impl Pace {
    fn new(operation: String, max_execution: Millis, clock: BootClock) -> Self {
        let none = [0; BUCKETS];
        let windows = Windows { began: clock(), current: none, before: none, tight: false };
        Self { operation, max_execution, clock, windows: Mutex::new(windows) }
    }

    /// An execution begins.
    pub(crate) fn begin(self: &Arc<Self>) -> Timing {
        Timing { pace: Arc::clone(self), began: (self.clock)(), counts: true }
    }

    fn took(&self, took: Duration) {
        let now = (self.clock)();
        let (slowest, turned) = {
            let mut windows = self.windows.lock().expect("no holder panics");
            windows.add(took, now);
            let Some(slowest) = windows.slowest_hundredth() else { return };
            let tight = slowest.get() * ROOM_PERCENT > self.max_execution.get() * 100;
            let turned = tight != windows.tight;
            windows.tight = tight;
            (slowest, turned.then_some(tight))
        };
        let seconds = |millis: Millis| millis.get() as f64 / 1000.0;
        metrics::paced(&self.operation, seconds(slowest), seconds(self.max_execution));
        if turned == Some(true) {
            tracing::warn!(
                operation = %self.operation,
                p99_ms = slowest.get(),
                max_execution_ms = self.max_execution.get(),
                "max_execution is under 1.5 times what the slowest executions take: raise it"
            );
        }
    }
}

impl Timing {
    /// Nothing was sent, so nothing was executed.
    pub(crate) fn forget(mut self) {
        self.counts = false;
    }
}

/// An execution that was cut off took at least so long.
impl Drop for Timing {
    fn drop(&mut self) {
        if self.counts {
            self.pace.took((self.pace.clock)().saturating_sub(self.began));
        }
    }
}

impl Windows {
    fn add(&mut self, took: Duration, now: Duration) {
        let age = now.saturating_sub(self.began);
        if age >= WINDOW {
            let none = [0; BUCKETS];
            let current = std::mem::replace(&mut self.current, none);
            self.before = if age >= 2 * WINDOW { none } else { current };
            self.began = now;
        }
        let bucket = &mut self.current[bucket(took)];
        *bucket = bucket.saturating_add(1);
    }

    /// The time within which 99 of 100 executions were over; `None` where there were too few.
    fn slowest_hundredth(&self) -> Option<Millis> {
        let counts = || self.current.iter().zip(&self.before).map(|(one, other)| one + other);
        let all: u64 = counts().map(u64::from).sum();
        let mut slower = all.checked_sub(COUNT_MIN).map(|_| all / 100)?;
        for (index, count) in counts().enumerate().rev() {
            match slower.checked_sub(u64::from(count)) {
                Some(left) if index > 0 => slower = left,
                _ => return Some(end(index)),
            }
        }
        None
    }
}

/// Where a time is counted.
fn bucket(took: Duration) -> usize {
    let millis = took.as_secs_f64() * 1000.0;
    let step = (millis.max(1.0).log2() * STEPS).ceil();
    (step as usize).min(BUCKETS - 1)
}

/// The longest time that is counted there.
fn end(bucket: usize) -> Millis {
    Millis::new((bucket as f64 / STEPS).exp2().ceil() as u64)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use super::*;

    /// A pace whose clock is moved by hand, in milliseconds.
    fn pace(max_execution: u64) -> (Arc<Pace>, Arc<AtomicU64>) {
        let time = Arc::new(AtomicU64::new(0));
        let read = Arc::clone(&time);
        let clock: BootClock = Arc::new(move || Duration::from_millis(read.load(Ordering::SeqCst)));
        (Arc::new(Pace::new("orders".into(), Millis::new(max_execution), clock)), time)
    }

    fn run(pace: &Arc<Pace>, time: &AtomicU64, count: u64, millis: u64) {
        for _ in 0..count {
            let timing = pace.begin();
            time.fetch_add(millis, Ordering::SeqCst);
            drop(timing);
        }
    }

    fn p99(pace: &Pace) -> Option<u64> {
        pace.windows.lock().unwrap().slowest_hundredth().map(Millis::get)
    }

    fn is_tight(pace: &Pace) -> bool {
        pace.windows.lock().unwrap().tight
    }

    #[test]
    fn the_slowest_hundredth_is_told_within_a_twelfth() {
        let (pace, time) = pace(1000);
        run(&pace, &time, 99, 10);
        assert_eq!(p99(&pace), None, "too few");
        run(&pace, &time, 100, 10);
        assert!((10..=11).contains(&p99(&pace).unwrap()));
        run(&pace, &time, 1, 500);
        assert!((10..=11).contains(&p99(&pace).unwrap()), "half a hundredth");
        run(&pace, &time, 2, 500);
        assert!((500..=545).contains(&p99(&pace).unwrap()), "{:?}", p99(&pace));
    }

    #[test]
    fn too_little_room_is_found_and_passes_with_the_time() {
        let (pace, time) = pace(1000);
        run(&pace, &time, 200, 600);
        assert!(!is_tight(&pace), "600 ms fit one and a half times into a second");
        run(&pace, &time, 10, 700);
        assert!(is_tight(&pace));
        time.fetch_add(2 * WINDOW.as_millis() as u64, Ordering::SeqCst);
        run(&pace, &time, 100, 1);
        assert!(!is_tight(&pace), "what is long past does not count");
    }

    #[test]
    fn what_was_never_sent_does_not_count() {
        let (pace, _time) = pace(1000);
        (0..200).for_each(|_| pace.begin().forget());
        assert_eq!(p99(&pace), None);
    }

    #[test]
    fn every_time_has_a_place() {
        assert_eq!((bucket(Duration::ZERO), end(0)), (0, Millis::new(1)));
        assert_eq!(bucket(Duration::MAX), BUCKETS - 1);
        for millis in [1, 2, 3, 7, 100, 999, 60_000, 3_600_000] {
            let told = end(bucket(Duration::from_millis(millis))).get();
            assert!(told >= millis && told as f64 <= millis as f64 * 1.1 + 1.0, "{millis}: {told}");
        }
    }
}
