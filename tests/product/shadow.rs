//! Shadow mode: every request passes, whatever would have been said of it, and that is counted.

use ::http::Method;

use crate::support::cluster::Setup;
use crate::support::http::{Answer, Order, send};
use crate::support::policy::policy;
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run};

const SHADOW: &str = "
[[operation]]
match = \"POST /orders\"
name = \"orders\"
mode = \"shadow\"
lease = \"2s\"
max_execution = \"10s\"
";

/// The metric's line for a verdict.
fn series(verdict: &str, count: u32) -> String {
    let labels = format!("operation=\"orders\",verdict=\"{verdict}\"");
    format!("oncegate_gateway_shadow_total{{{labels}}} {count}")
}

fn assert_passed(answer: &Answer) {
    assert_eq!(answer.status, 201, "{answer:?}");
    let ours = |name: &str| name.starts_with("idempoten");
    assert!(!answer.headers.keys().any(|name| ours(name.as_str())), "{answer:?}");
}

#[test]
fn in_shadow_mode_everything_passes_and_what_would_have_been_said_is_counted() {
    run(async {
        let upstream = Upstream::start().await;
        let mut cluster = Setup::new(policy(&["a"], SHADOW), upstream.address).start().await;
        let (gateway, api) = (cluster.gateway(0), cluster.api(0));
        // It asks no shard: without a majority it does the same.
        (1..3).for_each(|node| cluster.kill(node));
        let order = Order::new(&fresh_key());
        for executions in 1..=3 {
            assert_passed(&order.try_post(gateway).await.unwrap());
            assert_eq!(upstream.executions(&order.key), executions);
        }
        let other = order.clone().body(r#"{"item":"another book"}"#);
        assert_passed(&other.try_post(gateway).await.unwrap());
        assert_passed(&Order::new("one, two").try_post(gateway).await.unwrap());
        assert_passed(&Order::new(&fresh_key()).tenant("nobody").try_post(gateway).await.unwrap());
        let authorization = format!("Bearer {}", crate::support::policy::api_key("a"));
        for body in ["{\"a\":1}", "{ \"a\": 1 }", "{\"a\":2}"] {
            let headers =
                [("authorization", authorization.as_str()), ("content-type", "application/json")];
            let keyless = send(gateway, Method::POST, "/orders", &headers, body).await;
            assert_passed(&keyless.unwrap());
        }
        // A body over the limit of protected requests is no reason to refuse it here.
        let large = order.clone().body(&format!("\"{}\"", "x".repeat(2 << 20)));
        assert_passed(&large.try_post(gateway).await.unwrap());
        let text = send(api, Method::GET, "/metrics", &[], "").await.unwrap().text();
        for (verdict, count) in [
            ("new", 1),
            ("replay", 2),
            ("key-reused", 1),
            ("key-malformed", 1),
            ("unauthenticated", 1),
            ("keyless", 2),
            ("keyless-twin", 1),
            ("body-too-large", 1),
        ] {
            let series = series(verdict, count);
            assert!(text.lines().any(|line| line == series), "{series}\n{text}");
        }
        let keys = [&order.key, "one, two"];
        assert!(!keys.iter().any(|key| cluster.log(0).contains(*key)), "a key is in the log");
        let terms = send(gateway, Method::GET, "/.well-known/idempotency", &[], "").await.unwrap();
        assert_eq!(terms.json()["operations"].as_array().unwrap().len(), 0);
        assert_eq!(terms.json()["not_honoured"]["operations"], serde_json::json!(["orders"]));
    });
}

#[test]
fn in_shadow_mode_a_key_is_known_by_what_became_of_its_request() {
    run(async {
        let upstream = Upstream::start().await;
        let cluster = Setup::single(policy(&["a"], SHADOW), upstream.address).start().await;
        let (gateway, api) = (cluster.gateway(0), cluster.api(0));
        // Declared not executed: the key stays free.
        let refused = Order::new(&fresh_key()).path("/orders?status=429");
        for _ in 0..2 {
            assert_eq!(refused.try_post(gateway).await.unwrap().status, 429);
        }
        // Nobody can tell.
        let unclear = Order::new(&fresh_key()).path("/orders?status=502");
        for _ in 0..2 {
            assert_eq!(unclear.try_post(gateway).await.unwrap().status, 502);
        }
        let slow = Order::new(&fresh_key()).path("/orders?delay=1500");
        let (first, second) = tokio::join!(slow.try_post(gateway), slow.try_post(gateway));
        assert_passed(&first.unwrap());
        assert_passed(&second.unwrap());
        let text = send(api, Method::GET, "/metrics", &[], "").await.unwrap().text();
        for (verdict, count) in [("new", 4), ("outcome-indeterminate", 1), ("key-in-progress", 1)] {
            let series = series(verdict, count);
            assert!(text.lines().any(|line| line == series), "{series}\n{text}");
        }
    });
}
