//! A client that sends exactly what it is told, over a connection of its own, and never retries.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use ::http::{HeaderMap, Method, Request, StatusCode};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// An answer, read whole.
#[derive(Clone, Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Answer {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body)
            .unwrap_or_else(|error| panic!("{error}: {:?}: {self:?}", self.text()))
    }

    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }

    /// The problem's code; empty for anything that is not a problem.
    pub(crate) fn code(&self) -> String {
        if self.header("content-type") != Some("application/problem+json") {
            return String::new();
        }
        self.json()["code"].as_str().unwrap_or_default().to_owned()
    }

    pub(crate) fn is_replay(&self) -> bool {
        self.header("idempotent-replayed") == Some("true")
    }
}

/// Sends a request and reads the whole answer.
pub(crate) async fn send(
    address: SocketAddr,
    method: Method,
    target: &str,
    headers: &[(&str, &str)],
    body: impl Into<Bytes>,
) -> Result<Answer, String> {
    let stream = TcpStream::connect(address).await.map_err(|error| error.to_string())?;
    stream.set_nodelay(true).unwrap();
    let (mut sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| error.to_string())?;
    let connection = tokio::spawn(connection);
    let mut request = Request::builder().method(method).uri(target);
    request = request.header("host", address.to_string());
    for (name, value) in headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(body.into())).unwrap();
    let answer = sender.send_request(request).await.map_err(|error| error.to_string())?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await.map_err(|error| error.to_string())?.to_bytes();
    connection.abort();
    Ok(Answer { status: head.status, headers: head.headers, body })
}

/// An order for the stub upstream, as tenant `tenant`'s API key sends it.
#[derive(Clone, Debug)]
pub(crate) struct Order {
    pub(crate) tenant: String,
    pub(crate) key: String,
    pub(crate) path: String,
    pub(crate) body: String,
}

impl Order {
    pub(crate) fn new(key: &str) -> Self {
        let (tenant, path) = ("a".to_owned(), "/orders".to_owned());
        Self { tenant, key: key.to_owned(), path, body: r#"{"item":"book"}"#.to_owned() }
    }

    pub(crate) fn tenant(mut self, tenant: &str) -> Self {
        tenant.clone_into(&mut self.tenant);
        self
    }

    pub(crate) fn path(mut self, path: &str) -> Self {
        path.clone_into(&mut self.path);
        self
    }

    pub(crate) fn body(mut self, body: &str) -> Self {
        body.clone_into(&mut self.body);
        self
    }

    /// Sends it; the connection breaking is an error.
    pub(crate) async fn try_post(&self, gateway: SocketAddr) -> Result<Answer, String> {
        let authorization = format!("Bearer {}", super::policy::api_key(&self.tenant));
        let headers = [
            ("authorization", authorization.as_str()),
            ("content-type", "application/json"),
            ("idempotency-key", self.key.as_str()),
        ];
        send(gateway, Method::POST, &self.path, &headers, self.body.clone()).await
    }

    /// Sends it, and again for a few seconds while the answer is 503: nothing ran then, and on a
    /// busy machine a shard may be between two leaders at any moment.
    pub(crate) async fn post(&self, gateway: SocketAddr) -> Answer {
        let begin = Instant::now();
        loop {
            let answer = self.try_post(gateway).await.unwrap();
            if answer.status != 503 || begin.elapsed() > Duration::from_secs(5) {
                return answer;
            }
            assert_eq!(answer.json()["executed"], "no", "{answer:?}");
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Sends it and hangs up after `patience`.
    pub(crate) async fn post_and_leave(&self, gateway: SocketAddr, patience: Duration) {
        let answer = tokio::time::timeout(patience, self.post(gateway)).await;
        assert!(answer.is_err(), "answered before the client left: {answer:?}");
    }
}

/// Calls the claims API as tenant `tenant`.
pub(crate) async fn claims(
    api: SocketAddr,
    tenant: &str,
    path: &str,
    body: &Value,
) -> Result<Answer, String> {
    let authorization = format!("Bearer {}", super::policy::api_key(tenant));
    let headers = [("authorization", authorization.as_str()), ("content-type", "application/json")];
    send(api, Method::POST, path, &headers, body.to_string()).await
}

/// Sends exactly these bytes, which must ask for the connection's end, and reads the answer behind
/// any interim ones.
pub(crate) async fn raw(address: SocketAddr, bytes: &[u8]) -> Answer {
    let (mut reader, mut writer) = TcpStream::connect(address).await.unwrap().into_split();
    let bytes = bytes.to_vec();
    let sent = tokio::spawn(async move {
        // A server that has refused a request need not read its body.
        drop(writer.write_all(&bytes).await);
        writer
    });
    let mut received = Vec::new();
    let end = reader.read_to_end(&mut received).await;
    assert!(end.is_ok() || !received.is_empty(), "the connection broke: {end:?}");
    sent.abort();
    parse(&received)
}

/// Parses the last answer of a connection.
pub(crate) fn parse(received: &[u8]) -> Answer {
    let split = |bytes: &[u8], at: &[u8]| bytes.windows(at.len()).position(|part| part == at);
    let mut rest = received;
    loop {
        let end = split(rest, b"\r\n\r\n").unwrap_or_else(|| {
            panic!("no answer: {:?}", String::from_utf8_lossy(received));
        });
        let head = std::str::from_utf8(&rest[..end]).unwrap();
        rest = &rest[end + 4..];
        let mut lines = head.split("\r\n");
        let status: StatusCode = lines.next().unwrap()[9..12].parse().unwrap();
        if status.is_informational() {
            continue;
        }
        let mut headers = HeaderMap::new();
        for line in lines {
            let (name, value) = line.split_once(':').unwrap();
            let name: ::http::HeaderName = name.parse().unwrap();
            headers.append(name, value.trim().parse().unwrap());
        }
        let chunked = headers.get("transfer-encoding").is_some_and(|value| value == "chunked");
        let body = if chunked { dechunked(rest) } else { rest.to_vec() };
        return Answer { status, headers, body: body.into() };
    }
}

fn dechunked(mut rest: &[u8]) -> Vec<u8> {
    let mut body = Vec::new();
    loop {
        let line = rest.windows(2).position(|part| part == b"\r\n").expect("a chunk's size");
        let size = std::str::from_utf8(&rest[..line]).unwrap();
        let size = usize::from_str_radix(size, 16).unwrap();
        if size == 0 {
            return body;
        }
        rest = &rest[line + 2..];
        body.extend_from_slice(&rest[..size]);
        rest = &rest[size + 2..];
    }
}
