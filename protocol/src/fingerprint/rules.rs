//! Rules: which parts of requests are compared, where an operation does not compare all of them.
//!
//! A record keeps the rules that its fingerprint was taken by. Whoever finds another fingerprint
//! under a key, and goes by other rules, takes the fingerprint again by the record's before it
//! calls the request another one: a change of rules makes no request another that was not.

use std::fmt;

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::digest::PartsDigest;

/// The most places that rules may name.
pub const PLACES_MAX: usize = 32;

/// The most header fields that rules may name.
pub const HEADERS_MAX: usize = 16;

/// The most bytes of all that rules name: every record of the operation keeps them.
pub const RULES_BYTES_MAX: usize = 1024;

/// The most steps of a pointer.
pub const STEPS_MAX: usize = 16;

/// What of a request is compared, besides what always is: method, path and media type.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Rules {
    counted: Counted,
    /// Fields whose lines count, in lower case, in order.
    headers: Vec<String>,
}

/// What counts of query and body. Places stand in order, each once.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(super) enum Counted {
    /// All.
    #[default]
    All,
    /// All but what is at these places.
    AllBut(Vec<Place>),
    /// What is at these places, and nothing else.
    Only(Vec<Place>),
}

/// A place in a request.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Place {
    /// Values in a JSON document, by the steps that lead to them.
    Pointer(Vec<Step>),
    /// Query pairs of this decoded name.
    Query(String),
    /// Fields of a form by their decoded name.
    Form(String),
    /// Parts of a form with files by their name.
    Part(String),
}

/// A step from a JSON value to one within it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub enum Step {
    /// To every member or element.
    Any,
    /// To the member of this name, or to the element with this index.
    Named(String),
}

/// Why a text names no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum PlaceError {
    /// It begins like none of the kinds of places.
    #[error("is none of \"/pointer\", \"query:name\", \"form:name\" and \"part:name\"")]
    UnknownKind,
    /// There is no name behind the kind.
    #[error("has no name")]
    NoName,
    /// A `~` that is followed by neither 0 nor 1 (RFC 6901).
    #[error("has a \"~\" that is neither \"~0\" nor \"~1\"")]
    BadEscape,
    /// A pointer of too many steps.
    #[error("has more than {STEPS_MAX} steps")]
    TooDeep,
}

/// Why rules are none.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RulesError {
    /// Too many places.
    #[error("may name at most {PLACES_MAX} places")]
    TooManyPlaces,
    /// Too many header fields.
    #[error("may name at most {HEADERS_MAX} headers")]
    TooManyHeaders,
    /// Too long altogether.
    #[error("may have at most {RULES_BYTES_MAX} bytes, since every record keeps them")]
    TooLong,
}

impl Rules {
    /// Rules by which everything counts but what is at the `places`; the `headers` count too.
    ///
    /// # Errors
    /// When there are too many of either, or when they are too long.
    pub fn ignoring(places: Vec<Place>, headers: Vec<String>) -> Result<Self, RulesError> {
        let counted = |places: Vec<Place>| match places.is_empty() {
            true => Counted::All,
            false => Counted::AllBut(places),
        };
        Self::new(counted, places, headers)
    }

    /// Rules by which of query and body only that counts which is at the `places`; the `headers`
    /// count too.
    ///
    /// # Errors
    /// When there are too many of either, or when they are too long.
    pub fn only(places: Vec<Place>, headers: Vec<String>) -> Result<Self, RulesError> {
        Self::new(Counted::Only, places, headers)
    }

    fn new(
        counted: impl FnOnce(Vec<Place>) -> Counted,
        mut places: Vec<Place>,
        headers: Vec<String>,
    ) -> Result<Self, RulesError> {
        let mut headers: Vec<_> = headers.iter().map(|name| name.to_ascii_lowercase()).collect();
        places.sort();
        places.dedup();
        headers.sort();
        headers.dedup();
        if places.len() > PLACES_MAX {
            return Err(RulesError::TooManyPlaces);
        }
        if headers.len() > HEADERS_MAX {
            return Err(RulesError::TooManyHeaders);
        }
        let rules = Self { counted: counted(places), headers };
        if rules.bytes() > RULES_BYTES_MAX { Err(RulesError::TooLong) } else { Ok(rules) }
    }

