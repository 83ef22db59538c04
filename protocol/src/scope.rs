//! The name of a record: a tenant, an operation and a key, never less.
//!
//! A name is kept whole, as length-prefixed bytes, so that no two names can be confused by joining
//! their parts; a hash of it places a record but never identifies it.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::key::{IdempotencyKey, NaturalKey, natural};

/// The longest name in bytes: the longest path that names an operation, the longest key, and room
/// for the rest.
///
/// No name in use comes near it. It is a bound of the decision itself, so that no command, from
/// wherever it comes, can put something into the log that a record store could not hold.
pub const NAME_BYTES_MAX: usize = 16 * 1024;

/// The namespace in which a key is unique.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Scope {
    /// The tenant, from verified credentials only.
    pub tenant: String,
    /// Values of the request fields that `scope_by` lists, in its order; empty where nothing is
    /// listed.
    pub sub_account: Vec<String>,
    /// The credential's configured name where keys are isolated by credential.
    pub credential: Option<String>,
    /// The operation's name where it is part of the scope.
    pub operation: Option<String>,
}

/// The whole name of a record, as bytes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct RecordName(#[serde(with = "serde_bytes")] Vec<u8>);

/// First byte of a name whose key its client made.
const HEADER_KEY_SPACE: u8 = 1;

/// First byte of a name whose key was made of members of the request, so that it never meets one
/// that a client made.
const NATURAL_KEY_SPACE: u8 = 2;

impl RecordName {
    /// The name of `key` in `scope`.
    pub fn new(scope: &Scope, key: &IdempotencyKey) -> Self {
        let mut bytes = within(HEADER_KEY_SPACE, scope);
        put(&mut bytes, key.as_str().as_bytes());
        Self(bytes)
    }

    /// The name of a natural key in `scope`.
    pub fn natural(scope: &Scope, key: &NaturalKey) -> Self {
        let mut bytes = within(NATURAL_KEY_SPACE, scope);
        put_list(&mut bytes, key.values());
        Self(bytes)
    }

    /// What the name was made of, a natural key as [`NaturalKey::text`] has it; `None` for bytes
    /// that no scope and key have.
    pub fn parts(&self) -> Option<(Scope, String)> {
        let (space, mut rest) = self.0.split_first()?;
        let tenant = take_text(&mut rest)?;
        let sub_account = take_list(&mut rest)?;
        let credential = take_option(&mut rest)?;
        let operation = take_option(&mut rest)?;
        let key = match *space {
            HEADER_KEY_SPACE => take_text(&mut rest)?,
            NATURAL_KEY_SPACE => natural::list(&take_list(&mut rest)?),
            _ => return None,
        };
        let scope = Scope { tenant, sub_account, credential, operation };
        rest.is_empty().then_some((scope, key))
    }

    /// The tenant whose name it is, which stands in the same place of every name; `None` for bytes
    /// that are no name.
    pub fn tenant(&self) -> Option<&str> {
        let (_space, mut rest) = self.0.split_first()?;
        let length = usize::try_from(take_number(&mut rest)?).ok()?;
        std::str::from_utf8(rest.get(..length)?).ok()
    }

    /// A name from the bytes of [`RecordName::as_bytes`], as the record store keeps them.
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// Whether the name is so long that nothing is ever kept under it.
    pub fn is_too_long(&self) -> bool {
        self.0.len() > NAME_BYTES_MAX
    }

    /// The bytes of the name; equal names have equal bytes, different names different ones.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

/// Names hold keys and tenants, which never reach a log in clear.
impl fmt::Debug for RecordName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RecordName({} bytes)", self.0.len())
    }
}

/// The beginning of every name in this scope.
fn within(space: u8, scope: &Scope) -> Vec<u8> {
    let mut bytes = vec![space];
    put(&mut bytes, scope.tenant.as_bytes());
    put_list(&mut bytes, &scope.sub_account);
    for part in [&scope.credential, &scope.operation] {
        match part {
            None => bytes.push(0),
            Some(part) => {
                bytes.push(1);
                put(&mut bytes, part.as_bytes());
            }
        }
    }
    bytes
}

fn put_list(bytes: &mut Vec<u8>, parts: &[String]) {
    bytes.extend_from_slice(&(parts.len() as u32).to_be_bytes());
    for part in parts {
        put(bytes, part.as_bytes());
    }
}

fn put(bytes: &mut Vec<u8>, part: &[u8]) {
    bytes.extend_from_slice(&(part.len() as u32).to_be_bytes());
    bytes.extend_from_slice(part);
}

fn take_number(rest: &mut &[u8]) -> Option<u32> {
    let (number, after) = rest.split_first_chunk()?;
    *rest = after;
    Some(u32::from_be_bytes(*number))
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(take_number(rest)?).ok()?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    String::from_utf8(text.to_vec()).ok()
}

fn take_list(rest: &mut &[u8]) -> Option<Vec<String>> {
    let count = take_number(rest)?;
    let mut parts = Vec::new();
    for _ in 0..count {
        parts.push(take_text(rest)?);
    }
    Some(parts)
}

fn take_option(rest: &mut &[u8]) -> Option<Option<String>> {
    let (tag, after) = rest.split_first()?;
    *rest = after;
    match tag {
        0 => Some(None),
        1 => Some(Some(take_text(rest)?)),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
