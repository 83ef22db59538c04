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
}

impl<'a> CanonicalBody<'a> {
    /// The canonical form of a body with this `Content-Type`; empty where there is none.
    pub(super) fn of(content_type: &[u8], body: &'a [u8]) -> Self {
        let media_type = MediaType::of(content_type);
        if media_type.is_json() {
            Self::of_json(body)
        } else if media_type.is_form() {
            ordered_fields(body).map_or(Self::Raw(body), Self::Form)
        } else if media_type.is_multipart_form() {
            ordered_parts(content_type, body).map_or(Self::Raw(body), Self::Multipart)
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
        }
    }
}
