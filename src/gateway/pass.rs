//! Requests that go through unprotected: streamed in both directions, never sent twice.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use futures_util::stream;
use http::request::Parts;
use http::{Method, Request};
use tokio::time::timeout;

use super::forward::{self, Caller, STATUS, answer_headers};
use super::shadow::Watch;
use super::upstream::{Connection, Reply, SendError, Unreachable, Upstream};
use super::{metrics, request};
use crate::judge::Judge;
use crate::problem::{Code, Problem, Style};

/// How long an upstream may take to begin its answer: longer than the long polls in use. After the
/// head there is no limit, since a stream may say nothing for hours; its client can always leave.
const HEAD_WAIT: Duration = Duration::from_secs(300);

/// Why a request was not answered by the upstream.
enum Failure {
    Unreachable(Unreachable),
    Unsent(hyper::Error),
    Lost(hyper::Error),
    Coded,
    TimedOut,
}

/// Sends a request on and answers with what the upstream says, or with a problem of this style.
/// `key_ignored`: the request brought a key, and its client must learn that it had no effect.
/// `watch` is told what becomes of the request.
pub(crate) async fn pass<J: Judge>(
    upstream: &Upstream,
    head: Parts,
    body: Body,
    caller: &Caller<'_>,
    (style, key_ignored): (Style, bool),
    watch: Option<Arc<Watch<J>>>,
) -> Response {
    metrics::passed();
    let mut outgoing = Request::new(body);
    *outgoing.headers_mut() = forward::request_headers(&head.headers, caller);
    *outgoing.uri_mut() = request::target(&head);
    *outgoing.method_mut() = head.method.clone();
    let answer = answer(upstream, outgoing).await;
    let mut response = match answer {
        Ok(answer) if forward::is_coded(answer.headers()) => {
            style.render(problem(&Failure::Coded, &head.method))
        }
        Ok(answer) => {
            let (answer, body) = answer.into_parts();
            if let Some(watch) = &watch {
                watch.answered(&answer);
            }
            let unsized_body = head.method == Method::HEAD;
            let body = if unsized_body { of_unknown_length() } else { Body::new(body) };
            let mut response = Response::new(body);
            *response.status_mut() = answer.status;
            *response.headers_mut() = answer_headers(answer.headers);
            response
        }
        Err(failure) => {
            let unsent = matches!(failure, Failure::Unreachable(_) | Failure::Unsent(_));
            if let Some(watch) = watch.filter(|_| unsent) {
                watch.unsent();
            }
            style.render(problem(&failure, &head.method))
        }
    };
    if key_ignored {
        response.headers_mut().insert(STATUS, forward::IGNORED);
    }
    response
}

async fn answer(
    upstream: &Upstream,
    request: Request<Body>,
) -> Result<http::Response<Reply>, Failure> {
    let connection = upstream.connection().await.map_err(Failure::Unreachable)?;
    let request = match send(upstream, connection, request).await {
        // A pooled connection that was dead says nothing about the upstream: a new one is tried,
        // once, where the request has come back whole.
        Err(SendError::Unsent { request: Some(request), pooled: true, .. }) => *request,
        Err(SendError::Unsent { source, .. }) => return Err(Failure::Unsent(source)),
        Err(SendError::Lost(error)) => return Err(Failure::Lost(error)),
        Ok(answer) => return answer.ok_or(Failure::TimedOut),
    };
    let connection = upstream.fresh_connection().await.map_err(Failure::Unreachable)?;
    match send(upstream, connection, request).await {
        Ok(answer) => answer.ok_or(Failure::TimedOut),
        Err(SendError::Unsent { source, .. }) => Err(Failure::Unsent(source)),
        Err(SendError::Lost(error)) => Err(Failure::Lost(error)),
    }
}

/// The answer on this connection; `None` when it has not begun in time.
async fn send(
    upstream: &Upstream,
    connection: Connection,
    request: Request<Body>,
) -> Result<Option<http::Response<Reply>>, SendError> {
    match timeout(HEAD_WAIT, connection.send(upstream, request, None)).await {
        Ok(answer) => answer.map(Some),
        Err(_) => Ok(None),
    }
}

/// No body, of a length that is not told: an answer to HEAD tells the length that a GET would have,
/// or none, and the server would else write that of the body it is given.
fn of_unknown_length() -> Body {
    Body::from_stream(stream::empty::<Result<Bytes, Infallible>>())
}

/// What a client is told that gets no answer of the upstream. Without a key, a request that may
/// have been executed may be sent again only where its method says so (RFC 9110, 9.2.2).
fn problem(failure: &Failure, method: &Method) -> Problem {
    let again = method.is_idempotent();
    match failure {
        Failure::Unreachable(error) => unreachable(error),
        Failure::Unsent(error) => unreachable(error),
        Failure::Lost(error) => {
            tracing::warn!(%error, "the upstream broke off");
            let detail = "the upstream broke off; it may have executed the request";
            Problem::new(Code::OutcomeUnknownReset, detail).with_retryable(again)
        }
        Failure::Coded => {
            let detail = "the upstream's answer is in a transfer coding that nobody asked for; it \
                has executed the request";
            Problem::new(Code::OutcomeUnknownReset, detail).with_retryable(again)
        }
        Failure::TimedOut => {
            let detail = "the upstream did not answer in time; it may have executed the request";
            Problem::new(Code::OutcomeUnknown, detail).with_retryable(again)
        }
    }
}

fn unreachable(error: &dyn std::error::Error) -> Problem {
    tracing::warn!(%error, "the upstream could not be reached");
    let detail = "the upstream could not be reached; the request was not executed";
    Problem::new(Code::UpstreamUnreachable, detail)
}