    /// Bytes of all that is named.
    pub(super) fn bytes(&self) -> usize {
        let places = match &self.counted {
            Counted::All => &[][..],
            Counted::AllBut(places) | Counted::Only(places) => places,
        };
        let places = places.iter().map(|place| place.to_string().len());
        places.chain(self.headers.iter().map(String::len)).sum()
    }

    /// The rules by which nothing is left out and nothing added.
    pub const DEFAULT: Self = Self { counted: Counted::All, headers: Vec::new() };

    /// Whether nothing is left out and nothing added.
    pub fn are_default(&self) -> bool {
        *self == Self::DEFAULT
    }

    /// The places that do not count.
    pub fn ignored_places(&self) -> &[Place] {
        match &self.counted {
            Counted::AllBut(places) => places,
            Counted::All | Counted::Only(_) => &[],
        }
    }

    /// The places that alone count of query and body; `None` where all does but what is ignored.
    pub fn only_places(&self) -> Option<&[Place]> {
        match &self.counted {
            Counted::Only(places) => Some(places),
            Counted::All | Counted::AllBut(_) => None,
        }
    }

    /// The header fields whose lines count, in lower case.
    pub fn headers(&self) -> impl ExactSizeIterator<Item = &str> {
        self.headers.iter().map(String::as_str)
    }

    pub(super) fn counted(&self) -> &Counted {
        &self.counted
    }

    /// Digests the rules, so that what was taken by some never equals what was taken by others.
    pub(super) fn put(&self, digest: &mut PartsDigest) {
        let (kind, places): (&[u8], &[Place]) = match &self.counted {
            Counted::All => (b"all", &[]),
            Counted::AllBut(places) => (b"all but", places),
            Counted::Only(places) => (b"only", places),
        };
        digest.part(kind);
        digest.count(places.len());
        for place in places {
            digest.part(place.to_string().as_bytes());
        }
        // The headers are digested with their lines.
    }
}

impl Counted {
    /// Whether a query pair of this decoded name counts.
    pub(super) fn query(&self, name: &str) -> bool {
        self.holds(|place| matches!(place, Place::Query(it) if it == name))
    }

    /// Whether what is at a place that `is_it` counts.
    pub(super) fn holds(&self, is_it: impl Fn(&Place) -> bool) -> bool {
        match self {
            Self::All => true,
            Self::AllBut(places) => !places.iter().any(is_it),
            Self::Only(places) => places.iter().any(is_it),
        }
    }

    /// What counts of a body of the kind that the places are of that `is_kind` says.
    ///
    /// Where only some places count, and some of them are in bodies, a body of a kind that none of
    /// them is of counts whole: it is not what the rules were made for.
    pub(super) fn of_body(&self, is_kind: impl Fn(&Place) -> bool) -> OfBody {
        match self {
            Self::Only(places) if places.iter().any(&is_kind) => OfBody::Some,
            Self::Only(places) if places.iter().all(|it| matches!(it, Place::Query(_))) => {
                OfBody::Nothing
            }
            Self::AllBut(places) if places.iter().any(is_kind) => OfBody::Some,
            _ => OfBody::All,
        }
    }
}

/// How much of a body counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum OfBody {
    /// All of it.
    All,
    /// What rules say.
    Some,
    /// Nothing.
    Nothing,
}

impl Place {
    /// Reads a place as it is written in a policy.
    ///
    /// # Errors
    /// When it is none.
    pub fn parse(text: &str) -> Result<Self, PlaceError> {
        if let Some(steps) = text.strip_prefix('/') {
            let steps: Vec<_> = steps.split('/').map(Step::parse).collect::<Result<_, _>>()?;
            return match steps.len() > STEPS_MAX {
                true => Err(PlaceError::TooDeep),
                false => Ok(Self::Pointer(steps)),
            };
        }
        let (kind, name) = text.split_once(':').ok_or(PlaceError::UnknownKind)?;
        let place = match kind {
            "query" => Self::Query(name.to_owned()),
            "form" => Self::Form(name.to_owned()),
            "part" => Self::Part(name.to_owned()),
            _ => return Err(PlaceError::UnknownKind),
        };
        if name.is_empty() { Err(PlaceError::NoName) } else { Ok(place) }
    }
}

