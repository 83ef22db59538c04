//! "Same key, same request?": a digest of what makes a request the request that it is.
//!
//! The digest covers method, concrete path, query, media type, the headers that the operation
//! lists, and the body in its canonical form. Every part is digested with its length in
//! front, so that no two requests are confused by where one part ends, and what kind of thing is
//! digested comes first, so that a request, a payload and a text never share a fingerprint.
//!
//! Fingerprints are kept with records for as long as these live: a change of anything that is
//! digested needs a new [`Fingerprint::VERSION`].

mod body;
mod digest;
mod form;
mod json;
mod media;
mod members;
mod multipart;
mod number;
pub mod outline;
mod parameters;
mod print;
mod prune;
mod query;
pub mod rules;
mod scan;
mod string;

pub(crate) use json::canonical_json;
pub(crate) use string::canonical_string;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use body::CanonicalBody;
use digest::PartsDigest;
use media::MediaType;
use rules::OfBody;

pub use outline::OutlineKey;
pub use print::{Print, Subject};
pub use rules::{Place, Rules};

/// The longest opaque fingerprint in bytes: room for any common digest in any common spelling.
pub const OPAQUE_MAX: usize = 128;

/// Digest of a request, with the version of the rules that made it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fingerprint {
    /// Version of the digest's rules.
    pub version: u8,
    /// SHA-256 of the canonical form.
    pub digest: [u8; 32],
}

/// What a request says, as far as its fingerprint covers it.
#[derive(Clone, Copy, Debug)]
pub struct RequestParts<'a> {
    /// The method. Case matters.
    pub method: &'a str,
    /// The request target in origin form: the concrete path, and the query behind the first `?`.
    /// Both count as they are spelled, with their percent-encoding.
    pub target: &'a str,
    /// The value of `Content-Type`; `None` where there is none.
    pub content_type: Option<&'a [u8]>,
    /// The headers that the operation lists, also those that the request does not have.
    pub headers: &'a [ListedHeader<'a>],
    /// The body, decoded where it came encoded; empty where there is none.
    pub body: &'a [u8],
    /// What the body is encoded with, where it could not be decoded: such a body is compared byte
    /// for byte, and by this.
    pub encoding: Option<&'a [u8]>,
}

/// A header that counts, and its lines in the request.
#[derive(Clone, Debug)]
pub struct ListedHeader<'a> {
    /// The field name, in any case.
    pub name: &'a str,
    /// The value of every line of that name, in order; empty where the request has none.
    pub values: Vec<&'a [u8]>,
}

/// Why a text is no opaque fingerprint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpaqueError {
    /// There is nothing in it.
    #[error("the fingerprint is empty")]
    Empty,
    /// It is longer than [`OPAQUE_MAX`].
    #[error("the fingerprint is longer than {OPAQUE_MAX} bytes")]
    TooLong,
}

impl Fingerprint {
    /// The version of the rules that this code follows.
    pub const VERSION: u8 = 1;

    /// The fingerprint of an HTTP request, of whose body this is the canonical form.
    ///
    /// The order of query pairs of different names, of listed headers of different names, the
    /// parameters of the media type, and what the canonical form of a body leaves open do not
    /// matter. The media type of an empty body does not matter either: no body, and an empty one
    /// that says what it would have been, are the same.
    fn of_parts(request: &RequestParts<'_>, rules: &Rules, body: &CanonicalBody<'_>) -> Self {
        let (path, query) = request.target.split_once('?').unwrap_or((request.target, ""));
        let media_type = request.content_type.map(MediaType::of);
        let media_type = media_type.filter(|_| !request.body.is_empty());

        let mut digest = by_rules("request", "request by rules", rules);
        digest.part(request.method.as_bytes());
        digest.part(path.as_bytes());
        digest.parts(query::ordered_pairs(query, |name| rules.counted().query(name)));
        digest.parts(media_type.iter().map(MediaType::as_bytes));
        put_headers(&mut digest, request.headers);
        body.put(&mut digest);
        digest.finish()
    }

    /// The fingerprint of a JSON document that stands for a request in the claims API.
    fn of_body(rules: &Rules, body: &CanonicalBody<'_>) -> Self {
        let mut digest = by_rules("payload", "payload by rules", rules);
        body.put(&mut digest);
        digest.finish()
    }

    /// The fingerprint that a user of the claims API has made, in any form.
    ///
    /// # Errors
    /// When the text is empty or longer than [`OPAQUE_MAX`].
    pub fn opaque(text: &str) -> Result<Self, OpaqueError> {
        if text.is_empty() {
            return Err(OpaqueError::Empty);
        }
        if text.len() > OPAQUE_MAX {
            return Err(OpaqueError::TooLong);
        }
        let mut digest = PartsDigest::new("opaque");
        digest.part(text.as_bytes());
        Ok(digest.finish())
    }
}

/// Whether a `Content-Type` value says that the body is JSON.
pub fn is_json(content_type: &[u8]) -> bool {
    MediaType::of(content_type).is_json()
}

/// Whether a `Content-Type` value says that the body is the fields of a form, without files.
pub fn is_form(content_type: &[u8]) -> bool {
    MediaType::of(content_type).is_form()
}

impl<'a> RequestParts<'a> {
    fn canonical_body(&self, rules: &Rules) -> CanonicalBody<'a> {
        if self.body.is_empty() {
            return CanonicalBody::Raw(self.body);
        }
        let content_type = self.content_type.unwrap_or_default();
        match (rules.counted().of_body(|_| false), self.encoding) {
            (OfBody::Nothing, _) => CanonicalBody::Nothing,
            (_, Some(encoding)) => CanonicalBody::Encoded(encoding, self.body),
            (_, None) => CanonicalBody::of(content_type, self.body, rules),
        }
    }
}

/// A digest that begins with what was digested and by which rules, so that nothing that was taken
/// by some rules ever equals what was taken by others.
fn by_rules(kind: &str, with_rules: &str, rules: &Rules) -> PartsDigest {
    if rules.are_default() {
        return PartsDigest::new(kind);
    }
    let mut digest = PartsDigest::new(with_rules);
    rules.put(&mut digest);
    digest
}

fn put_headers(digest: &mut PartsDigest, headers: &[ListedHeader<'_>]) {
    let mut named: Vec<_> =
        headers.iter().map(|header| (header.name.to_ascii_lowercase(), &header.values)).collect();
    named.sort_by(|(one, _), (other, _)| one.cmp(other));
    digest.count(named.len());
    for (name, values) in named {
        digest.part(name.as_bytes());
        digest.parts(values.iter().map(|value| value.trim_ascii()));
    }
}

#[cfg(test)]
mod tests;
