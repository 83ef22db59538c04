//! Reading a protected request: its key, its body, and what it is the same as.

use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::header::{AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Uri};
use http_body_util::BodyExt;
use protocol::IdempotencyKey;
use protocol::key::{KeyError, Malformed, is_quoted};

use super::forward::connection_options;
use crate::config::{Field, Operation};
use crate::encoding::TooLarge;
use crate::problem::{Code, Problem};

/// How long a client may take to send the body of a protected request. The largest default body,
/// 1 MiB, arrives in this time over 300 kbit/s; a client that drips holds one connection and
/// nothing else, since nothing is claimed yet.
const BODY_WAIT: Duration = Duration::from_secs(30);

/// Fields that the verdict or the upstream rests on. A request whose `Connection` names one wants
/// it removed on the way, and would then not be the request that was judged.
const ESSENTIAL: [HeaderName; 6] =
    [AUTHORIZATION, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_TYPE, COOKIE, HOST];

/// A key, and how its client wrote it.
#[derive(Clone, Debug)]
pub(crate) struct SentKey {
    /// The key.
    pub(crate) key: IdempotencyKey,
    /// The value of the header line that brought it.
    pub(crate) raw: HeaderValue,
}

/// Whether a request brings a key, readable or not.
pub(crate) fn brings_key(headers: &HeaderMap, accepted: &[HeaderName]) -> bool {
    accepted.iter().any(|name| headers.contains_key(name))
}

/// The key that a request brings in one of its operation's headers.
///
/// # Errors
/// When it brings none, or one that cannot be read: a key is never dropped in silence.
pub(crate) fn sent_key(headers: &HeaderMap, operation: &Operation) -> Result<SentKey, Problem> {
    let accepted = &operation.headers;
    let lines = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let key = IdempotencyKey::from_headers(accepted.iter().map(lines), operation.key_max)?;
    if operation.quoted_keys && !accepted.iter().flat_map(lines).all(is_quoted) {
        return Err(KeyError::from(Malformed::Bare).into());
    }
    let raw = accepted.iter().find_map(|name| headers.get(name));
    match (key, raw) {
        (Some(key), Some(raw)) => Ok(SentKey { key, raw: raw.clone() }),
        _ => {
            let names: Vec<_> = accepted.iter().map(HeaderName::as_str).collect();
            let detail = format!("this operation needs a key in the header {}", names.join(" or "));
            Err(Problem::new(Code::KeyMissing, detail))
        }
    }
}

/// The key that the answer says, where the operation's clients look for it there to know that their
/// key was heeded.
pub(crate) fn echoed_key(headers: &HeaderMap, operation: &Operation) -> Option<HeaderValue> {
    let heeded = operation.echo_key && operation.natural_key.is_empty();
    let key = heeded.then(|| sent_key(headers, operation))?;
    key.ok().map(|key| key.raw)
}

/// Whether a protected request brings a key that has no effect, since the request makes its own.
pub(crate) fn ignores_key(headers: &HeaderMap, operation: &Operation) -> bool {
    !operation.natural_key.is_empty() && brings_key(headers, &operation.headers)
}

/// Refuses a head that wants fields removed on the way which the verdict, or the upstream, rests
/// on.
pub(crate) fn refuse_hidden(headers: &HeaderMap, operation: &Operation) -> Result<(), Problem> {
    let scopes = |name: &HeaderName| operation.scope_by.contains(&Field::Header(name.clone()));
    let essential = |name: &HeaderName| {
        let mut compared = operation.fingerprint.headers();
        ESSENTIAL.contains(name)
            || operation.headers.contains(name)
            || scopes(name)
            || compared.any(|compared| name == compared)
    };
    match connection_options(headers).find(essential) {
        Some(name) => {
            Err(Problem::invalid(format!("the field {name} is not about one connection")))
        }
        None => Ok(()),
    }
}

/// Refuses a protected request that names two media types: its body is judged by one of them, and
/// the upstream might read it by the other.
pub(crate) fn refuse_two_types(headers: &HeaderMap) -> Result<(), Problem> {
    match headers.get_all(CONTENT_TYPE).iter().nth(1) {
        Some(_) => Err(Problem::invalid("more than one Content-Type")),
        None => Ok(()),
    }
}

/// The whole body of a request, of at most `limit` bytes.
///
/// A body whose `Content-Length` is over the limit is refused before the client is told to
/// continue; one that hides its length, as soon as it passes the limit.
pub(crate) async fn whole_body(body: Body, limit: u64) -> Result<Bytes, Problem> {
    let announced = http_body::Body::size_hint(&body).lower();
    if announced > limit {
        return Err(TooLarge { limit }.into());
    }
    tokio::time::timeout(BODY_WAIT, collect(body, limit)).await.unwrap_or_else(|_| {
        Err(Problem::new(Code::BodyTimeout, "the body did not come in time; nothing was executed"))
    })
}

/// The request target in origin form, as it goes upstream.
pub(crate) fn target(head: &Parts) -> Uri {
    head.uri.path_and_query().cloned().map_or_else(Uri::default, Uri::from)
}

async fn collect(mut body: Body, limit: u64) -> Result<Bytes, Problem> {
    // Most bodies are one frame, which then needs no copy.
    let mut first = Bytes::new();
    let mut rest = BytesMut::new();
    let mut length: u64 = 0;
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|_| Problem::invalid("the body broke off or is malformed"))?;
        let Ok(data) = frame.into_data() else { continue };
        length += data.len() as u64;
        if length > limit {
            return Err(TooLarge { limit }.into());
        }
        if first.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

#[cfg(test)]
mod tests;
