//! Canonical text of a JSON document: equal for documents that say the same.
//!
//! White space, the order of members and the spelling of strings and numbers do not show in it;
//! the order of elements does. Not every document has a canonical text: see [`canonical_json`].
//!
//! The document is read once, without recursion, and written to one buffer of its size. The members
//! of an object are put in order when it ends, so that a byte may be moved once for each object
//! around it; objects whose members come in order cost nothing. At most that takes the text, a
//! buffer to move members through, and 16 bytes for each member of the objects that are open.

use super::members::Members;
use super::number::NumberWriter;
use super::string::write_string;

/// How many arrays and objects may be open at once: as many as common parsers allow.
const DEPTH_MAX: usize = 128;

/// The canonical text of a document.
///
/// `None` where `text` is not UTF-8 or not JSON (RFC 8259); where readers disagree about what it
/// says, since an object has two members of one name or a string holds half a surrogate pair; and
/// where it is nested deeper than 128.
pub(crate) fn canonical_json(text: &[u8]) -> Option<Vec<u8>> {
    str::from_utf8(text).ok()?;
    let mut writer = Writer {
        text,
        at: 0,
        out: Vec::with_capacity(text.len()),
        open: Vec::new(),
        members: Members::default(),
        numbers: NumberWriter::default(),
    };
    writer.document()?;
    Some(writer.out)
}

struct Writer<'a> {
    text: &'a [u8],
    /// Everything before this place is read.
    at: usize,
    out: Vec<u8>,
    /// The arrays and objects that have begun and not ended.
    open: Vec<Container>,
    members: Members,
    numbers: NumberWriter,
}

#[derive(Clone, Copy)]
enum Container {
    Array,
    Object,
}

/// What has to come next.
enum Expected {
    Value,
    CommaOrEnd,
}

impl Writer<'_> {
    fn document(&mut self) -> Option<()> {
        let mut expected = Expected::Value;
        loop {
            expected = match (expected, self.open.last()) {
                (Expected::Value, _) => self.value()?,
                (Expected::CommaOrEnd, Some(container)) => self.comma_or_end(*container)?,
                (Expected::CommaOrEnd, None) => return self.peek().is_none().then_some(()),
            };
        }
    }

    fn value(&mut self) -> Option<Expected> {
        let first = self.peek()?;
        let rest = &self.text[self.at..];
        let length = match first {
            b'[' => return self.begin(Container::Array),
            b'{' => return self.begin(Container::Object),
            b'"' => write_string(rest, &mut self.out)?,
            b't' => write_literal(b"true", rest, &mut self.out)?,
            b'f' => write_literal(b"false", rest, &mut self.out)?,
            b'n' => write_literal(b"null", rest, &mut self.out)?,
            _ => self.numbers.write(rest, &mut self.out)?,
        };
        self.at += length;
        Some(Expected::CommaOrEnd)
    }

    fn begin(&mut self, container: Container) -> Option<Expected> {
        if self.open.len() == DEPTH_MAX {
            return None;
        }
        self.open.push(container);
        self.copy();
        let first = self.peek()?;
        match container {
            Container::Array if first == b']' => Some(self.end()),
            Container::Array => Some(Expected::Value),
            Container::Object => {
                self.members.begin_object();
                if first == b'}' {
                    self.members.end_object(&mut self.out)?;
                    return Some(self.end());
                }
                self.name()
            }
        }
    }

    fn comma_or_end(&mut self, container: Container) -> Option<Expected> {
        match (container, self.peek()?) {
            (Container::Array, b',') => {
                self.copy();
                Some(Expected::Value)
            }
            (Container::Array, b']') => Some(self.end()),
            (Container::Object, b',') => {
                self.members.end_member(&self.out)?;
                self.copy();
                self.name()
            }
            (Container::Object, b'}') => {
                self.members.end_member(&self.out)?;
                self.members.end_object(&mut self.out)?;
                Some(self.end())
            }
            _ => None,
        }
    }

    /// Reads the name of a member and the colon behind it.
    fn name(&mut self) -> Option<Expected> {
        self.peek()?;
        let start = self.out.len();
        self.at += write_string(&self.text[self.at..], &mut self.out)?;
        self.members.begin_member(&self.out, start)?;
        if self.peek()? != b':' {
            return None;
        }
        self.copy();
        Some(Expected::Value)
    }

    fn end(&mut self) -> Expected {
        self.open.pop();
        self.copy();
        Expected::CommaOrEnd
    }

    /// Copies the next byte, which [`Writer::peek`] found.
    fn copy(&mut self) {
        self.out.push(self.text[self.at]);
        self.at += 1;
    }

    /// Skips white space; returns the byte behind it.
    fn peek(&mut self) -> Option<u8> {
        loop {
            let byte = *self.text.get(self.at)?;
            if !matches!(byte, b' ' | b'\t' | b'\n' | b'\r') {
                return Some(byte);
            }
            self.at += 1;
        }
    }
}

fn write_literal(literal: &[u8], text: &[u8], out: &mut Vec<u8>) -> Option<usize> {
    text.starts_with(literal).then(|| {
        out.extend_from_slice(literal);
        literal.len()
    })
}

#[cfg(test)]
mod tests;
