//! What a claim is about: a request, a document, or a fingerprint of the caller's own.

use std::borrow::Cow;

use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use protocol::Fingerprint;
use protocol::fingerprint::RequestParts;

use super::body::{ClaimBody, RequestBody, base64_bytes};
use crate::config::Field;
use crate::encoding::Content;
use crate::problem::{Code, Problem};
use crate::sub_account::{self, Asked};

/// The largest body of a described request once it is decoded: what a gateway takes by default.
const DECODED_MAX: u64 = 1 << 20;

/// The most header lines of a described request; those that count are few.
const HEADERS_MAX: usize = 64;

/// The one fingerprint that the body gives.
pub(super) fn fingerprint(body: &ClaimBody<'_>) -> Result<Fingerprint, Problem> {
    match (&body.request, body.payload, &body.fingerprint) {
        (Some(request), None, None) => of_request(request),
        (None, Some(payload), None) => Ok(Fingerprint::of_payload(payload.get().as_bytes())),
        (None, None, Some(text)) => {
            Fingerprint::opaque(text).map_err(|error| Problem::invalid(error.to_string()))
        }
        _ => Err(Problem::invalid("give one of \"request\", \"payload\" and \"fingerprint\"")),
    }
}

/// The sub-account that the body gives, or that its request belongs to; both where it gives both.
pub(super) fn sub_account(body: &ClaimBody<'_>, fields: &[Field]) -> Result<Vec<String>, Problem> {
    let of_request = match &body.request {
        Some(request) if !fields.is_empty() => Some(values_in(request, fields)?),
        _ => None,
    };
    let Some(values) = &body.sub_account else {
        return match of_request {
            Some(values) => Ok(values),
            None => sub_account::given(fields, &[]),
        };
    };
    let given = sub_account::given(fields, values)?;
    if of_request.is_some_and(|values| values != given) {
        return Err(Problem::invalid("\"sub_account\" is not that of the \"request\""));
    }
    Ok(given)
}

fn values_in(request: &RequestBody<'_>, fields: &[Field]) -> Result<Vec<String>, Problem> {
    let (headers, body) = (headers(request)?, bytes(request)?);
    let asked = Asked {
        headers: &headers,
        target: &request.target,
        content_type: request.content_type.as_deref().map(str::as_bytes),
        body: &content(&headers, &body)?.body,
    };
    asked.values(fields)
}

fn of_request(request: &RequestBody<'_>) -> Result<Fingerprint, Problem> {
    if request.method.parse::<Method>().is_err() {
        return Err(Problem::invalid("\"request.method\" is not a method"));
    }
    let target = &request.target;
    if !target.starts_with('/') || !target.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(Problem::invalid("\"request.target\" must be a path, with its query if any"));
    }
    let body = bytes(request)?;
    let content = content(&headers(request)?, &body)?;
    Ok(Fingerprint::of_request(&RequestParts {
        method: &request.method,
        target,
        content_type: request.content_type.as_deref().map(str::as_bytes),
        headers: &[],
        body: &content.body,
        encoding: content.encoding.as_deref().map(str::as_bytes),
    }))
}

fn content<'a>(headers: &HeaderMap, body: &'a [u8]) -> Result<Content<'a>, Problem> {
    Content::of(headers, body, DECODED_MAX).map_err(|_too_large| {
        let detail = format!("\"request\": decoded, the body is larger than {DECODED_MAX} bytes");
        Problem::new(Code::BodyTooLarge, detail)
    })
}

/// The body as it came.
fn bytes<'a>(request: &'a RequestBody<'_>) -> Result<Cow<'a, [u8]>, Problem> {
    match (&request.body, &request.body_base64) {
        (text, None) => Ok(Cow::Borrowed(text.as_deref().unwrap_or_default().as_bytes())),
        (None, Some(text)) => base64_bytes("request.body_base64", text).map(Cow::Owned),
        (Some(_), Some(_)) => {
            Err(Problem::invalid("give one of \"request.body\" and \"request.body_base64\""))
        }
    }
}

fn headers(request: &RequestBody<'_>) -> Result<HeaderMap, Problem> {
    if request.headers.len() > HEADERS_MAX {
        let detail = format!("\"request.headers\" has at most {HEADERS_MAX} lines");
        return Err(Problem::invalid(detail));
    }
    let mut headers = HeaderMap::with_capacity(request.headers.len());
    for (name, value) in &request.headers {
        let name: HeaderName = name
            .parse()
            .map_err(|_| Problem::invalid(format!("{name:?} is not the name of a header")))?;
        if name == CONTENT_TYPE {
            let detail = "the media type stands in \"request.content_type\"";
            return Err(Problem::invalid(detail));
        }
        let value = HeaderValue::from_str(value).map_err(|_| {
            Problem::invalid(format!("the value of the header {name} is malformed"))
        })?;
        headers.append(name, value);
    }
    Ok(headers)
}
