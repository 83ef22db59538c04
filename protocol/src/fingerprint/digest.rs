//! The digest of a list of parts that cannot be confused with the digest of another list.

use sha2::{Digest, Sha256};

use super::Fingerprint;

/// Stands in front of everything that is digested, so that no other digest of the project, nor of
/// anybody else, is ever a fingerprint.
const LABEL: &[u8] = b"oncegate fingerprint";

/// A SHA-256 over parts, each with its length in front.
pub(super) struct PartsDigest(Sha256);

impl PartsDigest {
    /// A digest for this kind of thing, by the rules of [`Fingerprint::VERSION`].
    pub(super) fn new(kind: &str) -> Self {
        let mut digest = Self(Sha256::new());
        digest.part(LABEL);
        digest.part(&[Fingerprint::VERSION]);
        digest.part(kind.as_bytes());
        digest
    }

    /// Adds one part.
    pub(super) fn part(&mut self, bytes: &[u8]) {
        self.count(bytes.len());
        self.0.update(bytes);
    }

    /// Adds a list of parts, its length in front.
    pub(super) fn parts<'a>(&mut self, parts: impl ExactSizeIterator<Item = &'a [u8]>) {
        self.count(parts.len());
        for part in parts {
            self.part(part);
        }
    }

    /// Adds the length of what follows.
    pub(super) fn count(&mut self, count: usize) {
        self.0.update((count as u64).to_be_bytes());
    }

    pub(super) fn finish(self) -> Fingerprint {
        Fingerprint { version: Fingerprint::VERSION, digest: self.0.finalize().into() }
    }
}
