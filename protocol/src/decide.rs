//! The decision table: what becomes of a record, and what is answered.

use crate::command::{Command, Outcome};
use crate::lease::Fence;
use crate::record::Record;
use crate::time::Timestamp;

/// What a decision may know besides the record and the command.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Shard time: the entry's stamp, or the shard's own time where that is later.
    pub now: Timestamp,
    /// Index of the log entry.
    pub index: u64,
    /// The restore epoch.
    pub epoch: u8,
    /// The fence that a grant or an operator's decision takes.
    pub next_fence: Fence,
}

/// What becomes of the record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// It stays as it is.
    Keep,
    /// This is the record now.
    Put(Record),
    /// The name is absent again.
    Remove,
}

/// A decision.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decision {
    /// What becomes of the record.
    pub next: Next,
    /// What is answered.
    pub outcome: Outcome,
    /// Whether the decision used [`Context::next_fence`].
    pub took_fence: bool,
}

/// Decides `command` for `record` (`None`: absent).
pub fn decide(context: &Context, record: Option<&Record>, command: &Command) -> Decision {
    let _ = (context, record, command);
    todo!("the decision table")
}
