//! The stored response: what a replay returns.

use serde::{Deserialize, Serialize};

/// An answer as it is kept: status, the header lines that may be replayed, and the body byte for
/// byte.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StoredResponse {
    /// The HTTP status code.
    pub status: u16,
    /// Header lines in order; a name that came twice stands here twice.
    pub headers: Vec<StoredHeader>,
    /// The body, or what is known of one that was too large to keep.
    pub body: StoredBody,
}

impl StoredResponse {
    /// Whether both are one answer, of which one may know less of a body that was not kept.
    pub fn is_same_answer(&self, other: &Self) -> bool {
        use StoredBody::{Measured, Omitted};
        let bodies = match (&self.body, &other.body) {
            (Omitted, Measured(_)) | (Measured(_), Omitted) => true,
            (one, another) => one == another,
        };
        bodies && self.status == other.status && self.headers == other.headers
    }

    /// Bytes of the header lines and of the body.
    pub fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|header| header.name.len() + header.value.len());
        let body = match &self.body {
            StoredBody::Whole(body) => body.len(),
            StoredBody::Omitted | StoredBody::Measured(_) => 0,
        };
        headers.sum::<usize>() + body
    }
}

/// One header line of a stored response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct StoredHeader {
    /// The field name in lower case.
    pub name: String,
    /// The field value as it came.
    #[serde(with = "serde_bytes")]
    pub value: Vec<u8>,
}

/// The body of a stored response.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum StoredBody {
    /// The whole body.
    Whole(#[serde(with = "serde_bytes")] Vec<u8>),
    /// A body over the operation's `max_snapshot`: a repeat is answered `response-not-replayable`,
    /// never run again.
    Omitted,
    /// Such a body once its end has gone by: what is known of it.
    Measured(Measure),
}

/// What is known of a body that was not kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Measure {
    /// Its length in bytes.
    pub bytes: u64,
    /// Its SHA-256.
    pub sha256: [u8; 32],
}
