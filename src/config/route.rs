//! Routes: which requests an operation is about.

use std::borrow::Cow;

use http::Method;
use percent::normal_segments;
use thiserror::Error;

use super::OPERATION_BYTES_MAX;

mod percent;

/// A method and a path whose segments are literal or stand for any text: `POST
/// /v1/charges/{id}/capture`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Route {
    method: Method,
    /// The path as the policy writes it, with its parameters' names.
    path: String,
    segments: Vec<Segment>,
}

/// One part of a path between slashes.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Literal(String),
    Any,
}

/// Why a `match` is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum RouteError {
    /// It is not a method, a space and a path.
    #[error("must be a method, a space and a path, such as \"POST /v1/orders\"")]
    Form,
    /// The method's requests are never protected.
    #[error("must be about POST or PATCH: other methods may be repeated as they are")]
    Method,
    /// A segment has a brace but is not `{name}`.
    #[error("has a segment with a brace that is not a whole \"{{name}}\"")]
    Brace,
    /// It is longer than any request's path.
    #[error("is longer than the path of any request")]
    TooLong,
    /// The path has a query, an encoded letter or a dot segment.
    #[error("must be a plain path: no query, no \"//\", no dot segments, letters not encoded")]
    Path,
}

/// A request's path, made comparable: two spellings that mean one path to a server are equal.
pub(super) struct RequestPath<'a>(Vec<Cow<'a, str>>);

impl<'a> RequestPath<'a> {
    pub(super) fn new(path: &'a str) -> Self {
        Self(normal_segments(path))
    }
}

impl Route {
    /// The route that a `match` text describes.
    ///
    /// # Errors
    /// See [`RouteError`].
    pub fn parse(text: &str) -> Result<Self, RouteError> {
        if text.len() > OPERATION_BYTES_MAX {
            return Err(RouteError::TooLong);
        }
        let (method, path) = text.split_once(' ').ok_or(RouteError::Form)?;
        let path = path.strip_prefix('/').ok_or(RouteError::Form)?;
        let method: Method = method.parse().map_err(|_| RouteError::Form)?;
        if !matches!(method, Method::POST | Method::PATCH) {
            return Err(RouteError::Method);
        }
        let segments: Vec<Segment> = path.split('/').map(segment).collect::<Result<_, _>>()?;
        let inner_empty = segments.iter().rev().skip(1).any(|s| *s == Segment::Literal("".into()));
        let plain = format!("/{path}");
        let normal = normal_segments(&plain);
        if inner_empty || normal.iter().map(|s| &**s).ne(path.split('/')) {
            return Err(RouteError::Path);
        }
        Ok(Self { method, path: plain.clone(), segments })
    }

    /// The method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The path as the policy writes it: `/v1/charges/{id}/capture`.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// Whether a request is one of this route.
    pub(super) fn matches(&self, method: &Method, path: &RequestPath<'_>) -> bool {
        self.method == method
            && self.segments.len() == path.0.len()
            && self.segments.iter().zip(&path.0).all(|(segment, text)| match segment {
                Segment::Literal(literal) => literal == text,
                Segment::Any => !text.is_empty(),
            })
    }

    /// How many segments are literal: of two routes that match one request, the one with more is
    /// meant.
    pub(super) fn literals(&self) -> usize {
        self.segments.iter().filter(|segment| matches!(segment, Segment::Literal(_))).count()
    }

    /// Whether some request matches both routes and neither is more literal in every segment, so
    /// that nobody could say which one is meant.
    pub(super) fn ambiguous_with(&self, other: &Self) -> bool {
        if self.method != other.method || self.segments.len() != other.segments.len() {
            return false;
        }
        let (mut left_wider, mut right_wider) = (false, false);
        for pair in self.segments.iter().zip(&other.segments) {
            match pair {
                (Segment::Literal(left), Segment::Literal(right)) if left != right => return false,
                (Segment::Any, Segment::Literal(text)) if text.is_empty() => return false,
                (Segment::Literal(text), Segment::Any) if text.is_empty() => return false,
                (Segment::Any, Segment::Literal(_)) => left_wider = true,
                (Segment::Literal(_), Segment::Any) => right_wider = true,
                _ => {}
            }
        }
        left_wider == right_wider
    }

    /// The route with its parameters' names left out: what decides which requests match.
    pub(super) fn shape(&self) -> String {
        let mut shape = format!("{} ", self.method);
        for segment in &self.segments {
            shape.push('/');
            match segment {
                Segment::Literal(text) => shape.push_str(text),
                Segment::Any => shape.push_str("{}"),
            }
        }
        shape
    }
}

/// Method and path of an operation that is not listed, named `METHOD /path`.
pub(super) fn parse_unlisted(name: &str) -> Option<(Method, &str)> {
    let (method, path) = name.split_once(' ')?;
    let method: Method = method.parse().ok()?;
    let protected = matches!(method, Method::POST | Method::PATCH);
    let is_path = path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic());
    (protected && is_path && !path.contains(['?', '#'])).then_some((method, path))
}

fn segment(text: &str) -> Result<Segment, RouteError> {
    match text.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
        Some(name) if !name.is_empty() && !name.contains(['{', '}']) => Ok(Segment::Any),
        Some(_) => Err(RouteError::Brace),
        None if text.contains(['{', '}']) => Err(RouteError::Brace),
        None if text.contains(['?', '#', ' ']) => Err(RouteError::Path),
        None => Ok(Segment::Literal(text.to_owned())),
    }
}

#[cfg(test)]
mod tests;
