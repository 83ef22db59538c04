//! All records and commands of the table, as the facts that tell them apart.

use super::rules::Facts;

/// Kinds of records or commands, the facts of each, and the values of each fact.
pub(crate) type Kinds = [(&'static str, &'static [Fact])];
type Fact = (&'static str, &'static [&'static str]);

/// All records.
pub(crate) const RECORDS: &Kinds = &[
    ("absent", &[]),
    ("tombstone", &[("keep", &["within", "last", "past"]), HISTORY]),
    ("inflight", &[("lease", &["live", "end", "past"]), WINDOW, TAINTED, GRANTED, HISTORY, KEPT]),
    ("over", &[("mark", &["unset", "set"]), HOLDER, WINDOW, TAINTED, GRANTED, HISTORY, KEPT]),
    ("indeterminate", &[HOLDER, WINDOW, TAINTED, GRANTED, HISTORY, KEPT]),
    (
        "done",
        &[
            ("retention", &["live", "last", "end", "past", "forever"]),
            ("operator", &["no", "yes"]),
            ("revisions", &["one", "two", "full"]),
            HISTORY,
        ],
    ),
    ("forgotten", &[("until", &["live", "end", "past"]), HISTORY, KEPT]),
];

/// All commands.
pub(crate) const COMMANDS: &Kinds = &[
    (
        "claim",
        &[
            OPERATION,
            ("print", &["same", "other"]),
            ("attempt", &["own", "other"]),
            ("admit", &["fresh", "last", "exact", "late", "unseen", "cold", "epoch"]),
            ("ask", &["fits", "longer"]),
        ],
    ),
    ("renew", &[GRANT, ("ask", &["shorter", "equal", "longer", "beyond"])]),
    ("complete", &[GRANT, ANSWER]),
    ("release", &[GRANT]),
    ("unknown", &[GRANT]),
    ("resolve", &[FENCE, ("verdict", &["completed", "released"]), ("force", &["no", "yes"])]),
    ("forget", &[FENCE]),
    ("revise", &[OPERATION, ANSWER]),
    ("expire", &[]),
];

const HOLDER: Fact = ("holder", &["held", "none"]);
const WINDOW: Fact = ("window", &["closed", "out", "last", "in"]);
const TAINTED: Fact = ("tainted", &["no", "yes"]);
const GRANTED: Fact = ("granted", &["recent", "early", "drained"]);
const HISTORY: Fact = ("history", &["none", "some"]);
const KEPT: Fact = ("kept", &["day", "forever"]);
const GRANT: Fact = ("grant", &["current", "old", "later", "forged"]);
const FENCE: Fact = ("fence", &["current", "old", "later"]);
const OPERATION: Fact = ("operation", &["same", "other", "none"]);
const ANSWER: Fact = ("answer", &["first", "newest", "another"]);

/// The value among `values` that stands where the chosen one stands among the values of the fact.
pub(crate) fn pick(facts: &Facts, fact: &str, values: &[u64]) -> u64 {
    let kinds = RECORDS.iter().filter(|(kind, _)| facts.get("is") == Some(kind));
    let kinds = kinds.chain(COMMANDS.iter().filter(|(kind, _)| facts.get("command") == Some(kind)));
    let mut names = kinds.flat_map(|(_, facts)| facts.iter()).filter(|(name, _)| *name == fact);
    let (_, all) = names.next().expect("a fact of this kind");
    let chosen = all.iter().position(|value| *value == facts[fact]).expect("a value of the fact");
    values[chosen]
}
