//! Cross-origin requests: what browsers must be told so that the scripts of other pages may call
//! the gateway and read what it says.
//!
//! Where the policy names origins, the gateway speaks for the upstream in this, on every answer
//! alike: a replay cannot repeat what the upstream said to another origin.

use std::time::Duration;

use axum::Router;
use axum::middleware::map_response;
use axum::response::Response;
use http::header::{ACCESS_CONTROL_REQUEST_METHOD, LOCATION, RETRY_AFTER};
use http::{HeaderName, Method, Request};
use tower::{ServiceExt, service_fn};
use tower_http::cors::{AllowHeaders, AllowMethods, AllowOrigin, CorsLayer};

use super::forward;
use crate::config::{Cors, Policy};
use crate::problem::PROBLEM;
use crate::replay::{EXPIRES, REPLAYED, STALE};

/// How long a browser may go by the answer to a preflight: an origin that is taken out of the
/// policy is refused by the answers themselves at once.
const PREFLIGHT_KEPT: Duration = Duration::from_secs(600);

/// The beginning of the names of all fields of the protocol.
const OWN: &str = "access-control-";

/// A gateway's router, with what `cors` says on every answer. Preflights are answered here; other
/// `OPTIONS` requests are the upstream's, and go through untouched.
pub(super) fn rendered(router: Router, cors: &Cors, policy: &Policy) -> Router {
    let layer = CorsLayer::new()
        .allow_origin(AllowOrigin::list(cors.origins.iter().cloned()))
        .allow_methods(AllowMethods::mirror_request())
        .allow_headers(AllowHeaders::mirror_request())
        .expose_headers(exposed(policy))
        .max_age(PREFLIGHT_KEPT);
    let rendering = router.clone().layer(map_response(without_own)).layer(layer);
    let choose = service_fn(move |request: Request<axum::body::Body>| {
        // The layer takes every OPTIONS request for a preflight.
        let preflight = request.headers().contains_key(ACCESS_CONTROL_REQUEST_METHOD);
        let plain = request.method() == Method::OPTIONS && !preflight;
        let router = if plain { router.clone() } else { rendering.clone() };
        router.oneshot(request)
    });
    Router::new().fallback_service(choose)
}

/// What scripts may read of an answer besides what they may read anyway: all that oncegate marks
/// answers with, and what operations keep of them.
fn exposed(policy: &Policy) -> Vec<HeaderName> {
    let markers =
        [REPLAYED, EXPIRES, STALE, PROBLEM, forward::STATUS, forward::KEY, LOCATION, RETRY_AFTER];
    let kept = policy.operations().iter().flat_map(|operation| &operation.store_headers).cloned();
    let mut names: Vec<_> = markers.into_iter().chain(kept).collect();
    names.sort_by(|one, other| one.as_str().cmp(other.as_str()));
    names.dedup();
    names
}

/// Takes out what the upstream says about other origins.
async fn without_own(mut answer: Response) -> Response {
    let names: Vec<_> =
        answer.headers().keys().filter(|name| name.as_str().starts_with(OWN)).cloned().collect();
    for name in names {
        answer.headers_mut().remove(name);
    }
    answer
}
