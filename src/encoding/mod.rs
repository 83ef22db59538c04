//! Encoded request bodies: what is compared of a body that came compressed.
//!
//! The same request counts as the same however it was packed, so its fingerprint is taken of the
//! decoded body; upstream it goes as it came. A body that is not what its `Content-Encoding` says,
//! or whose encoding is not known here, counts byte for byte together with the encoding's name.
//!
//! Every step of the decoding is bounded by the limit that holds for bodies, and ends where that is
//! passed: a small body that unfolds into a large one costs no more than a large one.

use std::borrow::Cow;

use http::HeaderMap;
use http::header::CONTENT_ENCODING;

use decoders::Undecoded;

use crate::problem::{Code, Problem};

mod decoders;
#[cfg(test)]
mod tests;

/// The most encodings of one body that are undone. One is in use; a chain of them is no honest
/// body.
const ENCODINGS_MAX: usize = 4;

/// A body as its fingerprint is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Content<'a> {
    /// The decoded bytes; those that came where they could not be decoded.
    pub(crate) body: Cow<'a, [u8]>,
    /// What the bytes are still encoded with.
    pub(crate) encoding: Option<String>,
}

/// A body that is larger than its limit, as it came or once it is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooLarge {
    /// The limit in bytes.
    pub(crate) limit: u64,
}

/// An encoding that can be undone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Encoding {
    Gzip,
    Deflate,
    Brotli,
    Zstd,
}

impl<'a> Content<'a> {
    /// The content of `body`, which came with these header lines. Decoded it may have at most
    /// `limit` bytes.
    ///
    /// # Errors
    /// When it has more.
    pub(crate) fn of(headers: &HeaderMap, body: &'a [u8], limit: u64) -> Result<Self, TooLarge> {
        let names = encodings(headers);
        if names.is_empty() || body.is_empty() {
            return Ok(Self { body: Cow::Borrowed(body), encoding: None });
        }
        let known: Option<Vec<Encoding>> = names.iter().map(|name| Encoding::named(name)).collect();
        let known = known.filter(|known| known.len() <= ENCODINGS_MAX);
        let decoded = match known.map(|known| decoded(&known, body, limit)) {
            Some(Ok(decoded)) => Some(decoded),
            Some(Err(Undecoded::TooLarge)) => return Err(TooLarge { limit }),
            Some(Err(Undecoded::Malformed)) | None => None,
        };
        Ok(match decoded {
            Some(body) => Self { body: Cow::Owned(body), encoding: None },
            None => Self { body: Cow::Borrowed(body), encoding: Some(names.join(",")) },
        })
    }
}

impl From<TooLarge> for Problem {
    fn from(TooLarge { limit }: TooLarge) -> Self {
        let detail = format!("the body is larger than {limit} bytes; nothing was executed");
        Self::new(Code::BodyTooLarge, detail)
    }
}

impl Encoding {
    fn named(name: &str) -> Option<Self> {
        match name {
            "gzip" | "x-gzip" => Some(Self::Gzip),
            "deflate" => Some(Self::Deflate),
            "br" => Some(Self::Brotli),
            "zstd" => Some(Self::Zstd),
            _ => None,
        }
    }

    fn decode(self, body: &[u8], limit: usize) -> Result<Vec<u8>, Undecoded> {
        match self {
            Self::Gzip => decoders::gzip(body, limit),
            Self::Deflate => decoders::deflate(body, limit),
            Self::Brotli => decoders::brotli(body, limit),
            Self::Zstd => decoders::zstd(body, limit),
        }
    }
}

/// The names in every `Content-Encoding` line, in the order in which they were applied, but for
/// those that mean nothing.
fn encodings(headers: &HeaderMap) -> Vec<String> {
    let lines = headers.get_all(CONTENT_ENCODING).iter();
    let names = lines.flat_map(|line| line.as_bytes().split(|byte| *byte == b','));
    let names = names.map(|name| String::from_utf8_lossy(name.trim_ascii()).to_ascii_lowercase());
    names.filter(|name| !matches!(name.as_str(), "" | "identity")).collect()
}

/// Undoes all encodings, the last one first.
fn decoded(encodings: &[Encoding], body: &[u8], limit: u64) -> Result<Vec<u8>, Undecoded> {
    let limit = usize::try_from(limit).unwrap_or(usize::MAX);
    let mut body = Cow::Borrowed(body);
    for encoding in encodings.iter().rev() {
        body = Cow::Owned(encoding.decode(&body, limit)?);
    }
    Ok(body.into_owned())
}
