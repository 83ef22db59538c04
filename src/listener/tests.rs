//! Raw bytes over TCP against a tiny router.

use std::sync::Arc;

use axum::body::Bytes;
use axum::routing::{get, post};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use super::*;
use crate::shutdown::{Stopper, channel};

/// How long a test waits for what must come.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);

pub(super) struct Served {
    pub(super) addr: SocketAddr,
    pub(super) stopper: Stopper,
    pub(super) server: JoinHandle<bool>,
    /// Lets `/wait` answer.
    pub(super) go: Arc<Notify>,
    /// Says that `/wait` was reached.
    pub(super) reached: Arc<Notify>,
}

pub(super) async fn serve_for_test(drain: Duration) -> Served {
    let (go, reached) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (wait_go, wait_reached) = (Arc::clone(&go), Arc::clone(&reached));
    let router = Router::new()
        .route("/echo", post(|body: Bytes| async move { body }))
        .route("/fields", get(fields))
        .route("/panic", get(|| async { panic!("planted") as &'static str }))
        .route(
            "/wait",
            get(move || async move {
                wait_reached.notify_one();
                wait_go.notified().await;
                "waited"
            }),
        );
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap();
    let (stopper, stop) = channel();
    let server = tokio::spawn(serve(listener, router, stop, drain));
    Served { addr, stopper, server, go, reached }
}

/// The `Host` and the cookies that a handler sees.
async fn fields(headers: axum::http::HeaderMap) -> String {
    let all = |name| -> Vec<String> {
        let lines = headers.get_all(name).iter();
        lines.map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned()).collect()
    };
    format!("{:?} {:?}", all("host"), all("cookie"))
}

/// Sends `bytes` and returns everything that comes back until the server closes.
async fn exchange(addr: SocketAddr, bytes: &[u8]) -> String {
    let mut stream = TcpStream::connect(addr).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    let mut answer = Vec::new();
    time::timeout(PATIENCE, stream.read_to_end(&mut answer)).await.expect("closed").unwrap();
    String::from_utf8(answer).unwrap()
}

/// The statuses of all answers in `text`.
fn statuses(text: &str) -> Vec<u16> {
    let heads = text.match_indices("HTTP/1.1 ");
    heads.map(|(at, start)| text[at + start.len()..][..3].parse().unwrap()).collect()
}

fn assert_problem(answer: &str, status: u16) {
    assert_eq!(statuses(answer), [status], "{answer}");
    assert!(answer.contains("content-type: application/problem+json\r\n"), "{answer}");
    assert!(answer.contains("connection: close\r\n"), "{answer}");
    let (head, body) = answer.split_once("\r\n\r\n").unwrap();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap();
    assert_eq!(length.parse::<usize>().unwrap(), body.len(), "{answer}");
    let body: serde_json::Value = serde_json::from_str(body).unwrap();
    assert_eq!(body["status"], status);
}

#[tokio::test]
async fn a_head_that_is_not_http_gets_a_problem() {
    let served = serve_for_test(PATIENCE).await;
    for (bytes, status) in [
        ("nonsense\r\n\r\n", 400),
        ("GET / HTTP/9.9\r\nHost: a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost : a\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\n folded\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
        ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
        ("GET / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400),
        ("GE\0T / HTTP/1.1\r\nHost: a\r\n\r\n", 400),
    ] {
        assert_problem(&exchange(served.addr, bytes.as_bytes()).await, status);
    }
    let large = format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(HEAD_BYTES_MAX));
    for bytes in [large.as_str(), &large.replace(&"x".repeat(100), "x: y\r\n")] {
        assert_problem(&exchange(served.addr, bytes.as_bytes()).await, 431);
    }
    let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1));
    assert_problem(&exchange(served.addr, many.as_bytes()).await, 431);
}

#[tokio::test]
async fn an_ambiguous_request_gets_a_problem_and_the_connection_ends() {
    let served = serve_for_test(PATIENCE).await;
    for bytes in [
        "GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n",
        "GET https://a/ HTTP/1.1\r\nHost: a\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
        "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: identity, chunked\r\n\r\n0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n\
         0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n\
         0\r\n\r\n",
        "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\nContent-Length: 2\r\n\r\nab",
        "GET / HTTP/1.1\nHost: a\n\n",
        "GET / HTTP/1.1\r\nHost: a\r\nX: 1\nContent-Length: 5\r\n\r\n",
        "\nGET / HTTP/1.1\r\nHost: a\r\n\r\n",
        "GET / HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer a\r\nAuthorization: Bearer b\r\n\r\n",
    ] {
        assert_problem(&exchange(served.addr, bytes.as_bytes()).await, 400);
    }
    let trace = "TRACE / HTTP/1.1\r\nHost: a\r\n\r\n";
    assert_problem(&exchange(served.addr, trace.as_bytes()).await, 405);
}

#[tokio::test]
async fn two_lengths_are_noticed_on_a_connection_that_is_kept() {
    let served = serve_for_test(PATIENCE).await;
    let bytes = "POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab\
                 POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n\
                 2\r\ncd\r\n0\r\n\r\n\
                 POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\
                 Content-Length: 2\r\n\r\n0\r\n\r\n";
    let answer = exchange(served.addr, bytes.as_bytes()).await;
    assert_eq!(statuses(&answer), [200, 200, 400], "{answer}");
}

#[tokio::test]
async fn a_malformed_request_after_a_good_one_gets_a_problem_too() {
    let served = serve_for_test(PATIENCE).await;
    let mut stream = TcpStream::connect(served.addr).await.unwrap();
    let good = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\nab";
    stream.write_all(good).await.unwrap();
    let mut first = Vec::new();
    while !first.ends_with(b"\r\n\r\nab") {
        assert_ne!(stream.read_buf(&mut first).await.unwrap(), 0);
    }
    stream.write_all(b"nonsense\r\n\r\n").await.unwrap();
    let mut second = String::new();
    stream.read_to_string(&mut second).await.unwrap();
    assert_problem(&second, 400);
}

#[tokio::test]
async fn an_echo_of_a_bare_answer_is_not_taken_for_one() {
    let served = serve_for_test(PATIENCE).await;
    let body = "HTTP/1.1 400 Bad Request\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let request = format!(
        "POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
        body.len()
    );
    let answer = exchange(served.addr, request.as_bytes()).await;
    assert!(answer.ends_with(&format!("\r\n\r\n{body}")), "{answer}");
}

