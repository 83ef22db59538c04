//! The command line.

use std::io::{self, Write};
use std::path::{Path, PathBuf};

use clap::{Parser, Subcommand};

use crate::checker::{Case, check};
use crate::history::{Event, read_lines};
use crate::matrix;
use crate::nemesis::Fault;
use crate::report::Report;
use crate::run::{Plan, run};
use crate::upstream::Execution;
use crate::workload::Workload;

/// Fault tests of oncegate.
#[derive(Debug, Parser)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// One run
    Run {
        /// w1, w2, w3 or w4
        #[arg(long)]
        workload: Workload,
        /// Its name in docs/faults.md
        #[arg(long)]
        fault: Fault,
        /// Draws everything random
        #[arg(long)]
        seed: u64,
        /// How long clients call
        #[arg(long, default_value_t = 20)]
        seconds: u64,
        /// Keep the files of a run that passed as well
        #[arg(long)]
        keep: bool,
        #[command(flatten)]
        places: Places,
    },
    /// Many runs, one after the other; those that have a result already are not run again
    Matrix {
        /// Seeds of each workload and fault
        #[arg(long, default_value_t = 1)]
        seeds: u64,
        /// The first seed
        #[arg(long, default_value_t = 1)]
        first: u64,
        /// How long clients call in each run
        #[arg(long, default_value_t = 20)]
        seconds: u64,
        /// Only these workloads
        #[arg(long, value_delimiter = ',')]
        workloads: Vec<Workload>,
        /// Only these faults
        #[arg(long, value_delimiter = ',')]
        faults: Vec<Fault>,
        /// Begin no run after so many minutes
        #[arg(long)]
        minutes: Option<u64>,
        /// So many runs only, spread over workloads and faults
        #[arg(long)]
        runs: Option<usize>,
        #[command(flatten)]
        places: Places,
    },
    /// Holds the checkers against the files of a run that was kept
    Check {
        /// The run's folder
        folder: PathBuf,
        /// The run's fault
        #[arg(long)]
        fault: Fault,
    },
}

#[derive(Clone, Debug, clap::Args)]
struct Places {
    /// The product's binary
    #[arg(long)]
    binary: PathBuf,
    /// The folder of the product's scripts
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/../scripts"))]
    scripts: PathBuf,
    /// Where results, and the files of runs that did not pass, are kept
    #[arg(long, default_value = ".oncegate/faults")]
    dir: PathBuf,
}

/// Runs the command that was given; whether everything passed.
///
/// # Errors
/// When the harness itself fails.
pub async fn main() -> Result<bool, String> {
    match Arguments::parse().command {
        Command::Run { workload, fault, seed, seconds, keep, places } => {
            let plan = places.plan(workload, fault, seed, seconds, keep);
            let report = run(&plan).await?;
            say(&line(&report))?;
            say(&details(&report, &plan.folder.join(plan.name())))?;
            Ok(report.passed())
        }
        Command::Matrix { seeds, first, seconds, workloads, faults, minutes, runs, places } => {
            let workloads = if workloads.is_empty() { Workload::ALL.to_vec() } else { workloads };
            let faults = if faults.is_empty() { Fault::all().collect() } else { faults };
            let plan = |(seed, fault, workload)| places.plan(workload, fault, seed, seconds, false);
            let chosen = match runs {
                Some(runs) => spread(&workloads, &faults, first, runs),
                None => product(&workloads, &faults, first, seeds),
            };
            let plans: Vec<_> = chosen.into_iter().map(plan).collect();
            let told = |plan: &Plan, report: &Report| {
                say(&line(report))?;
                say(&details(report, &plan.folder.join(plan.name())))
            };
            matrix::run(&plans, &places.dir, minutes, told).await
        }
        Command::Check { folder, fault } => {
            let read = |error: io::Error| format!("{}: {error}", folder.display());
            let events: Vec<Event> = read_lines(&folder.join("history.ndjson")).map_err(read)?;
            let ledger: Vec<Execution> = read_lines(&folder.join("ledger.ndjson")).map_err(read)?;
            let findings = check(&Case::new(&events, ledger), fault);
            let findings: Vec<_> = findings.into_iter().filter(|it| !it.is_clean()).collect();
            let report = Report { findings, ..Report::default() };
            say(report.verdict())?;
            say(&details(&report, &folder))?;
            Ok(report.passed())
        }
    }
}

