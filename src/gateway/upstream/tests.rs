use std::sync::atomic::{AtomicU64, Ordering};

use http_body_util::BodyExt;
use tokio::net::TcpListener;
use tokio::time::timeout;

use super::*;
use crate::gateway::tests::stub::{PATIENCE, Step, Stub};

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

fn uri(address: std::net::SocketAddr) -> Uri {
    format!("http://{address}").parse().unwrap()
}

/// An upstream whose boot clock stands at zero.
fn upstream(stub: &Stub) -> Upstream {
    Upstream::new(&uri(stub.address), None, Arc::new(|| Duration::ZERO))
}

fn post(body: &str) -> Request<Body> {
    Request::post("/orders").header("host", "shop").body(Body::from(body.to_owned())).unwrap()
}

async fn exchange(upstream: &Upstream) -> Result<String, SendError> {
    let connection = upstream.connection().await.unwrap();
    let answer = connection.send(upstream, post("{}"), None).await?;
    let body = answer.into_body().collect().await.map_err(SendError::Lost)?;
    Ok(String::from_utf8(body.to_bytes().to_vec()).unwrap())
}

#[tokio::test]
async fn a_connection_serves_one_request_after_another() {
    let stub = Stub::answering(OK).await;
    let upstream = upstream(&stub);
    for _ in 0..3 {
        assert_eq!(exchange(&upstream).await.unwrap(), "ok");
        assert_eq!(upstream.idle(), 1);
    }
    assert_eq!((stub.connections(), stub.seen().len()), (1, 3));
}

#[tokio::test]
async fn an_answer_that_is_not_read_to_its_end_costs_its_connection() {
    let stub = Stub::answering("HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nab").await;
    let upstream = upstream(&stub);
    let connection = upstream.connection().await.unwrap();
    let answer = connection.send(&upstream, post("{}"), None).await.unwrap();
    drop(answer);
    assert_eq!(upstream.idle(), 0);
    stub.closed(1).await;
}

#[tokio::test]
async fn a_refused_connection_is_unreachable() {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let upstream = Upstream::new(&uri(address), None, Arc::new(|| Duration::ZERO));
    assert!(matches!(upstream.connection().await, Err(Unreachable::Connect(_))));
}

#[tokio::test]
async fn an_unknown_name_is_unreachable() {
    let name = "http://no-such-host.invalid:1".parse().unwrap();
    let upstream = Upstream::new(&name, None, Arc::new(|| Duration::ZERO));
    assert!(upstream.connection().await.is_err());
}

/// The upstream has read the request and closes: nobody may send it again.
#[tokio::test]
async fn c22_no_resend_on_dead_keepalive() {
    let answered = vec![Step::Write(OK.into())];
    let stub = Stub::scripted([answered.clone(), vec![Step::Close], answered]).await;
    let upstream = upstream(&stub);
    exchange(&upstream).await.unwrap();
    assert!(matches!(exchange(&upstream).await, Err(SendError::Lost(_))));
    assert_eq!(stub.seen().len(), 2, "the second request came once");
    assert_eq!(stub.connections(), 1);
}

#[tokio::test]
async fn a_pooled_connection_that_the_upstream_closed_is_not_used() {
    let stub = Stub::always(vec![Step::Write(OK.into()), Step::Close]).await;
    let upstream = upstream(&stub);
    for _ in 0..3 {
        assert_eq!(exchange(&upstream).await.unwrap(), "ok");
        stub.closed(stub.connections()).await;
    }
    assert_eq!((stub.connections(), stub.seen().len()), (3, 3));
}

/// A connection that dies in our hands before it takes a byte gives the request back.
#[tokio::test]
async fn a_dead_connection_that_took_no_byte_proves_that_nothing_was_sent() {
    let go = Arc::new(tokio::sync::Notify::new());
    let script = vec![Step::Write(OK.into()), Step::Wait(go.clone()), Step::Close];
    let stub = Stub::always(script).await;
    let upstream = upstream(&stub);
    exchange(&upstream).await.unwrap();
    let connection = upstream.connection().await.unwrap();
    assert!(connection.pooled);
    go.notify_one();
    let died = async {
        while !connection.sender.is_closed() {
            tokio::task::yield_now().await;
        }
    };
    timeout(PATIENCE, died).await.unwrap();
    match connection.send(&upstream, post("{}"), None).await {
        Err(SendError::Unsent { request: Some(_), pooled: true, .. }) => {}
        other => panic!("{:?}", other.map(|answer| answer.status())),
    }
    assert_eq!(stub.seen().len(), 1);
}

#[tokio::test]
async fn a_permission_that_has_lapsed_sends_nothing() {
    let stub = Stub::answering(OK).await;
    let now_ms = Arc::new(AtomicU64::new(0));
    let clock = now_ms.clone();
    let upstream = Upstream::new(
        &uri(stub.address),
        None,
        Arc::new(move || Duration::from_millis(clock.load(Ordering::Relaxed))),
    );
    let connection = upstream.connection().await.unwrap();
    now_ms.store(250, Ordering::Relaxed);
    let sent = connection.send(&upstream, post("{}"), Some(Duration::from_millis(250))).await;
    match sent {
        Err(SendError::Unsent { pooled: false, .. }) => {}
        other => panic!("{:?}", other.map(|answer| answer.status())),
    }
    stub.closed(1).await;
    assert!(stub.seen().is_empty());
}

#[tokio::test]
async fn idle_connections_are_closed_when_they_become_old() {
    let stub = Stub::answering(OK).await;
    let upstream = upstream(&stub);
    exchange(&upstream).await.unwrap();
    stub.closed(1).await;
    assert_eq!(upstream.idle(), 0);
    exchange(&upstream).await.unwrap();
    assert_eq!(stub.connections(), 2);
}

#[tokio::test]
async fn trailers_are_dropped() {
    let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x-sum\r\n\r\n\
        2\r\nok\r\n0\r\nx-sum: 1\r\n\r\n";
    let stub = Stub::answering(answer).await;
    let upstream = upstream(&stub);
    let connection = upstream.connection().await.unwrap();
    let answer = connection.send(&upstream, post("{}"), None).await.unwrap();
    let collected = answer.into_body().collect().await.unwrap();
    assert!(collected.trailers().is_none());
    assert_eq!(collected.to_bytes(), "ok");
    assert_eq!(upstream.idle(), 1);
}

#[tokio::test]
async fn a_head_without_end_is_cut_off() {
    let mut endless = b"HTTP/1.1 200 OK\r\n".to_vec();
    endless.extend(format!("x: {}\r\n", "a".repeat(1000)).repeat(200).into_bytes());
    let stub = Stub::always(vec![Step::Write(endless)]).await;
    assert!(matches!(exchange(&upstream(&stub)).await, Err(SendError::Lost(_))));
}

#[test]
fn an_upstream_has_a_host_and_a_port() {
    for (text, host, port) in [
        ("http://127.0.0.1:9999", "127.0.0.1", 9999),
        ("http://api.internal", "api.internal", 80),
        ("http://[::1]:8080/", "::1", 8080),
    ] {
        let upstream = Upstream::new(&text.parse().unwrap(), None, Arc::new(|| Duration::ZERO));
        assert_eq!((upstream.shared.host.as_str(), upstream.shared.port), (host, port), "{text}");
    }
}
