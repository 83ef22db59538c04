//! The canonical form of a body: what is left when only that counts which a reader can tell.
//!
//! JSON and forms of both kinds have one of their own; any other body, and one that is not what its
//! media type says, is compared byte for byte. Each form is digested under its own mark, so that a
//! body is never equal to one of another form.

use super::digest::PartsDigest;
use super::form::{Field, ordered_fields};
use super::json::canonical_json;
use super::media::MediaType;
use super::multipart::{Part, ordered_parts};
use super::prune::{Keep, Pointers};
use super::rules::{Counted, OfBody, Place, Rules};

/// A body in its canonical form.
pub(super) enum CanonicalBody<'a> {
    /// The canonical text of a JSON document.
    Json(Vec<u8>),
    /// The fields of a form.
    Form(Vec<Field<'a>>),
    /// The parts of a form with files.
    Multipart(Vec<Part<'a>>),
    /// The bytes as they came.
    Raw(&'a [u8]),
    /// The bytes as they came, which are encoded like this.
    Encoded(&'a [u8], &'a [u8]),
    /// Rules say that no body counts.
    Nothing,
}

impl<'a> CanonicalBody<'a> {
    /// The canonical form of what counts of a body with this `Content-Type`; empty where there is
    /// none.
    pub(super) fn of(content_type: &[u8], body: &'a [u8], rules: &Rules) -> Self {
        let media_type = MediaType::of(content_type);
        let counted = rules.counted();
        let form = |fields| Self::Form(counted_fields(fields, counted));
        let parts = |parts| Self::Multipart(counted_parts(parts, counted));
        let canonical = if media_type.is_json() {
            canonical_json(body).map(|text| Self::Json(counted_text(text, counted)))
        } else if media_type.is_form() {
            ordered_fields(body).map(form)
        } else if media_type.is_multipart_form() {
            ordered_parts(content_type, body).map(parts)
        } else {
            None
        };
        canonical.unwrap_or(Self::Raw(body))
    }

    /// The canonical form of what counts of a document that stands for a request. It counts whole
    /// where rules name other parts of requests only.
    pub(super) fn of_payload(json: &'a [u8], rules: &Rules) -> Self {
        let text = canonical_json(json).map(|text| counted_text(text, rules.counted()));
        text.map_or(Self::Raw(json), Self::Json)
    }

    /// The text of a JSON document.
    pub(super) fn json(&self) -> Option<&[u8]> {
        match self {
            Self::Json(text) => Some(text),
            _ => None,
        }
    }

    pub(super) fn put(&self, digest: &mut PartsDigest) {
        match self {
            Self::Json(text) => {
                digest.part(b"json");
                digest.part(text);
            }
            Self::Form(fields) => {
                digest.part(b"form");
                digest.count(fields.len());
                for (name, value) in fields {
                    digest.part(name);
                    digest.part(value);
                }
            }
            Self::Multipart(parts) => {
                digest.part(b"multipart");
                digest.count(parts.len());
                for part in parts {
                    digest.part(part.name);
                    for file_name in part.file_names {
                        digest.parts(file_name.into_iter());
                    }
                    digest.parts(part.media_type.iter().map(MediaType::as_bytes));
                    digest.part(part.content);
                }
            }
            Self::Raw(bytes) => {
                digest.part(b"raw");
                digest.part(bytes);
            }
            Self::Encoded(encoding, bytes) => {
                digest.part(b"encoded");
                digest.part(encoding);
                digest.part(bytes);
            }
            Self::Nothing => digest.part(b"nothing"),
        }
    }
}

fn counted_text(text: Vec<u8>, counted: &Counted) -> Vec<u8> {
    let (places, keep) = match counted {
        Counted::All => return text,
        Counted::AllBut(places) => (places, Keep::AllBut),
        Counted::Only(places) => (places, Keep::Only),
    };
    let pointers = Pointers::of(places);
    if pointers.is_empty() { text } else { pointers.prune(&text, keep) }
}

fn counted_fields<'a>(mut fields: Vec<Field<'a>>, counted: &Counted) -> Vec<Field<'a>> {
    if counted.of_body(|place| matches!(place, Place::Form(_))) == OfBody::Some {
        fields.retain(|(name, _)| {
            counted.holds(|place| matches!(place, Place::Form(it) if it.as_bytes() == &name[..]))
        });
    }
    fields
}

fn counted_parts<'a>(mut parts: Vec<Part<'a>>, counted: &Counted) -> Vec<Part<'a>> {
    if counted.of_body(|place| matches!(place, Place::Part(_))) == OfBody::Some {
        parts.retain(|part| {
            counted.holds(|place| matches!(place, Place::Part(it) if it.as_bytes() == part.name))
        });
    }
    parts
}
