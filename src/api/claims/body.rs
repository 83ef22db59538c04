//! The JSON bodies of the claims API, read strictly: an unknown member or a wrong type is refused
//! by name, and numbers are exact.

use std::borrow::Cow;

use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use protocol::command::Grant;
use protocol::{Fence, Millis, Token};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use crate::config::parse_duration;
use crate::problem::Problem;

/// The body of `POST /v1/claims`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ClaimBody<'a> {
    #[serde(borrow)]
    pub(super) operation: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) key: Option<Cow<'a, str>>,
    pub(super) sub_account: Option<Vec<String>>,
    #[serde(borrow)]
    pub(super) attempt: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) lease: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) retention: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) on_unknown: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) request: Option<RequestBody<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) payload: Option<&'a RawValue>,
    #[serde(borrow)]
    pub(super) fingerprint: Option<Cow<'a, str>>,
}

/// The request that a claim is about, fingerprinted as the gateway does.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RequestBody<'a> {
    #[serde(borrow)]
    pub(super) method: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) target: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) content_type: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    #[serde(borrow)]
    pub(super) body: Option<Cow<'a, str>>,
    #[serde(borrow)]
    pub(super) body_base64: Option<Cow<'a, str>>,
}

/// The body of `renew`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct RenewBody<'a> {
    #[serde(borrow)]
    pub(super) operation: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) key: Cow<'a, str>,
    pub(super) sub_account: Option<Vec<String>>,
    pub(super) fence: u64,
    #[serde(borrow)]
    pub(super) token: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) lease: Cow<'a, str>,
}

/// The body of `complete`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CompleteBody<'a> {
    #[serde(borrow)]
    pub(super) operation: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) key: Cow<'a, str>,
    pub(super) sub_account: Option<Vec<String>>,
    pub(super) fence: u64,
    #[serde(borrow)]
    pub(super) token: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) response: Option<ResponseBody<'a>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) json: Option<&'a RawValue>,
}

/// The body of `release` and of `unknown`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct GrantBody<'a> {
    #[serde(borrow)]
    pub(super) operation: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) key: Cow<'a, str>,
    pub(super) sub_account: Option<Vec<String>>,
    pub(super) fence: u64,
    #[serde(borrow)]
    pub(super) token: Cow<'a, str>,
}

/// The body of `revise`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ReviseBody<'a> {
    #[serde(borrow)]
    pub(super) operation: Cow<'a, str>,
    #[serde(borrow)]
    pub(super) key: Cow<'a, str>,
    pub(super) sub_account: Option<Vec<String>>,
    #[serde(borrow)]
    pub(super) response: ResponseBody<'a>,
}

/// An answer to be stored.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(in crate::api) struct ResponseBody<'a> {
    pub(super) status: u16,
    #[serde(borrow, default)]
    pub(super) headers: Vec<(Cow<'a, str>, Cow<'a, str>)>,
    #[serde(borrow)]
    pub(super) body_base64: Option<Cow<'a, str>>,
    #[serde(borrow, default, deserialize_with = "present")]
    pub(super) json: Option<&'a RawValue>,
}

/// Reads a body.
///
/// # Errors
/// `invalid-request`, saying what is wrong and where.
pub(in crate::api) fn parse<'a, T: Deserialize<'a>>(body: &'a [u8]) -> Result<T, Problem> {
    serde_json::from_slice(body).map_err(|error| Problem::invalid(format!("the body: {error}")))
}

/// The grant that a caller brings back.
///
/// # Errors
/// When the token is none.
pub(super) fn grant(fence: u64, token: &str) -> Result<Grant, Problem> {
    let token = parse_token(token).ok_or_else(|| {
        Problem::invalid("\"token\" must be the 32 hexadecimal digits that came with the grant")
    })?;
    Ok(Grant { fence: Fence::from_number(fence), token })
}

/// A duration of at least one millisecond.
///
/// # Errors
/// When it is not a text with a unit, or not above zero.
pub(super) fn duration(name: &str, text: &str) -> Result<Millis, Problem> {
    parse_duration(text).filter(|span| *span > Millis::ZERO).ok_or_else(|| {
        let example = "a duration above zero with a unit, such as \"2s\" or \"10m\"";
        Problem::invalid(format!("\"{name}\" must be {example}"))
    })
}

/// The bytes that a Base64 text stands for.
///
/// # Errors
/// When it is not standard Base64 with padding.
pub(super) fn base64_bytes(name: &str, text: &str) -> Result<Vec<u8>, Problem> {
    BASE64
        .decode(text)
        .map_err(|error| Problem::invalid(format!("\"{name}\" is not Base64: {error}")))
}

/// A member that is there, also when it is `null`.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<&'de RawValue>, D::Error> {
    <&RawValue>::deserialize(deserializer).map(Some)
}

fn parse_token(text: &str) -> Option<Token> {
    let digits = text.as_bytes();
    if digits.len() != 32 {
        return None;
    }
    let mut bytes = [0; 16];
    for (byte, pair) in bytes.iter_mut().zip(digits.chunks_exact(2)) {
        *byte = nibble(pair[0])? << 4 | nibble(pair[1])?;
    }
    Some(Token::new(bytes))
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).map(|value| value as u8)
}
