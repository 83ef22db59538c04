//! Problems: the only mapping from errors and refusals to statuses (RFC 9457), whatever an
//! operation's clients want their errors to look like.
//!
//! A problem says in `code` what happened, in `retryable` whether the same request may be sent
//! again unchanged, and in `executed` whether the upstream may have acted. Its `type` is a path on
//! the same host that answers with an explanation, see [`page()`].

use axum::response::{IntoResponse, Response};
use cluster::{Certainty, SubmitError};
use http::header::{ALLOW, RETRY_AFTER, WWW_AUTHENTICATE};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use protocol::key::{KeyError, NaturalKeyError};
use protocol::{Millis, Outcome, Timestamp};
use serde_json::Value;

pub use code::{Code, Executed};
pub use page::{PAGES, page};
pub use style::{ErrorBody, PROBLEM, Style};

mod body;
mod code;
mod page;
mod style;
#[cfg(test)]
mod tests;

/// The media type of a problem.
pub const MEDIA_TYPE: HeaderValue = HeaderValue::from_static("application/problem+json");

/// How long a client should wait after a 503: a new leader is elected within two seconds.
const UNAVAILABLE_RETRY: Millis = Millis::from_secs(1);

/// How long a client should wait where an operator, or whoever spreads requests over the processes,
/// has to act first.
const MISMATCH_RETRY: Millis = Millis::from_secs(5);

/// How long a client should wait for room for a new key. It comes when other keys end, which may be
/// soon or take days; whoever asks once a minute costs nothing.
const QUOTA_RETRY: Millis = Millis::from_secs(60);

/// One answer that is not what the client asked for.
#[derive(Clone, Debug)]
pub struct Problem {
    code: Code,
    status: StatusCode,
    retryable: bool,
    executed: Executed,
    detail: String,
    members: Vec<(&'static str, Value)>,
    /// In a box, so that a result which may be a problem stays small.
    headers: Box<HeaderMap>,
}

impl Problem {
    /// A problem of this code. `detail` is for people: what was wrong with this request. It never
    /// holds a key, a body or a credential.
    pub fn new(code: Code, detail: impl Into<String>) -> Self {
        let mut headers = HeaderMap::new();
        if code == Code::Unauthenticated {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        Self {
            code,
            status: code.status(),
            retryable: code.retryable(),
            executed: code.executed(),
            detail: detail.into(),
            members: Vec::new(),
            headers: Box::new(headers),
        }
    }

    /// A request that cannot be read; `detail` says why.
    pub fn invalid(detail: impl Into<String>) -> Self {
        Self::new(Code::InvalidRequest, detail)
    }

    /// Another holder executes, with a lease for another `rest`. The client is told to wait for a
    /// random whole number of seconds within it, so that the repeats of many clients do not arrive
    /// together.
    pub fn in_progress(rest: Millis) -> Self {
        let most = whole_seconds(rest);
        Self::new(Code::KeyInProgress, "another request with this key is being executed")
            .retry_after(Millis::from_secs(rand::random_range(1..=most)))
    }

    /// The key belongs to another request, from which this one `differs` in the values that these
    /// JSON pointers name, as far as that is known.
    pub fn reused(differs: Vec<String>) -> Self {
        let detail = "this key was used before with another request; this request was not executed";
        let problem = Self::new(Code::KeyReused, detail);
        if differs.is_empty() { problem } else { problem.member("differs", differs) }
    }

    /// The problem that renders a refusal decided at shard time `now`; `None` for an outcome that
    /// is not a refusal.
    ///
    /// `Spent` is told as `outcome-indeterminate`: whoever renders it here does not know that
    /// nothing was sent.
    pub fn refusal(outcome: &Outcome, now: Timestamp) -> Option<Self> {
        let problem = match outcome {
            Outcome::InProgress { lease_until } => Self::in_progress(lease_until.since(now)),
            Outcome::Reused { .. } => Self::reused(Vec::new()),
            Outcome::OtherOperation => Self::new(
                Code::OperationMismatch,
                "this key was used before for another operation; this request was not executed",
            ),
            Outcome::Spent { .. } | Outcome::Indeterminate => Self::new(
                Code::OutcomeIndeterminate,
                "nobody can tell whether the request was executed; it will not run again until an \
                 operator has settled it",
            ),
            Outcome::Superseded => Self::unavailable("the key changed too often to be claimed"),
            Outcome::Forgetting { until } => Self::new(
                Code::ShardUnavailable,
                "the key was removed moments ago and is not free yet",
            )
            .retry_after(until.since(now)),
            Outcome::Stale { .. } => Self::new(
                Code::StaleFence,
                "the fence and token are not the key's current ones; nothing was changed",
            ),
            Outcome::Conflict => Self::new(
                Code::StateConflict,
                "the key is not in a state in which this can be done; nothing was changed",
            ),
            Outcome::Granted { .. }
            | Outcome::Replay(_)
            | Outcome::Renewed { .. }
            | Outcome::Completed
            | Outcome::Released
            | Outcome::Unknown { .. }
            | Outcome::Resolved { .. }
            | Outcome::Forgotten { .. }
            | Outcome::Revised { .. }
            | Outcome::Nothing
            | Outcome::Expired => return None,
        };
        Some(problem)
    }

    /// The key's shard cannot decide now.
    pub fn unavailable(detail: impl Into<String>) -> Self {
        Self::new(Code::ShardUnavailable, detail).retry_after(UNAVAILABLE_RETRY)
    }

    /// The code.
    pub fn code(&self) -> Code {
        self.code
    }

    /// The status that the problem is answered with.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The header lines that it is answered with in every style.
    pub fn headers(&self) -> &HeaderMap {
        &self.headers
    }

    /// Answers with another status than the code's own, where a setting says so.
    #[must_use]
    pub fn with_status(mut self, status: StatusCode) -> Self {
        self.status = status;
        self
    }

    /// Says otherwise than the code's row whether the upstream may have acted.
    #[must_use]
    pub fn with_executed(mut self, executed: Executed) -> Self {
        self.executed = executed;
        self
    }

    /// Says otherwise than the code's row whether the same request may be sent again.
    #[must_use]
    pub fn with_retryable(mut self, retryable: bool) -> Self {
        self.retryable = retryable;
        self
    }

    /// Tells the client when to come back: `wait` in whole seconds, rounded up, at least one.
    #[must_use]
    pub fn retry_after(self, wait: Millis) -> Self {
        self.header(RETRY_AFTER, HeaderValue::from(whole_seconds(wait)))
    }

    /// Names the methods that the resource has.
    #[must_use]
    pub fn allow(self, methods: &'static str) -> Self {
        self.header(ALLOW, HeaderValue::from_static(methods))
    }

    /// Adds a header line in the place of an earlier one of this name.
    #[must_use]
    pub fn header(mut self, name: HeaderName, value: HeaderValue) -> Self {
        self.headers.insert(name, value);
        self
    }

    /// Adds a member of its own to the problem's JSON object.
    #[must_use]
    pub fn member(mut self, name: &'static str, value: impl Into<Value>) -> Self {
        self.members.push((name, value.into()));
        self
    }
}

impl Problem {
    /// The problem as a JSON document in the default style: it is about to be sent.
    pub fn document(&self) -> Vec<u8> {
        let instance = self.told();
        body::write(self, ErrorBody::Problem, self.status, &instance)
    }

