//! Reads what of requests is compared: `fingerprint = { ignore, only, headers }`.

use http::HeaderName;
use protocol::fingerprint::{Place, Rules};
use protocol::policy::check_compared_header;

use super::section::Section;

/// The rules of an operation; `keys` are the headers that bring its key.
pub(super) fn rules(section: &Section<'_>, keys: Option<&[HeaderName]>) -> Option<Rules> {
    let Some(table) = section.table("fingerprint") else {
        return (!section.has("fingerprint")).then_some(Rules::DEFAULT);
    };
    let (ignore, only) = (places(&table, "ignore"), places(&table, "only"));
    let headers = headers(&table, keys.unwrap_or_default());
    table.finish();
    let (ignore, only, headers) = (ignore?, only?, headers?);
    let (name, rules) = match (ignore.is_empty(), only.is_empty()) {
        (false, false) => {
            table.wrong_value("only", "and \"ignore\" exclude each other: give one of them");
            return None;
        }
        (true, false) => ("only", Rules::only(only, headers)),
        (_, true) => ("ignore", Rules::ignoring(ignore, headers)),
    };
    rules.map_err(|error| table.wrong_value(name, &format!("and \"headers\": {error}"))).ok()
}

fn places(table: &Section<'_>, name: &'static str) -> Option<Vec<Place>> {
    let Some(texts) = table.texts(name) else {
        return (!table.has(name)).then(Vec::new);
    };
    let mut places = Vec::with_capacity(texts.len());
    for text in &texts {
        match Place::parse(text.value) {
            Ok(place) => places.push(place),
            Err(error) => {
                let message = format!("\"{name}\": \"{}\" {error}", text.value);
                table.findings.error(&text.at, "no-place", message);
            }
        }
    }
    (places.len() == texts.len()).then_some(places)
}

fn headers(table: &Section<'_>, keys: &[HeaderName]) -> Option<Vec<String>> {
    let Some(texts) = table.texts("headers") else {
        return (!table.has("headers")).then(Vec::new);
    };
    let mut names = Vec::with_capacity(texts.len());
    for text in &texts {
        let Ok(name) = text.value.parse::<HeaderName>() else {
            let message = format!("\"{}\" is not the name of a header", text.value);
            table.findings.error(&text.at, "wrong-value", message);
            continue;
        };
        let refused = match keys.contains(&name) {
            true => Some("it brings the key".to_owned()),
            false => check_compared_header(name.as_str()).err().map(|error| error.to_string()),
        };
        match refused {
            None => names.push(name.as_str().to_owned()),
            Some(reason) => {
                let message = format!("\"{}\" cannot be compared: {reason}", text.value);
                table.findings.error(&text.at, "forbidden-header", message);
            }
        }
    }
    (names.len() == texts.len()).then_some(names)
}
