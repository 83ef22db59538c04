//! The claims API over a judge that decides with the real machine, in memory.

use std::path::Path;
use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::Request as HttpRequest;
use http::{HeaderMap, StatusCode};
use metrics_exporter_prometheus::PrometheusBuilder;
use protocol::Millis;
use serde_json::{Value, json};
use tower::ServiceExt;

use super::*;
use crate::config::Policy;
use judge::MemoryJudge;

pub(in crate::api) mod judge;
mod natural_keys;
mod neighbours;
mod refused;
mod sub_accounts;

/// Digests of the API keys `a`, `b`, `web`, `c`: two tenants, of which one has a credential for the
/// gateway only and a second one for the claims API.
const POLICY: &str = r#"
[[tenant]]
name = "A"
credentials = [
    { name = "worker", use = ["claims"], api_key_sha256 = """
ca978112ca1bbdcafac231b39a23dc4da786eff8147c4e72b9807785afee48bb""" },
    { name = "web", use = ["gateway"], api_key_sha256 = """
4b5e57f6eb2f42b9039b3d1e13929295f231749c510cbe341cd68036d9af97e2""" },
    { name = "other", use = ["claims"], api_key_sha256 = """
2e7d2c03a9507ae265ecf5b5356885a53393a2029d241394997265a1a25aefc6""" },
]
[[tenant]]
name = "B"
credentials = [
    { name = "worker", use = ["claims"], api_key_sha256 = """
3e23e8160039594a33894f6564e1b1348bbd7a0088d42c4acb73eeaed59c009d""" },
]
[[operation]]
match = "POST /orders"
name = "orders"
max_snapshot = "1KiB"
retention = "2d"
[[operation]]
match = "POST /isolated"
name = "isolated"
isolate = "credential"
[[operation]]
match = "POST /shipments"
name = "shipments"
natural_key = ["/order_id", "/sku"]
retention = "forever"
[[operation]]
match = "POST /debit"
name = "debit"
scope = "account"
[[operation]]
match = "POST /credit"
name = "credit"
scope = "account"
[[operation]]
match = "POST /split"
name = "split"
scope_by = ["json:/merchant", "header:Account"]
[[operation]]
match = "POST /latest"
name = "latest"
replay = "latest"
[[operation]]
match = "POST /fresh"
name = "fresh"
replay = "snapshot+freshness"
[[operation]]
match = "POST /elsewhere"
name = "elsewhere"
replay = "redirect"
[[operation]]
match = "POST /safe"
name = "safe"
on_unknown = "takeover"
downstream = [{ idempotent = true, retention = "24h" }]
"#;

struct Served {
    judge: MemoryJudge,
    router: Router,
}

fn serve() -> Served {
    let judge = MemoryJudge::default();
    let (policy, _) = Policy::parse(Path::new("policy.toml"), POLICY).unwrap();
    let metrics = PrometheusBuilder::new().build_recorder().handle();
    let router = crate::api::router(judge.clone(), Arc::new(policy), metrics);
    Served { judge, router }
}

struct Answer {
    status: StatusCode,
    headers: HeaderMap,
    body: Value,
}

impl Served {
    async fn send(&self, method: &str, target: &str, key: &str, body: String) -> Answer {
        let mut request = HttpRequest::builder().method(method).uri(target);
        if !key.is_empty() {
            request = request.header("authorization", format!("Bearer {key}"));
        }
        let request = request.body(Body::from(body)).unwrap();
        let (head, body) = self.router.clone().oneshot(request).await.unwrap().into_parts();
        let bytes = body.collect().await.unwrap().to_bytes();
        let body = serde_json::from_slice(&bytes).unwrap_or_default();
        Answer { status: head.status, headers: head.headers, body }
    }

    /// A call of tenant A.
    async fn call(&self, what: &str, body: Value) -> Answer {
        self.send("POST", &format!("/v1/claims{what}"), "a", body.to_string()).await
    }

    async fn claim(&self, attempt: &str) -> Answer {
        self.call("", claim_body(attempt)).await
    }

