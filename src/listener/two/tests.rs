//! HTTP/2 over TCP against a tiny router: a real client where it can say what is needed, and frames
//! made by hand where it would not.

use axum::body::Body;
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt;
use hyper::client::conn::http2::{SendRequest, handshake};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::{Instant, sleep};

use super::*;
use crate::listener::HEADERS_MAX;
use crate::listener::tests::{PATIENCE, Served, serve_for_test};

const RST_STREAM: u8 = 3;
const GOAWAY: u8 = 7;

async fn client(served: &Served) -> SendRequest<Body> {
    let stream = TcpStream::connect(served.addr).await.unwrap();
    let (sender, connection) = handshake(TokioExecutor::new(), TokioIo::new(stream)).await.unwrap();
    tokio::spawn(connection);
    sender
}

fn request(method: &str, path: &str, fields: &[(&str, &str)]) -> Request<Body> {
    let mut request = Request::builder().method(method).uri(format!("http://shop:80{path}"));
    for (name, value) in fields {
        request = request.header(*name, *value);
    }
    request.body(Body::empty()).unwrap()
}

async fn whole(response: Response<Incoming>) -> (StatusCode, String) {
    let (head, body) = response.into_parts();
    let body = timeout(PATIENCE, body.collect()).await.unwrap().unwrap().to_bytes();
    (head.status, String::from_utf8(body.to_vec()).unwrap())
}

async fn ask(client: &mut SendRequest<Body>, request: Request<Body>) -> (StatusCode, String) {
    let response = timeout(PATIENCE, client.send_request(request)).await.unwrap().unwrap();
    whole(response).await
}

#[tokio::test]
async fn requests_are_answered_side_by_side() {
    let served = serve_for_test(PATIENCE).await;
    let mut client = client(&served).await;
    let waiting = tokio::spawn(client.send_request(request("GET", "/wait", &[])));
    served.reached.notified().await;
    let mut post = request("POST", "/echo", &[]);
    *post.body_mut() = Body::from("hello");
    assert_eq!(ask(&mut client, post).await, (StatusCode::OK, "hello".into()));
    assert_eq!(ask(&mut client, request("GET", "/panic", &[])).await.0, 500);
    served.go.notify_one();
    assert_eq!(whole(waiting.await.unwrap().unwrap()).await.1, "waited");
}

#[tokio::test]
async fn the_head_reads_as_in_the_older_version() {
    let served = serve_for_test(PATIENCE).await;
    let mut client = client(&served).await;
    let fields = [("cookie", "a=1"), ("cookie", "b=2"), ("te", "trailers")];
    let (_, seen) = ask(&mut client, request("GET", "/fields", &fields)).await;
    assert_eq!(seen, "[\"shop:80\"] [\"a=1; b=2\"]");
    let (_, seen) = ask(&mut client, request("GET", "/fields", &[("host", "SHOP")])).await;
    assert_eq!(seen, "[\"shop:80\"] []");
}

#[tokio::test]
async fn heads_are_as_strict_as_in_the_older_version() {
    let served = serve_for_test(PATIENCE).await;
    let mut client = client(&served).await;
    let two = [("authorization", "Bearer a"), ("authorization", "Bearer b")];
    let hosts = [("host", "shop"), ("host", "shop")];
    for (method, fields, status) in [
        ("GET", &two[..], 400),
        ("GET", &hosts, 400),
        ("GET", &[("host", "other")], 400),
        ("GET", &[("host", "a,b")], 400),
        ("TRACE", &[], 405),
        ("post", &[], 405),
    ] {
        let (seen, body) = ask(&mut client, request(method, "/fields", fields)).await;
        assert_eq!(seen, status, "{method} {fields:?}");
        let problem: serde_json::Value = serde_json::from_str(&body).unwrap();
        assert_eq!(problem["status"], status);
    }
    let mut foreign = request("GET", "/fields", &[]);
    *foreign.uri_mut() = "ftp://shop/fields".parse().unwrap();
    assert_eq!(ask(&mut client, foreign).await.0, 400);
    let many: Vec<_> = (0..=HEADERS_MAX).map(|_| ("x", "y")).collect();
    assert_eq!(ask(&mut client, request("GET", "/fields", &many)).await.0, 431);
    assert_eq!(ask(&mut client, request("GET", "/fields", &[])).await.0, 200, "it goes on");
}

