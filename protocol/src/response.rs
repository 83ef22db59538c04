//! The stored response: what a replay returns.

use serde::{Deserialize, Serialize};

/// An answer as it is kept: status, the header lines that may be replayed, and the body byte for byte.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredResponse {
    /// The HTTP status code.
    pub status: u16,
    /// Header lines in order; a name that came twice stands here twice.
    pub headers: Vec<StoredHeader>,
    /// The body, or what is known of one that was too large to keep.
    pub body: StoredBody,
}

/// One header line of a stored response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct StoredHeader {
    /// The field name in lower case.
    pub name: String,
    /// The field value as it came.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
}

/// The body of a stored response.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum StoredBody {
    /// The whole body.
    Whole(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A body over the operation's `max_snapshot`: a repeat is answered `response-not-replayable`, never run again.
    Omitted,
}