    /// Claims, and returns what a call under the grant begins with.
    async fn granted(&self, attempt: &str) -> Value {
        let claimed = self.claim(attempt).await;
        assert_eq!(claimed.status, 201, "{}", claimed.body);
        let (fence, token) = (&claimed.body["fence"], &claimed.body["token"]);
        json!({"operation": "orders", "key": "k", "fence": fence, "token": token})
    }

    async fn look_up(&self, api_key: &str) -> Answer {
        self.send("GET", "/v1/claims?operation=orders&key=k", api_key, String::new()).await
    }
}

fn claim_body(attempt: &str) -> Value {
    json!({"operation": "orders", "key": "k", "attempt": attempt, "payload": {"amount": 1}})
}

fn with(mut body: Value, name: &str, value: Value) -> Value {
    body[name] = value;
    body
}

fn without(mut body: Value, name: &str) -> Value {
    body.as_object_mut().unwrap().remove(name);
    body
}

#[track_caller]
fn assert_problem(answer: &Answer, status: u16, code: &str) {
    assert_eq!(answer.status, status, "{}", answer.body);
    assert_eq!(answer.body["code"], code, "{}", answer.body);
    assert_eq!(answer.headers["content-type"], "application/problem+json");
}

#[tokio::test]
async fn a_key_is_claimed_completed_and_replayed() {
    let served = serve();
    let claimed = served.claim("1").await;
    assert_eq!(claimed.status, 201);
    assert_eq!(claimed.body["state"], "claimed");
    assert_eq!(claimed.body["attempt_no"], 1);
    assert_eq!(claimed.body["token"].as_str().unwrap().len(), 32);
    let rest = claimed.body["lease_expires_in_ms"].as_u64().unwrap();
    assert!((9_000..=10_000).contains(&rest), "{rest}");

    let grant = json!({"operation": "orders", "key": "k",
        "fence": claimed.body["fence"], "token": claimed.body["token"]});
    let response = json!({"status": 201, "headers": [["Location", "/orders/1"], ["Link", "<a>"],
        ["link", "<b>"]], "body_base64": "aGVsbG8="});
    for _ in 0..2 {
        let done =
            served.call("/complete", with(grant.clone(), "response", response.clone())).await;
        assert_eq!((done.status.as_u16(), &done.body["state"]), (200, &json!("completed")));
    }
    let again = served.claim("2").await;
    assert_eq!(again.status, 200);
    assert_eq!(again.body["replayed"], true);
    assert_eq!(again.body["expires_in_s"], 2 * 86_400);
    let stored = &again.body["response"];
    assert_eq!(stored["status"], 201);
    assert_eq!(
        stored["headers"],
        json!([["location", "/orders/1"], ["link", "<a>"], ["link", "<b>"]])
    );
    assert_eq!(stored["body_base64"], "aGVsbG8=");

    let other = with(response, "body_base64", json!("b3RoZXI="));
    let late = served.call("/complete", with(grant, "response", other)).await;
    assert_problem(&late, 409, "stale-fence");
}

#[tokio::test]
async fn a_document_is_replayed_byte_for_byte() {
    let served = serve();
    let grant = served.granted("1").await;
    let deep = format!("{}1{}", "[".repeat(300), "]".repeat(300));
    let document = format!("{{ \"b\":1.50, \"a\":9007199254740993, \"c\":{deep} }}");
    let grant = grant.to_string();
    let body = format!("{},\"json\":{document}}}", grant.strip_suffix('}').unwrap());
    let done = served.send("POST", "/v1/claims/complete", "a", body).await;
    assert_eq!(done.status, 200, "{}", done.body);

    let request = HttpRequest::post("/v1/claims").header("authorization", "Bearer a");
    let request = request.body(Body::from(claim_body("2").to_string())).unwrap();
    let answer = served.router.clone().oneshot(request).await.unwrap();
    let text = answer.into_body().collect().await.unwrap().to_bytes();
    let text = str::from_utf8(&text).unwrap();
    assert!(text.contains(&format!("\"json\":{document}")), "{text}");
    assert!(text.contains("[\"content-type\",\"application/json\"]"), "{text}");
    assert_eq!(served.look_up("a").await.status, 200);
}

