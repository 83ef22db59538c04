//! Whether the process lives, and whether it can get claims decided.

use std::sync::Arc;

use axum::extract::State;
use axum::response::Response;
use cluster::Readiness;
use http::StatusCode;
use serde_json::json;

use super::{Api, json};
use crate::judge::Judge;

/// `GET /healthz`: the process lives.
pub(super) async fn alive() -> Response {
    json(StatusCode::OK, br#"{"status":"alive"}"#.to_vec())
}

/// `GET /readyz`: 200 while claims can be decided, else 503 with the reason.
pub(super) async fn ready<J: Judge>(State(api): State<Arc<Api<J>>>) -> Response {
    match api.judge.readiness() {
        Readiness::Ready => json(StatusCode::OK, br#"{"status":"ready"}"#.to_vec()),
        Readiness::NotReady(reason) => {
            let body = json!({"status": "not ready", "reason": reason}).to_string();
            json(StatusCode::SERVICE_UNAVAILABLE, body.into_bytes())
        }
    }
}
