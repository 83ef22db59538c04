//! How keys are read, over real HTTP: spellings, limits, and what has no key at all.

use http::Method;

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, Order, raw, send};
use crate::support::policy::{SHORT_LEASES, api_key, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run};

const OPERATIONS: &str = r#"
[[operation]]
match = "POST /payments"
required = true
[[operation]]
match = "POST /short"
key_max = 64
"#;

async fn start() -> (Cluster, Upstream) {
    let upstream = Upstream::start().await;
    let rest = [SHORT_LEASES, OPERATIONS].concat();
    let cluster = Setup::single(policy(&["a"], &rest), upstream.address).start().await;
    (cluster, upstream)
}

/// Sends a `POST` with exactly these lines about keys.
async fn post(cluster: &Cluster, path: &str, lines: &[(&str, &[u8])]) -> Answer {
    let mut head = format!(
        "POST {path} HTTP/1.1\r\nhost: api\r\nauthorization: Bearer {}\r\n\
         content-type: application/json\r\ncontent-length: 2\r\nconnection: close\r\n",
        api_key("a")
    )
    .into_bytes();
    for (name, value) in lines {
        head.extend_from_slice(name.as_bytes());
        head.extend_from_slice(b": ");
        head.extend_from_slice(value);
        head.extend_from_slice(b"\r\n");
    }
    head.extend_from_slice(b"\r\n{}");
    raw(cluster.gateway(0), &head).await
}

fn assert_refused(answer: &Answer, code: &str, what: &str) {
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (400, code), "{what}");
    assert_eq!(answer.json()["executed"], "no", "{what}");
}

#[test]
fn c31_a_header_sent_twice_is_never_a_new_key() {
    run(async {
        let (cluster, upstream) = start().await;
        let key = fresh_key();
        let twice = [("Idempotency-Key", key.as_bytes()), ("Idempotency-Key", key.as_bytes())];
        assert_refused(&post(&cluster, "/orders", &twice).await, "key-malformed", "twice");
        let joined = format!("{key}, {key}");
        for joined in [joined.as_str(), &joined.replace(' ', ""), &format!("\"{key}\", \"{key}\"")]
        {
            let lines = [("Idempotency-Key", joined.as_bytes())];
            assert_refused(&post(&cluster, "/orders", &lines).await, "key-malformed", joined);
        }
        assert!(upstream.ledger().is_empty());
        let once = [("Idempotency-Key", key.as_bytes())];
        assert_eq!(post(&cluster, "/orders", &once).await.status, 201);
        assert!(post(&cluster, "/orders", &once).await.is_replay());
        assert_eq!(upstream.executions(&key), 1);
    });
}

#[test]
fn c32_keys_are_limited_in_bytes_and_quotes_do_not_count() {
    run(async {
        let (cluster, upstream) = start().await;
        for (path, limit) in [("/orders", 255), ("/short", 64)] {
            for length in [limit - 1, limit] {
                let bare = format!("{:0>length$}", rand::random::<u64>());
                let quoted = format!("\"{bare}\"");
                let first = post(&cluster, path, &[("Idempotency-Key", bare.as_bytes())]).await;
                assert_eq!(first.status, 201, "{length} bytes");
                let again = post(&cluster, path, &[("Idempotency-Key", quoted.as_bytes())]).await;
                assert!(again.is_replay(), "{length} bytes, quoted");
            }
            let long = "k".repeat(limit + 1);
            for long in [long.clone(), format!("\"{long}\"")] {
                let answer = post(&cluster, path, &[("Idempotency-Key", long.as_bytes())]).await;
                assert_refused(&answer, "key-too-long", &long);
            }
        }
        assert_eq!(upstream.ledger().len(), 4);
    });
}

#[test]
fn c34_an_empty_key_is_malformed_and_outer_space_does_not_count() {
    run(async {
        let (cluster, upstream) = start().await;
        for path in ["/orders", "/payments"] {
            for empty in ["", " ", "\t", "\"\"", "\"   \""] {
                let lines = [("Idempotency-Key", empty.as_bytes())];
                let answer = post(&cluster, path, &lines).await;
                assert_refused(&answer, "key-malformed", empty);
            }
        }
        assert!(upstream.ledger().is_empty());
        let key = fresh_key();
        let spaced = format!("  {key} \t");
        for (spelled, replayed) in [(spaced.as_str(), false), (key.as_str(), true)] {
            let answer =
                post(&cluster, "/orders", &[("Idempotency-Key", spelled.as_bytes())]).await;
            assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, replayed));
        }
        assert_refused(&post(&cluster, "/payments", &[]).await, "key-missing", "required");
        assert_eq!(post(&cluster, "/orders", &[]).await.status, 201, "optional");
        assert_eq!(upstream.ledger().len(), 2);
    });
}

