//! The JSON objects that problems are told as: RFC 9457's, or a payment provider's own.
//!
//! The objects follow the providers' public documentation. Where that has a word for what happened,
//! the word stands in its place; elsewhere ours does, spelt as the provider spells its own.

use http::StatusCode;
use serde::ser::{Serialize, SerializeMap, Serializer};
use serde_json::{Map, Value, json};

use super::{Code, ErrorBody, PAGES, Problem};

/// The object for `problem`, answered with `status`; `instance` names this occurrence.
pub(super) fn write(
    problem: &Problem,
    errors: ErrorBody,
    status: StatusCode,
    instance: &str,
) -> Vec<u8> {
    let bytes = match errors {
        ErrorBody::Problem => serde_json::to_vec(&Document { problem, status, instance }),
        ErrorBody::Stripe => serde_json::to_vec(&stripe(problem, status)),
        ErrorBody::Adyen => serde_json::to_vec(&adyen(problem, status, instance)),
        ErrorBody::Paypal => serde_json::to_vec(&paypal(problem, status, instance)),
    };
    bytes.expect("a problem is strings, numbers and JSON values")
}

/// A problem as RFC 9457 has it.
struct Document<'a> {
    problem: &'a Problem,
    status: StatusCode,
    instance: &'a str,
}

impl Serialize for Document<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let problem = self.problem;
        let mut map = serializer.serialize_map(Some(8 + problem.members.len()))?;
        map.serialize_entry("type", &page_of(problem.code))?;
        map.serialize_entry("title", problem.code.title())?;
        map.serialize_entry("status", &self.status.as_u16())?;
        map.serialize_entry("detail", &problem.detail)?;
        map.serialize_entry("instance", self.instance)?;
        map.serialize_entry("code", problem.code.name())?;
        map.serialize_entry("retryable", &problem.retryable)?;
        map.serialize_entry("executed", problem.executed.as_str())?;
        for (name, value) in &problem.members {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// `{"error": {…}}`; the four types are all that Stripe documents.
fn stripe(problem: &Problem, status: StatusCode) -> Value {
    let kind = match problem.code {
        Code::KeyReused | Code::OperationMismatch => "idempotency_error",
        Code::OutcomeIndeterminate => "api_error",
        _ if status.is_server_error() => "api_error",
        _ => "invalid_request_error",
    };
    let code = match problem.code {
        Code::KeyInProgress => "idempotency_key_in_use".to_owned(),
        code => code.name().replace('-', "_"),
    };
    let mut error = members(problem);
    error.insert("type".to_owned(), kind.into());
    error.insert("code".to_owned(), code.into());
    error.insert("message".to_owned(), problem.detail.as_str().into());
    error.insert("doc_url".to_owned(), page_of(problem.code).into());
    json!({ "error": error })
}

/// `{"status", "errorCode", "message", "errorType", "pspReference"}`, and `additionalData` where
/// there is more to say.
fn adyen(problem: &Problem, status: StatusCode, instance: &str) -> Value {
    let code = match problem.code {
        Code::KeyInProgress => "704",
        Code::Unauthenticated => "000",
        Code::Forbidden => "010",
        code => code.name(),
    };
    let kind = match problem.code {
        Code::Unauthenticated | Code::Forbidden => "security",
        Code::ConfigMismatch => "configuration",
        Code::OutcomeIndeterminate => "internal",
        _ if status.is_server_error() => "internal",
        _ => "validation",
    };
    let mut error = json!({
        "status": status.as_u16(),
        "errorCode": code,
        "message": problem.detail,
        "errorType": kind,
        "pspReference": instance,
    });
    let more = members(problem);
    if !more.is_empty() {
        error["additionalData"] = more.into();
    }
    error
}

/// `{"name", "message", "debug_id", "details", "links"}`.
fn paypal(problem: &Problem, status: StatusCode, instance: &str) -> Value {
    let issue = match problem.code {
        Code::KeyInProgress => "PREVIOUS_REQUEST_IN_PROGRESS".to_owned(),
        Code::KeyReused => "DUPLICATE_REQUEST_ID".to_owned(),
        Code::KeyMissing => "PAYPAL_REQUEST_ID_REQUIRED".to_owned(),
        code => code.name().replace('-', "_").to_ascii_uppercase(),
    };
    let mut error = members(problem);
    error.insert("name".to_owned(), paypal_name(status).into());
    error.insert("message".to_owned(), problem.code.title().into());
    error.insert("debug_id".to_owned(), instance.into());
    let details = json!([{ "issue": issue, "description": problem.detail }]);
    error.insert("details".to_owned(), details);
    let page =
        json!([{ "href": page_of(problem.code), "rel": "information_link", "method": "GET" }]);
    error.insert("links".to_owned(), page);
    error.into()
}

/// PayPal's name of an error, which its documentation gives by status.
fn paypal_name(status: StatusCode) -> &'static str {
    match status {
        StatusCode::UNAUTHORIZED => "AUTHENTICATION_FAILURE",
        StatusCode::FORBIDDEN => "NOT_AUTHORIZED",
        StatusCode::NOT_FOUND => "RESOURCE_NOT_FOUND",
        StatusCode::METHOD_NOT_ALLOWED => "METHOD_NOT_SUPPORTED",
        StatusCode::CONFLICT => "RESOURCE_CONFLICT",
        StatusCode::UNPROCESSABLE_ENTITY => "UNPROCESSABLE_ENTITY",
        StatusCode::TOO_MANY_REQUESTS => "RATE_LIMIT_REACHED",
        StatusCode::SERVICE_UNAVAILABLE => "SERVICE_UNAVAILABLE",
        _ if status.is_server_error() => "INTERNAL_SERVER_ERROR",
        _ => "INVALID_REQUEST",
    }
}

/// What the problem says besides, in an object of its own.
fn members(problem: &Problem) -> Map<String, Value> {
    let members = problem.members.iter();
    members.map(|(name, value)| ((*name).to_owned(), value.clone())).collect()
}

/// The path of the page that explains a code.
fn page_of(code: Code) -> String {
    format!("{PAGES}{}", code.name())
}
