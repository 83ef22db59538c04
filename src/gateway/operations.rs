//! Which requests are protected.

use http::{HeaderMap, Method};

use super::request::brings_key;
use crate::config::{Matched, Policy, Protect};

/// The course that a request takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Course {
    /// It runs once, under its key.
    Protect,
    /// It goes through untouched, and nothing is stored.
    Pass,
    /// It goes through, though one with a key would be protected.
    PassKeyless,
    /// It goes through although it brings a key, and its client is told that the key has no effect.
    PassIgnoringKey,
}

impl Course {
    /// Whether the request is one that keys are for, and on a route that honours them.
    pub(crate) fn is_of_keys(self) -> bool {
        matches!(self, Self::Protect | Self::PassKeyless)
    }
}

/// The operation that a request belongs to, and the course that it takes.
///
/// Only `POST` and `PATCH` are ever protected: for the other methods of HTTP a key has no effect by
/// their nature, and a client of any further method is told that it has none. An
/// operation that is listed protects what brings a key, and what must bring one; a route that is
/// not listed does so by the policy's `protect`. Where the request itself makes the key, every
/// request is protected.
pub(crate) fn course<'a>(
    policy: &'a Policy,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> (Matched<'a>, Course) {
    let matched = policy.matching(method, path);
    let keyed = brings_key(headers, &matched.operation.headers);
    match *method {
        Method::POST | Method::PATCH => {}
        Method::GET | Method::HEAD | Method::OPTIONS | Method::PUT | Method::DELETE => {
            return (matched, Course::Pass);
        }
        _ if keyed => return (matched, Course::PassIgnoringKey),
        _ => return (matched, Course::Pass),
    }
    let honoured = matched.listed || policy.protect == Protect::Keyed;
    let natural = !matched.operation.natural_key.is_empty();
    let course = match (keyed || natural, honoured) {
        (true, true) => Course::Protect,
        (true, false) if keyed => Course::PassIgnoringKey,
        (true, false) => Course::Pass,
        (false, _) if matched.listed && matched.operation.required => Course::Protect,
        (false, true) => Course::PassKeyless,
        (false, false) => Course::Pass,
    };
    (matched, course)
}
