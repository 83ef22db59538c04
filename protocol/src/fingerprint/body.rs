//! The canonical form of a body: what is left when only that counts which a reader can tell.
//!
//! JSON has a form of its own; any other body, and JSON that has no canonical text, is compared
//! byte for byte. Each form is digested under its own mark, so that a body is never equal to one
//! of another form.

use super::digest::PartsDigest;
use super::json::canonical_json;
use super::media::MediaType;

/// A body in its canonical form.
pub(super) enum CanonicalBody<'a> {
    /// The canonical text of a JSON document.
    Json(Vec<u8>),
    /// The bytes as they came.
    Raw(&'a [u8]),
}

impl<'a> CanonicalBody<'a> {
    /// The canonical form of a body of this media type.
    pub(super) fn of(media_type: Option<&MediaType>, body: &'a [u8]) -> Self {
        if media_type.is_some_and(MediaType::is_json) {
            Self::of_json(body)
        } else {
            Self::Raw(body)
        }
    }

    /// The canonical form of a body that should be JSON.
    pub(super) fn of_json(body: &'a [u8]) -> Self {
        canonical_json(body).map_or(Self::Raw(body), Self::Json)
    }

    pub(super) fn put(&self, digest: &mut PartsDigest) {
        let (mark, bytes): (&[u8], &[u8]) = match self {
            Self::Json(text) => (b"json", text),
            Self::Raw(bytes) => (b"raw", bytes),
        };
        digest.part(mark);
        digest.part(bytes);
    }
}
