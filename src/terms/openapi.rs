//! The terms as a fragment of an OpenAPI 3.1 document: paths to be merged into the API's own.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};

use super::{OperationTerms, Terms};
use crate::problem::Code;

impl Terms {
    /// The fragment, as JSON (which is YAML as well).
    pub fn to_openapi(&self) -> Value {
        let mut paths = Map::new();
        for operation in &self.operations {
            let (Some(method), Some(path)) = (&operation.method, &operation.path) else { continue };
            // Two paths that differ in their parameters' names only are one path to OpenAPI.
            let same = paths.keys().find(|other| shape(other).eq(shape(path)));
            let path = same.unwrap_or(path).clone();
            let parameters = parameters(operation, &path);
            let item = paths.entry(path).or_insert_with(|| json!({}));
            item[method.to_lowercase()] = json!({
                "parameters": parameters,
                "responses": responses(operation),
                "x-idempotency": operation,
            });
        }
        json!({
            "paths": paths,
            "components": {
                "headers": {
                    "Idempotent-Replayed": header(
                        "\"true\" on an answer that an earlier request with this key was given.",
                        json!({"type": "string", "const": "true"}),
                    ),
                    "Idempotency-Expires": header(
                        "For how many more seconds the answer is kept under its key.",
                        json!({"type": "integer", "minimum": 0}),
                    ),
                    "Retry-After": header(
                        "After how many seconds to send the same request again.",
                        json!({"type": "integer", "minimum": 1}),
                    ),
                },
                "schemas": { "IdempotencyProblem": problem_schema() },
            },
            "x-idempotency": { "unlisted": self.unlisted, "not_honoured": self.not_honoured },
        })
    }
}

/// The parts of a path; `None` stands for a parameter.
fn shape(path: &str) -> impl Iterator<Item = Option<&str>> {
    path.split('/').map(|part| parameter(part).is_none().then_some(part))
}

/// The name of the parameter that a part of a path is.
fn parameter(part: &str) -> Option<&str> {
    part.strip_prefix('{')?.strip_suffix('}')
}

fn header(description: &str, schema: Value) -> Value {
    json!({ "description": description, "schema": schema })
}

fn parameters(operation: &OperationTerms, path: &str) -> Vec<Value> {
    let header = &operation.header;
    let one_of = if header.names.len() > 1 {
        format!(" Send one of {}.", header.names.join(", "))
    } else {
        String::new()
    };
    let quoted = if header.quoted { ", in quotes (RFC 9651)" } else { "" };
    let described = format!(
        "Identifies the request: a repeat with the same key gets the first answer and is not \
         executed again for {}. At most {} bytes{quoted}.{one_of}",
        operation.retention.text(),
        header.key_max_bytes,
    );
    // Within quotes every byte may be escaped.
    let longest = header.key_max_bytes * if header.quoted { 2 } else { 1 };
    let longest = longest + if header.quoted { 2 } else { 0 };
    let keys = header.names.iter().map(|name| {
        json!({
            "name": name,
            "in": "header",
            "required": header.required && header.names.len() == 1,
            "description": described,
            "schema": { "type": "string", "minLength": 1, "maxLength": longest },
        })
    });
    let in_path: BTreeSet<_> = path.split('/').filter_map(parameter).collect();
    let in_path = in_path.into_iter().map(|name| {
        json!({ "name": name, "in": "path", "required": true, "schema": { "type": "string" } })
    });
    in_path.chain(keys).collect()
}

/// What the gateway itself may answer.
fn responses(operation: &OperationTerms) -> Map<String, Value> {
    let response = |codes: &[Code]| {
        let lines: Vec<_> =
            codes.iter().map(|code| format!("`{}`: {}", code.name(), code.explanation())).collect();
        let schema = match operation.error_body {
            "problem+json" => json!({ "$ref": "#/components/schemas/IdempotencyProblem" }),
            _ => json!({ "type": "object" }),
        };
        let mut response = json!({
            "description": lines.join("\n\n"),
            "content": { &operation.media_type: { "schema": schema } },
        });
        if codes.iter().any(|code| code.retryable()) {
            let retry_after = json!({ "$ref": "#/components/headers/Retry-After" });
            response["headers"] = json!({ "Retry-After": retry_after });
        }
        response
    };
    let refusals = operation.refusals();
    refusals.iter().map(|(status, codes)| (status.to_string(), response(codes))).collect()
}

fn problem_schema() -> Value {
    let mut codes: Vec<_> = Code::ALL.iter().map(|code| code.name()).collect();
    codes.sort_unstable();
    codes.dedup();
    json!({
        "type": "object",
        "required": ["type", "title", "status", "code", "retryable", "executed"],
        "properties": {
            "type": { "type": "string", "format": "uri-reference" },
            "title": { "type": "string" },
            "status": { "type": "integer" },
            "detail": { "type": "string" },
            "instance": { "type": "string", "format": "uri" },
            "code": { "type": "string", "enum": codes },
            "retryable": {
                "type": "boolean",
                "description": "Whether the same request may be sent again with the same key.",
            },
            "executed": {
                "type": "string",
                "enum": ["no", "yes", "unknown"],
                "description": "Whether the request may have been executed.",
            },
        },
    })
}
