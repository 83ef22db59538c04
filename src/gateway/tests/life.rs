//! The life of a protected request, from a client's bytes to the upstream's and back.

use super::client::{Served, keyed, request};
use super::judge::Kind;
use super::stub::{Step, Stub};

const CREATED: &str = "HTTP/1.1 201 Created\r\nlocation: /orders/1\r\ncontent-length: 7\r\n\r\n\
    {\"n\":1}";

/// An operation that must have a key, one that may, and one with its own name for the header.
const OPERATIONS: &str = r#"
[[operation]]
match = "POST /payments"
name = "payments"
required = true

[[operation]]
match = "POST /payments/{id}/refunds"
name = "refunds"

[[operation]]
match = "PATCH /payments/{id}"
name = "change"
headers = ["Idempotency-Key", "X-Request-Key"]
key_max = 10
"#;

fn created() -> Vec<Step> {
    vec![Step::Write(CREATED.into())]
}

async fn served() -> (Stub, Served) {
    let stub = Stub::always(created()).await;
    let served = Served::new(&stub, OPERATIONS).await;
    (stub, served)
}

#[tokio::test]
async fn a_post_with_a_key_runs_once() {
    let (stub, served) = served().await;
    let json = |key| format!("{}\r\ncontent-type: application/json", keyed("POST /payments", key));
    let first = served.ask(&json("k"), "{\"a\":1,\"b\":2}").await;
    assert_eq!((first.status(), first.is_replay()), (201, false));
    assert_eq!(first.one("content-length"), Some("7"));
    // The same JSON, spelled otherwise, and the same key, quoted.
    let again = served.ask(&json("\"k\""), "{ \"b\":2, \"a\":1.0 }").await;
    assert_eq!((again.status(), again.is_replay()), (201, true));
    assert_eq!(again.body, first.body);
    let other = served.ask(&json("k"), "{\"a\":1,\"b\":3}").await;
    assert_eq!(other.problem(), (422, "key-reused".into()));
    assert_eq!(stub.seen().len(), 1);
    assert_eq!(stub.seen()[0].one("x-forwarded-for"), Some("127.0.0.1"));
}

#[tokio::test]
async fn c25_without_a_tenant_nothing_protected_runs() {
    let (stub, served) = served().await;
    for credential in [
        "",
        "authorization: Bearer wrong\r\n",
        "authorization: Basic YTpi\r\n",
        "x-tenant: acme\r\n",
    ] {
        let head = format!("POST /payments HTTP/1.1\r\n{credential}idempotency-key: k");
        let got = served.ask(&head, "{}").await;
        assert_eq!(got.problem(), (401, "unauthenticated".into()), "{credential}");
    }
    // The tenant comes before the key: nobody learns what is wrong with a key without one.
    let got = served.ask("POST /payments HTTP/1.1\r\nidempotency-key:", "{}").await;
    assert_eq!(got.status(), 401);
    assert!(stub.seen().is_empty() && served.judge.kinds().is_empty());
}

#[tokio::test]
async fn c34_c35_a_key_that_cannot_be_read_is_an_error_also_where_keys_are_optional() {
    let (stub, served) = served().await;
    for line in ["POST /payments", "POST /payments/7/refunds", "POST /unlisted"] {
        for key in
            ["", "\"\"", "\"   \"", "\"open", "a,b", "a b", "\u{e9}", "k\r\nidempotency-key: k"]
        {
            let got = served.keyed(line, key, "{}").await;
            assert_eq!(got.problem(), (400, "key-malformed".into()), "{line} {key:?}");
        }
        let got = served.keyed(line, &"k".repeat(256), "{}").await;
        assert_eq!(got.problem(), (400, "key-too-long".into()), "{line}");
    }
    assert!(stub.seen().is_empty() && served.judge.kinds().is_empty());
}