impl Places {
    fn plan(&self, workload: Workload, fault: Fault, seed: u64, seconds: u64, keep: bool) -> Plan {
        let Self { binary, scripts, dir } = self.clone();
        Plan { workload, fault, seed, seconds, binary, scripts, folder: dir, keep }
    }
}

/// Every workload under every fault, with so many seeds.
fn product(
    workloads: &[Workload],
    faults: &[Fault],
    first: u64,
    seeds: u64,
) -> Vec<(u64, Fault, Workload)> {
    let seeds = first..first.saturating_add(seeds);
    let pairs =
        || faults.iter().flat_map(|fault| workloads.iter().map(move |workload| (fault, workload)));
    seeds.flat_map(|seed| pairs().map(move |(fault, workload)| (seed, *fault, *workload))).collect()
}

/// So many runs, each with a seed of its own: every fault has its turn before one has another, and
/// then with another workload.
fn spread(
    workloads: &[Workload],
    faults: &[Fault],
    first: u64,
    runs: usize,
) -> Vec<(u64, Fault, Workload)> {
    let run = |(turn, seed): (usize, u64)| {
        let (round, place) = (turn / faults.len(), turn % faults.len());
        (seed, faults[place], workloads[(place + round) % workloads.len()])
    };
    (0..runs).zip(first..).map(run).collect()
}

/// Prints a line.
fn say(text: &str) -> Result<(), String> {
    if text.is_empty() {
        return Ok(());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{text}").and_then(|()| out.flush()).map_err(|error| error.to_string())
}

/// A run in a line.
fn line(report: &Report) -> String {
    format!(
        "{:<14} {} {:<14} seed {:<6} {:>5} calls {:>4} keys {:>2} faults; at most {} ms without a \
         new key, recovered in {} ms",
        report.verdict(),
        report.workload,
        report.fault,
        report.seed,
        report.operations,
        report.keys,
        report.installed.len(),
        report.unavailable_ms,
        report.recovered_ms
    )
}

/// What there is to say of a run that did not pass.
fn details(report: &Report, folder: &Path) -> String {
    let mut text = String::new();
    for why in report.skipped.iter().chain(&report.failed) {
        text += &format!("{why}\n");
    }
    for finding in &report.findings {
        for violation in &finding.violations {
            text += &format!("{}: violated: {violation}\n", finding.checker);
        }
        for undecided in &finding.undecided {
            text += &format!("{}: undecided: {undecided}\n", finding.checker);
        }
    }
    if !report.findings.is_empty() {
        text += &format!("kept in {}", folder.display());
    }
    text.trim_end().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_of_the_matrix_has_every_fault_and_no_run_twice() {
        let faults: Vec<_> = Fault::all().collect();
        let runs = spread(&Workload::ALL, &faults, 100, 4 * faults.len());
        let different: std::collections::BTreeSet<_> = runs.iter().collect();
        let mut pairs: std::collections::BTreeSet<_> = std::collections::BTreeSet::new();
        pairs.extend(runs.iter().map(|(_, fault, workload)| (*fault, *workload)));
        assert_eq!((different.len(), runs.len()), (4 * faults.len(), 4 * faults.len()));
        assert_eq!(pairs.len(), 4 * faults.len(), "every fault meets every workload");
        let first: std::collections::BTreeSet<_> =
            runs[..faults.len()].iter().map(|(_, fault, _)| fault).collect();
        assert_eq!(first.len(), faults.len());
        assert_eq!(product(&Workload::ALL, &faults, 1, 2).len(), 8 * faults.len());
    }

    #[test]
    fn the_command_line_is_sound() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }
}
