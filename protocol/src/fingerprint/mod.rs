//! "Same key, same request?": a digest of what makes a request the request that it is.

use serde::{Deserialize, Serialize};

/// Digest of a request, with the version of the rules that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Version of the digest's rules.
    pub version: u8,
    /// SHA-256 of the canonical form.
    pub digest: [u8; 32],
}
