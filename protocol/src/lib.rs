//! What the answer is: the pure core of oncegate.
//!
//! A *record* is what the cluster holds for one [`RecordName`]. A [`Command`] asks to change it;
//! [`decide()`] says what becomes of the record and what is answered; [`Machine`] runs the commands
//! of a log entry in order over a [`RecordStore`]. A gateway that runs an upstream request follows
//! [`execution`], a machine of its own.
//!
//! Nothing here reads a clock, draws a random number, does I/O or awaits: time, identity and
//! randomness are arguments, so that every replica that applies the same log holds the same
//! records, and so that a model checker can drive the very code that decides in production.

#![forbid(unsafe_code)]

pub mod command;
pub mod decide;
pub mod derived;
pub mod execution;
pub mod fields;
pub mod fingerprint;
pub mod key;
pub mod lease;
pub mod machine;
pub mod policy;
pub mod record;
pub mod response;
pub mod scope;
pub mod time;

pub use command::{Basis, Batch, Claim, Command, Decided, Outcome};
pub use decide::decide;
pub use fingerprint::Fingerprint;
pub use key::IdempotencyKey;
pub use lease::{Fence, HolderId, Token};
pub use machine::{Machine, RecordStore};
pub use record::{Record, Terms};
pub use response::StoredResponse;
pub use scope::{RecordName, Scope};
pub use time::{Millis, Timestamp};
