//! What a client is answered.

use axum::body::Body;
use axum::response::Response;
use http::header::CONTENT_LENGTH;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use protocol::command::Replay;
use protocol::execution::{Answer, Doubt};
use protocol::record::Retention;
use protocol::response::{StoredBody, StoredResponse};
use protocol::{Millis, Outcome, Timestamp};

use super::exchange::{Answered, AnsweredBody};
use super::forward::answer_headers;
use super::metrics;
use crate::config::ReplayMode;
use crate::problem::{Code, Executed, Problem, Style};
use crate::replay::{EXPIRES, REPLAYED, Repeat, STALE};

/// How long a client should wait for an execution that goes on.
const PENDING_RETRY: Millis = Millis::from_secs(1);

/// How the clients of an operation are answered.
#[derive(Clone, Debug)]
pub(crate) struct Terms {
    /// How long an outcome is kept.
    pub(crate) retention: Retention,
    /// The status of `outcome-indeterminate`.
    pub(crate) indeterminate_status: StatusCode,
    /// What a repeat is answered with.
    pub(crate) replay: ReplayMode,
    /// How problems look.
    pub(crate) style: Style,
}

/// Renders what an execution answers its client. `answered` is the upstream's answer, where there
/// is one; `wall` is the time by which a client's waits are reckoned.
pub(crate) fn render(
    answer: Answer,
    answered: Option<Box<Answered>>,
    terms: &Terms,
    wall: Timestamp,
) -> Response {
    match (answer, answered) {
        (Answer::Own, Some(answered)) => {
            metrics::executed();
            let mut response = own(*answered);
            if let Retention::For(span) = terms.retention {
                expires(response.headers_mut(), span);
            }
            response
        }
        (Answer::PassThrough, Some(answered)) => {
            metrics::released();
            own(*answered)
        }
        (Answer::Replay(replay), _) => replayed(*replay, terms, wall),
        (refusal, _) => terms.style.render(problem(refusal, terms)),
    }
}

/// The upstream's answer to this very request.
fn own(answered: Answered) -> Response {
    let body = match answered.body {
        AnsweredBody::Whole(bytes) => Body::from(bytes),
        AnsweredBody::Flowing(rest) => rest.into_body(),
    };
    let mut response = Response::new(body);
    *response.status_mut() = answered.head.status;
    *response.headers_mut() = answer_headers(answered.head.headers);
    // The server writes the length of what it really sends, and the gateway how long the key lives.
    for rewritten in [&CONTENT_LENGTH, &EXPIRES] {
        response.headers_mut().remove(rewritten);
    }
    response
}

/// The record's outcome, to a repeat of its request.
fn replayed(replay: Replay, terms: &Terms, wall: Timestamp) -> Response {
    let left = replay.retain_until.map(|until| until.since(wall));
    let mut response = match Repeat::by(terms.replay, replay) {
        Err(problem) => terms.style.render(problem),
        Ok(Repeat { response, stale }) => {
            metrics::replayed();
            let mut response = stored(response);
            response.headers_mut().insert(REPLAYED, HeaderValue::from_static("true"));
            if stale {
                response.headers_mut().insert(STALE, HeaderValue::from_static("true"));
            }
            response
        }
    };
    if let Some(left) = left {
        expires(response.headers_mut(), left);
    }
    response
}

/// A stored response: status, header lines and body as they were.
fn stored(stored: StoredResponse) -> Response {
    let body = match stored.body {
        StoredBody::Whole(body) => Body::from(body),
        StoredBody::Omitted | StoredBody::Measured(_) => Body::empty(),
    };
    let mut response = Response::new(body);
    *response.status_mut() =
        StatusCode::from_u16(stored.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    for line in stored.headers {
        let name = HeaderName::from_bytes(line.name.as_bytes());
        // Every stored line was one before, so that none is left out here.
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&line.value)) {
            response.headers_mut().append(name, value);
        }
    }
    response
}

/// What a client is told that gets no answer of an upstream.
fn problem(answer: Answer, terms: &Terms) -> Problem {
    // The shard decided these; the times in them are spans here, which count from any moment.
    let now = Timestamp::ZERO;
    let refused = match answer {
        Answer::InProgress { lease_left } => {
            Outcome::InProgress { lease_until: now.plus(lease_left) }
        }
        Answer::Reused { stored } => Outcome::Reused { stored },
        Answer::OtherOperation => Outcome::OtherOperation,
        Answer::Indeterminate => Outcome::Indeterminate,
        Answer::Forgetting { free_in } => Outcome::Forgetting { until: now.plus(free_in) },
        other => return failed(&other),
    };
    let problem = Problem::refusal(&refused, now)
        .unwrap_or_else(|| Problem::new(Code::Internal, "a refusal without a meaning"));
    match refused {
        Outcome::Indeterminate => problem.with_status(terms.indeterminate_status),
        _ => problem,
    }
}

fn failed(answer: &Answer) -> Problem {
    match answer {
        Answer::Unreachable { earlier_may_have_run } => {
            let detail = "the upstream could not be reached; this request was not executed";
            let problem = Problem::new(Code::UpstreamUnreachable, detail);
            match earlier_may_have_run {
                true => problem.with_executed(Executed::Unknown),
                false => problem,
            }
        }
        Answer::ShardUnavailable => {
            Problem::unavailable("the key could not be claimed in time; nothing was executed")
        }
        Answer::OutcomePending => Problem::new(
            Code::OutcomePending,
            "the execution goes on; repeat the request with the same key to get its outcome",
        )
        .retry_after(PENDING_RETRY),
        Answer::OutcomeUnknown(Doubt::Reset) => Problem::new(
            Code::OutcomeUnknownReset,
            "the upstream broke off without a whole answer; it may have executed the request",
        ),
        Answer::OutcomeUnknown(Doubt::TimedOut) => Problem::new(
            Code::OutcomeUnknown,
            "the upstream did not answer in time; it may have executed the request",
        ),
        Answer::OutcomeUnknown(Doubt::Ambiguous) => Problem::new(
            Code::OutcomeUnknown,
            "the upstream's answer leaves open whether it executed the request",
        ),
        Answer::OutcomeUnknown(Doubt::NotDurable) => Problem::new(
            Code::OutcomeUnknown,
            "the upstream has answered, but the outcome could not be made durable yet",
        )
        .retry_after(PENDING_RETRY),
        Answer::OutcomeUnknown(Doubt::GrantLost) => Problem::new(
            Code::OutcomeUnknown,
            "the key was settled or taken over meanwhile; repeat the request to get its outcome",
        ),
        _ => Problem::new(Code::Internal, "an answer without a body"),
    }
}

fn expires(headers: &mut HeaderMap, left: Millis) {
    headers.insert(EXPIRES, HeaderValue::from(left.get() / 1000));
}

#[cfg(test)]
mod tests;
