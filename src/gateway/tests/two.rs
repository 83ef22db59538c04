//! Clients that speak HTTP/2.

use std::sync::Arc;

use axum::body::Body;
use http::Request;
use hyper::client::conn::http2::{SendRequest, handshake};
use hyper_util::rt::{TokioExecutor, TokioIo};
use protocol::record::{Record, State};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::client::Served;
use super::stub::{Step, Stub};

const CREATED: &str = "HTTP/1.1 201 Created\r\nconnection: x-hop\r\nx-hop: 1\r\n\
    content-length: 7\r\n\r\n{\"n\":1}";

async fn client(served: &Served) -> SendRequest<Body> {
    let stream = TcpStream::connect(served.address).await.unwrap();
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn post(key: &str) -> Request<Body> {
    Request::post("http://shop/orders?a=1")
        .header("authorization", "Bearer acme-key")
        .header("Idempotency-KEY", key)
        .body(Body::from("{}"))
        .unwrap()
}

fn is_done(record: &Record) -> bool {
    matches!(record, Record::Live(generation) if matches!(generation.state, State::Done { .. }))
}

/// Both versions name the same record, and see the same request in it.
#[tokio::test]
async fn c70_a_key_is_one_key_in_every_version_of_http() {
    let stub = Stub::answering(CREATED).await;
    let served = Served::new(&stub, "").await;
    let mut client = client(&served).await;
    let first = client.send_request(post("k")).await.unwrap();
    assert_eq!(first.status(), 201);
    assert!(!first.headers().contains_key("x-hop"));
    let old = served.keyed("POST /orders?a=1", "k", "{}").await;
    assert_eq!((old.status(), old.is_replay()), (201, true));
    let again = client.send_request(post("k")).await.unwrap();
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    let seen = stub.seen();
    assert_eq!((seen.len(), seen[0].one("host")), (1, Some("shop")));
    assert!(seen[0].head.starts_with("POST /orders?a=1 HTTP/1.1\r\n"), "{}", seen[0].head);
}

#[tokio::test]
async fn c17_a_client_that_resets_its_request_changes_nothing() {
    let go = Arc::new(Notify::new());
    let script = vec![Step::Wait(go.clone()), Step::Write(CREATED.into())];
    let stub = Stub::always(script).await;
    let served = Served::new(&stub, "").await;
    let mut client = client(&served).await;
    let request = tokio::spawn(client.send_request(post("k")));
    stub.requests(1).await;
    // Dropping the future sends RST_STREAM and leaves the connection open.
    request.abort();
    assert!(request.await.unwrap_err().is_cancelled());
    let twin = client.send_request(post("k")).await.unwrap();
    assert_eq!(twin.status(), 409, "it goes on");
    go.notify_one();
    served.judge.until(super::judge::Kind::Complete, 1).await;
    served.judge.until_record(is_done).await;
    let again = client.send_request(post("k")).await.unwrap();
    assert_eq!(again.headers()["idempotent-replayed"], "true");
    assert_eq!(stub.seen().len(), 1);
}
