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
    /// Bytes of the header lines and of the body.
    pub fn bytes(&self) -> usize {
        let headers = self.headers.iter().map(|header| header.name.len() + header.value.len());
        let body = match &self.body {
            StoredBody::Whole(body) => body.len(),
            StoredBody::Omitted => 0,
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
}
