//! Reads the settings of one table of a TOML file, noting everything that is wrong on the way.
//!
//! A reader that stopped at the first mistake would show an operator one mistake per attempt. So
//! every getter notes what is wrong with its own setting and returns `None`, and reading goes on.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::finding::Findings;
use super::spelling::nearest;

mod values;

/// A value and where it stands.
#[derive(Clone, Debug)]
pub(super) struct Located<T> {
    pub(super) value: T,
    pub(super) at: Range<usize>,
    /// Whether it stands in the table itself, not in its defaults.
    pub(super) own: bool,
}

impl<T> Located<T> {
    pub(super) fn map<U>(self, f: impl FnOnce(T) -> U) -> Located<U> {
        Located { value: f(self.value), at: self.at, own: self.own }
    }
}

/// One table of the file, with the table that its settings default to.
pub(super) struct Section<'a> {
    pub(super) findings: &'a Findings<'a>,
    /// What the table is called in messages.
    pub(super) label: String,
    /// Where the table stands.
    pub(super) at: Range<usize>,
    own: &'a DeTable<'a>,
    defaults: Option<&'a DeTable<'a>>,
    /// Every name that was asked for, so that the others are unknown ones.
    asked: RefCell<BTreeSet<&'static str>>,
}

impl<'a> Section<'a> {
    pub(super) fn new(
        findings: &'a Findings<'a>,
        label: impl Into<String>,
        at: Range<usize>,
        own: &'a DeTable<'a>,
        defaults: Option<&'a DeTable<'a>>,
    ) -> Self {
        Self { findings, label: label.into(), at, own, defaults, asked: RefCell::default() }
    }

    /// The table that is read, to be another one's defaults.
    pub(super) fn table_itself(&self) -> &'a DeTable<'a> {
        self.own
    }

    /// Whether the setting is there, readable or not.
    pub(super) fn has(&self, name: &'static str) -> bool {
        self.raw(name).is_some()
    }

    /// Notes that a setting is missing, when it is.
    pub(super) fn require<T>(&self, name: &'static str, found: Option<T>) -> Option<T> {
        if found.is_none() && lookup(self.own, name).is_none() {
            let message = format!("{} needs \"{name}\"", self.label);
            self.findings.error(&self.at, "missing", message);
        }
        found
    }

