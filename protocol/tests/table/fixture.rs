//! Makes the record and the command that a combination of facts describes.
//!
//! All numbers are written out here once more, so that a wrong constant of the crate shows.

use protocol::command::{Claim, Command, Grant, Verdict};
use protocol::decide::Context;
use protocol::record::{
    Generation, OnUnknown, Record, Resolution, Retention, Revision, State, Terms, Tombstone,
    Watermark,
};
use protocol::response::{StoredBody, StoredResponse};
use protocol::{Basis, Fence, Fingerprint, HolderId, Millis, RecordName, Timestamp, Token};

use super::kinds::pick;
use super::rules::Facts;

pub(crate) const NOW: u64 = 1_700_000_000_000;
pub(crate) const INDEX: u64 = 900;
pub(crate) const EPOCH: u8 = 3;
/// Lease of the record's current grant.
pub(crate) const LEASE: u64 = 10_000;
pub(crate) const MAX_EXECUTION: u64 = 60_000;
pub(crate) const DAY: u64 = 86_400_000;
/// When an operator decided something, in records that have a history.
pub(crate) const DECIDED_AT: u64 = NOW - 3_600_000;
/// How long after lease and execution an operator may release.
pub(crate) const DRAIN: u64 = 1000;
/// Index of the event that made a key claimable, in records that have a watermark.
const WATERMARK: u64 = 500;
/// How long a copy of a claim with these leases may travel.
const CLAIM_TTL: u64 = 4000;

pub(crate) fn context() -> Context {
    Context { now: at(NOW), index: INDEX, epoch: EPOCH, next_fence: fence(77) }
}

/// The record, and facts that follow from the chosen ones.
pub(crate) fn record(facts: &mut Facts) -> Option<Record> {
    let state = match facts["is"] {
        "absent" => return None,
        "tombstone" => return Some(Record::Tombstone(tombstone(facts))),
        "inflight" => {
            facts.insert("holder", "held");
            facts.insert("mark", "unset");
            let lease_until = at(pick(facts, "lease", &[NOW + 1, NOW, NOW - 1]));
            State::InFlight { lease_until }
        }
        "over" => State::Over { watermark: (facts["mark"] == "set").then(watermark) },
        "indeterminate" => State::Indeterminate { since: at(NOW - 77) },
        "done" => done(facts),
        "forgotten" => {
            State::Forgotten { until: at(pick(facts, "until", &[NOW + 1, NOW, NOW - 1])) }
        }
        other => panic!("no such record: {other}"),
    };
    Some(Record::Live(Box::new(generation(facts, state))))
}

fn generation(facts: &Facts, state: State) -> Generation {
    let drained = NOW - LEASE - MAX_EXECUTION - DRAIN;
    let granted_at = match facts.get("granted") {
        None => NOW - DAY,
        Some(_) => pick(facts, "granted", &[NOW - 5000, drained + 1, drained]),
    };
    let tainted = facts.get("tainted") == Some(&"yes");
    let first_granted_at = if tainted { granted_at - 20_000 } else { granted_at };
    let needed = NOW + LEASE + MAX_EXECUTION - first_granted_at;
    let on_unknown = match facts.get("window").unwrap_or(&"closed") {
        &"closed" => OnUnknown::FailClosed,
        _ => OnUnknown::Takeover {
            downstream_retention: Millis::new(pick(
                facts,
                "window",
                &[0, needed - 1, needed, needed + 1],
            )),
        },
    };
    Generation {
        id: if tainted { fence(40) } else { fence(50) },
        fence: fence(50),
        token: Token::new([7; 16]),
        holder: (facts.get("holder") != Some(&"none")).then(|| holder("own")),
        print: print(1).into(),
        terms: Terms {
            retention: retention(facts),
            on_unknown,
            max_execution: Millis::new(MAX_EXECUTION),
        },
        first_granted_at: at(first_granted_at),
        granted_at: at(granted_at),
        lease: Millis::new(LEASE),
        attempts: if tainted { 2 } else { 1 },
        tainted,
        operation: Some("capture".to_owned()),
        state,
        history: history(facts),
    }
}

fn tombstone(facts: &Facts) -> Tombstone {
    let keep_until = at(pick(facts, "keep", &[NOW + 1000, NOW, NOW - 1]));
    Tombstone { watermark: watermark(), keep_until, history: history(facts) }
}

fn done(facts: &Facts) -> State {
    let retain_until = match facts["retention"] {
        "forever" => None,
        _ => Some(at(pick(facts, "retention", &[NOW + 1000, NOW + 1, NOW, NOW - 1]))),
    };
    let count = pick(facts, "revisions", &[1, 2, 16]);
    let revisions = (0..count).map(|number| Revision {
        at: at(NOW - 100 + number),
        response: response(&format!("outcome {number}")),
    });
    State::Done {
        completed_at: at(NOW - 100),
        retain_until,
        revisions: revisions.collect(),
        by_operator: facts["operator"] == "yes",
    }
}

