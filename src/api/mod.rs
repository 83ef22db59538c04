//! What is served on `[api]`: the claims API, the admin API, the terms, health and metrics.

use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use http::header::CONTENT_TYPE;
use http::{HeaderValue, StatusCode};
use metrics_exporter_prometheus::PrometheusHandle;

use crate::admin::Admins;
use crate::config::Policy;
use crate::judge::Judge;
use crate::problem::{Code, Problem};
use crate::rate_limit::RateLimits;
use crate::tenant::Tenants;
use crate::terms::{self, Published};

mod admin;
mod claims;
mod health;
pub mod metrics;
mod shown;

/// The media type of every answer but problems and metrics.
const JSON: HeaderValue = HeaderValue::from_static("application/json");

/// What the handlers share.
pub(crate) struct Api<J> {
    judge: J,
    policy: Arc<Policy>,
    tenants: Tenants,
    admins: Admins,
    rates: RateLimits,
    metrics: PrometheusHandle,
    terms: Published,
}

/// The router of the API, for [`listener::serve`](crate::listener::serve).
pub fn router<J: Judge>(judge: J, policy: Arc<Policy>, metrics: PrometheusHandle) -> Router {
    let (tenants, admins) = (Tenants::new(&policy), Admins::new(&policy));
    let clock = judge.clone();
    let rates = RateLimits::new(&policy, Arc::new(move || clock.boot()));
    let terms = Published::new(None);
    let api = Arc::new(Api { judge, policy, tenants, admins, rates, metrics, terms });
    Router::new()
        .route("/v1/claims", post(claims::claim::<J>).get(claims::read::<J>))
        .route("/v1/claims/renew", post(claims::renew::<J>))
        .route("/v1/claims/complete", post(claims::complete::<J>))
        .route("/v1/claims/release", post(claims::release::<J>))
        .route("/v1/claims/unknown", post(claims::unknown::<J>))
        .route("/v1/claims/revise", post(claims::revise::<J>))
        .route("/v1/admin/record", get(admin::get::<J>))
        .route("/v1/admin/records", get(admin::list::<J>))
        .route("/v1/admin/records/resolve", post(admin::resolve::<J>))
        .route("/v1/admin/records/forget", post(admin::forget::<J>))
        .route("/v1/admin/cluster", get(admin::status::<J>))
        .route("/v1/admin/cluster/digest", get(admin::digest::<J>))
        .route("/v1/admin/cluster/transfer", post(admin::transfer::<J>))
        .route("/healthz", get(health::alive))
        .route("/readyz", get(health::ready::<J>))
        .route(terms::PATH, get(published::<J>))
        .route("/metrics", get(metrics::render::<J>))
        .fallback(nothing_here)
        .method_not_allowed_fallback(wrong_method)
        .with_state(api)
}

/// The terms, which claims are made under as well.
async fn published<J: Judge>(State(api): State<Arc<Api<J>>>, request: Request) -> Response {
    let (method, headers) = (request.method(), request.headers());
    match api.terms.answer(&api.policy, method, request.uri().path(), headers) {
        Some(terms) => terms,
        None => nothing_here().await.into_response(),
    }
}

async fn nothing_here() -> Problem {
    Problem::new(Code::NotFound, "there is nothing under this path")
}

async fn wrong_method() -> Problem {
    Problem::new(Code::MethodNotAllowed, "this path does not have the method")
}

/// A JSON answer.
fn json(status: StatusCode, body: Vec<u8>) -> Response {
    (status, [(CONTENT_TYPE, JSON)], body).into_response()
}
