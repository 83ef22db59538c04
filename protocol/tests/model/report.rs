//! A run, and what it has found.

use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroUsize;
use std::time::{Duration, Instant};

use stateright::{Checker, Expectation, HasDiscoveries, Model};

use super::config::Config;
use super::step::Step;

/// What ends a run before everything is explored.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Bound {
    /// So many states, counted as often as they are reached.
    pub(crate) states: usize,
    /// So much time.
    pub(crate) time: Duration,
}

/// What a run has found.
pub(crate) struct Findings {
    name: &'static str,
    states: usize,
    depth: usize,
    elapsed: Duration,
    /// Whether everything was explored.
    pub(crate) complete: bool,
    /// The rules that were broken, and the steps that break them.
    pub(crate) broken: Vec<(&'static str, Vec<Step>)>,
    /// The goals that were not reached.
    pub(crate) missed: Vec<&'static str>,
}

/// Explores a run with so many threads until everything is explored, the bound is reached, or
/// `until` is found: a rule by its name, or any broken rule.
pub(crate) fn explore(
    config: Config,
    threads: NonZeroUsize,
    bound: Bound,
    until: Option<&'static str>,
) -> Findings {
    let begun = Instant::now();
    let until = match until {
        Some(name) => HasDiscoveries::AnyOf(BTreeSet::from([name])),
        None => HasDiscoveries::AnyFailures,
    };
    let checker = config
        .checker()
        .threads(threads.get())
        .finish_when(until)
        .target_state_count(bound.states)
        .timeout(bound.time)
        .spawn_bfs()
        .join();
    let elapsed = begun.elapsed();
    let cut_off = checker.state_count() >= bound.states || elapsed >= bound.time;
    let (mut broken, mut missed) = (Vec::new(), Vec::new());
    for property in checker.model().properties() {
        match (property.expectation, checker.discovery(property.name)) {
            (Expectation::Always, Some(path)) => broken.push((property.name, path.into_actions())),
            (Expectation::Sometimes, None) => missed.push(property.name),
            _ => {}
        }
    }
    Findings {
        name: config.name,
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        elapsed,
        complete: !cut_off && broken.is_empty(),
        broken,
        missed,
    }
}

impl fmt::Display for Findings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, states, depth, elapsed, .. } = self;
        let end = match (self.complete, self.broken.is_empty()) {
            (true, _) => "complete",
            (false, true) => "cut off",
            (false, false) => "a rule is broken",
        };
        write!(f, "{name}: {states} states, depth {depth}, {elapsed:.1?}, {end}")?;
        for (rule, steps) in &self.broken {
            write!(f, "\n  broken: {rule}")?;
            for step in steps {
                write!(f, "\n    {step:?}")?;
            }
        }
        for goal in &self.missed {
            write!(f, "\n  not reached: {goal}")?;
        }
        Ok(())
    }
}