#[tokio::test]
async fn a_panic_costs_its_own_request_only() {
    let served = serve_for_test(PATIENCE).await;
    let bytes = "GET /panic HTTP/1.1\r\nHost: a\r\n\r\n\
                 POST /echo HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\
                 Content-Length: 2\r\n\r\nab";
    let answer = exchange(served.addr, bytes.as_bytes()).await;
    assert_eq!(statuses(&answer), [500, 200], "{answer}");
}

#[tokio::test]
async fn the_pages_of_problems_are_served() {
    let served = serve_for_test(PATIENCE).await;
    let bytes = "GET /problems/key-reused HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n";
    let answer = exchange(served.addr, bytes.as_bytes()).await;
    assert_eq!(statuses(&answer), [200]);
    assert!(answer.contains("422"), "{answer}");
}

#[tokio::test]
async fn a_stop_lets_the_running_request_finish_and_takes_no_more() {
    let served = serve_for_test(PATIENCE).await;
    let mut idle = TcpStream::connect(served.addr).await.unwrap();
    let running = tokio::spawn(exchange(served.addr, b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"));
    served.reached.notified().await;
    served.stopper.stop();
    let mut rest = Vec::new();
    time::timeout(PATIENCE, idle.read_to_end(&mut rest)).await.expect("idle is closed").unwrap();
    assert!(TcpStream::connect(served.addr).await.is_err(), "no more connections");
    served.go.notify_one();
    let answer = running.await.unwrap();
    assert_eq!(statuses(&answer), [200]);
    assert!(answer.contains("connection: close"), "{answer}");
    assert!(served.server.await.unwrap(), "everything finished");
}

#[tokio::test]
async fn a_request_that_does_not_end_is_cut_off_after_the_bound() {
    let served = serve_for_test(Duration::from_millis(1)).await;
    let _running = tokio::spawn(exchange(served.addr, b"GET /wait HTTP/1.1\r\nHost: a\r\n\r\n"));
    served.reached.notified().await;
    served.stopper.stop();
    assert!(!served.server.await.unwrap(), "one was cut off");
}
