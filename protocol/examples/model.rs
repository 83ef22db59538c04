//! The large runs of the model of the claim protocol (see `tests/model`): `model SECONDS [NAME]`
//! gives each run whose name begins with NAME so many seconds, and says whether it was finished.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a report is what it is for")]

#[path = "../tests/model/mod.rs"]
mod model;

use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::thread::available_parallelism;
use std::time::Duration;

use model::config::Config;
use model::report::{Bound, explore};
use model::runs::{
    CALM, CRASH, DUPLICATE, FORGET, LOSS, NAP, OPERATOR, OTHER_BODY, PATIENT, RECLAIM,
    RECLAIM_LOSS, REFUSAL, RENEWAL, RENEWAL_LOSS, REPLICA, RETENTION, SKEW, SKEW_LOSS, SLOW,
    TAKEOVER, TAKEOVER_CRASH, TAKEOVER_LOSS, THREE, planted,
};
use model::variant::Variant;

/// What can be explored in minutes, then what can only be begun.
const LARGE: &[Config] = &[
    Config { name: "calm", delays: 4, ..CALM },
    Config { name: "other body", delays: 2, losses: 1, ..OTHER_BODY },
    Config { name: "three", delays: 2, ..THREE },
    Config { name: "loss", delays: 2, losses: 1, ..CALM },
    Config { name: "loss, impatient", warm: true, delays: 1, losses: 3, ..LOSS },
    Config { name: "duplicate", delays: 2, duplicates: 2, ..DUPLICATE },
    Config { name: "refusal", delays: 2, losses: 1, ..REFUSAL },
    Config { name: "slow replies", delays: 1, losses: 2, ..SLOW },
    Config { name: "nap", requests: &[0, 0], ..NAP },
    Config { name: "crash", losses: 1, ..CRASH },
    Config { name: "crash twice", delays: 0, crashes: 2, verdicts: 1, duplicates: 1, ..CRASH },
    Config { name: "operator", delays: 1, ..OPERATOR },
    Config { name: "operator, patient", requests: &[0, 0], delays: 2, ..PATIENT },
    Config { name: "operator, loss", losses: 1, ..OPERATOR },
    Config { name: "takeover", delays: 2, ..TAKEOVER },
    Config { name: "takeover, loss", delays: 1, ..TAKEOVER_LOSS },
    Config { name: "takeover, crash", delays: 1, losses: 1, ..TAKEOVER_CRASH },
    Config { name: "takeover, duplicate", duplicates: 1, ..TAKEOVER_CRASH },
    Config { name: "takeover, renewal", max_execution: 2_000, delays: 1, ..TAKEOVER_LOSS },
    Config { name: "takeover, three", requests: &[0, 0, 0], delays: 1, ..TAKEOVER_CRASH },
    Config { name: "skew", delays: 2, losses: 1, refusals: 1, ..SKEW },
    Config { name: "skew, two", requests: &[0, 0], losses: 1, ..SKEW },
    Config { name: "skew, loss", requests: &[0, 0], ..SKEW_LOSS },
    Config {
        name: "skew, takeover",
        requests: &[0, 0],
        takeover: Some(12_000),
        crashes: 1,
        ..SKEW
    },
    Config { name: "reclaim", losses: 1, ..RECLAIM },
    Config { name: "reclaim, loss", losses: 2, ..RECLAIM_LOSS },
    Config { name: "renewal", losses: 1, ..RENEWAL },
    Config { name: "renewal, loss", losses: 2, ..RENEWAL_LOSS },
    Config { name: "retention", losses: 1, ..RETENTION },
    Config { name: "replica", delays: 1, ..REPLICA },
    Config { name: "replica, three", requests: &[0, 0, 0], ..REPLICA },
    Config { name: "forget", requests: &[0, 0, 0], ..FORGET },
    Config { name: "everything", losses: 1, duplicates: 1, crashes: 1, verdicts: 1, ..CALM },
    Config {
        name: "everything, takeover",
        losses: 1,
        duplicates: 1,
        takeover: Some(12_000),
        ..CRASH
    },
];

/// The large runs, and those in which a variant is found, without the variant: what is found there
/// must be its doing.
fn runs() -> Vec<Config> {
    let mut runs = LARGE.to_vec();
    for variant in Variant::ALL {
        let unbroken = Config { name: "without a variant", variant: None, ..planted(variant).1 };
        if !runs.contains(&unbroken) {
            runs.push(unbroken);
        }
    }
    runs
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let seconds = arguments.next().and_then(|seconds| seconds.parse().ok());
    let Some(seconds) = seconds else {
        eprintln!("model SECONDS [NAME]: the seconds that each run may take, and which runs");
        return ExitCode::from(2);
    };
    let wanted = arguments.next().unwrap_or_default();
    let threads = available_parallelism().unwrap_or(NonZeroUsize::MIN);
    let bound = Bound { states: usize::MAX, time: Duration::from_secs(seconds) };
    let mut fine = true;
    for config in runs().into_iter().filter(|config| config.name.starts_with(&wanted)) {
        let findings = explore(config, threads, bound, None);
        println!("{findings}");
        fine &= findings.broken.is_empty() && (!findings.complete || findings.missed.is_empty());
    }
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