#[test]
fn c35_an_invalid_key_is_an_error_where_keys_are_optional_too() {
    run(async {
        let (cluster, upstream) = start().await;
        let invalid: [&[u8]; 8] = [
            b"a b",
            b"a,b",
            b"\"open",
            b"\"a\"b",
            b"\"a\\x\"",
            b"caf\xc3\xa9",
            b"\xff\xfe",
            b"\"tab\there\"",
        ];
        for key in invalid {
            let answer = post(&cluster, "/orders", &[("Idempotency-Key", key)]).await;
            assert_refused(&answer, "key-malformed", &String::from_utf8_lossy(key));
        }
        // What no HTTP header may hold is refused before anybody looks for keys.
        for key in [&b"a\x7f"[..], b"a\x01b", b"a\x00"] {
            let answer = post(&cluster, "/orders", &[("Idempotency-Key", key)]).await;
            assert_refused(&answer, "invalid-request", &String::from_utf8_lossy(key));
        }
        assert!(upstream.ledger().is_empty());
    });
}

#[test]
fn c35_a_route_that_does_not_honour_keys_says_so() {
    run(async {
        let upstream = Upstream::start().await;
        let rest = format!("protect = \"listed\"\n{}", policy(&["a"], OPERATIONS));
        let cluster = Setup::single(rest, upstream.address).start().await;
        for key in ["k", "two words"] {
            let answer = post(&cluster, "/other", &[("Idempotency-Key", key.as_bytes())]).await;
            assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, false));
            assert_eq!(answer.header("idempotency-status"), Some("ignored"));
        }
        assert_eq!(post(&cluster, "/other", &[]).await.header("idempotency-status"), None);
        assert_eq!(upstream.ledger().len(), 3);
    });
}

#[test]
fn c68_other_methods_pass_untouched_and_post_is_not_patch() {
    run(async {
        let (cluster, upstream) = start().await;
        let authorization = format!("Bearer {}", api_key("a"));
        let key = fresh_key();
        let ask = |method: Method| {
            let headers = [("authorization", authorization.as_str()), ("idempotency-key", &key)];
            let headers = headers.map(|(name, value)| (name.to_owned(), value.to_owned()));
            let gateway = cluster.gateway(0);
            async move {
                let headers: Vec<_> =
                    headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
                send(gateway, method, "/orders", &headers, "").await.unwrap()
            }
        };
        for method in [Method::GET, Method::HEAD, Method::OPTIONS] {
            let before = upstream.reads();
            for _ in 0..2 {
                let answer = ask(method.clone()).await;
                assert_eq!((answer.status.as_u16(), answer.is_replay()), (200, false));
                assert_eq!(answer.header("idempotency-expires"), None);
            }
            assert_eq!(upstream.reads(), before + 2, "{method}");
        }
        for method in [Method::PUT, Method::DELETE] {
            for _ in 0..2 {
                assert!(!ask(method.clone()).await.is_replay(), "{method}");
            }
        }
        assert_eq!(upstream.ledger().len(), 4);
        for (method, replayed) in
            [(Method::POST, false), (Method::PATCH, false), (Method::POST, true)]
        {
            let answer = ask(method).await;
            assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, replayed));
        }
        assert_eq!(upstream.ledger().len(), 6);
        assert_eq!(ask(Method::TRACE).await.status, 405);
    });
}

#[test]
fn c70_the_case_of_a_header_name_does_not_matter() {
    run(async {
        let (cluster, upstream) = start().await;
        let key = fresh_key();
        for (index, name) in
            ["IDEMPOTENCY-KEY", "idempotency-key", "Idempotency-Key", "iDEMPOTENCY-kEY"]
                .iter()
                .enumerate()
        {
            let answer = post(&cluster, "/orders", &[(name, key.as_bytes())]).await;
            assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, index > 0), "{name}");
        }
        // The case of a key does.
        let upper = key.to_uppercase();
        let other = post(&cluster, "/orders", &[("Idempotency-Key", upper.as_bytes())]).await;
        assert_eq!((other.status.as_u16(), other.is_replay()), (201, false));
        assert_eq!(upstream.executions(&key), 1);
    });
}

#[test]
fn c26_one_key_on_two_routes_is_two_keys() {
    run(async {
        let (cluster, upstream) = start().await;
        let order = Order::new(&fresh_key());
        for path in ["/orders", "/orders/1/cancel"] {
            let order = order.clone().path(path);
            assert!(!order.post(cluster.gateway(0)).await.is_replay(), "{path}");
            assert!(order.post(cluster.gateway(0)).await.is_replay(), "{path}");
        }
        assert_eq!(upstream.executions(&order.key), 2);
    });
}