#[tokio::test]
async fn c34_space_around_a_key_is_not_part_of_it() {
    let (stub, served) = served().await;
    served.keyed("POST /payments", "  k  ", "{}").await;
    assert!(served.keyed("POST /payments", "k", "{}").await.is_replay());
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn a_key_is_missing_only_where_one_is_required() {
    let (stub, served) = served().await;
    let head = "POST /payments HTTP/1.1\r\nauthorization: Bearer acme-key";
    assert_eq!(served.ask(head, "{}").await.problem(), (400, "key-missing".into()));
    assert!(stub.seen().is_empty());
    for _ in 0..2 {
        let head = "POST /payments/7/refunds HTTP/1.1";
        let got = served.ask(head, "{}").await;
        assert_eq!((got.status(), got.is_replay()), (201, false));
    }
    assert_eq!(stub.seen().len(), 2);
    assert!(served.judge.kinds().is_empty());
}

#[tokio::test]
async fn c31_two_key_headers_must_agree() {
    let (stub, served) = served().await;
    let both =
        |other: &str| format!("{}\r\nx-request-key: {other}", keyed("PATCH /payments/1", "k"));
    assert_eq!(served.ask(&both("\"k\""), "{}").await.status(), 201);
    assert_eq!(served.ask(&both("l"), "{}").await.problem(), (400, "key-malformed".into()));
    let head = "PATCH /payments/1 HTTP/1.1\r\nauthorization: Bearer acme-key\r\nX-REQUEST-KEY: k";
    assert!(served.ask(head, "{}").await.is_replay());
    assert_eq!(served.keyed("PATCH /payments/1", "12345678901", "{}").await.status(), 400);
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn c26_the_same_key_on_another_operation_or_method_is_another_key() {
    let (stub, served) = served().await;
    for line in ["POST /payments", "POST /payments/1/refunds", "PATCH /payments/1", "POST /other"] {
        let got = served.keyed(line, "k", "{}").await;
        assert_eq!((got.status(), got.is_replay()), (201, false), "{line}");
    }
    // One operation, another payment: the operation is the same, the request is not.
    let got = served.keyed("POST /payments/2/refunds", "k", "{}").await;
    assert_eq!(got.problem(), (422, "key-reused".into()));
    assert_eq!(stub.seen().len(), 4);
}

#[tokio::test]
async fn c28_an_escaped_slash_is_no_slash() {
    let (stub, served) = served().await;
    for line in ["POST /a/b", "POST /a%2Fb", "POST /a%2fb", "POST /a//b", "POST /a/b/"] {
        let got = served.keyed(line, "k", "{}").await;
        assert_eq!((got.status(), got.is_replay()), (201, false), "{line}");
    }
    assert_eq!(stub.seen().len(), 5);
}

#[tokio::test]
async fn c47_no_body_and_empty_bodies_are_the_same() {
    let (stub, served) = served().await;
    let line = "POST /payments";
    assert_eq!(served.keyed(line, "k", "").await.status(), 201);
    for framing in ["content-length: 0\r\n\r\n", "transfer-encoding: chunked\r\n\r\n0\r\n\r\n"] {
        let mut client = served.client().await;
        let head = format!("{}\r\nhost: shop\r\n{framing}", keyed(line, "k"));
        client.send(head.as_bytes()).await;
        assert!(client.answer_to(line).await.is_replay(), "{framing}");
    }
    assert_eq!(stub.seen().len(), 1);
    assert_eq!(stub.seen()[0].one("content-length"), Some("0"));
}

#[tokio::test]
async fn c47_a_chunked_body_is_its_bytes() {
    let (stub, served) = served().await;
    let line = "POST /payments";
    let mut client = served.client().await;
    let framing = "transfer-encoding: chunked\r\n\r\n3\r\n{\"a\r\n4\r\n\":1}\r\n0\r\n\r\n";
    client.send(format!("{}\r\nhost: shop\r\n{framing}", keyed(line, "k")).as_bytes()).await;
    assert_eq!(client.answer_to(line).await.status(), 201);
    assert!(served.keyed(line, "k", "{\"a\":1}").await.is_replay());
    assert_eq!(stub.seen()[0].body, b"{\"a\":1}");
    assert_eq!(stub.seen()[0].one("transfer-encoding"), None);
}

#[tokio::test]
async fn c47_a_body_over_the_limit_claims_nothing() {
    let (stub, served) = served().await;
    let line = "POST /payments";
    let long = "x".repeat((64 << 10) + 1);
    assert_eq!(served.keyed(line, "k", &long).await.problem(), (413, "body-too-large".into()));
    let mut client = served.client().await;
    let chunk = format!("{:x}\r\n{}\r\n", 1 << 15, "x".repeat(1 << 15));
    let framing = format!("transfer-encoding: chunked\r\n\r\n{chunk}{chunk}1\r\nx\r\n");
    client.send(format!("{}\r\nhost: shop\r\n{framing}", keyed(line, "k")).as_bytes()).await;
    assert_eq!(client.answer_to(line).await.problem(), (413, "body-too-large".into()));
    assert!(stub.seen().is_empty() && served.judge.kinds().is_empty());
    let most = "x".repeat(64 << 10);
    assert_eq!(served.keyed(line, "k", &most).await.status(), 201);
}

#[tokio::test]
async fn c67_expect_is_decided_by_the_head() {
    let (stub, served) = served().await;
    let line = "POST /payments";
    let expecting = |key: &str, length: usize| {
        let head = keyed(line, key);
        format!("{head}\r\nhost: shop\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n")
    };
    for (key, length, refused) in [("", 2, 400), ("k", 1 << 30, 413)] {
        let mut client = served.client().await;
        client.send(expecting(key, length).as_bytes()).await;
        assert_eq!(client.answer_to(line).await.status(), refused);
    }
    for is_replay in [false, true] {
        let mut client = served.client().await;
        client.send(expecting("k", 2).as_bytes()).await;
        assert_eq!(client.read_until("\r\n\r\n").await, "HTTP/1.1 100 Continue\r\n\r\n");
        client.send(b"{}").await;
        let got = client.answer_to(line).await;
        assert_eq!((got.status(), got.is_replay()), (201, is_replay));
    }
    // A client that does not wait for the 100.
    let mut client = served.client().await;
    client.send(format!("{}{{}}", expecting("k", 2)).as_bytes()).await;
    let mut got = client.answer_to(line).await;
    if got.status() == 100 {
        got = client.answer_to(line).await;
    }
    assert!(got.is_replay());
    assert_eq!(stub.seen().len(), 1);
    assert_eq!(stub.seen()[0].one("expect"), None);
}

#[tokio::test]
async fn c17_a_client_that_leaves_gets_its_answer_when_it_comes_back() {
    let go = std::sync::Arc::new(tokio::sync::Notify::new());
    let script = vec![Step::Wait(go.clone()), Step::Write(CREATED.into())];
    let stub = Stub::always(script).await;
    let served = Served::new(&stub, OPERATIONS).await;
    let mut client = served.client().await;
    client.send(&request(&keyed("POST /payments", "k"), "{}")).await;
    stub.requests(1).await;
    client.leave();
    go.notify_one();
    served.judge.until(Kind::Complete, 1).await;
    served.judge.until_record(|record| record.due_at().is_some()).await;
    let again = served.keyed("POST /payments", "k", "{}").await;
    assert_eq!((again.status(), again.is_replay()), (201, true));
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn a_head_that_hides_what_was_judged_is_refused() {
    let (stub, served) = served().await;
    for extra in [
        "connection: idempotency-key",
        "connection: close, Content-Type",
        "connection: authorization",
        "content-type: text/plain\r\ncontent-type: application/json",
    ] {
        let head = format!("{}\r\n{extra}", keyed("POST /payments", "k"));
        assert_eq!(served.ask(&head, "{}").await.problem(), (400, "invalid-request".into()));
    }
    let hidden = served.ask("GET / HTTP/1.1\r\nconnection: close, host", "").await;
    assert_eq!(hidden.problem(), (400, "invalid-request".into()));
    assert!(stub.seen().is_empty() && served.judge.kinds().is_empty());
}

#[tokio::test]
async fn c53_an_answer_without_a_body_replays_without_a_length() {
    let stub = Stub::answering("HTTP/1.1 204 No Content\r\n\r\n").await;
    let served = Served::new(&stub, OPERATIONS).await;
    let mut client = served.client().await;
    for is_replay in [false, true, true] {
        client.send(&request(&keyed("POST /payments", "k"), "{}")).await;
        let got = client.answer_to("POST").await;
        assert_eq!((got.status(), got.is_replay()), (204, is_replay));
        assert_eq!((got.one("content-length"), got.one("transfer-encoding")), (None, None));
    }
    assert_eq!(stub.seen().len(), 1);
}
