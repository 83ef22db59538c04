//! Requests that make their own keys, of members of their bodies.

use std::io::Write;

use flate2::Compression;
use flate2::write::GzEncoder;

use super::API_KEY;
use super::client::{Got, Served, keyed};
use super::stub::{Step, Stub};

const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 7\r\n\r\n{\"n\":1}";

const ORDERS: &str = "[[operation]]\nmatch = \"POST /orders\"\nname = \"orders\"\n\
                      natural_key = [\"/order_id\", \"/sku\"]\nretention = \"forever\"\n";

fn answer(status: u16) -> Vec<Step> {
    vec![Step::Write(format!("HTTP/1.1 {status} X\r\ncontent-length: 0\r\n\r\n").into())]
}

async fn served() -> (Stub, Served) {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, ORDERS).await;
    (stub, served)
}

async fn post(served: &Served, body: &str) -> Got {
    let head = format!(
        "POST /orders HTTP/1.1\r\nauthorization: Bearer {API_KEY}\r\n\
         content-type: application/json"
    );
    served.ask(&head, body).await
}

#[tokio::test]
async fn a_request_is_the_same_where_its_members_are() {
    let (stub, served) = served().await;
    let first = post(&served, "{\"order_id\":7,\"sku\":\"a\",\"n\":1}").await;
    assert_eq!((first.status(), first.is_replay()), (201, false));
    for same in [
        "{\"order_id\":7,\"sku\":\"a\",\"n\":1}",
        "{ \"n\": 1, \"sku\": \"\\u0061\", \"order_id\": 7.0 }",
    ] {
        let again = post(&served, same).await;
        assert_eq!((again.status(), again.is_replay()), (201, true), "{same}");
        // It is kept for ever, which no number of seconds says.
        assert!(again.one("idempotency-expires").is_none());
    }
    let edited = post(&served, "{\"order_id\":7,\"sku\":\"a\",\"n\":2}").await;
    assert_eq!(edited.problem(), (422, "key-reused".into()));
    assert_eq!(stub.seen().len(), 1);
    for (count, other) in [
        "{\"order_id\":\"7\",\"sku\":\"a\"}",
        "{\"order_id\":8,\"sku\":\"a\"}",
        "{\"order_id\":\"a\",\"sku\":7}",
        "{\"order_id\":7,\"sku\":true}",
    ]
    .into_iter()
    .enumerate()
    {
        let got = post(&served, other).await;
        assert_eq!((got.status(), got.is_replay()), (201, false), "{other}");
        assert_eq!(stub.seen().len(), count + 2, "{other}");
    }
}

#[tokio::test]
async fn what_names_nothing_runs_nothing() {
    let (stub, served) = served().await;
    let long = format!("{{\"order_id\":\"{}\",\"sku\":1}}", "x".repeat(255));
    for (body, code) in [
        ("", "key-malformed"),
        ("order_id=7&sku=a", "key-malformed"),
        ("{\"order_id\":7,\"order_id\":8,\"sku\":1}", "key-malformed"),
        ("{\"order_id\":[7],\"sku\":1}", "key-malformed"),
        ("{\"order_id\":7,\"sku\":{}}", "key-malformed"),
        ("{\"order_id\":7,\"sku\":\"\"}", "key-malformed"),
        ("{\"order_id\":7}", "key-missing"),
        ("{\"order_id\":null,\"sku\":1}", "key-missing"),
        (long.as_str(), "key-too-long"),
    ] {
        // A key in a header does not help: it is ignored.
        for head in [keyed("POST /orders", "k"), keyed("POST /orders", "k").replace(": k", ":")] {
            let got = served.ask(&head, body).await;
            assert_eq!(got.problem(), (400, code.into()), "{body}");
            assert!(!String::from_utf8_lossy(&got.body).contains("xxx"), "no value is told");
        }
    }
    assert!(stub.seen().is_empty() && served.judge.kinds().is_empty());
}

#[tokio::test]
async fn a_key_in_a_header_is_ignored_and_its_client_told_so() {
    let (stub, served) = served().await;
    let body = "{\"order_id\":7,\"sku\":\"a\"}";
    for (index, key) in ["k", "other", "\"k", ""].into_iter().enumerate() {
        let head = keyed("POST /orders", key) + "\r\ncontent-type: application/json";
        let got = served.ask(&head, body).await;
        assert_eq!((got.status(), got.is_replay()), (201, index > 0), "{key}");
        assert_eq!(got.one("idempotency-status"), Some("ignored"), "{key}");
    }
    assert!(post(&served, body).await.one("idempotency-status").is_none());
    // The API gets a key of the gateway's own, the client's nowhere.
    let seen = &stub.seen()[0];
    assert_eq!(stub.seen().len(), 1);
    assert_eq!(seen.one("idempotency-key").map(str::len), Some(36));
    assert_eq!(seen.one("idempotency-attempt"), Some("1"));
    // Elsewhere the same header is a key, and no natural one has its name.
    let elsewhere = served.keyed("POST /other", "[7,\"a\"]", body).await;
    assert_eq!((elsewhere.status(), elsewhere.is_replay()), (400, false));
    let elsewhere = served.keyed("POST /other", "\"[7,\\\"a\\\"]\"", body).await;
    assert_eq!((elsewhere.status(), elsewhere.is_replay()), (201, false));
}

