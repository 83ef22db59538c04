//! What the API counts, and `GET /metrics` in Prometheus' text format.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use http::header::CONTENT_TYPE;
use metrics::{Unit, counter, describe_counter, describe_histogram, histogram};

use super::Api;
use crate::judge::Judge;

/// Problems answered, by `code`.
pub const PROBLEMS: &str = "oncegate_problems_total";

/// Handlers that panicked; anything but 0 is a defect.
pub const PANICS: &str = "oncegate_panics_total";

/// Claims of the claims API that were granted: their clients executed.
pub const GRANTED: &str = "oncegate_claims_granted_total";

/// Claims of the claims API that were answered with a stored response.
pub const REPLAYED: &str = "oncegate_claims_replayed_total";

/// Seconds that a claim of the claims API took to be decided.
pub const CLAIM_SECONDS: &str = "oncegate_claims_seconds";

/// Tells the installed recorder what each metric means. To be called once it is installed.
pub fn describe() {
    describe_counter!(PROBLEMS, "Problems answered, by code");
    describe_counter!(PANICS, "Handlers that panicked");
    describe_counter!(GRANTED, "Claims granted to clients of the claims API");
    describe_counter!(REPLAYED, "Claims answered with a stored response");
    describe_histogram!(CLAIM_SECONDS, Unit::Seconds, "Time that claims took to be decided");
}

/// A claim took `took` to be decided.
pub(super) fn decided(took: Duration) {
    histogram!(CLAIM_SECONDS).record(took);
}

/// A claim was granted.
pub(super) fn granted() {
    counter!(GRANTED).increment(1);
}

/// A claim was answered with a stored response.
pub(super) fn replayed() {
    counter!(REPLAYED).increment(1);
}

/// `GET /metrics`.
pub(super) async fn render<J: Judge>(State(api): State<Arc<Api<J>>>) -> Response {
    const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";
    ([(CONTENT_TYPE, TEXT)], api.metrics.render()).into_response()
}
