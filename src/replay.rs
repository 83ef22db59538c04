//! Which answer a repeat of a completed request gets: the same through the gateway and through the
//! claims API.

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header::LOCATION;
use http::{HeaderName, HeaderValue};
use protocol::command::Replay;
use protocol::response::{Measure, StoredBody, StoredResponse};

use crate::config::ReplayMode;
use crate::problem::{Code, Problem};

/// Says that an answer is a replay.
pub const REPLAYED: HeaderName = HeaderName::from_static("idempotent-replayed");

/// In how many seconds the key becomes a new request again.
pub const EXPIRES: HeaderName = HeaderName::from_static("idempotency-expires");

/// Says that the outcome has a newer revision than the one that is answered.
pub const STALE: HeaderName = HeaderName::from_static("idempotency-stale");

/// The answer to a repeat.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Repeat {
    /// One state of the outcome, its body kept.
    pub response: StoredResponse,
    /// Whether the client is to be told that there is a newer one.
    pub stale: bool,
}

impl Repeat {
    /// The answer by this mode.
    ///
    /// # Errors
    /// `replay-redirect` where the mode wants that and a successful outcome had a `Location`;
    /// `response-not-replayable` where the body was not kept.
    pub fn by(mode: ReplayMode, replay: Replay) -> Result<Self, Problem> {
        let Replay { response: first, newest, .. } = replay;
        let stale = mode == ReplayMode::SnapshotFreshness && newest.is_some();
        let response = match (mode, newest) {
            (ReplayMode::Latest, Some(newest)) => newest,
            (ReplayMode::Redirect, newest) => {
                let there = newest.as_ref().and_then(location).or_else(|| location(&first));
                match there.filter(|_| (200..300).contains(&first.status)) {
                    Some(there) => return Err(redirect(&first, there)),
                    None => first,
                }
            }
            _ => first,
        };
        if matches!(response.body, StoredBody::Whole(_)) {
            return Ok(Self { response, stale });
        }
        let problem = not_replayable(&response);
        Err(if stale { problem.header(STALE, HeaderValue::from_static("true")) } else { problem })
    }
}

/// Where the resource is that a response is about.
fn location(response: &StoredResponse) -> Option<HeaderValue> {
    let location = response.headers.iter().find(|header| header.name == LOCATION.as_str())?;
    HeaderValue::from_bytes(&location.value).ok()
}

fn redirect(first: &StoredResponse, there: HeaderValue) -> Problem {
    let detail = "the request was executed; what came of it is found under the Location";
    Problem::new(Code::ReplayRedirect, detail)
        .member("status_of_response", first.status)
        .header(LOCATION, there)
}

/// The outcome is known, but its body was not kept. What is known of it is told.
fn not_replayable(response: &StoredResponse) -> Problem {
    let mut problem = Problem::new(
        Code::ResponseNotReplayable,
        "the request was executed; its response was too large or too slow to be kept, and cannot \
         be replayed",
    )
    .member("status_of_response", response.status);
    if let StoredBody::Measured(measure) = &response.body {
        problem = problem.member("bytes_of_response", measure.bytes);
        problem = problem.member("digest_of_response", digest_text(measure));
    }
    match location(response) {
        Some(there) => problem.header(LOCATION, there),
        None => problem,
    }
}

/// The digest of a body that was not kept, as RFC 9530 writes it.
pub fn digest_text(measure: &Measure) -> String {
    format!("sha-256=:{}:", BASE64.encode(measure.sha256))
}

#[cfg(test)]
mod tests;
