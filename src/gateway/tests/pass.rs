//! Requests that are not protected.

use std::sync::Arc;

use tokio::net::TcpListener;
use tokio::sync::Notify;

use super::client::{Served, keyed, request};
use super::stub::{Step, Stub};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

const LISTED: &str = "protect = \"listed\"\n[[operation]]\nmatch = \"POST /orders\"\n";

#[tokio::test]
async fn c68_methods_without_an_effect_of_keys_pass_untouched() {
    let stub = Stub::answering(OK).await;
    let served = Served::new(&stub, "").await;
    for method in ["GET", "DELETE", "PUT", "OPTIONS"] {
        for _ in 0..2 {
            let got =
                served.ask(&format!("{method} /orders HTTP/1.1\r\nidempotency-key: k"), "").await;
            assert_eq!((got.status(), &got.body[..]), (200, &b"ok"[..]), "{method}");
            assert!(!got.is_replay());
            assert_eq!(got.one("idempotency-status"), None);
            assert_eq!(got.one("idempotency-expires"), None);
        }
    }
    assert_eq!(stub.seen().len(), 8);
    assert_eq!(stub.seen()[0].one("idempotency-key"), Some("k"));
    assert_eq!(stub.seen()[0].one("idempotency-fence"), None);
    assert!(served.judge.kinds().is_empty());
}

#[tokio::test]
async fn a_post_without_a_key_passes_every_time() {
    let stub = Stub::answering(OK).await;
    let served = Served::new(&stub, "").await;
    for _ in 0..2 {
        let got = served.ask("POST /orders HTTP/1.1\r\naccept-encoding: gzip", "{}").await;
        assert_eq!(got.status(), 200);
    }
    assert_eq!(stub.seen().len(), 2);
    assert_eq!(stub.seen()[0].one("accept-encoding"), Some("gzip"));
    assert_eq!(stub.seen()[0].body, b"{}");
}

#[tokio::test]
async fn c35_a_route_that_does_not_honour_keys_says_so() {
    let stub = Stub::answering(OK).await;
    let served = Served::new(&stub, LISTED).await;
    for key in ["k", ""] {
        let got = served.keyed("POST /elsewhere", key, "{}").await;
        assert_eq!((got.status(), got.one("idempotency-status")), (200, Some("ignored")));
    }
    let got = served.ask("POST /elsewhere HTTP/1.1", "{}").await;
    assert_eq!(got.one("idempotency-status"), None);
    assert!(served.judge.kinds().is_empty());
    let got = served.keyed("POST /orders", "k", "{}").await;
    assert_eq!((got.status(), got.one("idempotency-status")), (200, None));
    assert_eq!(served.judge.kinds().len(), 2);
}

#[tokio::test]
async fn bodies_flow_in_both_directions_before_they_are_whole() {
    let go = Arc::new(Notify::new());
    let chunked = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\none\r\n";
    let script = vec![
        Step::Write(chunked.into()),
        Step::Wait(go.clone()),
        Step::Write(b"3\r\ntwo\r\n0\r\n\r\n".to_vec()),
    ];
    let stub = Stub::always(script).await;
    let served = Served::new(&stub, "").await;
    let mut client = served.client().await;
    // A body far over the limit of protected requests.
    let body = "x".repeat(1 << 20);
    client.send(&request("PUT /files/1 HTTP/1.1", &body)).await;
    client.read_until("3\r\none\r\n").await;
    go.notify_one();
    client.read_until("3\r\ntwo\r\n0\r\n\r\n").await;
    assert_eq!(stub.seen()[0].body.len(), body.len());
}

#[tokio::test]
async fn a_head_request_keeps_the_length_that_a_get_would_have() {
    for (answer, length) in [
        ("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n", Some("5")),
        ("HTTP/1.1 200 OK\r\n\r\n", None),
    ] {
        let stub = Stub::answering(answer).await;
        let served = Served::new(&stub, "").await;
        let mut client = served.client().await;
        for _ in 0..2 {
            client.send(&request("HEAD /orders/1 HTTP/1.1", "")).await;
            let got = client.answer_to("HEAD").await;
            assert_eq!((got.status(), got.one("content-length")), (200, length));
        }
    }
}

#[tokio::test]
async fn an_upstream_that_cannot_be_reached_is_a_problem() {
    let closed = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = closed.local_addr().unwrap();
    drop(closed);
    let served = Served::before(address, "").await;
    let got = served.ask("GET /orders HTTP/1.1", "").await;
    assert_eq!(got.problem(), (502, "upstream-unreachable".into()));
}

#[tokio::test]
async fn c22_an_upstream_that_breaks_off_is_not_asked_again() {
    let ok = vec![Step::Write(OK.into())];
    let stub = Stub::scripted([ok.clone(), vec![Step::Close], ok]).await;
    let served = Served::new(&stub, "").await;
    served.ask("POST /orders HTTP/1.1", "{}").await;
    let got = served.ask("POST /orders HTTP/1.1", "{}").await;
    assert_eq!(got.problem(), (502, "outcome-unknown".into()));
    assert!(got.body.windows(18).any(|part| part == b"\"retryable\":false,"), "not without a key");
    assert_eq!(stub.seen().len(), 2);
}

#[tokio::test]
async fn a_client_cannot_forge_what_only_the_gateway_says() {
    let stub = Stub::answering(
        "HTTP/1.1 200 OK\r\nidempotent-replayed: true\r\nidempotency-outcome: final\r\n\
         connection: x-hop\r\nx-hop: 1\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    let operations = "[defaults]\nforward = { tenant_header = \"X-Tenant\" }\n";
    let served = Served::new(&stub, operations).await;
    let forged = "idempotency-fence: 9\r\nidempotency-attempt: 9\r\nx-tenant: other";
    let got = served.ask(&format!("GET / HTTP/1.1\r\n{forged}"), "").await;
    assert_eq!((got.is_replay(), got.one("idempotency-outcome")), (false, None));
    assert_eq!(got.one("x-hop"), None);
    for name in ["idempotency-fence", "idempotency-attempt", "x-tenant"] {
        assert_eq!(stub.seen()[0].one(name), None, "{name}");
    }
    served.ask(&format!("{}\r\n{forged}", keyed("POST /", "k")), "{}").await;
    assert_eq!(stub.seen()[1].one("x-tenant"), Some("acme"));
    assert_eq!(stub.seen()[1].one("idempotency-fence"), Some("1"));
}

#[tokio::test]
async fn an_answer_in_a_foreign_transfer_coding_is_not_passed_on() {
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n\
                  1\r\nx\r\n0\r\n\r\n";
    let stub = Stub::answering(answer).await;
    let served = Served::new(&stub, "").await;
    let got = served.ask("GET /orders HTTP/1.1", "").await;
    assert_eq!(got.problem(), (502, "outcome-unknown".into()));
}
