//! What the claims API answers with.

use std::io::Write;

use axum::response::Response;
use http::{HeaderValue, StatusCode};
use protocol::command::{Grant, Replay};
use protocol::{Decided, Fence, Millis, Outcome, Timestamp};
use serde::Serialize;
use serde_json::json;

use super::response::Shown;
use crate::api::json;
use crate::config::Operation;
use crate::problem::{Code, Problem};
use crate::replay::{EXPIRES, Repeat};

/// Enough for the answer to a granted claim, so that it is written into one piece of memory.
const GRANTED_BYTES: usize = 192;

/// The answer to a repeat of a completed claim.
#[derive(Debug, Serialize)]
struct Replayed<'a> {
    state: &'static str,
    replayed: bool,
    response: Shown<'a>,
    /// Whether there is a newer revision, where the operation wants that told.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    stale: bool,
    /// `null`: for ever.
    expires_in_s: Option<u64>,
}

/// The claim was granted. Written by hand: this is the answer that most calls get.
pub(super) fn granted(grant: &Grant, attempt_no: u32, rest: Millis) -> Response {
    let mut body = Vec::with_capacity(GRANTED_BYTES);
    let token = u128::from_be_bytes(*grant.token.as_bytes());
    write!(
        body,
        "{{\"state\":\"claimed\",\"fence\":{},\"token\":\"{token:032x}\",\
         \"attempt_no\":{attempt_no},\"lease_expires_in_ms\":{}}}",
        grant.fence,
        rest.get()
    )
    .expect("writing to memory does not fail");
    json(StatusCode::CREATED, body)
}

/// The key was completed before: the same answer that a repeat gets through the gateway.
pub(super) fn replayed(
    operation: &Operation,
    replay: Replay,
    now: Timestamp,
) -> Result<Response, Problem> {
    let expires_in_s = replay.retain_until.map(|end| end.since(now).get() / 1000);
    let Repeat { response, stale } =
        Repeat::by(operation.replay, replay).map_err(|problem| match expires_in_s {
            Some(left) => problem.header(EXPIRES, HeaderValue::from(left)),
            None => problem,
        })?;
    let response = Shown::new(&response);
    Ok(rendered(&Replayed { state: "completed", replayed: true, response, stale, expires_in_s }))
}

/// The lease goes on.
pub(super) fn renewed(fence: Fence, rest: Millis) -> Response {
    rendered(&json!({
        "state": "claimed",
        "fence": fence.as_number(),
        "lease_expires_in_ms": rest.get(),
    }))
}

/// The record is now in this state.
pub(super) fn state(state: &'static str) -> Response {
    rendered(&json!({ "state": state }))
}

/// The outcome has this newest revision.
pub(super) fn revised(revision: u32) -> Response {
    rendered(&json!({ "revision": revision }))
}

/// A plain success with this document.
pub(in crate::api) fn rendered<T: Serialize>(document: &T) -> Response {
    let body = serde_json::to_vec(document).expect("an answer is strings, numbers and documents");
    json(StatusCode::OK, body)
}

/// The problem that renders a refusal.
pub(super) fn refused(decided: &Decided, operation: &Operation) -> Problem {
    let Some(problem) = Problem::refusal(&decided.outcome, decided.basis.time) else {
        // The machine answers every command in its own words; another one's is a defect of ours.
        tracing::error!("a command was answered with another command's outcome");
        return Problem::new(Code::Internal, "the command met a defect");
    };
    match decided.outcome {
        Outcome::Indeterminate | Outcome::Spent { .. } => {
            problem.with_status(operation.indeterminate_status)
        }
        _ => problem,
    }
}
