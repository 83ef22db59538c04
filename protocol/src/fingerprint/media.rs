//! The media type of a body.

/// A media type in lower case, without its parameters.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MediaType(Vec<u8>);

impl MediaType {
    /// The media type that a `Content-Type` value names; whatever else stands there counts as it
    /// is.
    pub(super) fn of(content_type: &[u8]) -> Self {
        let end = content_type.iter().position(|byte| *byte == b';');
        let essence = &content_type[..end.unwrap_or(content_type.len())];
        Self(essence.trim_ascii().to_ascii_lowercase())
    }

    /// Whether bodies of this type are JSON: `application/json`, or any type with the suffix
    /// `+json` (RFC 6839).
    pub(super) fn is_json(&self) -> bool {
        self.0 == b"application/json" || (self.0.contains(&b'/') && self.0.ends_with(b"+json"))
    }

    /// Whether bodies of this type are the fields of a form.
    pub(super) fn is_form(&self) -> bool {
        self.0 == b"application/x-www-form-urlencoded"
    }

    /// Whether bodies of this type are the fields of a form, and files among them.
    pub(super) fn is_multipart_form(&self) -> bool {
        self.0 == b"multipart/form-data"
    }

    pub(super) fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_case_and_outer_space_do_not_count() {
        for value in ["text/plain", "Text/PLAIN", " text/plain ; charset=UTF-8", "text/plain;"] {
            assert_eq!(MediaType::of(value.as_bytes()).as_bytes(), b"text/plain", "{value}");
        }
        assert_eq!(MediaType::of(b"").as_bytes(), b"");
        assert_eq!(MediaType::of(b"\xff;a=b").as_bytes(), b"\xff");
    }

    #[test]
    fn json_is_told_by_type_or_suffix() {
        let json = ["application/json", "APPLICATION/JSON; charset=utf-8", "a/vnd.b+json;v=1"];
        for value in json {
            assert!(MediaType::of(value.as_bytes()).is_json(), "{value}");
        }
        let other = ["", "json", "+json", "text/json", "application/jsonl", "application/json+x"];
        for value in other {
            assert!(!MediaType::of(value.as_bytes()).is_json(), "{value}");
        }
    }
}