/// The command, and facts that follow from it and the record.
pub(crate) fn command(facts: &mut Facts, record: &Facts) -> Command {
    let name = RecordName::from_bytes(b"a name".to_vec());
    match facts["command"] {
        "claim" => {
            let held = record.get("holder") == Some(&"held");
            let holder = if held && facts["attempt"] == "own" { "holder" } else { "another" };
            facts.insert("by", holder);
            Command::Claim(claim(facts, name))
        }
        "renew" => {
            let lease = Millis::new(pick(facts, "ask", &[0, 1, 10_000, 100_000]));
            Command::Renew { name, grant: grant(facts), lease }
        }
        "complete" => {
            Command::Complete { name, grant: grant(facts), response: answer(facts, record) }
        }
        "release" => Command::Release { name, grant: grant(facts) },
        "unknown" => Command::Unknown { name, grant: grant(facts) },
        "resolve" => Command::Resolve {
            name,
            fence: fence(pick(facts, "fence", &[50, 40, 77])),
            verdict: match facts["verdict"] {
                "completed" => Verdict::Completed(response("verdict")),
                _ => Verdict::Released,
            },
            by: "ann".to_owned(),
            reason: "looked".to_owned(),
            force: facts["force"] == "yes",
        },
        "forget" => Command::Forget { name, fence: fence(pick(facts, "fence", &[50, 40, 77])) },
        "revise" => {
            Command::Revise { name, operation: operation(facts), response: answer(facts, record) }
        }
        "expire" => Command::Expire { name },
        other => panic!("no such command: {other}"),
    }
}

/// The operation that a command is of; that of the records is "capture".
fn operation(facts: &Facts) -> Option<String> {
    match facts["operation"] {
        "same" => Some("capture".to_owned()),
        "other" => Some("refund".to_owned()),
        _ => None,
    }
}

fn claim(facts: &Facts, name: RecordName) -> Claim {
    let (fresh, oldest) = (NOW - 10, NOW - CLAIM_TTL);
    let seen = Basis {
        epoch: if facts["admit"] == "epoch" { EPOCH - 1 } else { EPOCH },
        index: pick(facts, "admit", &[899, 899, WATERMARK, 899, WATERMARK - 1, 0, 899]),
        time: at(pick(facts, "admit", &[fresh, oldest, fresh, oldest - 1, fresh, fresh, fresh])),
    };
    Claim {
        name,
        operation: operation(facts),
        holder: holder(facts["attempt"]),
        seen,
        print: print(if facts["print"] == "same" { 1 } else { 2 }).into(),
        lease: Millis::new(pick(facts, "ask", &[LEASE, LEASE + 2])),
        terms: claimed_terms(),
        token: Token::new([9; 16]),
    }
}

/// The terms that claims bring: other ones than the records have.
pub(crate) fn claimed_terms() -> Terms {
    Terms {
        retention: Retention::For(Millis::new(5)),
        on_unknown: OnUnknown::FailClosed,
        max_execution: Millis::new(6),
    }
}

fn answer(facts: &Facts, record: &Facts) -> StoredResponse {
    let newest = match record.get("revisions") {
        Some(_) => pick(record, "revisions", &[0, 1, 15]),
        None => 0,
    };
    match facts["answer"] {
        "first" => response("outcome 0"),
        "newest" => response(&format!("outcome {newest}")),
        _ => response("another"),
    }
}

fn grant(facts: &Facts) -> Grant {
    let token = if facts["grant"] == "forged" { [8; 16] } else { [7; 16] };
    Grant { fence: fence(pick(facts, "grant", &[50, 40, 77, 50])), token: Token::new(token) }
}

fn history(facts: &Facts) -> Vec<Resolution> {
    let decision = Resolution {
        at: at(DECIDED_AT),
        generation: fence(20),
        fence: fence(30),
        released: true,
        forced: true,
        by: "bob".to_owned(),
        reason: "asked the bank".to_owned(),
    };
    if facts["history"] == "some" { vec![decision] } else { Vec::new() }
}

fn retention(facts: &Facts) -> Retention {
    match facts.get("kept").or(facts.get("retention")) {
        Some(&"forever") => Retention::Forever,
        _ => Retention::For(Millis::new(DAY)),
    }
}

fn watermark() -> Watermark {
    Watermark { index: WATERMARK, time: at(NOW - 1000) }
}

pub(crate) fn at(millis: u64) -> Timestamp {
    Timestamp::from_millis(millis)
}

pub(crate) fn fence(counter: u64) -> Fence {
    Fence::new(EPOCH, counter)
}

pub(crate) fn holder(attempt: &str) -> HolderId {
    HolderId::of(b"credential", attempt.as_bytes())
}

pub(crate) fn print(byte: u8) -> Fingerprint {
    Fingerprint { version: 1, digest: [byte; 32] }
}

pub(crate) fn response(body: &str) -> StoredResponse {
    let body = StoredBody::Whole(body.as_bytes().to_vec());
    StoredResponse { status: 201, headers: Vec::new(), body }
}