    /// Counts and logs that the problem is told to somebody, and names this occurrence.
    fn told(&self) -> String {
        metrics::counter!(crate::api::metrics::PROBLEMS, "code" => self.code.name()).increment(1);
        let instance = instance();
        tracing::debug!(code = self.code.name(), %instance, "answered with a problem");
        instance
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response {
        Style::DEFAULT.render(self)
    }
}

/// What a submit error is told as: the shard could not decide in time. Every one may be retried;
/// whether the upstream acted is told by whoever knows what was being submitted.
impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        let detail = match error.certainty() {
            Certainty::Definite => format!("{error}; nothing was changed"),
            Certainty::Indefinite => {
                format!("{error}; repeat the same call to learn what became of it")
            }
        };
        match error {
            SubmitError::ConfigMismatch => {
                Self::new(Code::ConfigMismatch, detail).retry_after(MISMATCH_RETRY)
            }
            SubmitError::QuotaExceeded => {
                Self::new(Code::QuotaExceeded, detail).retry_after(QUOTA_RETRY)
            }
            SubmitError::NameTooLong => Self::invalid(detail),
            _ => Self::unavailable(detail),
        }
    }
}

impl From<KeyError> for Problem {
    fn from(error: KeyError) -> Self {
        let code = match error {
            KeyError::TooLong { .. } => Code::KeyTooLong,
            KeyError::Malformed(_) => Code::KeyMalformed,
        };
        Self::new(code, error.to_string())
    }
}

impl From<NaturalKeyError> for Problem {
    fn from(error: NaturalKeyError) -> Self {
        let code = match error {
            NaturalKeyError::Missing(_) => Code::KeyMissing,
            NaturalKeyError::TooLong(_) => Code::KeyTooLong,
            NaturalKeyError::NoDocument
            | NaturalKeyError::Empty(_)
            | NaturalKeyError::NotScalar(_)
            | NaturalKeyError::NoList(_) => Code::KeyMalformed,
        };
        Self::new(code, format!("the key of this operation: {error}"))
    }
}

/// Identifies one occurrence: a random UUID as a URN, which also stands in the log.
fn instance() -> String {
    let mut bytes: [u8; 16] = rand::random();
    // Version 4, variant 1, so that the URN is a UUID like any other.
    bytes[6] = (bytes[6] & 0x0f) | 0x40;
    bytes[8] = (bytes[8] & 0x3f) | 0x80;
    let n = u128::from_be_bytes(bytes);
    format!(
        "urn:uuid:{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        n >> 96,
        (n >> 80) & 0xffff,
        (n >> 64) & 0xffff,
        (n >> 48) & 0xffff,
        n & 0xffff_ffff_ffff
    )
}

/// A wait in whole seconds, rounded up, at least one.
fn whole_seconds(wait: Millis) -> u64 {
    wait.get().div_ceil(1000).max(1)
}
