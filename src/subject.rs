//! What a claim is about, kept while the claim is undecided.
//!
//! A record may have been made by other rules than today's. Then the request has to be looked at
//! again, by these; and where it is another one, the client is told in what.

use bytes::Bytes;
use http::header::CONTENT_TYPE;
use http::{HeaderMap, HeaderValue, Method};
use protocol::Fingerprint;
use protocol::fields::JsonPointer;
use protocol::fingerprint::{self, ListedHeader, OutlineKey, Print, RequestParts, Rules};
use protocol::key::NaturalKey;

use crate::config::Field;
use crate::encoding::{Content, TooLarge};
use crate::problem::Problem;
use crate::sub_account::Asked;

/// The subject of a claim.
pub(crate) struct Subject {
    what: What,
    key: OutlineKey,
}

/// What a claim may be about.
pub(crate) enum What {
    /// An HTTP request.
    Request(Described),
    /// A JSON document that stands for one.
    Payload(Bytes),
    /// Something that its sender compares by a fingerprint of its own.
    Opaque(Fingerprint),
}

/// An HTTP request as it came.
#[derive(Clone)]
pub(crate) struct Described {
    /// The method.
    pub(crate) method: Method,
    /// The target in origin form.
    pub(crate) target: String,
    /// The header lines, `Content-Type` and `Content-Encoding` among them.
    pub(crate) headers: HeaderMap,
    /// The body.
    pub(crate) body: Bytes,
    /// The most bytes that the body may have once it is decoded.
    pub(crate) limit: u64,
}

impl Subject {
    /// The subject of a claim for the record whose outlines this key is for.
    pub(crate) fn new(what: What, key: OutlineKey) -> Self {
        Self { what, key }
    }

    /// The print of the subject by these rules.
    ///
    /// # Errors
    /// When the body is too large once it is decoded.
    pub(crate) fn print(&self, rules: &Rules) -> Result<Print, TooLarge> {
        match &self.what {
            What::Opaque(fingerprint) => Ok((*fingerprint).into()),
            What::Payload(json) => {
                Ok(Print::of(&fingerprint::Subject::Payload(json), rules, &self.key))
            }
            What::Request(request) => request.with_parts(rules, |parts| {
                Print::of(&fingerprint::Subject::Request(parts), rules, &self.key)
            }),
        }
    }

    /// The print of the subject by the rules of a record that has another one than `own`; `None`
    /// where by these too the subject is another than the record's.
    pub(crate) fn reprinted(&self, stored: &Print, own: &Print) -> Option<Print> {
        let print = stored.rules_differ(own).then(|| self.print(stored.rules()))?.ok()?;
        (print.fingerprint == stored.fingerprint).then_some(print)
    }

    /// Pointers to what of the subject differs from what a record was made of, as far as that can
    /// be told.
    pub(crate) fn differences(&self, stored: &Print) -> Vec<String> {
        match &self.what {
            What::Opaque(_) => Vec::new(),
            What::Payload(json) => {
                stored.differences(&fingerprint::Subject::Payload(json), &self.key)
            }
            What::Request(request) => request
                .with_parts(stored.rules(), |parts| {
                    stored.differences(&fingerprint::Subject::Request(parts), &self.key)
                })
                .unwrap_or_default(),
        }
    }
}

impl Described {
    /// The sub-account that the request belongs to, by these fields.
    ///
    /// # Errors
    /// When a field cannot be read, or the body is too large once it is decoded.
    pub(crate) fn sub_account(&self, fields: &[Field]) -> Result<Vec<String>, Problem> {
        if fields.is_empty() {
            return Ok(Vec::new());
        }
        let content = Content::of(&self.headers, &self.body, self.limit)?;
        let asked = Asked {
            headers: &self.headers,
            target: &self.target,
            content_type: self.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes),
            body: &content.body,
        };
        asked.values(fields)
    }

    /// The key that members of the request's body make.
    ///
    /// # Errors
    /// When they make none, or the body is too large once it is decoded.
    pub(crate) fn natural_key(&self, members: &[JsonPointer]) -> Result<NaturalKey, Problem> {
        let content = Content::of(&self.headers, &self.body, self.limit)?;
        Ok(NaturalKey::of(&content.body, members)?)
    }

    /// Calls `take` with the parts that are compared by these rules.
    fn with_parts<T>(
        &self,
        rules: &Rules,
        take: impl FnOnce(RequestParts<'_>) -> T,
    ) -> Result<T, TooLarge> {
        let content = Content::of(&self.headers, &self.body, self.limit)?;
        let headers: Vec<_> = rules
            .headers()
            .map(|name| ListedHeader {
                name,
                values: self.headers.get_all(name).iter().map(HeaderValue::as_bytes).collect(),
            })
            .collect();
        Ok(take(RequestParts {
            method: self.method.as_str(),
            target: &self.target,
            content_type: self.headers.get(CONTENT_TYPE).map(HeaderValue::as_bytes),
            headers: &headers,
            body: &content.body,
            encoding: content.encoding.as_deref().map(str::as_bytes),
        }))
    }
}
