//! The rules that hold between the settings of a policy: what would be accepted, and go wrong
//! later.

use protocol::Millis;
use protocol::derived::DERIVED_KEY_BYTES;
use protocol::record::Retention;

use super::duration::duration_text;
use super::route::parse_unlisted;
use super::section::{Located, Section};
use super::{Operation, finding::Findings};

/// The shortest retention without `short_retention`: clients retry for a day.
const RETENTION_MIN: Millis = Millis::from_secs(86_400);

/// The retention that `money` sets, and the shortest that it allows: disputes about a payment come
/// within days.
pub(super) const MONEY_RETENTION: Millis = Millis::from_secs(7 * 86_400);

/// What `on_unknown` says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum UnknownText {
    FailClosed,
    Takeover,
}

/// One of an operation's downstreams.
#[derive(Clone, Copy, Debug)]
pub(super) struct Downstream {
    pub(super) idempotent: bool,
    pub(super) retention: Millis,
    pub(super) key_max: usize,
}

/// For how long clients may retry.
#[derive(Clone, Copy, Debug)]
pub(super) struct Budget {
    pub(super) attempts: u64,
    pub(super) max_backoff: Millis,
}

impl Budget {
    /// One and a half times the longest that all attempts take.
    fn retention(&self) -> Millis {
        let longest = self.max_backoff.times(self.attempts);
        Millis::new(longest.times(3).get() / 2)
    }
}

/// The settings of an operation that rules are about.
#[derive(Debug)]
pub(super) struct Draft {
    pub(super) money: bool,
    pub(super) short_retention: bool,
    pub(super) on_unknown: Located<UnknownText>,
    pub(super) lease: Located<Millis>,
    pub(super) max_execution: Located<Millis>,
    pub(super) key_max: Option<Located<usize>>,
    pub(super) key_max_default: usize,
    /// Whether the key is made of the request.
    pub(super) natural: bool,
    /// Whether downstreams get a derived key and never see the client's.
    pub(super) derived_key: bool,
    pub(super) retention: Located<Retention>,
    pub(super) downstream: Vec<Downstream>,
    pub(super) budget: Budget,
}

impl Draft {
    /// Whether the upstream may be called twice: there are downstreams, and all of them are
    /// idempotent.
    pub(super) fn idempotent(&self) -> bool {
        !self.downstream.is_empty() && self.downstream.iter().all(|it| it.idempotent)
    }

    /// For how long every downstream remembers a key; none at all without a downstream.
    pub(super) fn downstream_retention(&self) -> Millis {
        self.downstream.iter().map(|it| it.retention).min().unwrap_or(Millis::ZERO)
    }

    /// The longest key that every downstream takes of a client, at most the default.
    pub(super) fn downstream_key_max(&self) -> usize {
        let least = self.least_key_max().filter(|_| !self.derived_key);
        least.map_or(self.key_max_default, |least| least.min(self.key_max_default))
    }

    /// The longest key that every downstream takes.
    fn least_key_max(&self) -> Option<usize> {
        self.downstream.iter().map(|it| it.key_max).min()
    }

    /// The shortest retention that the rules allow.
    pub(super) fn retention_min(&self) -> Millis {
        let by_money = if self.money { MONEY_RETENTION } else { Millis::ZERO };
        let by_rule = if self.short_retention { Millis::new(1) } else { RETENTION_MIN };
        by_money.max(by_rule).max(self.budget.retention())
    }
}

/// Holds every rule against an operation.
pub(super) fn check(section: &Section<'_>, draft: &Draft) {
    retention(section, draft);
    takeover(section, draft);
    let label = &section.label;
    if draft.max_execution.value < draft.lease.value {
        let at = if draft.max_execution.own { &draft.max_execution.at } else { &draft.lease.at };
        let message = format!(
            "{label}: \"max_execution\" ({}) must be at least \"lease\" ({})",
            duration_text(draft.max_execution.value),
            duration_text(draft.lease.value)
        );
        section.findings.error(at, "max-execution-under-lease", message);
    }
    key_lengths(section, draft);
}

/// Every downstream must be able to take the keys that it gets: the client's, or derived ones.
fn key_lengths(section: &Section<'_>, draft: &Draft) {
    let (label, Some(least)) = (&section.label, draft.least_key_max()) else { return };
    if draft.derived_key {
        if least < DERIVED_KEY_BYTES {
            let message = format!(
                "{label}: a downstream takes keys of {least} bytes, and a derived key has \
                 {DERIVED_KEY_BYTES}"
            );
            let at = section.place("downstream");
            section.findings.error(&at, "derived-key-above-downstream", message);
        }
        return;
    }
    if let Some(key_max) = draft.key_max.as_ref().filter(|key_max| key_max.value > least) {
        let message = format!(
            "{label}: \"key_max\" ({}) is above the {least} that a downstream takes",
            key_max.value
        );
        section.findings.error(&key_max.at, "key-max-above-downstream", message);
    }
}

