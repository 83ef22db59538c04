//! Reads one `[[operation]]`, with `[defaults]` behind it.

use std::ops::RangeInclusive;

use bytesize::ByteSize;
use http::{HeaderName, StatusCode};
use protocol::Millis;
use protocol::lease::LEASE_MIN;
use protocol::record::{OnUnknown, Retention};

use super::lint::{self, Budget, Downstream, Draft, UnknownText};
use super::profile::{self, Profile};
use super::section::{Located, Section};
use super::{
    Forward, Isolate, KeyScope, Mode, Operation, Route, compared, fields, natural, stored,
};

/// The longest key that any operation may allow: names stay small enough to be kept in memory.
pub(crate) const KEY_MAX: u64 = 1024;

/// The longest key that a downstream takes where the policy does not say, as most payment APIs
/// have it.
const DOWNSTREAM_KEY_MAX: u64 = 255;

/// No execution takes longer than a day: longer work belongs to a queue.
const EXECUTION_MAX: Millis = Millis::from_secs(86_400);

/// The longest retention: ten years, the longest that bookkeeping laws ask for.
const RETENTION_MAX: Millis = Millis::from_secs(10 * 366 * 86_400);

/// For how long a downstream remembers a key where the policy does not say: a day.
const DOWNSTREAM_RETENTION: Millis = Millis::from_secs(86_400);

/// The largest response body that may be kept: it travels in one log entry.
const SNAPSHOT_MAX: ByteSize = ByteSize::mib(1);

/// The most attempts that a retry budget may name.
const ATTEMPTS_MAX: u64 = 1000;

/// Any span but none at all, up to the longest execution.
const EXECUTION: RangeInclusive<Millis> = Millis::new(1)..=EXECUTION_MAX;

/// Any span but none at all, up to the longest retention.
const RETENTION: RangeInclusive<Millis> = Millis::new(1)..=RETENTION_MAX;

/// The shortest time that a client may wait for its answer: a claim and an outcome must be durable
/// within it, over the slowest link between regions.
const ANSWER_MIN: Millis = Millis::new(1000);

/// Header fields that say something else already, that are about the connection, or that the
/// gateway writes itself.
const RESERVED: [&str; 28] = [
    "accept-encoding",
    "authorization",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "date",
    "expect",
    "forwarded",
    "host",
    "idempotency-attempt",
    "idempotency-expires",
    "idempotency-fence",
    "idempotency-outcome",
    "idempotency-status",
    "idempotent-replayed",
    "keep-alive",
    "proxy-authorization",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
    "via",
    "x-forwarded-for",
    "x-forwarded-host",
    "x-forwarded-proto",
];

/// Reads an operation that the policy lists.
pub(super) fn listed(section: &mut Section<'_>) -> Option<Operation> {
    let matched = section.require("match", section.own_text("match"));
    let name = section.own_text("name");
    let text = name.as_ref().or(matched.as_ref()).map_or("", |text| text.value);
    section.label = format!("operation \"{text}\"");
    let route = matched.as_ref().and_then(|matched| match Route::parse(matched.value) {
        Ok(route) => Some(route),
        Err(error) => {
            let message = format!("\"match\" {error}");
            section.findings.error(&matched.at, "wrong-value", message);
            None
        }
    });
    if let (Some(name), Some(matched)) = (&name, &matched) {
        lint::operation_name(section, name, matched.value);
    }
    let operation = settings(section, text.to_owned(), route);
    section.finish();
    operation.filter(|operation| operation.route.is_some())
}

/// Reads the settings of every route that the policy does not list, from `[defaults]`.
pub(super) fn unlisted(section: &Section<'_>) -> Option<Operation> {
    let operation = settings(section, String::new(), None);
    section.finish();
    operation
}