    /// A text.
    pub(super) fn text(&self, name: &'static str) -> Option<Located<&'a str>> {
        let found = self.raw(name)?;
        match found.value {
            DeValue::String(text) => Some(found.map(|_| &**text)),
            _ => self.wrong_type(name, &found, "a text"),
        }
    }

    /// A text that no default stands in for.
    pub(super) fn own_text(&self, name: &'static str) -> Option<Located<&'a str>> {
        self.text(name).filter(|text| text.own)
    }

    /// `true` or `false`.
    pub(super) fn flag(&self, name: &'static str) -> Option<Located<bool>> {
        let found = self.raw(name)?;
        match found.value {
            DeValue::Boolean(flag) => Some(found.map(|_| *flag)),
            _ => self.wrong_type(name, &found, "true or false"),
        }
    }

    /// A table within this one. Its settings have no defaults.
    pub(super) fn table(&self, name: &'static str) -> Option<Section<'a>> {
        let found = self.raw(name)?;
        let DeValue::Table(table) = found.value else {
            return self.wrong_type(name, &found, "a table");
        };
        let label = format!("[{name}]");
        Some(Section::new(self.findings, label, found.at, table, None))
    }

    /// The tables of a list, `[[name]]` or `name = [{ … }]`, each called `label`.
    pub(super) fn tables(
        &self,
        name: &'static str,
        label: &str,
        defaults: Option<&'a DeTable<'a>>,
    ) -> Option<Vec<Section<'a>>> {
        let found = self.raw(name)?;
        let DeValue::Array(items) = found.value else {
            return self.wrong_type(name, &found, "a list of tables");
        };
        let mut tables = Vec::with_capacity(items.len());
        for item in items {
            let located = Located { value: item.get_ref(), at: item.span(), own: found.own };
            let DeValue::Table(table) = item.get_ref() else {
                return self.wrong_type(name, &located, "a list of tables");
            };
            tables.push(Section::new(self.findings, label, located.at, table, defaults));
        }
        Some(tables)
    }

    /// Every setting of the table with its value, for a table whose names are free.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&'a str, Range<usize>, Option<&'a str>)> {
        self.own.iter().map(|(key, value)| {
            let text = match value.get_ref() {
                DeValue::String(text) => Some(&**text),
                _ => None,
            };
            (&**key.get_ref(), key.span().start..value.span().end, text)
        })
    }

    /// What was found; the default where the setting is absent; `None` where it could not be read.
    pub(super) fn settled<T>(
        &self,
        name: &'static str,
        found: Option<Located<T>>,
        default: T,
    ) -> Option<Located<T>> {
        if found.is_none() && !self.has(name) {
            return Some(Located { value: default, at: self.at.clone(), own: false });
        }
        found
    }

    /// Whether a setting is this text.
    pub(super) fn is_text(&self, name: &'static str, wanted: &str) -> bool {
        self.raw(name)
            .is_some_and(|found| matches!(found.value, DeValue::String(text) if &**text == wanted))
    }

    /// Takes a list only when it is empty, since this version honours nothing in it.
    pub(super) fn only_empty(&self, name: &'static str) {
        if self.texts(name).is_some_and(|texts| !texts.is_empty()) {
            self.not_supported(name, "a list with entries");
        }
    }

    /// Refuses a setting that this version does not honour, when it is there.
    pub(super) fn refuse(&self, name: &'static str) {
        if let Some(found) = self.raw(name) {
            let message = format!("\"{name}\" is not supported in this version");
            self.findings.error(&found.at, "not-supported", message);
        }
    }

    /// Notes that this version does not honour the value of a setting.
    pub(super) fn not_supported(&self, name: &'static str, value: &str) {
        let message = format!("\"{name}\" = {value} is not supported in this version");
        self.findings.error(&self.place(name), "not-supported", message);
    }

    /// Notes that the value of a setting cannot be used; `message` goes on after the name.
    pub(super) fn wrong_value(&self, name: &'static str, message: &str) {
        self.findings.error(&self.place(name), "wrong-value", format!("\"{name}\" {message}"));
    }

    /// Where a setting stands, or else its table.
    pub(super) fn place(&self, name: &'static str) -> Range<usize> {
        self.raw(name).map_or_else(|| self.at.clone(), |found| found.at)
    }

    /// Notes every setting that nobody asked for.
    pub(super) fn finish(&self) {
        let asked = self.asked.borrow();
        for key in self.own.keys() {
            let name = &**key.get_ref();
            if asked.contains(name) {
                continue;
            }
            let hint = nearest(name, &asked)
                .map_or(String::new(), |known| format!("; did you mean \"{known}\"?"));
            let message = format!("{} has no setting \"{name}\"{hint}", self.label);
            self.findings.error(&key.span(), "unknown-name", message);
        }
    }

    fn raw(&self, name: &'static str) -> Option<Located<&'a DeValue<'a>>> {
        self.asked.borrow_mut().insert(name);
        let (value, own) = match (lookup(self.own, name), self.defaults) {
            (Some(value), _) => (value, true),
            (None, Some(defaults)) => (lookup(defaults, name)?, false),
            (None, None) => return None,
        };
        Some(Located { value: value.get_ref(), at: value.span(), own })
    }

    fn wrong_type<T>(
        &self,
        name: &'static str,
        found: &Located<&DeValue<'_>>,
        wanted: &str,
    ) -> Option<T> {
        let message = format!("\"{name}\" must be {wanted}, not {}", kind(found.value));
        self.findings.error(&found.at, "wrong-type", message);
        None
    }
}

fn lookup<'a>(table: &'a DeTable<'a>, name: &str) -> Option<&'a Spanned<DeValue<'a>>> {
    table.iter().find(|(key, _)| key.get_ref() == name).map(|(_, value)| value)
}

fn kind(value: &DeValue<'_>) -> &'static str {
    match value {
        DeValue::String(_) => "a text",
        DeValue::Integer(_) | DeValue::Float(_) => "a number",
        DeValue::Boolean(_) => "true or false",
        DeValue::Datetime(_) => "a date",
        DeValue::Array(_) => "a list",
        DeValue::Table(_) => "a table",
    }
}