#[tokio::test]
async fn the_same_attempt_gets_the_same_grant_and_another_waits() {
    let served = serve();
    let first = served.claim("1").await;
    let same = served.claim("1").await;
    assert_eq!(same.status, 201);
    assert_eq!(same.body["fence"], first.body["fence"]);
    assert_eq!(same.body["token"], first.body["token"]);
    let other = served.claim("2").await;
    assert_problem(&other, 409, "key-in-progress");
    let wait: u64 = other.headers["retry-after"].to_str().unwrap().parse().unwrap();
    assert!((1..=10).contains(&wait));
}

#[tokio::test]
async fn another_request_under_the_key_is_refused_in_every_state() {
    let served = serve();
    let grant = served.granted("1").await;
    let other = with(claim_body("2"), "payload", json!({"amount": 2}));
    assert_problem(&served.call("", other.clone()).await, 422, "key-reused");
    let done = with(grant, "response", json!({"status": 200}));
    assert_eq!(served.call("/complete", done).await.status, 200);
    assert_problem(&served.call("", other).await, 422, "key-reused");
}

#[tokio::test]
async fn integers_are_compared_exactly() {
    let served = serve();
    let body = |amount: &str| {
        let head = r#"{"operation":"orders","key":"k","attempt":"1","payload":{"amount":"#;
        format!("{head}{amount}}}}}")
    };
    let first = served.send("POST", "/v1/claims", "a", body("9007199254740992")).await;
    assert_eq!(first.status, 201);
    let other = served.send("POST", "/v1/claims", "a", body("9007199254740993")).await;
    assert_problem(&other, 422, "key-reused");
}

#[tokio::test]
async fn a_request_is_fingerprinted_as_the_gateway_does() {
    let served = serve();
    let request = |target: &str, body: Value| {
        let request = json!({"method": "POST", "target": target,
            "content_type": "application/json; charset=utf-8"});
        let request = body
            .as_object()
            .unwrap()
            .iter()
            .fold(request, |request, (name, value)| with(request, name, value.clone()));
        with(without(claim_body("1"), "payload"), "request", request)
    };
    let first = served.call("", request("/orders", json!({"body": "{\"a\":1,\"b\":2}"}))).await;
    assert_eq!(first.status, 201, "{}", first.body);
    let spelled_otherwise = json!({"body_base64": "eyJiIjoyLCAiYSI6MX0="});
    assert_eq!(served.call("", request("/orders", spelled_otherwise)).await.status, 201);
    // The same document, packed with gzip.
    let packed = json!({
        "headers": [["Content-Encoding", "gzip"]],
        "body_base64": "H4sIAAAAAAAAA6tWSlSyMtRRSlKyMqoFAIPOQc8NAAAA",
    });
    let packed = served.call("", request("/orders", packed)).await;
    assert_eq!(packed.status, 201, "{}", packed.body);
    let other = served.call("", request("/orders?x=1", json!({"body": "{\"a\":1,\"b\":2}"}))).await;
    assert_problem(&other, 422, "key-reused");
}

#[tokio::test]
async fn a_grant_is_renewed_released_and_given_up() {
    let served = serve();
    let grant = served.granted("1").await;
    let renewed = served.call("/renew", with(grant.clone(), "lease", json!("20s"))).await;
    assert_eq!(renewed.status, 200, "{}", renewed.body);
    assert!(renewed.body["lease_expires_in_ms"].as_u64().unwrap() > 19_000);
    let released = served.call("/release", grant.clone()).await;
    assert_eq!(released.body, json!({"state": "released"}));
    assert_problem(&served.call("/release", grant).await, 409, "stale-fence");

    let grant = served.granted("2").await;
    for _ in 0..2 {
        let unknown = served.call("/unknown", grant.clone()).await;
        assert_eq!(unknown.body, json!({"state": "indeterminate"}));
    }
    assert_problem(&served.claim("3").await, 409, "outcome-indeterminate");
    assert_problem(&served.claim("2").await, 409, "outcome-indeterminate");
}

