//! The terms: what the clients of each operation may rely on, published by the process itself.
//!
//! They are made of the policy alone, so that what is published is what is done: under
//! `/.well-known/idempotency` as JSON, and by `oncegate terms` as Markdown and OpenAPI for the
//! documentation of the API. Nobody needs a credential to read them, so they hold nothing about
//! tenants, credentials and what the upstream is told.

use bytesize::ByteSize;
use http::HeaderName;
use protocol::Millis;
use protocol::key::NATURAL_VALUE_BYTES_MAX;
use protocol::policy::AnswersFrom;
use protocol::record::{OnUnknown, Retention};
use serde::Serialize;
use serde_json::{Map, Value};

use crate::config::{GatewaySettings, Isolate, KeyScope, Mode, Operation, Policy, Protect};
use crate::problem::Code;

pub use page::{PATH, Published};

mod markdown;
mod openapi;
mod page;
#[cfg(test)]
mod tests;

/// The methods whose requests are protected.
const METHODS: [&str; 2] = ["POST", "PATCH"];

/// The methods for which a key has no effect.
const WITHOUT_EFFECT: [&str; 5] = ["GET", "HEAD", "OPTIONS", "PUT", "DELETE"];

/// What a gateway adds to the policy's terms.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The largest body of a protected request.
    pub max_request_body: ByteSize,
    /// Who makes the answers that come from the upstream.
    pub answers_from: AnswersFrom,
}

impl From<&GatewaySettings> for Limits {
    fn from(settings: &GatewaySettings) -> Self {
        Self { max_request_body: settings.max_request_body, answers_from: settings.answers_from }
    }
}

/// The terms of all operations.
#[derive(Clone, Debug, Serialize)]
pub struct Terms {
    methods: [&'static str; 2],
    #[serde(skip_serializing_if = "Option::is_none")]
    max_request_body_bytes: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    answers_from: Option<&'static str>,
    operations: Vec<OperationTerms>,
    /// Those of every route that is not listed, where keys have an effect there.
    #[serde(skip_serializing_if = "Option::is_none")]
    unlisted: Option<OperationTerms>,
    not_honoured: NotHonoured,
}

/// Where a key has no effect.
#[derive(Clone, Debug, Serialize)]
struct NotHonoured {
    methods: [&'static str; 5],
    /// Those that are only observed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    operations: Vec<String>,
    unlisted_routes: bool,
    marker: &'static str,
}

/// The terms of one operation.
#[derive(Clone, Debug, Serialize)]
struct OperationTerms {
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    method: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    path: Option<String>,
    profile: &'static str,
    header: Header,
    scope: Scope,
    replay: Replay,
    #[serde(rename = "retention_ms")]
    retention: Kept,
    concurrency: Refusal,
    mismatch: Mismatch,
    unknown: Unknown,
    answer_within_ms: u64,
    max_execution_ms: u64,
    error_body: &'static str,
    #[serde(skip)]
    media_type: String,
}

/// The header that brings the key, or what makes it.
#[derive(Clone, Debug, Serialize)]
struct Header {
    /// The members of the JSON body that make the key; no header then brings one.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    natural_key: Vec<String>,
    names: Vec<String>,
    required: bool,
    key_max_bytes: usize,
    quoted: bool,
    /// Whether answers say the key that they are for.
    echoed: bool,
}

/// Within what a key means one request.
#[derive(Clone, Debug, Serialize)]
struct Scope {
    /// `"operation"`: every operation has a key space of its own. `"account"`: it shares one with
    /// others, and a key belongs to the operation that used it first.
    per: &'static str,
    /// What others are answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    mismatch: Option<Refusal>,
    isolate: &'static str,
    fields: Vec<String>,
}

/// What a repeat of a completed request is answered with.
#[derive(Clone, Debug, Serialize)]
struct Replay {
    mode: &'static str,
    marker: &'static str,
    expires: &'static str,
    max_snapshot_bytes: u64,
    /// Header fields besides the usual ones.
    headers: Vec<String>,
    /// What statuses of the API mean where they do not mean the usual.
    store: Map<String, Value>,
}

/// For how long an outcome is kept: milliseconds from completion, or for ever.
#[derive(Clone, Copy, Debug, Serialize)]
#[serde(untagged)]
enum Kept {
    Milliseconds(u64),
    Text(&'static str),
}

/// An answer of the gateway's own.
#[derive(Clone, Copy, Debug, Serialize)]
struct Refusal {
    status: u16,
    code: &'static str,
}

/// When a request is another one, and what it is then answered with.
#[derive(Clone, Debug, Serialize)]
struct Mismatch {
    #[serde(flatten)]
    refusal: Refusal,
    /// Places that may lawfully change.
    ignore: Vec<String>,
    /// Places that alone count, where not all does.
    #[serde(skip_serializing_if = "Option::is_none")]
    only: Option<Vec<String>>,
    /// Header fields that count as well.
    headers: Vec<String>,
}

/// What happens when nobody can tell whether a request was executed.
#[derive(Clone, Copy, Debug, Serialize)]
struct Unknown {
    on_unknown: &'static str,
    #[serde(flatten)]
    refusal: Refusal,
}

impl Terms {
    /// The terms by this policy; `limits`: those of the gateway, where it is known.
    pub fn of(policy: &Policy, limits: Option<Limits>) -> Self {
        let keyed = policy.protect == Protect::Keyed && policy.unlisted().mode == Mode::Enforce;
        let operations = || policy.operations().iter();
        let enforced = operations().filter(|operation| operation.mode == Mode::Enforce);
        let shadowed = operations().filter(|operation| operation.mode == Mode::Shadow);
        Self {
            methods: METHODS,
            max_request_body_bytes: limits.map(|limits| limits.max_request_body.as_u64()),
            answers_from: limits.map(|limits| match limits.answers_from {
                AnswersFrom::Application => "application",
                AnswersFrom::Proxy => "proxy",
            }),
            operations: enforced.map(OperationTerms::of).collect(),
            unlisted: keyed.then(|| OperationTerms::of(policy.unlisted())),
            not_honoured: NotHonoured {
                methods: WITHOUT_EFFECT,
                operations: shadowed.map(|operation| operation.name.clone()).collect(),
                unlisted_routes: !keyed,
                marker: "Idempotency-Status: ignored",
            },
        }
    }

