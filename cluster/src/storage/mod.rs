//! What a node keeps: the log of all its shards, and the files beside it. Opaque bytes under names
//! and indexes; nothing here knows what they mean.
//!
//! # What is durable before what
//!
//! 1. A file gets its final name only when its content is synced, and is used only when its
//!    directory is synced after that. A removal or a rename is synced before the next one, and
//!    before the file is written again.
//! 2. The log is the truth. A group of changes is written with one write and synced with one sync,
//!    and only then are its callers told. The next group is written after that: a group on disk
//!    proves that all before it were durable.
//! 3. A vote is ordered with the entries around it, and reported when it is durable.
//! 4. Truncation and the committed position are ordered with the rest, and become durable with the
//!    next group. Losing the last of them costs work after a restart, never truth.
//! 5. Records are not synced when an entry is applied. A log entry may be purged only once a synced
//!    checkpoint of the records holds its effect.
//! 6. A failed write or sync is never retried: what the page cache holds after it is unknown.
//!    Everybody who waits gets the error and the node stops. For the same reason a restart writes
//!    and syncs the last group it finds once more, before anybody acts on it.

pub(crate) mod disk;
mod frame;
pub(crate) mod identity;
#[cfg(feature = "testing")]
mod layouts;
pub(crate) mod records;
pub(crate) mod space;
pub(crate) mod wal;

#[cfg(feature = "testing")]
pub(crate) use self::layouts::layout;