#[tokio::test]
async fn an_ended_lease_is_indeterminate_or_taken_over() {
    let served = serve();
    served.granted("1").await;
    served.judge.advance(Millis::from_secs(11));
    assert_problem(&served.claim("2").await, 409, "outcome-indeterminate");

    let safe = |attempt: &str| with(claim_body(attempt), "operation", json!("safe"));
    let first = served.call("", safe("1")).await;
    served.judge.advance(Millis::from_secs(11));
    let second = served.call("", safe("2")).await;
    assert_eq!(second.status, 201, "{}", second.body);
    assert_eq!(second.body["attempt_no"], 2);
    assert!(second.body["fence"].as_u64() > first.body["fence"].as_u64());
    assert_problem(&served.call("", safe("1")).await, 409, "key-in-progress");

    let strict = with(safe("1"), "key", json!("strict"));
    let strict = |attempt: &str| {
        with(with(strict.clone(), "attempt", json!(attempt)), "on_unknown", json!("fail_closed"))
    };
    assert_eq!(served.call("", strict("1")).await.status, 201);
    served.judge.advance(Millis::from_secs(11));
    assert_problem(&served.call("", strict("2")).await, 409, "outcome-indeterminate");
}

#[tokio::test]
async fn a_tenant_never_sees_another_ones_record() {
    let served = serve();
    served.granted("1").await;
    assert_problem(&served.look_up("b").await, 404, "not-found");
    let same_key = served.send("POST", "/v1/claims", "b", claim_body("1").to_string()).await;
    assert_eq!(same_key.status, 201);
}

#[tokio::test]
async fn a_record_shows_its_state_times_and_revisions() {
    let served = serve();
    assert_problem(&served.look_up("a").await, 404, "not-found");
    let grant = served.granted("1").await;
    let claimed = served.look_up("a").await.body;
    assert_eq!(claimed["state"], "claimed");
    assert_eq!((&claimed["attempts"], &claimed["fence"]), (&json!(1), &grant["fence"]));
    assert_eq!(claimed["first_granted_at"], "2023-11-14T22:13:20.000Z");
    assert_eq!(claimed["lease_until"], "2023-11-14T22:13:30.000Z");
    assert!(claimed.get("revisions").is_none());

    served.call("/complete", with(grant, "response", json!({"status": 202}))).await;
    let revise = json!({"operation": "orders", "key": "k", "response": {"status": 200}});
    assert_eq!(served.call("/revise", revise).await.body, json!({"revision": 1}));
    let done = served.look_up("a").await.body;
    assert_eq!(done["state"], "completed");
    assert_eq!(done["revisions"][0]["response"]["status"], 202);
    assert_eq!(done["revisions"][1]["response"]["status"], 200);
    assert_eq!(done["expires_in_s"], 2 * 86_400);
    assert_eq!(served.claim("2").await.body["response"]["status"], 202, "the first outcome");

    served.judge.advance(Millis::from_secs(2 * 86_400));
    assert_problem(&served.look_up("a").await, 404, "not-found");
}

