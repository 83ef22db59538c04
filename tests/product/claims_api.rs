//! The claims API from outside: a service that runs the work itself.

use std::net::SocketAddr;

use serde_json::{Value, json};

use crate::support::cluster::Setup;
use crate::support::http::{Answer, claims, send};
use crate::support::policy::{SHORT_LEASES, api_key, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run};

async fn call(api: SocketAddr, path: &str, body: Value) -> Answer {
    claims(api, "a", path, &body).await.unwrap()
}

fn claim(key: &str, attempt: &str) -> Value {
    json!({ "operation": "charge", "key": key, "attempt": attempt, "lease": "5s",
            "payload": { "amount": 1 } })
}

fn with_grant(key: &str, granted: &Value) -> Value {
    json!({ "operation": "charge", "key": key, "fence": granted["fence"],
            "token": granted["token"] })
}

#[test]
fn a_claim_completes_and_replays_on_every_node() {
    run(async {
        let upstream = Upstream::start().await;
        let setup = Setup::new(policy(&["a"], SHORT_LEASES), upstream.address);
        let cluster = setup.start().await;
        let key = fresh_key();
        let granted = call(cluster.api(0), "/v1/claims", claim(&key, "one")).await;
        assert_eq!(granted.status, 201, "{granted:?}");
        let granted = granted.json();
        assert_eq!(granted["state"], "claimed");
        assert_eq!(granted["attempt_no"], 1);

        let same = call(cluster.api(1), "/v1/claims", claim(&key, "one")).await;
        assert_eq!((same.status.as_u16(), &same.json()["fence"]), (201, &granted["fence"]));
        assert_eq!(same.json()["token"], granted["token"]);
        let other = call(cluster.api(2), "/v1/claims", claim(&key, "two")).await;
        assert_eq!((other.status.as_u16(), other.code().as_str()), (409, "key-in-progress"));

        let mut complete = with_grant(&key, &granted);
        complete["response"] = json!({ "status": 201, "headers": [["content-type", "text/plain"]],
                                       "body_base64": "aGVsbG8=" });
        for node in [0, 1] {
            let done = call(cluster.api(node), "/v1/claims/complete", complete.clone()).await;
            assert_eq!((done.status.as_u16(), &done.json()["state"]), (200, &json!("completed")));
        }
        for node in 0..3 {
            let replay = call(cluster.api(node), "/v1/claims", claim(&key, "three")).await;
            assert_eq!(replay.status, 200, "{replay:?}");
            let replay = replay.json();
            assert_eq!(replay["replayed"], true);
            assert_eq!(replay["response"]["body_base64"], "aGVsbG8=");
            let mut reused = claim(&key, "four");
            reused["payload"] = json!({ "amount": 2 });
            let reused = call(cluster.api(node), "/v1/claims", reused).await;
            assert_eq!((reused.status.as_u16(), reused.code().as_str()), (422, "key-reused"));
        }

        let stale = call(cluster.api(0), "/v1/claims/release", with_grant(&key, &granted)).await;
        assert_eq!((stale.status.as_u16(), stale.code().as_str()), (409, "stale-fence"));

        let authorization = format!("Bearer {}", api_key("a"));
        let target = format!("/v1/claims?operation=charge&key={key}");
        let headers = [("authorization", authorization.as_str())];
        let record = send(cluster.api(2), http::Method::GET, &target, &headers, "").await.unwrap();
        assert_eq!(record.status, 200, "{record:?}");
        assert_eq!(record.json()["state"], "completed");
    });
}

#[test]
fn a_released_claim_is_free_and_an_unknown_one_is_not() {
    run(async {
        let upstream = Upstream::start().await;
        let setup = Setup::new(policy(&["a"], SHORT_LEASES), upstream.address);
        let cluster = setup.start().await;
        let key = fresh_key();
        let first = call(cluster.api(0), "/v1/claims", claim(&key, "one")).await.json();
        let released = call(cluster.api(1), "/v1/claims/release", with_grant(&key, &first)).await;
        assert_eq!(released.status, 200, "{released:?}");
        let second = call(cluster.api(2), "/v1/claims", claim(&key, "two")).await;
        assert_eq!(second.status, 201, "{second:?}");
        let second = second.json();
        assert!(second["fence"].as_u64() > first["fence"].as_u64());
        let unknown = call(cluster.api(0), "/v1/claims/unknown", with_grant(&key, &second)).await;
        assert_eq!(unknown.status, 200, "{unknown:?}");
        let third = call(cluster.api(1), "/v1/claims", claim(&key, "three")).await;
        assert_eq!((third.status.as_u16(), third.code().as_str()), (409, "outcome-indeterminate"));
    });
}

/// The whole cluster once fell to such a call, and fell again after each restart.
#[test]
fn a_name_that_is_too_long_is_refused_and_every_node_lives() {
    run(async {
        let upstream = Upstream::start().await;
        let setup = Setup::new(policy(&["a"], SHORT_LEASES), upstream.address);
        let cluster = setup.start().await;
        for bytes in [9_000, 65_500, 70_000, 1_000_000] {
            let mut body = claim(&fresh_key(), "one");
            body["operation"] = format!("POST /{}", "a".repeat(bytes)).into();
            let mut grant = with_grant("k", &json!({ "fence": 1, "token": "0".repeat(32) }));
            grant["operation"] = body["operation"].clone();
            for (path, body) in [
                ("/v1/claims", &body),
                ("/v1/claims/release", &grant),
                ("/v1/claims/unknown", &grant),
            ] {
                let refused = call(cluster.api(0), path, body.clone()).await;
                assert_eq!(refused.status, 400, "{path} {bytes}: {refused:?}");
            }
        }
        for node in 0..3 {
            let granted = call(cluster.api(node), "/v1/claims", claim(&fresh_key(), "one")).await;
            assert_eq!(granted.status, 201, "{granted:?}");
        }
    });
}

#[test]
fn bad_requests_are_refused_with_a_reason() {
    run(async {
        let upstream = Upstream::start().await;
        let setup = Setup { nodes: 1, ..Setup::new(policy(&["a"], ""), upstream.address) };
        let cluster = setup.start().await;
        let good = claim("k", "one");
        let change = |field: &str, value: Value| {
            let mut body = good.clone();
            body[field] = value;
            body
        };
        let without = |field: &str| {
            let mut body = good.clone();
            body.as_object_mut().unwrap().remove(field);
            body
        };
        for body in [
            json!([]),
            json!("text"),
            without("operation"),
            without("key"),
            without("attempt"),
            without("payload"),
            change("lease", json!("0s")),
            change("lease", json!("-1s")),
            change("lease", json!(5)),
            change("lease", json!("10000h")),
            change("lease", json!("5 apples")),
            change("fingerprint", json!("both")),
            change("unknown_member", json!(1)),
            change("key", json!("")),
            change("key", json!("   ")),
            change("key", json!("\u{7}")),
            change("key", json!("x".repeat(10_000))),
            change("attempt", json!("")),
        ] {
            let answer = call(cluster.api(0), "/v1/claims", body.clone()).await;
            assert_eq!(answer.status, 400, "{body}: {answer:?}");
            assert!(!answer.code().is_empty(), "{body}: {answer:?}");
        }
    });
}
