//! What a claim is about: a request, a document, or a fingerprint of the caller's own.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use protocol::Fingerprint;
use protocol::fingerprint::OutlineKey;
use protocol::key::NaturalKey;

use super::body::{ClaimBody, RequestBody, base64_bytes};
use crate::config::{Field, Operation};
use crate::problem::Problem;
use crate::record_key::RecordKey;
use crate::sub_account;
use crate::subject::{Described, Subject, What};

/// The largest body of a described request once it is decoded: what a gateway takes by default.
const DECODED_MAX: u64 = 1 << 20;

/// The most header lines of a described request; those that count are few.
const HEADERS_MAX: usize = 64;

/// The one subject that the body gives, of the record whose outlines this key is for.
pub(super) fn of(body: &ClaimBody<'_>, key: OutlineKey) -> Result<Subject, Problem> {
    let what = match (&body.request, body.payload, &body.fingerprint) {
        (Some(request), None, None) => What::Request(described(request)?),
        (None, Some(payload), None) => {
            What::Payload(Bytes::copy_from_slice(payload.get().as_bytes()))
        }
        (None, None, Some(text)) => {
            let fingerprint = Fingerprint::opaque(text);
            What::Opaque(fingerprint.map_err(|error| Problem::invalid(error.to_string()))?)
        }
        _ => {
            let detail = "give one of \"request\", \"payload\" and \"fingerprint\"";
            return Err(Problem::invalid(detail));
        }
    };
    Ok(Subject::new(what, key))
}

/// The key that the body gives, or that its subject makes; both where it gives both.
pub(super) fn record_key(
    body: &ClaimBody<'_>,
    operation: &Operation,
) -> Result<RecordKey, Problem> {
    let given =
        body.key.as_deref().map(|text| RecordKey::given(operation, text, operation.key_max));
    let given = given.transpose()?;
    let members = operation.natural_key.as_slice();
    let made = match (&body.request, body.payload) {
        _ if members.is_empty() => None,
        (Some(request), _) => Some(described(request)?.natural_key(members)?),
        (None, Some(payload)) => Some(NaturalKey::of(payload.get().as_bytes(), members)?),
        (None, None) => None,
    };
    match (given, made.map(RecordKey::Natural)) {
        (Some(given), Some(made)) if given != made => {
            Err(Problem::invalid("\"key\" is not that of the request"))
        }
        (Some(key), _) | (None, Some(key)) => Ok(key),
        (None, None) => Err(Problem::invalid("\"key\" is missing")),
    }
}

/// The sub-account that the body gives, or that its request belongs to; both where it gives both.
pub(super) fn sub_account(body: &ClaimBody<'_>, fields: &[Field]) -> Result<Vec<String>, Problem> {
    let of_request = match &body.request {
        Some(request) if !fields.is_empty() => Some(described(request)?.sub_account(fields)?),
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

fn described(request: &RequestBody<'_>) -> Result<Described, Problem> {
    let method = request.method.parse::<Method>();
    let method = method.map_err(|_| Problem::invalid("\"request.method\" is not a method"))?;
    let target = Some(&request.target)
        .filter(|target| target.starts_with('/'))
        .filter(|target| target.bytes().all(|byte| byte.is_ascii_graphic()));
    let target = target.ok_or_else(|| {
        Problem::invalid("\"request.target\" must be a path, with its query if any")
    })?;
    let headers = headers(request)?;
    Ok(Described {
        method,
        target: target.clone().into_owned(),
        headers,
        body: bytes(request)?,
        limit: DECODED_MAX,
    })
}

/// The body as it came.
fn bytes(request: &RequestBody<'_>) -> Result<Bytes, Problem> {
    match (&request.body, &request.body_base64) {
        (text, None) => Ok(text.as_deref().unwrap_or_default().to_owned().into()),
        (None, Some(text)) => base64_bytes("request.body_base64", text).map(Bytes::from),
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
    if let Some(text) = &request.content_type {
        let value = HeaderValue::from_str(text)
            .map_err(|_| Problem::invalid("\"request.content_type\" is malformed"))?;
        headers.insert(CONTENT_TYPE, value);
    }
    Ok(headers)
}
