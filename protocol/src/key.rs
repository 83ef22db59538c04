//! The idempotency key and how it is read from a header.

/// A key that a client sent: 1 to `limit` bytes of %x20-7E, not only spaces.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The key's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}
