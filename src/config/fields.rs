//! Reads which fields of a request add to its record's name: `scope_by`.

use std::fmt;

use http::HeaderName;
use protocol::fields::JsonPointer;

use super::operation::is_free_header;
use super::section::Section;

/// The most fields that add to a name: with [`VALUE_BYTES_MAX`](crate::sub_account) each, a name
/// stays well below the longest there is.
const FIELDS_MAX: usize = 8;

/// The longest name of a query or form field, in bytes.
const NAME_BYTES_MAX: usize = 256;

/// A field of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Field {
    /// A header.
    Header(HeaderName),
    /// A member of a JSON body.
    Json(JsonPointer),
    /// A parameter of the query.
    Query(String),
    /// A field of an `application/x-www-form-urlencoded` body.
    Form(String),
}

impl Field {
    fn parse(text: &str) -> Result<Self, String> {
        const EXAMPLES: &str = "must be a list of fields such as \"header:Stripe-Account\", \
            \"json:/merchantAccount\", \"query:account\" or \"form:account\"";
        let (kind, name) = text.split_once(':').ok_or(EXAMPLES)?;
        let named = || match name.len() {
            1..=NAME_BYTES_MAX => Ok(name.to_owned()),
            _ => Err(format!("may name fields of 1 to {NAME_BYTES_MAX} bytes")),
        };
        match kind {
            "header" => match name.parse::<HeaderName>().ok().filter(is_free_header) {
                Some(name) => Ok(Self::Header(name)),
                None => Err(format!("cannot read the header \"{name}\"")),
            },
            "json" => JsonPointer::parse(name).map(Self::Json).map_err(|error| error.to_string()),
            "query" => named().map(Self::Query),
            "form" => named().map(Self::Form),
            _ => Err(EXAMPLES.to_owned()),
        }
    }
}

/// As a policy writes it.
impl fmt::Display for Field {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Json(pointer) => write!(f, "json:{pointer}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Form(name) => write!(f, "form:{name}"),
        }
    }
}

/// Reads `scope_by`.
pub(super) fn scope_by(section: &Section<'_>) -> Option<Vec<Field>> {
    let Some(texts) = section.texts("scope_by") else {
        return (!section.has("scope_by")).then(Vec::new);
    };
    let mut fields = Vec::with_capacity(texts.len());
    for text in &texts {
        match Field::parse(text.value) {
            Ok(field) if fields.contains(&field) => {
                let message = format!("\"scope_by\" lists \"{field}\" twice");
                section.findings.error(&text.at, "duplicate", message);
            }
            Ok(field) => fields.push(field),
            Err(message) => {
                let message = format!("\"scope_by\": \"{}\": {message}", text.value);
                section.findings.error(&text.at, "wrong-value", message);
            }
        }
    }
    if texts.len() > FIELDS_MAX {
        section.wrong_value("scope_by", &format!("may list at most {FIELDS_MAX} fields"));
        return None;
    }
    (fields.len() == texts.len()).then_some(fields)
}

#[cfg(test)]
mod tests;