/// As a default it holds for every route; where only listed routes are protected, for these.
#[tokio::test]
async fn every_request_makes_its_key_where_keys_have_an_effect() {
    for (protect, status) in [("keyed", 400), ("listed", 201)] {
        let stub = Stub::answering(CREATED).await;
        let policy = format!(
            "protect = \"{protect}\"\n[defaults]\nnatural_key = [\"/id\"]\n\
             [[operation]]\nmatch = \"PATCH /orders\"\nname = \"orders\"\n"
        );
        let served = Served::new(&stub, &policy).await;
        let head = |line: &str| format!("{line} HTTP/1.1\r\nauthorization: Bearer {API_KEY}");
        assert_eq!(served.ask(&head("PATCH /orders"), "{}").await.status(), 400, "{protect}");
        let unlisted = served.ask(&head("POST /notes"), "{}").await;
        assert_eq!(unlisted.status(), status, "{protect}");
        assert!(unlisted.one("idempotency-status").is_none());
        let keyed = served.keyed("POST /notes", "k", "{}").await;
        assert_eq!((keyed.status(), keyed.one("idempotency-status")), (status, Some("ignored")));
        assert_eq!(served.ask(&head("PUT /orders"), "{}").await.status(), 201, "{protect}");
    }
}

#[tokio::test]
async fn a_packed_body_makes_the_key_of_what_it_unfolds_to() {
    let (stub, served) = served().await;
    let body = "{\"order_id\":7,\"sku\":\"a\"}";
    assert_eq!(post(&served, body).await.status(), 201);
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(body.as_bytes()).unwrap();
    let packed = encoder.finish().unwrap();
    let head = format!(
        "POST /orders HTTP/1.1\r\nauthorization: Bearer {API_KEY}\r\nhost: shop\r\n\
         content-type: application/json\r\ncontent-encoding: gzip\r\ncontent-length: {}\r\n\r\n",
        packed.len()
    );
    let mut client = served.client().await;
    client.send(&[head.as_bytes(), &packed].concat()).await;
    assert!(client.answer_to("POST").await.is_replay());
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn what_was_refused_may_be_corrected_under_the_same_key() {
    let refusals = [400, 402, 404, 409, 422, 429, 503];
    let scripts = refusals.map(answer).into_iter().chain([answer(201)]);
    let stub = Stub::scripted(scripts).await;
    let served = Served::new(&stub, ORDERS).await;
    for (index, status) in refusals.into_iter().enumerate() {
        let body = format!("{{\"order_id\":7,\"sku\":\"a\",\"try\":{index}}}");
        let got = post(&served, &body).await;
        assert_eq!((got.status(), got.is_replay()), (status, false));
    }
    let last = "{\"order_id\":7,\"sku\":\"a\",\"try\":\"last\"}";
    assert_eq!(post(&served, last).await.status(), 201);
    assert!(post(&served, last).await.is_replay());
    assert_eq!(stub.seen().len(), refusals.len() + 1);
    // Every attempt was another request to the API: it gets another key.
    let mut keys: Vec<_> =
        stub.seen().iter().map(|seen| seen.one("idempotency-key").unwrap().to_owned()).collect();
    keys.sort();
    keys.dedup();
    assert_eq!(keys.len(), refusals.len() + 1);
}

#[tokio::test]
async fn what_is_neither_a_success_nor_a_refusal_closes_the_key() {
    for status in [303, 500, 502] {
        let stub = Stub::scripted([answer(status), answer(201)]).await;
        let served = Served::new(&stub, ORDERS).await;
        let body = "{\"order_id\":7,\"sku\":\"a\"}";
        let unknown = post(&served, body).await.problem();
        assert_eq!(unknown, (504, "outcome-unknown".into()), "{status}");
        let closed = post(&served, body).await.problem();
        assert_eq!(closed, (409, "outcome-indeterminate".into()), "{status}");
        assert_eq!(stub.seen().len(), 1);
    }
}
