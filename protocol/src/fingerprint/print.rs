//! What a record keeps of the request that made it.

use serde::{Deserialize, Serialize};

use super::body::CanonicalBody;
use super::outline::{Outline, OutlineKey};
use super::rules::Rules;
use super::{Fingerprint, RequestParts};

/// The rules of whatever was not taken by others.
static DEFAULT_RULES: Rules = Rules::DEFAULT;

/// A fingerprint, the rules that it was taken by, and an outline of the body.
///
/// Two requests are the same where their fingerprints are equal; what stands beside these serves to
/// take others that can be compared, and to name what differs.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Print {
    /// Digest of the request.
    pub fingerprint: Fingerprint,
    /// Most of the room that a print takes, in a box and only where there is something in it.
    notes: Option<Box<Notes>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
struct Notes {
    rules: Rules,
    outline: Outline,
}

/// What is compared, as it came.
#[derive(Clone, Copy, Debug)]
pub enum Subject<'a> {
    /// An HTTP request.
    Request(RequestParts<'a>),
    /// A JSON document that stands for one.
    Payload(&'a [u8]),
}

impl Print {
    /// The print of a subject by these rules. Of a request the headers that the rules name must be
    /// among its parts.
    pub fn of(subject: &Subject<'_>, rules: &Rules, key: &OutlineKey) -> Self {
        let body = subject.body(rules);
        let fingerprint = subject.fingerprint(rules, &body);
        let outline = body.json().map(|text| Outline::of(key, text)).unwrap_or_default();
        let plain = outline.bytes() == 0 && rules.are_default();
        let notes = (!plain).then(|| Box::new(Notes { rules: rules.clone(), outline }));
        Self { fingerprint, notes }
    }

    /// The rules that the fingerprint was taken by.
    pub fn rules(&self) -> &Rules {
        self.notes.as_ref().map_or(&DEFAULT_RULES, |notes| &notes.rules)
    }

    /// Bytes of the rules and of the outline.
    pub fn bytes(&self) -> usize {
        self.notes.as_ref().map_or(0, |notes| notes.rules.bytes() + notes.outline.bytes())
    }

    /// Whether a fingerprint that is another than `other`'s may only be so because one was taken by
    /// other rules. Of those of another version nothing can be said here.
    pub fn rules_differ(&self, other: &Self) -> bool {
        self.fingerprint.version == Fingerprint::VERSION && self.rules() != other.rules()
    }

    /// Pointers to what of another subject's JSON body differs from the body that the print is of;
    /// none where one of them is no JSON, or where they differ in something else. Never more than a
    /// few, and none of them tells a value.
    pub fn differences(&self, subject: &Subject<'_>, key: &OutlineKey) -> Vec<String> {
        let Some(notes) = &self.notes else { return Vec::new() };
        let body = subject.body(&notes.rules);
        body.json().map(|text| notes.outline.differences(key, text)).unwrap_or_default()
    }
}

/// A fingerprint that was taken by no rules, of something that has no outline.
impl From<Fingerprint> for Print {
    fn from(fingerprint: Fingerprint) -> Self {
        Self { fingerprint, notes: None }
    }
}

impl Subject<'_> {
    fn body(&self, rules: &Rules) -> CanonicalBody<'_> {
        match self {
            Self::Request(request) => request.canonical_body(rules),
            Self::Payload(json) => CanonicalBody::of_payload(json, rules),
        }
    }

    fn fingerprint(&self, rules: &Rules, body: &CanonicalBody<'_>) -> Fingerprint {
        match self {
            Self::Request(request) => Fingerprint::of_parts(request, rules, body),
            Self::Payload(_) => Fingerprint::of_body(rules, body),
        }
    }
}

#[cfg(test)]
mod tests;