#[tokio::test]
async fn a_head_has_a_bound() {
    let served = serve_for_test(PATIENCE).await;
    let mut client = client(&served).await;
    let large = "x".repeat(HEAD_BYTES_MAX);
    let response = client.send_request(request("GET", "/fields", &[("x", &large)])).await;
    // The library may end the request with a reset in the place of an answer.
    assert!(response.is_err() || response.is_ok_and(|response| response.status() == 431));
}

#[tokio::test]
async fn a_stop_lets_running_requests_finish_and_takes_no_more() {
    let served = serve_for_test(PATIENCE).await;
    let mut client = client(&served).await;
    let running = tokio::spawn(client.send_request(request("GET", "/wait", &[])));
    served.reached.notified().await;
    served.stopper.stop();
    served.go.notify_one();
    assert_eq!(whole(running.await.unwrap().unwrap()).await.1, "waited");
    assert!(served.server.await.unwrap(), "everything finished");
    assert!(client.send_request(request("GET", "/fields", &[])).await.is_err());
}

#[tokio::test(start_paused = true)]
async fn only_a_connection_without_requests_is_idle() {
    let (open, count) = watch::channel(0_usize);
    let began = Instant::now();
    let waiting = tokio::spawn(idle(count));
    sleep(IDLE_MAX / 2).await;
    open.send_replace(1);
    sleep(IDLE_MAX * 5).await;
    assert!(!waiting.is_finished());
    open.send_replace(0);
    waiting.await.unwrap();
    assert!(began.elapsed() >= IDLE_MAX * 6);
}

/// A frame by hand.
fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut bytes = length[1..].to_vec();
    bytes.extend_from_slice(&[kind, flags]);
    bytes.extend_from_slice(&stream.to_be_bytes());
    bytes.extend_from_slice(payload);
    bytes
}

/// A whole head without a body, each field a literal without indexing (RFC 7541, 6.2.2).
fn head(stream: u32, fields: &[(&str, &str)]) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        block.push(0);
        for text in [name, value] {
            block.push(u8::try_from(text.len()).unwrap());
            block.extend_from_slice(text.as_bytes());
        }
    }
    frame(1, 0x5, stream, &block)
}

/// The kind of the first frame that is about `stream`, or of the last one of the connection.
async fn verdict(served: &Served, bytes: &[u8], stream: u32) -> u8 {
    let mut socket = TcpStream::connect(served.addr).await.unwrap();
    socket.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
    socket.write_all(&frame(4, 0, 0, &[])).await.unwrap();
    socket.write_all(bytes).await.unwrap();
    let answer = async {
        loop {
            let mut head = [0; 9];
            socket.read_exact(&mut head).await.unwrap();
            let length = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let about = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let mut payload = vec![0; length];
            socket.read_exact(&mut payload).await.unwrap();
            if about == stream || head[3] == GOAWAY {
                return head[3];
            }
        }
    };
    timeout(PATIENCE, answer).await.expect("a verdict")
}

#[tokio::test]
async fn fields_about_a_connection_are_malformed() {
    let served = serve_for_test(PATIENCE).await;
    let get: Vec<(&str, &str)> = [(Method::GET.as_str(), ":method"), ("/fields", ":path")]
        .map(|(value, name)| (name, value))
        .into_iter()
        .chain([(":scheme", "http"), (":authority", "shop")])
        .collect();
    assert_eq!(verdict(&served, &head(1, &get), 1).await, 1, "a plain head is answered");
    for field in [
        ("connection", "close"),
        ("transfer-encoding", "chunked"),
        ("te", "gzip"),
        ("keep-alive", "1"),
        ("proxy-connection", "close"),
        ("upgrade", "websocket"),
        ("UPPER", "1"),
        (":unknown", "1"),
        (":path", "/twice"),
    ] {
        let fields: Vec<_> = get.iter().copied().chain([field]).collect();
        let seen = verdict(&served, &head(1, &fields), 1).await;
        assert!(matches!(seen, RST_STREAM | GOAWAY), "{field:?}: frame {seen}");
    }
    let nonsense = frame(1, 0x5, 2, b"");
    assert_eq!(verdict(&served, &nonsense, 2).await, GOAWAY, "an even stream is the server's");
}