#[tokio::test]
async fn a_repeat_gets_what_its_operation_says() {
    let served = serve();
    for (operation, status, code, stale) in [
        ("orders", 202, None, false),
        ("latest", 200, None, false),
        ("fresh", 202, None, true),
        ("elsewhere", 409, Some("replay-redirect"), false),
    ] {
        let body = |attempt: &str| with(claim_body(attempt), "operation", json!(operation));
        let claimed = served.call("", body("1")).await.body;
        let grant = json!({"operation": operation, "key": "k",
            "fence": claimed["fence"], "token": claimed["token"]});
        let first = json!({"status": 202, "headers": [["location", "/orders/1"]]});
        assert_eq!(served.call("/complete", with(grant, "response", first)).await.status, 200);
        let revise = json!({"operation": operation, "key": "k", "response": {"status": 200}});
        assert_eq!(served.call("/revise", revise).await.status, 200);

        let repeat = served.call("", body("2")).await;
        assert_eq!(repeat.body["stale"].as_bool().unwrap_or(false), stale, "{operation}");
        match code {
            None => assert_eq!(repeat.body["response"]["status"], status, "{operation}"),
            Some(code) => {
                assert_problem(&repeat, status, code);
                assert_eq!(repeat.headers["location"], "/orders/1");
                assert!(repeat.headers.contains_key("idempotency-expires"));
            }
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_lost_is_asked_for_again() {
    let served = serve();
    served.judge.lose_answer();
    let claimed = served.claim("1").await;
    assert_eq!(claimed.status, 201, "{}", claimed.body);
    assert_eq!(served.judge.submitted(), 2);
    let grant = json!({"operation": "orders", "key": "k",
        "fence": claimed.body["fence"], "token": claimed.body["token"]});
    served.judge.lose_answer();
    let done = with(grant, "response", json!({"status": 200}));
    assert_eq!(served.call("/complete", done).await.status, 200);
}

#[tokio::test]
async fn an_old_copy_is_followed_by_a_new_one_at_once() {
    let served = serve();
    let grant = served.granted("1").await;
    served.call("/release", grant).await;
    served.judge.forget_index();
    let again = served.claim("2").await;
    assert_eq!(again.status, 201, "{}", again.body);
}

#[tokio::test]
async fn health_says_whether_claims_can_be_decided() {
    let served = serve();
    let alive = served.send("GET", "/healthz", "", String::new()).await;
    assert_eq!(alive.status, 200);
    assert_eq!(served.send("GET", "/readyz", "", String::new()).await.status, 200);
    served.judge.distrust_clock();
    let unready = served.send("GET", "/readyz", "", String::new()).await;
    assert_eq!(unready.status, 503);
    assert_eq!(unready.body["reason"], "the clock is not trusted");
    let metrics = served.send("GET", "/metrics", "", String::new()).await;
    assert_eq!(metrics.headers["content-type"], "text/plain; version=0.0.4; charset=utf-8");
}

#[tokio::test]
async fn operations_that_share_their_keys_are_told_apart_by_the_record() {
    let served = serve();
    let claim =
        |operation: &str, attempt: &str| with(claim_body(attempt), "operation", json!(operation));
    let granted = served.call("", claim("debit", "1")).await;
    assert_eq!(granted.status, 201);
    for attempt in ["1", "2"] {
        let other = served.call("", claim("credit", attempt)).await;
        assert_problem(&other, 422, "operation-mismatch");
    }
    assert_eq!(served.call("", claim("orders", "1")).await.status, 201, "it shares none");
    for asked in ["debit", "credit"] {
        let path = format!("/v1/claims?operation={asked}&key=k");
        let found = served.send("GET", &path, "a", String::new()).await;
        assert_eq!(found.body["operation"], "debit", "{}", found.body);
    }
    let complete = json!({
        "operation": "debit", "key": "k", "json": {},
        "fence": granted.body["fence"], "token": granted.body["token"],
    });
    assert_eq!(served.call("/complete", complete).await.status, 200);
    for (operation, status) in [("credit", 422), ("debit", 200)] {
        let revise = json!({"operation": operation, "key": "k", "response": {"status": 200}});
        assert_eq!(served.call("/revise", revise).await.status, status, "{operation}");
    }
}

#[tokio::test]
async fn a_credential_meets_another_ones_keys_only_where_they_are_not_isolated() {
    let served = serve();
    let claim = |operation| with(claim_body("1"), "operation", json!(operation)).to_string();
    for (operation, second) in [("orders", 409), ("isolated", 201)] {
        let first = served.send("POST", "/v1/claims", "a", claim(operation)).await;
        assert_eq!(first.status, 201, "{}", first.body);
        let other = served.send("POST", "/v1/claims", "c", claim(operation)).await;
        assert_eq!(other.status, second, "{operation}: {}", other.body);
    }
}