/// Reads every setting before it gives up on one, so that all mistakes are found at once.
fn settings(section: &Section<'_>, name: String, route: Option<Route>) -> Option<Operation> {
    let forward = forward(section);
    let profile = profile::profile(section);
    let money = section.settled("money", section.flag("money"), false);
    let (profile, money) = (profile?, money?);
    let natural_key = natural::members(section);
    let derived_key = forward.as_ref().is_some_and(|forward| forward.derived_key);
    let natural = natural_key.as_ref().is_some_and(|members| !members.is_empty());
    let draft = draft(section, profile, &money, (natural, derived_key));
    if let Some(draft) = &draft {
        lint::check(section, draft);
    }
    let required = section.settled("required", section.flag("required"), false);
    let headers = key_headers(section, profile);
    let fingerprint = compared::rules(section, headers.as_deref());
    let style = profile::style(section, profile);
    let replay = profile::replay(section, profile, &money);
    let answer_within = answer_within(section);
    let max_snapshot = section.size("max_snapshot", SNAPSHOT_MAX);
    let max_snapshot = section.settled("max_snapshot", max_snapshot, ByteSize::kib(64));
    tenant_header_is_apart(section, forward.as_ref(), headers.as_deref());
    let idempotent = draft.as_ref().is_some_and(Draft::idempotent);
    let store = stored::statuses(section, idempotent, natural);
    let store_headers = stored::headers(section);
    let indeterminate_status = indeterminate_status(section);
    let mode = mode(section);
    let isolate = isolate(section);
    let scope = scope(section, profile);
    let scope_by = fields::scope_by(section);
    let draft = draft?;
    Some(Operation {
        name,
        route,
        required: required?.value,
        mode: mode?,
        natural_key: natural_key?,
        headers: headers?,
        key_max: draft.key_max.as_ref().map_or(draft.downstream_key_max(), |max| max.value),
        lease: draft.lease.value,
        answer_within: answer_within?,
        max_execution: draft.max_execution.value,
        on_unknown: on_unknown(&draft),
        retention: draft.retention.value,
        retention_min: draft.retention_min(),
        fingerprint: fingerprint?,
        store: store?,
        store_headers: store_headers?,
        max_snapshot: max_snapshot?.value,
        indeterminate_status: indeterminate_status?,
        forward: forward?,
        isolate: isolate?,
        scope: scope?,
        scope_by: scope_by?,
        profile,
        quoted_keys: profile.preset().quoted_keys,
        echo_key: profile.preset().echo_key,
        style: style?,
        replay: replay?,
    })
}

fn on_unknown(draft: &Draft) -> OnUnknown {
    match draft.on_unknown.value {
        UnknownText::FailClosed => OnUnknown::FailClosed,
        UnknownText::Takeover => {
            OnUnknown::Takeover { downstream_retention: draft.downstream_retention() }
        }
    }
}

fn isolate(section: &Section<'_>) -> Option<Isolate> {
    let choices = [("tenant", Isolate::Tenant), ("credential", Isolate::Credential)];
    let isolate = section.settled("isolate", section.choice("isolate", &choices), Isolate::Tenant);
    Some(isolate?.value)
}

fn scope(section: &Section<'_>, profile: Profile) -> Option<KeyScope> {
    let choices = [("route", KeyScope::Route), ("account", KeyScope::Account)];
    let scope = section.choice("scope", &choices);
    Some(section.settled("scope", scope, profile.preset().scope)?.value)
}

/// Reads the settings that rules are about. `None` when one of them cannot be read, so that no rule
/// is held against a value that nobody wrote.
fn draft(
    section: &Section<'_>,
    profile: Profile,
    money: &Located<bool>,
    (natural, derived_key): (bool, bool),
) -> Option<Draft> {
    let short = section.settled("short_retention", section.flag("short_retention"), false);
    let choices = [("fail_closed", UnknownText::FailClosed), ("takeover", UnknownText::Takeover)];
    let on_unknown = section.choice("on_unknown", &choices);
    let on_unknown = section.settled("on_unknown", on_unknown, UnknownText::FailClosed);
    let lease = section.duration("lease", LEASE_MIN..=EXECUTION_MAX);
    let lease = section.settled("lease", lease, Millis::from_secs(10));
    let max_execution = section.duration("max_execution", EXECUTION);
    let max_execution = section.settled("max_execution", max_execution, Millis::from_secs(60));
    let key_max = section.number("key_max", 1..=KEY_MAX);
    let key_max_unread = key_max.is_none() && section.has("key_max");
    let retention = retention(section, profile, money);
    let downstream = downstream(section);
    let budget = budget(section);
    if key_max_unread {
        return None;
    }
    Some(Draft {
        money: money.value,
        short_retention: short?.value,
        on_unknown: on_unknown?,
        lease: lease?,
        max_execution: max_execution?,
        key_max: key_max.map(|max| max.map(|max| max as usize)),
        key_max_default: profile.preset().key_max,
        natural,
        // A natural key is no text that a header could carry as it is.
        derived_key: derived_key || natural,
        retention: retention?,
        downstream: downstream?,
        budget: budget?,
    })
}

/// The retention. `money` on an operation outranks a shorter one in `[defaults]`, but not one of
/// the operation's own.
fn retention(
    section: &Section<'_>,
    profile: Profile,
    money: &Located<bool>,
) -> Option<Located<Retention>> {
    if section.is_text("retention", "forever") {
        return section.text("retention").map(|text| text.map(|_| Retention::Forever));
    }
    let by_money = money.value.then_some(lint::MONEY_RETENTION);
    let given = section.duration("retention", RETENTION);
    let Some(preset) = by_money.or(profile.preset().retention) else {
        if !section.has("retention") {
            profile::needs_retention(section, profile);
        }
        return Some(given?.map(Retention::For));
    };
    let settled = section.settled("retention", given, preset)?;
    let outranked = money.value && money.own && !settled.own;
    let settled = if outranked { settled.map(|given| given.max(preset)) } else { settled };
    Some(settled.map(Retention::For))
}