    /// The terms as a JSON document.
    pub fn to_json(&self) -> Value {
        serde_json::to_value(self).expect("terms are strings, numbers and lists of them")
    }
}

impl OperationTerms {
    fn of(operation: &Operation) -> Self {
        // Every setting is named here, so that none is added without a word about its clients.
        let Operation {
            name,
            route,
            required,
            natural_key,
            headers,
            key_max,
            // How soon a dead gateway is noticed: seen by clients only through Retry-After.
            lease: _,
            answer_within,
            max_execution,
            on_unknown,
            retention,
            // For callers of the claims API, who are told when they ask for less.
            retention_min: _,
            fingerprint,
            store,
            store_headers,
            max_snapshot,
            indeterminate_status,
            // Between the gateway and the API.
            forward: _,
            isolate,
            scope,
            scope_by,
            profile,
            quoted_keys,
            echo_key,
            style,
            replay,
            mode: _,
        } = operation;
        let mismatch = |code| Refusal::by(code, Some(style.mismatch_status.as_u16()));
        let (per, other_operation) = match scope {
            KeyScope::Route => ("operation", None),
            KeyScope::Account => ("account", Some(mismatch(Code::OperationMismatch))),
        };
        let natural = !natural_key.is_empty();
        let places = |places: &[_]| places.iter().map(ToString::to_string).collect();
        Self {
            name: route.is_some().then(|| name.clone()),
            method: route.as_ref().map(|route| route.method().to_string()),
            path: route.as_ref().map(|route| route.path().to_owned()),
            profile: profile.name(),
            header: Header {
                names: headers.iter().filter(|_| !natural).map(spelled).collect(),
                natural_key: natural_key.iter().map(ToString::to_string).collect(),
                required: *required || natural,
                key_max_bytes: match natural_key.as_slice() {
                    [] => *key_max,
                    members => members.len() * NATURAL_VALUE_BYTES_MAX,
                },
                quoted: *quoted_keys && !natural,
                echoed: *echo_key && !natural,
            },
            scope: Scope {
                per,
                mismatch: other_operation,
                isolate: match isolate {
                    Isolate::Tenant => "tenant",
                    Isolate::Credential => "credential",
                },
                fields: scope_by.iter().map(ToString::to_string).collect(),
            },
            replay: Replay {
                mode: replay.name(),
                marker: "Idempotent-Replayed: true",
                expires: "Idempotency-Expires",
                max_snapshot_bytes: max_snapshot.as_u64(),
                headers: store_headers.iter().map(spelled).collect(),
                store: store.entries().map(|(key, it)| (key, it.as_str().into())).collect(),
            },
            retention: match retention {
                Retention::For(span) => Kept::Milliseconds(span.get()),
                Retention::Forever => Kept::Text("forever"),
            },
            concurrency: Refusal::by(Code::KeyInProgress, None),
            mismatch: Mismatch {
                refusal: mismatch(Code::KeyReused),
                ignore: places(fingerprint.ignored_places()),
                only: fingerprint.only_places().map(places),
                headers: fingerprint.headers().map(str::to_owned).collect(),
            },
            unknown: Unknown {
                on_unknown: match on_unknown {
                    OnUnknown::FailClosed => "fail_closed",
                    OnUnknown::Takeover { .. } => "takeover",
                },
                refusal: Refusal::by(
                    Code::OutcomeIndeterminate,
                    Some(indeterminate_status.as_u16()),
                ),
            },
            answer_within_ms: answer_within.get(),
            max_execution_ms: max_execution.get(),
            error_body: style.errors.name(),
            media_type: style.errors.media_type().to_str().unwrap_or_default().to_owned(),
        }
    }