fn retention(section: &Section<'_>, draft: &Draft) {
    let (label, at) = (&section.label, &draft.retention.at);
    let (given, text) = match draft.retention.value {
        Retention::For(span) => (span, duration_text(span)),
        Retention::Forever => (Millis::new(u64::MAX), "forever".to_owned()),
    };
    if draft.retention.value == Retention::Forever && !draft.natural {
        let message = format!(
            "{label}: \"retention\" = \"forever\" is for a \"natural_key\" only: keys that \
             clients make would fill the cluster, and nobody would ask for them again"
        );
        section.findings.error(at, "forever-without-natural-key", message);
    }
    if draft.money && given < MONEY_RETENTION {
        let message = format!(
            "{label}: \"retention\" ({text}) must be at least {} where \"money\" is true",
            duration_text(MONEY_RETENTION)
        );
        section.findings.error(at, "money-retention", message);
    } else if given < RETENTION_MIN && !draft.short_retention {
        let message = format!(
            "{label}: \"retention\" ({text}) is under 24h, within which clients retry; set \
             \"short_retention\" = true if that is meant"
        );
        section.findings.error(at, "retention-under-24h", message);
    }
    let wanted = draft.budget.retention();
    if given < wanted {
        let message = format!(
            "{label}: \"retention\" ({text}) is under {}, one and a half times the retry budget \
             of {} attempts up to {} apart",
            duration_text(wanted),
            draft.budget.attempts,
            duration_text(draft.budget.max_backoff)
        );
        section.findings.error(at, "retention-under-retries", message);
    }
    let smallest = draft.downstream_retention();
    // Only a takeover calls a downstream again under the same key.
    if draft.on_unknown.value == UnknownText::Takeover && draft.idempotent() && given > smallest {
        let message = format!(
            "{label}: \"retention\" ({text}) is above the {} for which a downstream keeps the key",
            duration_text(smallest)
        );
        section.findings.error(at, "retention-above-downstream", message);
    }
}

fn takeover(section: &Section<'_>, draft: &Draft) {
    if draft.on_unknown.value != UnknownText::Takeover {
        return;
    }
    let (label, at) = (&section.label, &draft.on_unknown.at);
    if !draft.idempotent() {
        let message = format!(
            "{label}: \"on_unknown\" = \"takeover\" runs the request again, so there must be a \
             \"downstream\", and each must have \"idempotent\" = true"
        );
        section.findings.error(at, "takeover-needs-idempotent-downstream", message);
        return;
    }
    // A takeover is allowed while one more lease and execution fit into what the downstream
    // remembers, and it comes after the first lease.
    let needed = draft.lease.value.times(2).plus(draft.max_execution.value);
    if draft.downstream_retention() < needed {
        let message = format!(
            "{label}: no takeover is ever possible: a downstream must remember the key for {}, two \
             leases and one \"max_execution\"",
            duration_text(needed)
        );
        section.findings.error(at, "takeover-never-possible", message);
    }
}

/// Refuses the name of one operation that means another route: both would share records.
pub(super) fn operation_name(section: &Section<'_>, name: &Located<&str>, matched: &str) {
    if !is_name(name.value) {
        section.wrong_value("name", &name_rule());
    }
    if name.value != matched && parse_unlisted(name.value).is_some() {
        let message = format!("\"name\" is that of another route, \"{}\"", name.value);
        section.findings.error(&name.at, "ambiguous-name", message);
    }
}

/// The longest name of an operation, a tenant or a credential in bytes: it stands in every record's
/// name.
pub(super) const NAME_MAX: usize = 128;

/// Whether this can be the name of an operation.
pub(super) fn is_name(name: &str) -> bool {
    !name.is_empty() && name.len() <= NAME_MAX && is_plain(name)
}

/// Whether a name may stand in a header, a log and a command line as it is.
pub(super) fn is_plain(name: &str) -> bool {
    name.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') && name.trim() == name
}

/// What a name must be, to be read after "name".
pub(super) fn name_rule() -> String {
    format!("must be 1 to {NAME_MAX} bytes of visible ASCII, with spaces only inside")
}

/// Holds against each other what every two operations must not share. Each comes with its place in
/// the file.
pub(super) fn between(
    findings: &Findings<'_>,
    operations: &[(std::ops::Range<usize>, &Operation)],
) {
    for (index, (at, operation)) in operations.iter().enumerate() {
        for (_, earlier) in &operations[..index] {
            if operation.name == earlier.name {
                let message = format!("two operations are named \"{}\"", operation.name);
                findings.error(at, "duplicate", message);
            }
            let routes = operation.route.as_ref().zip(earlier.route.as_ref());
            if routes.is_some_and(|(route, other)| route.ambiguous_with(other)) {
                let message = format!(
                    "\"{}\" and \"{}\" match the same requests, and neither is more exact",
                    operation.name, earlier.name
                );
                findings.error(at, "ambiguous-route", message);
            }
        }
    }
}
