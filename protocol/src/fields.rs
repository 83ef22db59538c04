//! Members of a JSON body that name a record: found by pointer, in what a fingerprint is taken of.
//!
//! A body is looked at in its canonical text, so that members, numbers and escapes count here as
//! they do for the fingerprint, and a body that readers disagree about has no members at all: two
//! members of one name could name two records.

use std::fmt;

use thiserror::Error;

use crate::fingerprint::{canonical_json, canonical_string};

/// The longest pointer in bytes.
const POINTER_BYTES_MAX: usize = 256;

/// A place in a JSON document (RFC 6901), never the document as a whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct JsonPointer {
    text: String,
    tokens: Vec<Token>,
}

/// One step into a document.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Token {
    /// The name of a member as the canonical text spells it.
    name: Vec<u8>,
    /// The place of an element, where the step can be one.
    index: Option<usize>,
}

/// Why a text is no pointer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("must be a JSON pointer such as \"/order/id\", of at most {POINTER_BYTES_MAX} bytes")]
pub struct PointerError;

/// A JSON document, whose members can be asked for.
#[derive(Debug)]
pub struct JsonDocument {
    canonical: Vec<u8>,
}

/// What stands at a pointer is an array or an object, and names nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("is an array or an object")]
pub struct NotScalar;

impl JsonPointer {
    /// Reads a pointer.
    ///
    /// # Errors
    /// When the text is none, or the empty one.
    pub fn parse(text: &str) -> Result<Self, PointerError> {
        if text.len() > POINTER_BYTES_MAX {
            return Err(PointerError);
        }
        let tokens = text.strip_prefix('/').ok_or(PointerError)?.split('/');
        let tokens: Result<_, _> = tokens.map(Token::parse).collect();
        Ok(Self { text: text.to_owned(), tokens: tokens? })
    }
}

impl fmt::Display for JsonPointer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

impl Token {
    fn parse(text: &str) -> Result<Self, PointerError> {
        let mut name = String::with_capacity(text.len());
        let mut rest = text.chars();
        while let Some(character) = rest.next() {
            name.push(match character {
                '~' => match rest.next() {
                    Some('0') => '~',
                    Some('1') => '/',
                    _ => return Err(PointerError),
                },
                other => other,
            });
        }
        let digits = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_digit());
        let is_index = digits && (name.len() == 1 || !name.starts_with('0'));
        let index = name.parse().ok().filter(|_| is_index);
        Ok(Self { name: canonical_string(&name), index })
    }
}

impl JsonDocument {
    /// Reads a body. `None` where it is not JSON, or where readers disagree about what it says.
    pub fn read(body: &[u8]) -> Option<Self> {
        Some(Self { canonical: canonical_json(body)? })
    }

    /// The canonical text of the string, number or literal at a pointer; `None` where there is
    /// nothing, or `null`.
    ///
    /// # Errors
    /// When it is an array or an object.
    pub fn scalar(&self, pointer: &JsonPointer) -> Result<Option<&str>, NotScalar> {
        let mut value = self.canonical.as_slice();
        for token in &pointer.tokens {
            match step(value, token) {
                Some(next) => value = next,
                None => return Ok(None),
            }
        }
        scalar(value)
    }

    /// What [`JsonDocument::scalar`] says of each element; `None` where the document is no array.
    pub fn elements(&self) -> Option<Vec<Result<Option<&str>, NotScalar>>> {
        let mut rest = self.canonical.strip_prefix(b"[")?.strip_suffix(b"]")?;
        let mut elements = Vec::new();
        while !rest.is_empty() {
            let (element, after) = rest.split_at(end_of_value(rest));
            elements.push(scalar(element));
            rest = after.strip_prefix(b",").unwrap_or_default();
        }
        Some(elements)
    }
}

/// The string, number or literal that this canonical text is; `None` for `null`.
fn scalar(value: &[u8]) -> Result<Option<&str>, NotScalar> {
    match value.first() {
        Some(b'{' | b'[') => Err(NotScalar),
        _ if value == b"null" => Ok(None),
        // Canonical text was made of text.
        _ => Ok(str::from_utf8(value).ok()),
    }
}

/// The value that a step into `value` leads to.
fn step<'a>(value: &'a [u8], token: &Token) -> Option<&'a [u8]> {
    let (first, mut rest) = value.split_first()?;
    let mut index = 0;
    loop {
        let name = match first {
            b'{' if rest.first() == Some(&b'"') => {
                let (name, after) = rest.split_at(end_of_value(rest));
                rest = after.get(1..)?;
                Some(name)
            }
            b'[' if rest.first() != Some(&b']') => None,
            _ => return None,
        };
        let (item, after) = rest.split_at(end_of_value(rest));
        let wanted = match name {
            Some(name) => name == token.name,
            None => token.index == Some(index),
        };
        if wanted {
            return Some(item);
        }
        if after.first() != Some(&b',') {
            return None;
        }
        rest = &after[1..];
        index += 1;
    }
}

/// Where the value that canonical text begins with ends.
fn end_of_value(text: &[u8]) -> usize {
    let mut depth = 0_usize;
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => {
                at += 1;
                while at < text.len() && text[at] != b'"' {
                    at += if text[at] == b'\\' { 2 } else { 1 };
                }
            }
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 0 => return at,
            b'}' | b']' => depth -= 1,
            b',' | b':' if depth == 0 => return at,
            _ => {}
        }
        at += 1;
    }
    text.len().min(at)
}

#[cfg(test)]
mod tests;
