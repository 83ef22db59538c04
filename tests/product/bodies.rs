//! "Same key, same request?", over real HTTP.

use std::time::{Duration, Instant};

use crate::support::cluster::{Cluster, Setup};
use crate::support::http::{Answer, Order, raw};
use crate::support::policy::{SHORT_LEASES, api_key, policy};
use crate::support::upstream::Upstream;
use crate::support::{fresh_key, run};

async fn start() -> (Cluster, Upstream) {
    let upstream = Upstream::start().await;
    let cluster = Setup::single(policy(&["a"], SHORT_LEASES), upstream.address).start().await;
    (cluster, upstream)
}

fn assert_reused(answer: &Answer, what: &str) {
    assert_eq!((answer.status.as_u16(), answer.code().as_str()), (422, "key-reused"), "{what}");
    assert_eq!(answer.json()["executed"], "no", "{what}");
}

/// Sends `first` and then `second` under one key; whether they are the same request.
async fn same(cluster: &Cluster, upstream: &Upstream, first: &str, second: &str) -> bool {
    let order = Order::new(&fresh_key());
    let answer = order.clone().body(first).post(cluster.gateway(0)).await;
    assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, false), "{first}");
    let again = order.clone().body(second).post(cluster.gateway(0)).await;
    assert_eq!(upstream.executions(&order.key), 1, "{first} and {second}");
    if again.is_replay() {
        assert_eq!(again.body, answer.body);
        return true;
    }
    assert_reused(&again, &format!("{first} and {second}"));
    // What was refused changed nothing.
    assert!(order.body(first).post(cluster.gateway(0)).await.is_replay(), "{first}");
    false
}

