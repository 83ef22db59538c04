//! The idempotency key and how it is read from a header or from the text of a claim.
//!
//! A header may carry a key in two forms: an RFC 9651 String (`"abc"`, with parameters that are
//! ignored) or the bare text that most clients send (`abc`). Both name the same key. A key that
//! cannot be read is an error and never the same as none: otherwise a request that asked for
//! protection would run without it.

use std::fmt;

use thiserror::Error;

pub(crate) mod natural;

pub use natural::{NATURAL_MEMBERS_MAX, NATURAL_VALUE_BYTES_MAX, NaturalKey, NaturalKeyError};

/// A key that a client sent: 1 to `limit` bytes of %x20-7E, not only spaces. Case matters.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct IdempotencyKey(String);

impl IdempotencyKey {
    /// The key in the value of one header line, of at most `limit` bytes; quotes are not counted
    /// and an escaped character counts as one byte.
    ///
    /// # Errors
    /// When the value holds no well-formed key, or one that is too long.
    pub fn from_header(value: &[u8], limit: usize) -> Result<Self, KeyError> {
        let value = trim_outer_space(value);
        if is_quoted(value) {
            return Self::from_quoted(value, limit);
        }
        if value.is_empty() {
            return Err(Malformed::Empty.into());
        }
        // A comma is what a proxy puts between header lines that it joins, so it is never part of a
        // bare key.
        if !value.iter().all(|&byte| byte.is_ascii_graphic() && byte != b',') {
            return Err(Malformed::ForbiddenByte.into());
        }
        let text = str::from_utf8(value).map_err(|_| Malformed::ForbiddenByte)?;
        Self::checked(text, limit)
    }

    /// The key in the lines of one header; `None` when there is no line.
    ///
    /// # Errors
    /// When there is more than one line, and as [`IdempotencyKey::from_header`].
    pub fn from_lines<'a>(
        lines: impl IntoIterator<Item = &'a [u8]>,
        limit: usize,
    ) -> Result<Option<Self>, KeyError> {
        let mut lines = lines.into_iter();
        let Some(line) = lines.next() else { return Ok(None) };
        if lines.next().is_some() {
            return Err(Malformed::RepeatedHeader.into());
        }
        Self::from_header(line, limit).map(Some)
    }

    /// The key of a request whose operation accepts several key headers; each item of `headers`
    /// holds the lines of one of them. `None` when none of them has a line.
    ///
    /// # Errors
    /// When two headers disagree, and as [`IdempotencyKey::from_lines`] for each of them.
    pub fn from_headers<'a, H>(headers: H, limit: usize) -> Result<Option<Self>, KeyError>
    where
        H: IntoIterator,
        H::Item: IntoIterator<Item = &'a [u8]>,
    {
        let mut found: Option<Self> = None;
        for lines in headers {
            let Some(key) = Self::from_lines(lines, limit)? else { continue };
            if found.as_ref().is_some_and(|earlier| *earlier != key) {
                return Err(Malformed::HeadersDisagree.into());
            }
            found = Some(key);
        }
        Ok(found)
    }

    /// The key that a claim names as plain text, of at most `limit` bytes. Nothing is trimmed.
    ///
    /// # Errors
    /// When the text holds anything but %x20-7E or nothing but spaces, or is too long.
    pub fn from_text(text: &str, limit: usize) -> Result<Self, KeyError> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic() || byte == b' ') {
            return Err(Malformed::ForbiddenByte.into());
        }
        Self::checked(text, limit)
    }

    /// The key's text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn from_quoted(value: &[u8], limit: usize) -> Result<Self, KeyError> {
        let item: sfv::Item = sfv::Parser::new(value).parse().map_err(|_| Malformed::Quoting)?;
        // The value starts with a quote, so that an item that parses is a String.
        let text = item.bare_item.as_string().ok_or(Malformed::Quoting)?;
        Self::checked(text.as_str(), limit)
    }

    fn checked(text: &str, limit: usize) -> Result<Self, KeyError> {
        if text.bytes().all(|byte| byte == b' ') {
            return Err(Malformed::Empty.into());
        }
        if text.len() > limit {
            return Err(KeyError::TooLong { limit });
        }
        Ok(Self(text.to_owned()))
    }
}

/// Keys never reach a log in clear.
impl fmt::Debug for IdempotencyKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "IdempotencyKey({} bytes)", self.0.len())
    }
}

/// Why a key is refused. The message never holds the key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum KeyError {
    /// It is present, but it is not a key.
    #[error("the idempotency key is malformed: {0}")]
    Malformed(#[from] Malformed),
    /// It is longer than its operation allows.
    #[error("the idempotency key is longer than {limit} bytes")]
    TooLong {
        /// The operation's limit in bytes.
        limit: usize,
    },
}

/// What is wrong with a malformed key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum Malformed {
    /// There is nothing in it, or nothing but blanks.
    #[error("it is empty")]
    Empty,
    /// It starts with a quote but is not one RFC 9651 String.
    #[error("it starts with a quote but is not one structured-field string")]
    Quoting,
    /// The operation takes quoted keys only.
    #[error("it must be a structured-field string, in double quotes")]
    Bare,
    /// A byte may not be in a key; in a bare header value neither may a space nor a comma.
    #[error("it holds a byte that is not allowed")]
    ForbiddenByte,
    /// The header came in more than one line.
    #[error("its header came more than once")]
    RepeatedHeader,
    /// Two of the accepted headers name different keys.
    #[error("two headers name different keys")]
    HeadersDisagree,
}

/// Whether the value of a header line is written as an RFC 9651 String, well or badly.
pub fn is_quoted(value: &[u8]) -> bool {
    trim_outer_space(value).first() == Some(&b'"')
}

fn trim_outer_space(value: &[u8]) -> &[u8] {
    let is_text = |byte: &u8| !matches!(byte, b' ' | b'\t');
    let start = value.iter().position(is_text).unwrap_or(value.len());
    let end = value.iter().rposition(is_text).map_or(start, |last| last + 1);
    &value[start..end]
}

#[cfg(test)]
mod tests;
