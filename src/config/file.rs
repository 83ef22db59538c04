//! Files as TOML tables.

use std::ops::Range;

use toml::de::DeTable;

use super::finding::Findings;

/// The two kinds of configuration files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `oncegate.toml`.
    Process,
    /// `policy.toml`.
    Policy,
}

impl Kind {
    /// The kind of file that a text is meant to be, by its tables; `None` when there is nothing in
    /// it.
    pub fn of(text: &str) -> Option<Self> {
        let (table, errors) = DeTable::parse_recoverable(text);
        if table.get_ref().is_empty() && errors.is_empty() {
            return None;
        }
        let process = ["cluster", "node", "api", "gateway"];
        let named = |name: &str| table.get_ref().keys().any(|key| key.get_ref() == name);
        Some(if process.iter().any(|name| named(name)) { Self::Process } else { Self::Policy })
    }
}

/// The table of a whole file and its place; `None` when it is not TOML, with every syntax error
/// noted.
pub(super) fn document<'a>(
    findings: &Findings<'_>,
    text: &'a str,
) -> Option<(DeTable<'a>, Range<usize>)> {
    let (table, errors) = DeTable::parse_recoverable(text);
    for error in &errors {
        let at = error.span().unwrap_or(0..0);
        findings.error(&at, "syntax", error.message());
    }
    let at = table.span();
    errors.is_empty().then(|| (table.into_inner(), at))
}
