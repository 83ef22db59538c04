//! The canonical form of a body: what is left when only that counts which a reader can tell.
//!
//! JSON and forms have one of their own; any other body, and JSON that has no canonical text, is
//! compared byte for byte. Each form is digested under its own mark, so that a body is never equal
//! to one of another form.

use super::digest::PartsDigest;
use super::form::{Field, ordered_fields};
use super::json::canonical_json;
use super::media::MediaType;

/// A body in its canonical form.
pub(super) enum CanonicalBody<'a> {
    /// The canonical text of a JSON document.
    Json(Vec<u8>),
    /// The fields of a form.
    Form(Vec<Field<'a>>),
    /// The bytes as they came.
    Raw(&'a [u8]),
}

impl<'a> CanonicalBody<'a> {
    /// The canonical form of a body of this media type.
    pub(super) fn of(media_type: Option<&MediaType>, body: &'a [u8]) -> Self {
        if media_type.is_some_and(MediaType::is_json) {
            Self::of_json(body)
        } else if media_type.is_some_and(MediaType::is_form) {
            ordered_fields(body).map_or(Self::Raw(body), Self::Form)
        } else {
            Self::Raw(body)
        }
    }

    /// The canonical form of a body that should be JSON.
    pub(super) fn of_json(body: &'a [u8]) -> Self {
        canonical_json(body).map_or(Self::Raw(body), Self::Json)
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
            Self::Raw(bytes) => {
                digest.part(b"raw");
                digest.part(bytes);
            }
        }
    }
}
