//! Reads of which members of a request its key is made: `natural_key`.

use protocol::fields::JsonPointer;
use protocol::key::NATURAL_MEMBERS_MAX;

use super::section::Section;

/// The members that make the key, in their order; none where clients bring it.
pub(super) fn members(section: &Section<'_>) -> Option<Vec<JsonPointer>> {
    let Some(texts) = section.texts("natural_key") else {
        return (!section.has("natural_key")).then(Vec::new);
    };
    let mut members: Vec<JsonPointer> = Vec::with_capacity(texts.len());
    for text in &texts {
        match JsonPointer::parse(text.value) {
            Ok(member) if members.contains(&member) => {
                let message = format!("\"natural_key\" lists \"{member}\" twice");
                section.findings.error(&text.at, "duplicate", message);
            }
            Ok(member) => members.push(member),
            Err(error) => {
                let message = format!("\"natural_key\": \"{}\" {error}", text.value);
                section.findings.error(&text.at, "wrong-value", message);
            }
        }
    }
    if texts.len() > NATURAL_MEMBERS_MAX {
        let message = format!("may list at most {NATURAL_MEMBERS_MAX} members");
        section.wrong_value("natural_key", &message);
        return None;
    }
    (members.len() == texts.len()).then_some(members)
}
