//! A record as people see it.

use protocol::Timestamp;
use protocol::decide::{Standing, standing};
use protocol::record::{Generation, Record, Resolution, Revision, State};
use serde::Serialize;

use super::claims::response::Shown;

/// A record as it is shown. What does not apply to its state is left out.
#[derive(Debug, Default, Serialize)]
pub(super) struct ShownRecord<'a> {
    state: &'static str,
    #[serde(flatten)]
    generation: Option<GenerationShown>,
    #[serde(flatten)]
    claimed: Option<Claimed>,
    #[serde(flatten)]
    completed: Option<Completed<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    indeterminate_since: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    free_at: Option<String>,
    history: Vec<Decision<'a>>,
}

/// What every generation of a key has.
#[derive(Debug, Serialize)]
struct GenerationShown {
    generation: u64,
    fence: u64,
    attempts: u32,
    first_granted_at: String,
    granted_at: String,
}

/// What only a generation in flight has.
#[derive(Debug, Serialize)]
struct Claimed {
    lease_until: String,
    lease_expires_in_ms: u64,
}

/// What only a completed generation has.
#[derive(Debug, Serialize)]
struct Completed<'a> {
    completed_at: String,
    retain_until: Option<String>,
    expires_in_s: Option<u64>,
    by_operator: bool,
    revisions: Vec<RevisionShown<'a>>,
}

/// One state of the outcome.
#[derive(Debug, Serialize)]
struct RevisionShown<'a> {
    revision: usize,
    at: String,
    response: Shown<'a>,
}

/// An operator's decision.
#[derive(Debug, Serialize)]
struct Decision<'a> {
    at: String,
    generation: u64,
    fence: u64,
    verdict: &'static str,
    forced: bool,
    by: &'a str,
    reason: &'a str,
}

/// A record at shard time `now`; `None` when its time is over, and when a key was merely given
/// back.
pub(super) fn shown(now: Timestamp, record: &Record) -> Option<ShownRecord<'_>> {
    let state = match standing(now, Some(record)) {
        Standing::Absent => return None,
        Standing::Released => "released",
        Standing::Claimed => "claimed",
        Standing::Claimable => "claimable",
        Standing::Indeterminate => "indeterminate",
        Standing::Completed => "completed",
        Standing::Forgotten => "forgotten",
    };
    match record {
        Record::Live(generation) => Some(generation_shown(now, generation, state)),
        Record::Tombstone(tombstone) if tombstone.history.is_empty() => None,
        Record::Tombstone(tombstone) => Some(ShownRecord {
            state,
            history: history(&tombstone.history),
            ..ShownRecord::default()
        }),
    }
}

/// The operation of a record whose name leaves it open.
pub(super) fn unnamed_operation(record: &Record) -> Option<&str> {
    match record {
        Record::Live(generation) => generation.operation.as_deref(),
        Record::Tombstone(_) => None,
    }
}

fn generation_shown<'a>(
    now: Timestamp,
    generation: &'a Generation,
    state: &'static str,
) -> ShownRecord<'a> {
    let mut shown = ShownRecord {
        state,
        generation: Some(GenerationShown {
            generation: generation.id.as_number(),
            fence: generation.fence.as_number(),
            attempts: generation.attempts,
            first_granted_at: time(generation.first_granted_at),
            granted_at: time(generation.granted_at),
        }),
        history: history(&generation.history),
        ..ShownRecord::default()
    };
    match &generation.state {
        State::InFlight { lease_until } => {
            let lease_expires_in_ms = lease_until.since(now).get();
            shown.claimed = Some(Claimed { lease_until: time(*lease_until), lease_expires_in_ms });
        }
        State::Over { .. } => {}
        State::Indeterminate { since } => shown.indeterminate_since = Some(time(*since)),
        State::Done { completed_at, retain_until, revisions, by_operator } => {
            shown.completed = Some(Completed {
                completed_at: time(*completed_at),
                retain_until: retain_until.map(time),
                expires_in_s: retain_until.map(|end| end.since(now).get() / 1000),
                by_operator: *by_operator,
                revisions: revisions.iter().enumerate().map(revision).collect(),
            });
        }
        State::Forgotten { until } => shown.free_at = Some(time(*until)),
    }
    shown
}

fn revision((revision, stored): (usize, &Revision)) -> RevisionShown<'_> {
    RevisionShown { revision, at: time(stored.at), response: Shown::new(&stored.response) }
}

fn history(resolutions: &[Resolution]) -> Vec<Decision<'_>> {
    let shown = resolutions.iter().map(|resolution| Decision {
        at: time(resolution.at),
        generation: resolution.generation.as_number(),
        fence: resolution.fence.as_number(),
        verdict: if resolution.released { "released" } else { "completed" },
        forced: resolution.forced,
        by: &resolution.by,
        reason: &resolution.reason,
    });
    shown.collect()
}

/// Shard time as RFC 3339 in UTC with milliseconds.
pub(super) fn time(at: Timestamp) -> String {
    let since_epoch = protocol::Millis::new(at.as_millis()).to_std();
    match std::time::SystemTime::UNIX_EPOCH.checked_add(since_epoch) {
        // Later than the calendar of the formatter, so only "for ever" in other words.
        Some(at) if since_epoch.as_secs() < 253_402_300_800 => {
            humantime::format_rfc3339_millis(at).to_string()
        }
        _ => "9999-12-31T23:59:59.999Z".to_owned(),
    }
}
