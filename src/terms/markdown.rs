//! The terms as Markdown, for the documentation of an API.

use bytesize::ByteSize;
use protocol::Millis;

use super::{OperationTerms, Scope, Terms};
use crate::config::duration_text;
use crate::problem::{Code, PAGES};

impl Terms {
    /// A page for people.
    pub fn to_markdown(&self) -> String {
        let mut page = String::from(
            "# Idempotency\n\n\
             A request that brings a key runs once. A repeat of it, with the same key, gets the \
             first answer\nand runs nothing. Keys have an effect on ",
        );
        page.push_str(&self.methods.join(" and "));
        page.push_str(" only.\n");
        if let Some(bytes) = self.max_request_body_bytes {
            let cap = ByteSize::b(bytes);
            page += &format!("The body of a request that brings a key has at most {cap}.\n");
        }
        for operation in &self.operations {
            let title = operation.name.as_deref().unwrap_or_default();
            let route = [&operation.method, &operation.path].map(|it| it.as_deref().unwrap_or(""));
            page += &format!("\n## {title}\n\n{}\n\n", code(&route.join(" ")));
            page += &table(operation);
        }
        for name in &self.not_honoured.operations {
            page += &format!("\n## {name}\n\nKeys have no effect yet: they are only observed.\n");
        }
        page.push_str("\n## Every other route\n\n");
        match &self.unlisted {
            Some(unlisted) => page += &table(unlisted),
            None => {
                page += &format!(
                    "Keys have no effect: the request runs unprotected, and its answer says {}.\n",
                    code(self.not_honoured.marker)
                );
            }
        }
        page.push_str("\n## Problems\n\n");
        page.push_str(&problems());
        page
    }
}

fn table(operation: &OperationTerms) -> String {
    let mut table = String::from("| term | value |\n|---|---|\n");
    for (term, value) in rows(operation) {
        table += &format!("| {term} | {value} |\n");
    }
    table
}

fn rows(operation: &OperationTerms) -> Vec<(&'static str, String)> {
    let OperationTerms { header, scope, replay, mismatch, unknown, .. } = operation;
    let required = if header.required { "required" } else { "optional" };
    let echoed = if header.echoed { ", which answers say in `Idempotency-Key`" } else { "" };
    let quoted = if header.quoted { ", in quotes (RFC 9651)" } else { "" };
    let mut rows = vec![
        match header.natural_key.as_slice() {
            [] => ("header", format!("{}, {required}", codes(&header.names))),
            members => {
                ("made of", format!("{} in the JSON body; no header counts", codes(members)))
            }
        },
        ("key", format!("at most {} bytes{quoted}{echoed}", header.key_max_bytes)),
        ("scope", scope_text(scope)),
        (
            "replay",
            format!("{}, of at most {}", replay.mode, ByteSize::b(replay.max_snapshot_bytes)),
        ),
        ("replay marker", format!("{}, {} in seconds", code(replay.marker), code(replay.expires))),
        ("retention", operation.retention.phrase()),
        ("while the first runs", refusal(operation.concurrency)),
        ("another request under the key", refusal(mismatch.refusal)),
        ("compared", compared(operation)),
        (
            "nobody can tell whether it ran",
            match unknown.on_unknown {
                "takeover" => "it may run again: the API is idempotent itself".to_owned(),
                _ => format!("{}, until an operator has settled it", refusal(unknown.refusal)),
            },
        ),
        ("longest wait", duration_text(Millis::new(operation.answer_within_ms))),
        ("longest execution", duration_text(Millis::new(operation.max_execution_ms))),
        ("errors", format!("{} ({})", operation.error_body, operation.profile)),
    ];
    if !replay.headers.is_empty() {
        rows.push(("replayed headers besides the usual", codes(&replay.headers)));
    }
    if !replay.store.is_empty() {
        let rules = replay.store.iter();
        let rules = rules.map(|(key, it)| format!("{key}: {}", it.as_str().unwrap_or_default()));
        rows.push(("statuses that do not mean the usual", rules.collect::<Vec<_>>().join(", ")));
    }
    rows
}

fn scope_text(scope: &Scope) -> String {
    let whose = if scope.isolate == "credential" { "each credential" } else { "each tenant" };
    let mut text = match scope.mismatch {
        None => format!("this operation, {whose}"),
        Some(_) => whose.to_owned(),
    };
    if !scope.fields.is_empty() {
        text += &format!(", each value of {}", codes(&scope.fields));
    }
    if let Some(other) = scope.mismatch {
        text += &format!("; another operation under the key gets {}", refusal(other));
    }
    text
}

fn compared(operation: &OperationTerms) -> String {
    let mismatch = &operation.mismatch;
    let mut text = match &mismatch.only {
        Some(only) if only.is_empty() => "method, path and media type".to_owned(),
        Some(only) => format!("method, path, media type, and of the rest only {}", codes(only)),
        None => "method, path, query, media type and body".to_owned(),
    };
    if !mismatch.ignore.is_empty() {
        text += &format!(", but {}", codes(&mismatch.ignore));
    }
    if !mismatch.headers.is_empty() {
        text += &format!("; the headers {}", codes(&mismatch.headers));
    }
    text
}

fn refusal(refusal: super::Refusal) -> String {
    code(&format!("{} {}", refusal.status, refusal.code))
}

/// The table of codes: what each means and what a client may do.
fn problems() -> String {
    let mut table = String::from(
        "| status | code | send the same request again? | was it executed? |\n|---|---|---|---|\n",
    );
    for it in Code::ALL {
        let again = if it.retryable() { "yes" } else { "no" };
        let (name, status) = (it.name(), it.status().as_u16());
        let link = format!("[{}]({PAGES}{name})", code(name));
        table += &format!("| {status} | {link} | {again} | {} |\n", it.executed().as_str());
    }
    table
}

fn codes(texts: &[String]) -> String {
    texts.iter().map(|text| code(text)).collect::<Vec<_>>().join(", ")
}

/// A text as it is, in a table as well.
fn code(text: &str) -> String {
    let text = text.replace('|', "\\|");
    if text.contains('`') { format!("`` {text} ``") } else { format!("`{text}`") }
}