#[test]
fn c37_c38_c40_numbers_and_documents_compare_as_a_reader_would() {
    run(async {
        let (cluster, upstream) = start().await;
        let digits = "1234567890123456789012345678901234567890";
        let others = "1234567890123456789012345678901234567891";
        let equal = [
            ("1", "1.0"),
            ("1e0", "10e-1"),
            ("0", "-0"),
            ("0.1", "1e-1"),
            ("[1,{\"b\":2,\"a\":\"\\u0041\"}]", " [ 1.0, {\"a\":\"A\",\"b\":2} ] "),
        ];
        for (one, other) in equal {
            let (one, other) = (format!("{{\"amount\":{one}}}"), format!("{{\"amount\":{other}}}"));
            assert!(same(&cluster, &upstream, &one, &other).await, "{one} and {other}");
        }
        let different = [
            ("9007199254740992", "9007199254740993"),
            ("18446744073709551616", "18446744073709551617"),
            (digits, others),
            ("1e400", "1e500"),
            ("1e-400", "1e-500"),
            ("1e999999999", "1e999999998"),
            ("\"1\"", "1"),
            ("null", "0"),
            ("[1,2]", "[2,1]"),
            ("\"\u{e9}\"", "\"e\u{301}\""),
        ];
        for (one, other) in different {
            let (one, other) = (format!("{{\"amount\":{one}}}"), format!("{{\"amount\":{other}}}"));
            assert!(!same(&cluster, &upstream, &one, &other).await, "{one} and {other}");
        }
        assert!(!same(&cluster, &upstream, r#"{"a":null}"#, "{}").await, "null and missing");
        // Two members of one name: two readers may read two things, so the bytes count.
        assert!(!same(&cluster, &upstream, r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#).await);
        assert!(!same(&cluster, &upstream, r#"{"a":1,"a":2}"#, r#"{"a":1, "a":2}"#).await);
    });
}

#[test]
fn c38_c40_hostile_documents_cost_neither_time_nor_a_crash() {
    run(async {
        let (cluster, upstream) = start().await;
        let nested = "[".repeat(10_000) + &"]".repeat(10_000);
        let open = "[".repeat(100_000);
        let objects = "{\"a\":".repeat(10_000) + "1" + &"}".repeat(10_000);
        let exponents = format!("[{}1e999999999]", "1e999999999,".repeat(20_000));
        for body in [nested, open, objects, exponents, "1e".to_owned() + &"9".repeat(100_000)] {
            let order = Order::new(&fresh_key()).body(&body);
            let begin = Instant::now();
            let first = order.post(cluster.gateway(0)).await;
            assert_eq!(first.status, 201, "{}", &body[..20]);
            assert!(order.post(cluster.gateway(0)).await.is_replay(), "{}", &body[..20]);
            // Far above what it takes, far below what an expanded number would take.
            assert!(begin.elapsed() < Duration::from_secs(10), "{}", &body[..20]);
            assert_reused(&order.body(&(body.clone() + " ]")).post(cluster.gateway(0)).await, "");
        }
        assert_eq!(upstream.ledger().len(), 5);
    });
}

#[test]
fn c44_every_node_compares_before_it_replays() {
    run(async {
        let upstream = Upstream::start().await;
        let setup = Setup::new(policy(&["a"], SHORT_LEASES), upstream.address);
        let cluster = setup.start().await;
        for _ in 0..4 {
            let order = Order::new(&fresh_key());
            assert_eq!(order.post(cluster.gateway(0)).await.status, 201);
            for node in 0..3 {
                assert!(order.post(cluster.gateway(node)).await.is_replay());
            }
            let other = order.clone().body(r#"{"item":"another book"}"#);
            for node in 0..3 {
                assert_reused(&other.post(cluster.gateway(node)).await, "a warm node");
            }
            assert_eq!(upstream.executions(&order.key), 1);
        }
    });
}

#[test]
fn c46_an_edited_request_is_refused_and_no_stored_value_is_told() {
    run(async {
        let (cluster, upstream) = start().await;
        let order = Order::new(&fresh_key()).body(r#"{"card":"4242424242424242","amount":10}"#);
        assert_eq!(order.post(cluster.gateway(0)).await.status, 201);
        let edited = order.clone().body(r#"{"card":"5555555555554444","amount":10}"#);
        let refused = edited.post(cluster.gateway(0)).await;
        assert_reused(&refused, "edited");
        assert!(!refused.text().contains("4242") && !refused.text().contains("5555"));
        assert!(order.post(cluster.gateway(0)).await.is_replay());
        assert_eq!(upstream.executions(&order.key), 1);
    });
}

/// Sends a `POST` with these lines about its body, and then these bytes.
async fn post_raw(cluster: &Cluster, key: &str, lines: &str, body: &[u8]) -> Answer {
    let head = format!(
        "POST /orders HTTP/1.1\r\nhost: api\r\nauthorization: Bearer {}\r\n\
         idempotency-key: {key}\r\nconnection: close\r\n{lines}\r\n",
        api_key("a")
    );
    raw(cluster.gateway(0), &[head.as_bytes(), body].concat()).await
}

#[test]
fn c47_the_framing_of_a_body_does_not_matter_and_its_limit_does() {
    run(async {
        let (cluster, upstream) = start().await;
        let key = fresh_key();
        let forms: [(&str, &[u8]); 4] = [
            ("", b""),
            ("content-length: 0\r\n", b""),
            ("transfer-encoding: chunked\r\n", b"0\r\n\r\n"),
            ("content-type: application/json\r\ncontent-length: 0\r\n", b""),
        ];
        for (index, (lines, body)) in forms.iter().enumerate() {
            let answer = post_raw(&cluster, &key, lines, body).await;
            assert_eq!((answer.status.as_u16(), answer.is_replay()), (201, index > 0), "{lines}");
        }
        let key = fresh_key();
        let chunked = b"3\r\n{\"a\r\n4;x=y\r\n\":1}\r\n0\r\n\r\n";
        let one = post_raw(&cluster, &key, "content-length: 7\r\n", b"{\"a\":1}").await;
        assert_eq!(one.status, 201);
        let other = post_raw(&cluster, &key, "transfer-encoding: chunked\r\n", chunked).await;
        assert!(other.is_replay(), "{other:?}");

        let executed = upstream.ledger().len();
        let key = fresh_key();
        let announced = post_raw(&cluster, &key, "content-length: 1048577\r\n", b"").await;
        let mut streamed = b"100001\r\n".to_vec();
        streamed.resize(streamed.len() + 0x10_0001, b'x');
        let hidden = post_raw(&cluster, &key, "transfer-encoding: chunked\r\n", &streamed).await;
        for answer in [announced, hidden] {
            let said = (answer.status.as_u16(), answer.code());
            assert_eq!((said.0, said.1.as_str()), (413, "body-too-large"));
        }
        assert_eq!(upstream.ledger().len(), executed);
        // Nothing was claimed: the key is as new.
        let fits = post_raw(&cluster, &key, "content-length: 2\r\n", b"{}").await;
        assert_eq!((fits.status.as_u16(), fits.is_replay()), (201, false));
    });
}
