//! The sub-account that a request belongs to: the values of the fields that `scope_by` lists.
//!
//! The end customers of a reseller then never share a key space. A field that is missing, empty or
//! `null` has the empty value; one that could be read in two ways is refused, since whoever reads
//! it otherwise would keep the key under another name.

use http::{HeaderMap, HeaderName};
use protocol::fields::JsonDocument;
use protocol::fingerprint::{is_form, is_json};

use crate::config::Field;
use crate::problem::Problem;

/// The longest value of a field in bytes: an account's id, an address or a domain name.
pub(crate) const VALUE_BYTES_MAX: usize = 255;

/// A request as far as fields are read from it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    /// The header lines.
    pub(crate) headers: &'a HeaderMap,
    /// The target in origin form.
    pub(crate) target: &'a str,
    /// The value of `Content-Type`.
    pub(crate) content_type: Option<&'a [u8]>,
    /// The body, decoded.
    pub(crate) body: &'a [u8],
}

impl Asked<'_> {
    /// The values of `fields`, in their order.
    ///
    /// # Errors
    /// `invalid-request` when a field has two values or one that is none, names a list or an
    /// object, or is longer than [`VALUE_BYTES_MAX`]; and when a body that says it is JSON is not.
    pub(crate) fn values(&self, fields: &[Field]) -> Result<Vec<String>, Problem> {
        let needs_json = fields.iter().any(|field| matches!(field, Field::Json(_)));
        let document = if needs_json { self.document()? } else { None };
        fields.iter().map(|field| self.value(field, document.as_ref())).collect()
    }

    fn value(&self, field: &Field, document: Option<&JsonDocument>) -> Result<String, Problem> {
        let value = match field {
            Field::Header(name) => self.header(field, name)?,
            Field::Json(pointer) => {
                let found = document.map(|document| document.scalar(pointer)).transpose();
                let found = found.map_err(|error| refused(field, &error.to_string()))?;
                found.flatten().map(text_of_scalar).unwrap_or_default()
            }
            Field::Query(name) => {
                let query = self.target.split_once('?').map_or("", |(_, query)| query);
                single(field, pairs_named(query.as_bytes(), name))?
            }
            Field::Form(name) if self.content_type.is_some_and(is_form) => {
                single(field, pairs_named(self.body, name))?
            }
            Field::Form(_) => String::new(),
        };
        checked(field, value)
    }

    fn header(&self, field: &Field, name: &HeaderName) -> Result<String, Problem> {
        let lines = self.headers.get_all(name).iter().map(|line| line.to_str());
        let lines: Result<Vec<_>, _> = lines.collect();
        let lines = lines.map_err(|_| refused(field, "holds more than visible ASCII"))?;
        single(field, lines.into_iter().map(|line| line.trim().to_owned()))
    }

    /// The body as JSON, whatever its type says; `None` where there is none.
    fn document(&self) -> Result<Option<JsonDocument>, Problem> {
        let document = JsonDocument::read(self.body);
        let looks_like_it = matches!(self.body.trim_ascii_start(), [b'{' | b'[', ..]);
        let claims_to_be =
            looks_like_it || (self.content_type.is_some_and(is_json) && !self.body.is_empty());
        if document.is_none() && claims_to_be {
            return Err(Problem::invalid("the body is not JSON that says one thing"));
        }
        Ok(document)
    }
}

/// Takes values that a caller gives itself, one for each of `fields`.
///
/// # Errors
/// `invalid-request` when there are more or fewer, or one is longer than [`VALUE_BYTES_MAX`].
pub(crate) fn given(fields: &[Field], values: &[String]) -> Result<Vec<String>, Problem> {
    if values.len() != fields.len() {
        return Err(missing(fields));
    }
    fields.iter().zip(values).map(|(field, value)| checked(field, value.clone())).collect()
}

/// The same for a JSON list of texts, where a name is asked for in a query.
///
/// # Errors
/// As [`given`], and when it is no such list.
pub(crate) fn listed(fields: &[Field], text: Option<&str>) -> Result<Vec<String>, Problem> {
    let values: Vec<String> = match text {
        None => Vec::new(),
        Some(text) => serde_json::from_str(text).map_err(|_| missing(fields))?,
    };
    given(fields, &values)
}

/// What is told to a caller that does not say to which sub-account a key belongs.
pub(crate) fn missing(fields: &[Field]) -> Problem {
    if fields.is_empty() {
        return Problem::invalid("this operation's keys have no \"sub_account\"");
    }
    let names: Vec<String> = fields.iter().map(Field::to_string).collect();
    Problem::invalid(format!(
        "\"sub_account\" must be a list of texts, the values of {}; a missing one is \"\"",
        names.join(", ")
    ))
}

/// The text of a JSON string; a number or a literal as it is written.
fn text_of_scalar(canonical: &str) -> String {
    serde_json::from_str(canonical).unwrap_or_else(|_| canonical.to_owned())
}

/// The values of every pair of this name.
fn pairs_named<'a>(pairs: &'a [u8], name: &'a str) -> impl Iterator<Item = String> + 'a {
    form_urlencoded::parse(pairs)
        .filter(move |(found, _)| found == name)
        .map(|(_, value)| value.into_owned())
}

fn single(field: &Field, mut values: impl Iterator<Item = String>) -> Result<String, Problem> {
    let value = values.next().unwrap_or_default();
    match values.next() {
        // What is not UTF-8 is decoded to this character, whatever it was: two would be one.
        None if value.contains(char::REPLACEMENT_CHARACTER) => Err(refused(field, "is not UTF-8")),
        None => Ok(value),
        Some(_) => Err(refused(field, "comes more than once")),
    }
}

fn checked(field: &Field, value: String) -> Result<String, Problem> {
    if value.len() > VALUE_BYTES_MAX {
        return Err(refused(field, &format!("is longer than {VALUE_BYTES_MAX} bytes")));
    }
    Ok(value)
}

fn refused(field: &Field, why: &str) -> Problem {
    Problem::invalid(format!("the field \"{field}\", which the key belongs to, {why}"))
}

#[cfg(test)]
mod tests;
