//! What is wrong with a configuration file, where, and by which rule.

use std::cell::RefCell;
use std::fmt;
use std::ops::Range;
use std::path::{Path, PathBuf};

use serde::{Serialize, Serializer};
use thiserror::Error;

/// How much a finding weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    /// The file is refused.
    Error,
    /// The file is taken, but somebody should look at it.
    Warning,
}

/// One thing that is wrong with a file. Printed as `FILE:LINE:COLUMN: error[RULE]: MESSAGE`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The file, as it was named.
    #[serde(serialize_with = "display_path")]
    pub file: PathBuf,
    /// The line, from 1; `None` when the file as a whole is meant.
    pub line: Option<usize>,
    /// The column in characters, from 1.
    pub column: Option<usize>,
    /// How much it weighs.
    pub severity: Severity,
    /// The rule's name.
    pub rule: &'static str,
    /// What is wrong, and what to do.
    pub message: String,
}

impl Finding {
    /// An error about a file as a whole.
    pub fn of_file(file: &Path, rule: &'static str, message: impl Into<String>) -> Self {
        Self {
            file: file.to_owned(),
            line: None,
            column: None,
            severity: Severity::Error,
            rule,
            message: message.into(),
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:", self.file.display())?;
        if let (Some(line), Some(column)) = (self.line, self.column) {
            write!(f, "{line}:{column}:")?;
        }
        let severity = match self.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
        };
        write!(f, " {severity}[{}]: {}", self.rule, self.message)
    }
}

/// A file was refused: at least one finding is an error.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{}", lines(.findings))]
pub struct Refused {
    /// Everything that was found, in the order of the file.
    pub findings: Vec<Finding>,
}

impl From<Finding> for Refused {
    fn from(finding: Finding) -> Self {
        Self { findings: vec![finding] }
    }
}

/// Collects what is found while one file is read.
pub(super) struct Findings<'a> {
    file: &'a Path,
    text: &'a str,
    found: RefCell<Vec<(usize, Finding)>>,
}

impl<'a> Findings<'a> {
    pub(super) fn new(file: &'a Path, text: &'a str) -> Self {
        Self { file, text, found: RefCell::default() }
    }

    /// The file's path, as it was named.
    pub(super) fn file(&self) -> &'a Path {
        self.file
    }

    /// Notes an error at a place of the file.
    pub(super) fn error(&self, at: &Range<usize>, rule: &'static str, message: impl Into<String>) {
        self.note(at, Severity::Error, rule, message.into());
    }

    /// Notes a warning at a place of the file.
    pub(super) fn warn(&self, at: &Range<usize>, rule: &'static str, message: impl Into<String>) {
        self.note(at, Severity::Warning, rule, message.into());
    }

    /// Notes an error about the file as a whole.
    pub(super) fn error_of_file(&self, rule: &'static str, message: impl Into<String>) {
        let finding = Finding::of_file(self.file, rule, message);
        self.found.borrow_mut().push((0, finding));
    }

    /// The value that was read and the warnings; or everything found, when something was an error.
    ///
    /// A value may be missing only when an error says why.
    pub(super) fn conclude<T>(self, value: Option<T>) -> Result<(T, Vec<Finding>), Refused> {
        let mut found = self.found.into_inner();
        found.sort_by_key(|(offset, _)| *offset);
        // A setting in [defaults] is read once for every operation.
        found.dedup_by(|left, right| left == right);
        let findings: Vec<Finding> = found.into_iter().map(|(_, finding)| finding).collect();
        if findings.iter().any(|finding| finding.severity == Severity::Error) {
            return Err(Refused { findings });
        }
        let value = value.expect("a value is missing only when an error was noted");
        Ok((value, findings))
    }

    fn note(&self, at: &Range<usize>, severity: Severity, rule: &'static str, message: String) {
        let before = self.text.get(..at.start).unwrap_or(self.text);
        let line_start = before.rfind('\n').map_or(0, |newline| newline + 1);
        let finding = Finding {
            file: self.file.to_owned(),
            line: Some(before.matches('\n').count() + 1),
            column: Some(before[line_start..].chars().count() + 1),
            severity,
            rule,
            message,
        };
        self.found.borrow_mut().push((at.start, finding));
    }
}

fn lines(findings: &[Finding]) -> String {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join("\n")
}

fn display_path<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.collect_str(&path.display())
}
