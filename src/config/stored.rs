//! Reads what of an upstream's answers is kept: `store` and `store_headers`.

use http::HeaderName;
use protocol::policy::{StoreRules, check_stored_header};

use super::section::Section;

/// The most header fields that an operation may keep besides the usual ones.
const HEADERS_MAX: usize = 32;

/// What the statuses of the operation's upstream mean; `idempotent`: every downstream is;
/// `natural`: the key is made of the request, so that only a success is an outcome.
pub(super) fn statuses(
    section: &Section<'_>,
    idempotent: bool,
    natural: bool,
) -> Option<StoreRules> {
    let mut rules = match natural {
        true => StoreRules::only_success(idempotent),
        false => StoreRules::new(idempotent),
    };
    let Some(table) = section.table("store") else {
        return (!section.has("store")).then_some(rules);
    };
    let mut sound = true;
    for (status, at, effect) in table.entries() {
        // Anything but a text is refused as an effect that is none.
        if let Err(error) = rules.set(status, effect.unwrap_or_default()) {
            let message = format!("\"store\": \"{status}\": {error}");
            section.findings.error(&at, "forbidden-store", message);
            sound = false;
        }
    }
    sound.then_some(rules)
}

/// The headers that are kept besides the usual ones.
pub(super) fn headers(section: &Section<'_>) -> Option<Vec<HeaderName>> {
    let Some(texts) = section.texts("store_headers") else {
        return (!section.has("store_headers")).then(Vec::new);
    };
    let mut names = Vec::with_capacity(texts.len());
    for text in &texts {
        let Ok(name) = text.value.parse::<HeaderName>() else {
            let message = format!("\"{}\" is not the name of a header", text.value);
            section.findings.error(&text.at, "wrong-value", message);
            continue;
        };
        match check_stored_header(name.as_str()) {
            Ok(()) => names.push(name),
            Err(error) => {
                let message = format!("\"{}\" can never be stored: {error}", text.value);
                section.findings.error(&text.at, "forbidden-header", message);
            }
        }
    }
    if texts.len() > HEADERS_MAX {
        section.wrong_value("store_headers", &format!("may list at most {HEADERS_MAX} headers"));
    }
    (names.len() == texts.len()).then_some(names)
}
