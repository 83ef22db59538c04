//! What an upstream's answer means for the key, and what of it is kept.
//!
//! An operation says in `store` what its statuses mean and in `store_headers` which header lines it
//! wants kept; both are checked when they are read, so that nothing forbidden is ever asked for
//! when an answer has come.

mod answer;
mod header;

pub use answer::{AnswersFrom, Effect, StoreRuleError, StoreRules, classify, is_never_stored};
pub use header::{
    NeverCompared, NeverStored, check_compared_header, check_stored_header, is_stored_header,
};
