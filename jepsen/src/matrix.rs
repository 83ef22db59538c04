//! Many runs, one after the other. Each result is appended to a file as soon as it is there, so
//! that a matrix that was broken off goes on where it was.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::history::read_lines;
use crate::report::Report;
use crate::run::{Plan, run as run_one};

/// The file of the results, in the folder of the runs.
const RESULTS: &str = "results.ndjson";

/// The columns of the table.
const COLUMNS: [&str; 15] = [
    "fault",
    "runs",
    "skipped",
    "harness failed",
    "calls",
    "keys",
    "faults installed",
    "violations",
    "undecided",
    "longest without a new key",
    "slowest recovery",
    "fault to first new key, p99",
    "healed to first new key, most",
    "answered by a majority, 5 s after a cut",
    "seeds",
];

/// The file of the table.
const TABLE: &str = "results.md";

/// Runs the plans that have no result yet, and writes the table; whether everything passed or was
/// skipped.
///
/// # Errors
/// When a result cannot be written.
pub async fn run(
    plans: &[Plan],
    folder: &Path,
    minutes: Option<u64>,
    mut say: impl FnMut(&Plan, &Report) -> Result<(), String>,
) -> Result<bool, String> {
    let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
    fs::create_dir_all(folder).map_err(failed)?;
    let path = folder.join(RESULTS);
    let mut results: Vec<Report> =
        if path.exists() { read_lines(&path).map_err(failed)? } else { Vec::new() };
    let mut file = File::options().create(true).append(true).open(&path).map_err(failed)?;
    let begin = Instant::now();
    for plan in plans {
        let late = minutes.is_some_and(|most| begin.elapsed() > Duration::from_secs(60 * most));
        if late {
            break;
        }
        if results.iter().any(|result| is_of(result, plan)) {
            continue;
        }
        let report = match run_one(plan).await {
            Ok(report) => report,
            Err(why) => Report::failure(plan, why),
        };
        let line = serde_json::to_string(&report).map_err(|error| error.to_string())?;
        writeln!(file, "{line}").map_err(failed)?;
        say(plan, &report)?;
        results.push(report);
    }
    fs::write(folder.join(TABLE), table(&results)).map_err(failed)?;
    Ok(results.iter().all(|report| report.passed() || report.skipped.is_some()))
}

fn is_of(result: &Report, plan: &Plan) -> bool {
    result.workload == plan.workload.to_string()
        && result.fault == plan.fault.to_string()
        && result.seed == plan.seed
        && result.seconds == plan.seconds
        // A harness that failed is given another chance.
        && result.failed.is_none()
}

/// What the runs of one fault come to.
#[derive(Default)]
struct Row {
    runs: usize,
    skipped: usize,
    failed: usize,
    operations: usize,
    keys: usize,
    installed: usize,
    violations: usize,
    undecided: usize,
    unavailable_ms: u64,
    recovered_ms: u64,
    first_decided_ms: Vec<u64>,
    decided_again_ms: u64,
    majority_calls: usize,
    majority_answered: usize,
    seeds: Vec<u64>,
}

/// The table, in Markdown, one row for each fault.
fn table(results: &[Report]) -> String {
    let mut rows: BTreeMap<&str, Row> = BTreeMap::new();
    for report in results {
        let row = rows.entry(&report.fault).or_default();
        row.skipped += usize::from(report.skipped.is_some());
        row.failed += usize::from(report.failed.is_some());
        if report.skipped.is_some() || report.failed.is_some() {
            continue;
        }
        row.runs += 1;
        row.operations += report.operations;
        row.keys += report.keys;
        row.installed += report.installed.len();
        row.violations += report.violations();
        row.undecided += report.undecided();
        row.unavailable_ms = row.unavailable_ms.max(report.unavailable_ms);
        row.recovered_ms = row.recovered_ms.max(report.recovered_ms);
        row.first_decided_ms.extend(&report.first_decided_ms);
        let again = report.decided_again_ms.iter().copied().max().unwrap_or(0);
        row.decided_again_ms = row.decided_again_ms.max(again);
        row.majority_calls += report.majority_calls;
        row.majority_answered += report.majority_answered;
        row.seeds.push(report.seed);
    }
    let mut text = format!("| {} |\n|{}\n", COLUMNS.join(" | "), "---|".repeat(COLUMNS.len()));
    for (fault, row) in &mut rows {
        text += &line(fault, row);
    }
    text
}

fn line(fault: &str, row: &mut Row) -> String {
    row.first_decided_ms.sort_unstable();
    let rank = (row.first_decided_ms.len() * 99).div_ceil(100);
    let first = rank.checked_sub(1).and_then(|rank| row.first_decided_ms.get(rank));
    let first = first.map_or_else(|| "-".to_owned(), |millis| format!("{millis} ms"));
    let (least, most) = (row.seeds.iter().min(), row.seeds.iter().max());
    let seeds = match (least, most) {
        (Some(least), Some(most)) if least != most => format!("{least} to {most}"),
        (Some(least), _) => least.to_string(),
        _ => "-".to_owned(),
    };
    let again = match row.first_decided_ms.is_empty() {
        true => "-".to_owned(),
        false => format!("{} ms", row.decided_again_ms),
    };
    let majority = match row.majority_calls {
        0 => "-".to_owned(),
        calls => format!("{} of {calls}", row.majority_answered),
    };
    format!(
        "| {fault} | {} | {} | {} | {} | {} | {} | {} | {} | {} ms | {} ms | {first} | {again} | \
         {majority} | {seeds} |\n",
        row.runs,
        row.skipped,
        row.failed,
        row.operations,
        row.keys,
        row.installed,
        row.violations,
        row.undecided,
        row.unavailable_ms,
        row.recovered_ms
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checker::Finding;

    fn report(fault: &str, seed: u64) -> Report {
        Report {
            fault: fault.to_owned(),
            seed,
            operations: 10,
            installed: vec!["x".to_owned()],
            unavailable_ms: seed * 100,
            first_decided_ms: vec![seed],
            decided_again_ms: vec![seed + 1],
            majority_calls: 5,
            majority_answered: 4,
            ..Report::default()
        }
    }

    #[test]
    fn the_table_adds_up_what_counts_and_only_that() {
        let mut violated = report("kill-one", 7);
        violated.findings.push(Finding {
            checker: "executions".to_owned(),
            violations: vec!["twice".to_owned()],
            undecided: Vec::new(),
        });
        let skipped = Report { skipped: Some("no root".to_owned()), ..report("kill-one", 9) };
        let table = table(&[report("kill-one", 3), violated, skipped, report("loss", 1)]);
        let lines: Vec<_> = table.lines().skip(2).collect();
        assert_eq!(
            lines,
            [
                "| kill-one | 2 | 1 | 0 | 20 | 0 | 2 | 1 | 0 | 700 ms | 0 ms | 7 ms | 8 ms | \
                 8 of 10 | 3 to 7 |",
                "| loss | 1 | 0 | 0 | 10 | 0 | 1 | 0 | 0 | 100 ms | 0 ms | 1 ms | 2 ms | \
                 4 of 5 | 1 |",
            ]
        );
    }
}
