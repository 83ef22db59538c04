//! Outcomes and records in words.

use protocol::command::{Grant, Outcome, Replay};
use protocol::record::{Generation, Record, Resolution, State, Tombstone};
use protocol::response::StoredBody;
use protocol::{HolderId, RecordName, StoredResponse, Timestamp};

/// An answer in words.
pub(crate) fn outcome(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Granted { grant, attempt_no, lease_until, .. } => {
            let (grant, until) = (proof(grant), time(*lease_until));
            format!("granted: {grant}, attempt {attempt_no}, lease until {until}")
        }
        Outcome::InProgress { lease_until } => format!("in progress until {}", time(*lease_until)),
        Outcome::Reused { .. } => "reused: another request has this key".to_owned(),
        Outcome::OtherOperation => "other operation: this key is of another one".to_owned(),
        Outcome::Spent { grant } => format!("spent: {}", proof(grant)),
        Outcome::Superseded => "superseded: make a new copy".to_owned(),
        Outcome::Indeterminate => "indeterminate".to_owned(),
        Outcome::Forgetting { until } => format!("being forgotten until {}", time(*until)),
        Outcome::Replay(replay) => self::replay(replay),
        Outcome::Renewed { lease_until } => format!("renewed until {}", time(*lease_until)),
        Outcome::Completed => "completed".to_owned(),
        Outcome::Released => "released".to_owned(),
        Outcome::Unknown { takeover: true } => "unknown: another attempt may take over".to_owned(),
        Outcome::Unknown { takeover: false } => "unknown: nothing may run".to_owned(),
        Outcome::Resolved { fence } => format!("resolved: fence {fence}"),
        Outcome::Forgotten { until } => format!("forgotten: free at {}", time(*until)),
        Outcome::Revised { revision } => format!("revised: revision {revision}"),
        Outcome::Stale { record: None } => "stale: there is no record".to_owned(),
        Outcome::Stale { record: Some(_) } => "stale: see the record".to_owned(),
        Outcome::Conflict => "conflict".to_owned(),
        Outcome::Nothing => "nothing was due".to_owned(),
        Outcome::Expired => "expired".to_owned(),
    }
}

/// A record in words, and a line for each decision of its history.
pub(crate) fn record(record: Option<&Record>) -> Vec<String> {
    let (mut lines, history) = match record {
        None => return vec!["absent".to_owned()],
        Some(Record::Tombstone(Tombstone { watermark, keep_until, history })) => {
            let (index, until) = (watermark.index, time(*keep_until));
            (vec![format!("tombstone of entry {index}, kept until {until}")], history)
        }
        Some(Record::Live(generation)) => {
            let Generation { id, fence, attempts, tainted, history, .. } = &**generation;
            let tainted = if *tainted { ", tainted" } else { "" };
            let state = state(generation);
            let numbers = format!("generation {id}, fence {fence}, attempt {attempts}{tainted}");
            (vec![format!("{state}; {numbers}")], history)
        }
    };
    lines.extend(history.iter().map(decision));
    lines
}

/// A name as the script gives it.
pub(crate) fn name(name: &RecordName) -> String {
    String::from_utf8_lossy(name.as_bytes()).into_owned()
}

fn state(generation: &Generation) -> String {
    let holder = holder(generation.holder);
    match &generation.state {
        State::InFlight { lease_until } => {
            format!("in flight until {} for {holder}", time(*lease_until))
        }
        State::Over { watermark: None } => format!("over for {holder}"),
        State::Over { watermark: Some(watermark) } => {
            format!("over for {holder}, claimable from entry {}", watermark.index)
        }
        State::Indeterminate { since } => {
            format!("indeterminate since {} for {holder}", time(*since))
        }
        State::Done { completed_at, retain_until, revisions, by_operator } => {
            let by = if *by_operator { " by an operator" } else { "" };
            let kept = retain_until.map_or_else(|| "for ever".to_owned(), until);
            let bodies: Vec<_> = revisions.iter().map(|state| body(&state.response)).collect();
            let (at, bodies) = (time(*completed_at), bodies.join(", "));
            format!("done{by} at {at}, kept {kept}: {bodies}")
        }
        State::Forgotten { until } => format!("forgotten until {}", time(*until)),
    }
}

fn decision(decision: &Resolution) -> String {
    let Resolution { at, generation, fence, released, forced, by, reason } = decision;
    let forced = if *forced { " by force" } else { "" };
    let what = if *released { "released" } else { "completed" };
    let at = time(*at);
    format!("at {at} {by} {what} generation {generation} under fence {fence}{forced}: {reason}")
}

fn replay(replay: &Replay) -> String {
    let Replay { response, newest, generation, completed_at, retain_until } = replay;
    let kept = retain_until.map_or_else(|| "for ever".to_owned(), until);
    let newest = newest.as_ref().map_or_else(String::new, |it| format!(" (now {})", body(it)));
    let (body, at) = (body(response), time(*completed_at));
    format!("replay of generation {generation}: {body}{newest}, completed at {at}, kept {kept}")
}

fn proof(grant: &Grant) -> String {
    format!("fence {}", grant.fence)
}

fn body(response: &StoredResponse) -> String {
    match &response.body {
        StoredBody::Whole(bytes) => format!("\"{}\"", String::from_utf8_lossy(bytes)),
        _ => "a body that is not kept".to_owned(),
    }
}

/// The attempt that a holder is made of; scripts name them by one capital letter.
fn holder(holder: Option<HolderId>) -> String {
    let Some(holder) = holder else { return "nobody".to_owned() };
    let letter = ('A'..='Z')
        .find(|letter| HolderId::of(b"script", letter.to_string().as_bytes()) == holder)
        .expect("a script names holders by one capital letter");
    letter.to_string()
}

fn until(at: Timestamp) -> String {
    format!("until {}", time(at))
}

fn time(at: Timestamp) -> String {
    match at.as_millis() {
        u64::MAX => "the end of time".to_owned(),
        millis if millis % 1000 == 0 => format!("{}s", millis / 1000),
        millis => format!("{millis}ms"),
    }
}
