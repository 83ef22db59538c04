//! Natural keys: made of members of a request's JSON body, for objects that have an identity of
//! their own, such as the number of an order.
//!
//! The values are those of the members' canonical text, so that `1` and `1.0` are one key and `1`
//! and `"1"` are two. A member that is missing or empty names nothing: were it taken for a value,
//! every request without it would be a repeat of the first one.

use std::fmt;

use thiserror::Error;

use crate::fields::{JsonDocument, JsonPointer, NotScalar};

/// The longest value in bytes of its canonical text: an order's number, an address, a URL of usual
/// length.
pub const NATURAL_VALUE_BYTES_MAX: usize = 256;

/// The most members that make a key.
pub const NATURAL_MEMBERS_MAX: usize = 8;

/// A key that is made of members of a JSON document.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct NaturalKey {
    /// The canonical text of each value.
    values: Vec<String>,
}

/// Why there is no natural key. The message never holds a value.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum NaturalKeyError {
    /// There is no document, or readers disagree about what it says.
    #[error("it is made of members of a JSON body, and the body is not JSON that says one thing")]
    NoDocument,
    /// A member is not there, or is `null`.
    #[error("it is made of the member {0}, which is missing")]
    Missing(String),
    /// A member is an empty text.
    #[error("it is made of the member {0}, which is empty")]
    Empty(String),
    /// A member is an array or an object.
    #[error("it is made of the member {0}, which is an array or an object")]
    NotScalar(String),
    /// A member is longer than [`NATURAL_VALUE_BYTES_MAX`].
    #[error("it is made of the member {0}, which has more than {NATURAL_VALUE_BYTES_MAX} bytes")]
    TooLong(String),
    /// The text of a key is not a list with a value for each member.
    #[error("it must be a JSON list of the values of {0}")]
    NoList(String),
}

impl NaturalKey {
    /// The key that `members` of this body make.
    ///
    /// # Errors
    /// When the body is no JSON, or a member names nothing.
    pub fn of(body: &[u8], members: &[JsonPointer]) -> Result<Self, NaturalKeyError> {
        let document = JsonDocument::read(body).ok_or(NaturalKeyError::NoDocument)?;
        let value = |member: &JsonPointer| {
            let found = document.scalar(member);
            checked(found, &|| member.to_string())
        };
        Ok(Self { values: members.iter().map(value).collect::<Result<_, _>>()? })
    }

    /// The key that a text names: a JSON list with the value of each of `members`, in their order.
    ///
    /// # Errors
    /// When it is no such list, or a value names nothing.
    pub fn from_text(text: &str, members: &[JsonPointer]) -> Result<Self, NaturalKeyError> {
        let no_list = || {
            let members: Vec<_> = members.iter().map(ToString::to_string).collect();
            NaturalKeyError::NoList(members.join(", "))
        };
        let document = JsonDocument::read(text.as_bytes()).ok_or_else(no_list)?;
        let elements = document.elements().filter(|elements| elements.len() == members.len());
        let values = elements.ok_or_else(no_list)?.into_iter().zip(members);
        let values = values.map(|(found, member)| checked(found, &|| member.to_string()));
        Ok(Self { values: values.collect::<Result<_, _>>()? })
    }

    /// The canonical text of each value, in order.
    pub fn values(&self) -> &[String] {
        &self.values
    }

    /// The text that [`NaturalKey::from_text`] reads.
    pub fn text(&self) -> String {
        list(&self.values)
    }
}

/// Keys never reach a log in clear.
impl fmt::Debug for NaturalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NaturalKey({} values)", self.values.len())
    }
}

/// The values as a JSON list.
pub(crate) fn list(values: &[String]) -> String {
    format!("[{}]", values.join(","))
}

