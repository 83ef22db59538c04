//! The one bincode configuration. Every persisted or sent value starts with a version byte.

use bincode::config::{Configuration, Fixint, Limit, LittleEndian, Varint};
use serde::{Serialize, de::DeserializeOwned};
use thiserror::Error;

/// The largest value that is ever encoded: a batch of commands, each with a stored response of at most 1 MiB.
pub const BYTES_MAX: usize = 16 << 20;
