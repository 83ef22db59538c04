//! `Expect: 100-continue`: what the head alone decides is decided before a byte of the body.

use tokio::sync::Notify;

use std::sync::Arc;

use super::client::{Served, keyed};
use super::stub::{Step, Stub};

const CREATED: &str = "HTTP/1.1 201 Created\r\ncontent-length: 7\r\n\r\n{\"n\":1}";
const CONTINUE: &str = "HTTP/1.1 100 Continue\r\n\r\n";

fn expecting(line: &str, key: &str, length: usize) -> Vec<u8> {
    let head = keyed(line, key);
    format!("{head}\r\nhost: shop\r\nexpect: 100-continue\r\ncontent-length: {length}\r\n\r\n")
        .into_bytes()
}

#[tokio::test]
async fn c67_a_head_that_is_refused_is_refused_without_its_body() {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, "rate_limit = { per_second = 1, burst = 3 }\n").await;
    let line = "POST /orders";
    let unknown = String::from_utf8(expecting(line, "k", 9)).unwrap().replace("acme-key", "x");
    let mut over_the_rate = 0;
    for (bytes, status) in [
        (expecting(line, "a,b", 9), 400),
        (expecting(line, &"k".repeat(256), 9), 400),
        (expecting("TRACE /orders", "k", 9), 405),
        (unknown.into_bytes(), 401),
        (expecting(line, "k", 1 << 20), 413),
        (expecting(line, "k", 1 << 20), 413),
        (expecting(line, "k", 1 << 20), 413),
    ] {
        let mut client = served.client().await;
        client.send(&bytes).await;
        let got = client.answer_to(line).await;
        over_the_rate += usize::from(got.status() == 429);
        assert!(got.status() == status || got.status() == 429, "{status}: {}", got.head);
    }
    assert!(over_the_rate > 0, "the rate is looked at before the body as well");
    assert!(stub.seen().is_empty() && served.judge.kinds().is_empty());
}

#[tokio::test]
async fn c67_everything_else_is_told_to_go_on() {
    let go = Arc::new(Notify::new());
    let waiting = vec![Step::Wait(go.clone()), Step::Write(CREATED.into())];
    let stub = Stub::scripted([vec![Step::Write(CREATED.into())], waiting]).await;
    let served = Served::new(&stub, "").await;
    let ask = async |key: &str, body: &str| {
        let mut client = served.client().await;
        client.send(&expecting("POST /orders", key, body.len())).await;
        assert_eq!(client.read_until("\r\n\r\n").await, CONTINUE, "{key}");
        client.send(body.as_bytes()).await;
        client
    };
    let new = ask("new", "{}").await.answer_to("POST").await;
    assert_eq!((new.status(), new.is_replay()), (201, false));
    let completed = ask("new", "{}").await.answer_to("POST").await;
    assert_eq!((completed.status(), completed.is_replay()), (201, true));
    let other = ask("new", "[]").await.answer_to("POST").await;
    assert_eq!(other.problem(), (422, "key-reused".into()));
    let mut first = ask("in-flight", "{}").await;
    stub.requests(2).await;
    let twin = ask("in-flight", "{}").await.answer_to("POST").await;
    assert_eq!(twin.problem(), (409, "key-in-progress".into()));
    go.notify_one();
    assert_eq!(first.answer_to("POST").await.status(), 201);
    assert!(stub.seen().iter().all(|seen| seen.one("expect").is_none()));
}

/// Such a client has sent its body by the time it is refused: that must not be taken for the next
/// request.
#[tokio::test]
async fn c67_a_client_that_does_not_wait_is_understood() {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, "").await;
    let body = "POST /smuggled HTTP/1.1\r\nhost: shop\r\n\r\n";
    let mut client = served.client().await;
    let mut bytes = expecting("POST /orders", "k", body.len());
    bytes.extend_from_slice(body.as_bytes());
    client.send(&bytes).await;
    let mut got = client.answer_to("POST").await;
    if got.status() == 100 {
        got = client.answer_to("POST").await;
    }
    assert_eq!(got.status(), 201);
    let mut client = served.client().await;
    let mut bytes = expecting("POST /orders", "a,b", body.len());
    bytes.extend_from_slice(body.as_bytes());
    client.send(&bytes).await;
    let rest = client.until_closed().await;
    assert!(rest.starts_with("HTTP/1.1 400 "), "{rest}");
    assert_eq!(rest.matches("HTTP/1.1 ").count(), 1, "{rest}");
    assert_eq!(stub.seen().len(), 1);
}