fn checked(
    found: Result<Option<&str>, NotScalar>,
    member: &dyn Fn() -> String,
) -> Result<String, NaturalKeyError> {
    match found {
        Err(NotScalar) => Err(NaturalKeyError::NotScalar(member())),
        Ok(None) => Err(NaturalKeyError::Missing(member())),
        Ok(Some("\"\"")) => Err(NaturalKeyError::Empty(member())),
        Ok(Some(value)) if value.len() > NATURAL_VALUE_BYTES_MAX => {
            Err(NaturalKeyError::TooLong(member()))
        }
        Ok(Some(value)) => Ok(value.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn members() -> Vec<JsonPointer> {
        ["/order/id", "/lines/0"].map(|text| JsonPointer::parse(text).unwrap()).into()
    }

    fn of(body: &str) -> Result<String, NaturalKeyError> {
        let key = NaturalKey::of(body.as_bytes(), &members())?;
        assert_eq!(NaturalKey::from_text(&key.text(), &members()).as_ref(), Ok(&key));
        Ok(key.text())
    }

    #[test]
    fn a_key_is_what_its_members_say_and_not_how() {
        let text = r#"{"order":{"id":"A-7"},"lines":[1,2],"more":{}}"#;
        assert_eq!(of(text).unwrap(), r#"["A-7",1]"#);
        for same in [
            r#"{ "lines": [1.0, {}], "order": {"x": 1, "id": "A\u002d7"} }"#,
            r#"{"lines":[1e0],"order":{"id":"A-7"}}"#,
        ] {
            assert_eq!(of(same).unwrap(), r#"["A-7",1]"#, "{same}");
        }
        for other in [
            r#"{"order":{"id":"A-7"},"lines":["1"]}"#,
            r#"{"order":{"id":"a-7"},"lines":[1]}"#,
            r#"{"order":{"id":"A-7"},"lines":[true]}"#,
            r#"{"order":{"id":" "},"lines":[1]}"#,
        ] {
            assert_ne!(of(other).unwrap(), r#"["A-7",1]"#, "{other}");
        }
    }

    #[test]
    fn what_names_nothing_makes_no_key() {
        let (id, line) = (|| "/order/id".to_owned(), || "/lines/0".to_owned());
        let long = format!(r#"{{"order":{{"id":"{}"}},"lines":[1]}}"#, "x".repeat(255));
        for (body, error) in [
            ("", NaturalKeyError::NoDocument),
            ("order=7", NaturalKeyError::NoDocument),
            (r#"{"order":{"id":1,"id":2},"lines":[1]}"#, NaturalKeyError::NoDocument),
            ("{}", NaturalKeyError::Missing(id())),
            ("[]", NaturalKeyError::Missing(id())),
            (r#"{"order":{"id":null},"lines":[1]}"#, NaturalKeyError::Missing(id())),
            (r#"{"order":{"id":1},"lines":[]}"#, NaturalKeyError::Missing(line())),
            (r#"{"order":{"id":""},"lines":[1]}"#, NaturalKeyError::Empty(id())),
            (r#"{"order":{"id":[1]},"lines":[1]}"#, NaturalKeyError::NotScalar(id())),
            (r#"{"order":{"id":1},"lines":[{}]}"#, NaturalKeyError::NotScalar(line())),
            (long.as_str(), NaturalKeyError::TooLong(id())),
        ] {
            assert_eq!(of(body), Err(error), "{body}");
        }
        assert!(of(&long.replacen('x', "", 1)).is_ok());
    }

    #[test]
    fn a_text_that_is_no_list_of_every_value_makes_no_key() {
        let no_list = NaturalKeyError::NoList("/order/id, /lines/0".to_owned());
        for text in ["", "A-7", "{}", "[]", "[1]", "[1,2,3]", "[1,2", "\"[1,2]\""] {
            assert_eq!(NaturalKey::from_text(text, &members()), Err(no_list.clone()), "{text}");
        }
        let from = |text: &str| NaturalKey::from_text(text, &members());
        assert_eq!(from("[null,2]"), Err(NaturalKeyError::Missing("/order/id".to_owned())));
        assert_eq!(from("[1,[2]]"), Err(NaturalKeyError::NotScalar("/lines/0".to_owned())));
        assert_eq!(from("[1,\"\"]"), Err(NaturalKeyError::Empty("/lines/0".to_owned())));
        assert_eq!(from(r#" [ "A" , 2.0 ] "#).unwrap().text(), r#"["A",2]"#);
    }

    #[test]
    fn nothing_of_a_key_is_in_what_is_logged() {
        let key = NaturalKey::from_text("[\"secret\",1]", &members()).unwrap();
        assert_eq!(format!("{key:?}"), "NaturalKey(2 values)");
    }
}
