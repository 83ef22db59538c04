//! The key of a record: one that a client made, or a natural one, made of members of its request.

use protocol::key::NaturalKey;
use protocol::{IdempotencyKey, RecordName, Scope};

use crate::config::Operation;
use crate::problem::Problem;

/// The key of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum RecordKey {
    /// A client made it.
    Sent(IdempotencyKey),
    /// It was made of members of the request.
    Natural(NaturalKey),
}

impl RecordKey {
    /// The key of an operation's record that a caller names as text, of at most `limit` bytes. A
    /// natural key is named by a JSON list of its members' values.
    ///
    /// # Errors
    /// When the text names none.
    pub(crate) fn given(operation: &Operation, text: &str, limit: usize) -> Result<Self, Problem> {
        Ok(match operation.natural_key.as_slice() {
            [] => Self::Sent(IdempotencyKey::from_text(text, limit)?),
            members => Self::Natural(NaturalKey::from_text(text, members)?),
        })
    }

    /// The name of the record with this key in a scope.
    pub(crate) fn name(&self, scope: &Scope) -> RecordName {
        match self {
            Self::Sent(key) => RecordName::new(scope, key),
            Self::Natural(key) => RecordName::natural(scope, key),
        }
    }

    /// The text that names the key.
    pub(crate) fn text(&self) -> String {
        match self {
            Self::Sent(key) => key.as_str().to_owned(),
            Self::Natural(key) => key.text(),
        }
    }
}