    /// What the gateway itself may answer, by status.
    fn refusals(&self) -> Vec<(u16, Vec<Code>)> {
        let mut codes = vec![
            (self.mismatch.refusal.status, Code::KeyReused),
            (self.unknown.refusal.status, Code::OutcomeIndeterminate),
        ];
        let other_operation = self.scope.mismatch;
        codes.extend(other_operation.map(|refusal| (refusal.status, Code::OperationMismatch)));
        codes.extend(
            [
                Code::KeyMalformed,
                Code::KeyTooLong,
                Code::Unauthenticated,
                Code::BodyTimeout,
                Code::KeyInProgress,
                Code::ResponseNotReplayable,
                Code::BodyTooLarge,
                Code::RateLimited,
                Code::QuotaExceeded,
                Code::UpstreamUnreachable,
                Code::OutcomeUnknownReset,
                Code::ShardUnavailable,
                Code::ConfigMismatch,
                Code::OutcomeUnknown,
                Code::OutcomePending,
            ]
            .map(|code| (code.status().as_u16(), code)),
        );
        if self.header.required {
            codes.push((Code::KeyMissing.status().as_u16(), Code::KeyMissing));
        }
        if self.replay.mode == "redirect" {
            codes.push((Code::ReplayRedirect.status().as_u16(), Code::ReplayRedirect));
        }
        codes.sort_by_key(|(status, _)| *status);
        let statuses = codes.chunk_by(|(one, _), (other, _)| one == other);
        statuses.map(|it| (it[0].0, it.iter().map(|(_, code)| *code).collect())).collect()
    }
}

impl Refusal {
    /// That of this code, in its own status or another.
    fn by(code: Code, status: Option<u16>) -> Self {
        let status = status.unwrap_or_else(|| code.status().as_u16());
        Self { status, code: code.name() }
    }
}

impl Kept {
    /// The span, for a sentence that begins before it.
    fn phrase(self) -> String {
        match self {
            Self::Milliseconds(_) => format!("{} from completion", self.text()),
            Self::Text(text) => text.to_owned(),
        }
    }

    fn text(self) -> String {
        match self {
            Self::Milliseconds(span) => crate::config::duration_text(Millis::new(span)),
            Self::Text(text) => text.to_owned(),
        }
    }
}

/// A header's name as documentation writes it, each word with a capital.
fn spelled(name: &HeaderName) -> String {
    let words = name.as_str().split('-').map(|word| {
        let mut letters = word.chars();
        let first = letters.next().map(|letter| letter.to_ascii_uppercase());
        first.into_iter().chain(letters).collect::<String>()
    });
    words.collect::<Vec<_>>().join("-")
}
