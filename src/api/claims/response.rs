//! Stored responses as JSON, in and out.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header::CONTENT_TYPE;
use http::{HeaderName, HeaderValue};
use protocol::policy::{is_never_stored, is_stored_header};
use protocol::response::{StoredBody, StoredHeader, StoredResponse};
use serde::Serialize;
use serde_json::value::RawValue;

use super::body::{ResponseBody, base64_bytes};
use crate::config::Operation;
use crate::problem::{Code, Problem};
use crate::replay::digest_text;

/// The media type that a `json` body has, unless its headers say otherwise.
const JSON: &str = "application/json";

/// The most header lines of one response, so that its bound in bytes is one of its headers too.
const HEADERS_MAX: usize = 64;

/// The response to store, checked against what the operation keeps.
///
/// # Errors
/// When it is no HTTP response, holds a header that is not kept, or is too large: the caller is
/// there to be told, so nothing is left out in silence.
pub(in crate::api) fn stored(
    operation: &Operation,
    body: &ResponseBody<'_>,
) -> Result<StoredResponse, Problem> {
    if !(200..=599).contains(&body.status) {
        return Err(Problem::invalid("\"status\" must be 200 to 599"));
    }
    if is_never_stored(body.status) {
        let detail = format!(
            "{} says that nothing was decided, so it is never stored: release the grant, or say \
             that the outcome is unknown",
            body.status
        );
        return Err(Problem::invalid(detail));
    }
    if !operation.natural_key.is_empty() && !(200..=299).contains(&body.status) {
        return Err(Problem::invalid(
            "only 2xx is stored for this operation, whose keys are made of its requests: release \
             the grant, so that what was refused can be corrected",
        ));
    }
    if body.headers.len() > HEADERS_MAX {
        let detail = format!("a response has at most {HEADERS_MAX} header lines");
        return Err(Problem::invalid(detail));
    }
    let mut headers = Vec::with_capacity(body.headers.len() + 1);
    for (name, value) in &body.headers {
        headers.push(stored_header(operation, name, value)?);
    }
    let whole = match (&body.body_base64, body.json) {
        (Some(_), Some(_)) => {
            return Err(Problem::invalid("give one of \"body_base64\" and \"json\""));
        }
        (Some(text), None) => base64_bytes("body_base64", text)?,
        (None, Some(json)) => {
            if !headers.iter().any(|header| header.name == CONTENT_TYPE.as_str()) {
                let name = CONTENT_TYPE.as_str().to_owned();
                headers.push(StoredHeader { name, value: JSON.into() });
            }
            json.get().as_bytes().to_vec()
        }
        (None, None) => Vec::new(),
    };
    if matches!(body.status, 204 | 205 | 304) && !whole.is_empty() {
        return Err(Problem::invalid(format!("a response of status {} has no body", body.status)));
    }
    let response = StoredResponse { status: body.status, headers, body: StoredBody::Whole(whole) };
    let most = operation.max_snapshot;
    if response.bytes() as u64 > most.as_u64() {
        let detail = format!("the response is larger than the operation's max_snapshot, {most}");
        return Err(Problem::new(Code::BodyTooLarge, detail));
    }
    Ok(response)
}

fn stored_header(operation: &Operation, name: &str, value: &str) -> Result<StoredHeader, Problem> {
    let parsed: HeaderName = name
        .parse()
        .map_err(|_| Problem::invalid(format!("{name:?} is not the name of a header")))?;
    let kept = is_stored_header(parsed.as_str()) || operation.store_headers.contains(&parsed);
    if !kept {
        return Err(Problem::invalid(format!(
            "the header {parsed} is not kept; the operation may list it in \"store_headers\""
        )));
    }
    let value = HeaderValue::from_str(value)
        .map_err(|_| Problem::invalid(format!("the value of the header {parsed} is malformed")))?;
    Ok(StoredHeader { name: parsed.as_str().to_owned(), value: value.as_bytes().to_vec() })
}

/// A stored response as it is shown.
#[derive(Debug, Serialize)]
pub(in crate::api) struct Shown<'a> {
    status: u16,
    headers: Vec<(&'a str, Cow<'a, str>)>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_base64: Option<String>,
    /// The body once more, where it is a JSON document.
    #[serde(skip_serializing_if = "Option::is_none")]
    json: Option<&'a RawValue>,
    /// Whether there was a body that was too large to keep.
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    body_omitted: bool,
    /// The length of such a body, and its digest as RFC 9530 writes one, once they are known.
    #[serde(skip_serializing_if = "Option::is_none")]
    body_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    body_digest: Option<String>,
}

impl<'a> Shown<'a> {
    pub(in crate::api) fn new(response: &'a StoredResponse) -> Self {
        let is_json = response.headers.iter().any(|header| {
            header.name == CONTENT_TYPE.as_str() && header.value.starts_with(JSON.as_bytes())
        });
        let body = match &response.body {
            StoredBody::Whole(body) => Some(body),
            StoredBody::Omitted | StoredBody::Measured(_) => None,
        };
        let measure = match &response.body {
            StoredBody::Measured(measure) => Some(measure),
            StoredBody::Whole(_) | StoredBody::Omitted => None,
        };
        let document = body.filter(|_| is_json).and_then(|body| serde_json::from_slice(body).ok());
        Self {
            status: response.status,
            headers: headers(response),
            body_base64: body.map(|body| BASE64.encode(body)),
            json: document,
            body_omitted: body.is_none(),
            body_bytes: measure.map(|measure| measure.bytes),
            body_digest: measure.map(digest_text),
        }
    }
}

/// The header lines as text; a byte that is not UTF-8 is shown as a replacement character.
fn headers(response: &StoredResponse) -> Vec<(&str, Cow<'_, str>)> {
    let lines = response.headers.iter();
    lines.map(|header| (header.name.as_str(), String::from_utf8_lossy(&header.value))).collect()
}