fn downstream(section: &Section<'_>) -> Option<Vec<Downstream>> {
    let Some(tables) = section.tables("downstream", "\"downstream\"", None) else {
        return (!section.has("downstream")).then(Vec::new);
    };
    let mut all = Vec::with_capacity(tables.len());
    for table in tables {
        let idempotent = table.settled("idempotent", table.flag("idempotent"), false);
        let retention = table.duration("retention", RETENTION);
        let retention = table.settled("retention", retention, DOWNSTREAM_RETENTION);
        let key_max = table.number("key_max", 1..=KEY_MAX);
        let key_max = table.settled("key_max", key_max, DOWNSTREAM_KEY_MAX);
        table.finish();
        all.push(idempotent.zip(retention).zip(key_max).map(
            |((idempotent, retention), key_max)| Downstream {
                idempotent: idempotent.value,
                retention: retention.value,
                key_max: key_max.value as usize,
            },
        ));
    }
    all.into_iter().collect()
}

fn budget(section: &Section<'_>) -> Option<Budget> {
    let default = Budget { attempts: 8, max_backoff: Millis::from_secs(3600) };
    let Some(table) = section.table("retry_budget") else {
        return (!section.has("retry_budget")).then_some(default);
    };
    let attempts = table.number("attempts", 1..=ATTEMPTS_MAX);
    let attempts = table.settled("attempts", attempts, default.attempts);
    let max_backoff = table.duration("max_backoff", EXECUTION);
    let max_backoff = table.settled("max_backoff", max_backoff, default.max_backoff);
    table.finish();
    Some(Budget { attempts: attempts?.value, max_backoff: max_backoff?.value })
}

fn key_headers(section: &Section<'_>, profile: Profile) -> Option<Vec<HeaderName>> {
    let default = || vec![HeaderName::from_static(profile.preset().header)];
    let Some(texts) = section.texts("headers") else {
        return (!section.has("headers")).then(default);
    };
    let mut names = Vec::with_capacity(texts.len());
    for text in &texts {
        let name = text.value.parse::<HeaderName>().ok();
        match name.filter(is_free_header) {
            Some(name) => names.push(name),
            None => {
                let message = format!("\"{}\" cannot be the header of a key", text.value);
                section.findings.error(&text.at, "forbidden-header", message);
            }
        }
    }
    if texts.is_empty() {
        section.wrong_value("headers", "must name at least one header");
    }
    (!names.is_empty()).then_some(names)
}

/// The header with the tenant is the gateway's to write, and that with the key the client's.
fn tenant_header_is_apart(
    section: &Section<'_>,
    forward: Option<&Forward>,
    keys: Option<&[HeaderName]>,
) {
    const KEY: &str = "idempotency-key";
    let Some(name) = forward.and_then(|forward| forward.tenant_header.as_ref()) else { return };
    if name.as_str() == KEY || keys.is_some_and(|keys| keys.contains(name)) {
        let message = format!("\"tenant_header\" ({name}) is the header of the key");
        section.findings.error(&section.place("forward"), "forbidden-header", message);
    }
}

fn indeterminate_status(section: &Section<'_>) -> Option<StatusCode> {
    let status = section.number("indeterminate_status", 400..=599);
    match section.settled("indeterminate_status", status, 409)?.value {
        409 => Some(StatusCode::CONFLICT),
        503 => Some(StatusCode::SERVICE_UNAVAILABLE),
        _ => {
            section.wrong_value("indeterminate_status", "must be 409 or 503");
            None
        }
    }
}

fn answer_within(section: &Section<'_>) -> Option<Millis> {
    let within = section.duration("answer_within", ANSWER_MIN..=EXECUTION_MAX);
    Some(section.settled("answer_within", within, Millis::from_secs(30))?.value)
}

fn mode(section: &Section<'_>) -> Option<Mode> {
    let modes = [("enforce", Mode::Enforce), ("shadow", Mode::Shadow)];
    let mode = section.choice("mode", &modes);
    Some(section.settled("mode", mode, Mode::Enforce)?.value)
}

fn forward(section: &Section<'_>) -> Option<Forward> {
    let default = Forward { derived_key: false, tenant_header: None, authorization: true };
    let Some(table) = section.table("forward") else {
        return (!section.has("forward")).then_some(default);
    };
    let derived = table.choice("key", &[("raw", false), ("derived", true)]);
    let derived = table.settled("key", derived, false);
    let kept = table.choice("authorization", &[("keep", true), ("remove", false)]);
    let kept = table.settled("authorization", kept, true);
    let tenant_header = table.text("tenant_header").map(|text| {
        let name = text.value.parse::<HeaderName>().ok();
        let usable = name.filter(is_free_header);
        if usable.is_none() {
            table.wrong_value("tenant_header", "must be a header of its own, such as \"X-Tenant\"");
        }
        usable
    });
    table.finish();
    Some(Forward {
        derived_key: derived?.value,
        tenant_header: tenant_header.flatten(),
        authorization: kept?.value,
    })
}

/// Whether a header says nothing else already.
pub(super) fn is_free_header(name: &HeaderName) -> bool {
    !RESERVED.contains(&name.as_str())
}