/// As it is written in a policy.
impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Pointer(steps) => steps.iter().try_for_each(|step| write!(f, "/{step}")),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Form(name) => write!(f, "form:{name}"),
            Self::Part(name) => write!(f, "part:{name}"),
        }
    }
}

impl Step {
    fn parse(text: &str) -> Result<Self, PlaceError> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let escapes = text.split('~').skip(1);
        if !escapes.clone().all(|rest| rest.starts_with(['0', '1'])) {
            return Err(PlaceError::BadEscape);
        }
        Ok(Self::Named(text.replace("~1", "/").replace("~0", "~")))
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("*"),
            Self::Named(name) => f.write_str(&escaped(name)),
        }
    }
}

/// A name as it stands in a pointer (RFC 6901).
pub(super) fn escaped(name: &str) -> String {
    name.replace('~', "~0").replace('/', "~1")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Step {
        Step::Named(name.to_owned())
    }

    #[test]
    fn places_are_read_as_they_are_written() {
        let pointer = Place::Pointer;
        for (text, place) in [
            ("/a", pointer(vec![named("a")])),
            ("/", pointer(vec![named("")])),
            ("/a/*/b c/0", pointer(vec![named("a"), Step::Any, named("b c"), named("0")])),
            ("/a~1b/~0~01/**", pointer(vec![named("a/b"), named("~~1"), named("**")])),
            ("query:sent at", Place::Query("sent at".into())),
            ("form:a/b", Place::Form("a/b".into())),
            ("part:part:x", Place::Part("part:x".into())),
        ] {
            assert_eq!(Place::parse(text), Ok(place.clone()), "{text}");
            assert_eq!(place.to_string(), text);
        }
    }

    #[test]
    fn what_names_no_place_is_refused() {
        for (text, error) in [
            ("", PlaceError::UnknownKind),
            ("sent_at", PlaceError::UnknownKind),
            ("$.sent_at", PlaceError::UnknownKind),
            ("header:x", PlaceError::UnknownKind),
            ("Query:x", PlaceError::UnknownKind),
            ("query:", PlaceError::NoName),
            ("form:", PlaceError::NoName),
            ("part:", PlaceError::NoName),
            ("/a~", PlaceError::BadEscape),
            ("/a~2", PlaceError::BadEscape),
        ] {
            assert_eq!(Place::parse(text), Err(error), "{text}");
        }
        assert!(Place::parse(&"/a".repeat(STEPS_MAX)).is_ok());
        assert_eq!(Place::parse(&"/a".repeat(STEPS_MAX + 1)), Err(PlaceError::TooDeep));
    }

    #[test]
    fn the_order_of_places_and_headers_does_not_matter() {
        let places = |texts: &[&str]| texts.iter().map(|t| Place::parse(t).unwrap()).collect();
        let headers = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        let one = Rules::ignoring(places(&["/b", "query:a", "/b"]), headers(&["X-B", "x-a"]));
        assert_eq!(one, Rules::ignoring(places(&["query:a", "/b"]), headers(&["x-a", "x-b"])));
        assert_ne!(one, Rules::only(places(&["query:a", "/b"]), headers(&["x-a", "x-b"])));
        assert!(Rules::ignoring(vec![], vec![]).unwrap().are_default());
    }

    #[test]
    fn rules_are_bounded() {
        let places = |count: usize, long: usize| {
            (0..count).map(|nth| Place::Form(format!("{nth:0long$}"))).collect::<Vec<_>>()
        };
        let names = |count: usize| (0..count).map(|nth| format!("x-{nth}")).collect::<Vec<_>>();
        assert!(Rules::only(places(PLACES_MAX, 3), names(HEADERS_MAX)).is_ok());
        let refused = [
            (places(PLACES_MAX + 1, 3), names(0), RulesError::TooManyPlaces),
            (places(0, 3), names(HEADERS_MAX + 1), RulesError::TooManyHeaders),
            (places(2, RULES_BYTES_MAX / 2 - 4), names(0), RulesError::TooLong),
        ];
        for (places, headers, error) in refused {
            assert_eq!(Rules::ignoring(places, headers), Err(error));
        }
    }
}
