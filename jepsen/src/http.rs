//! Requests over HTTP/1.1, one connection each, that say whether anything was sent before they
//! failed.

use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::handshake;
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

/// A whole answer.
#[derive(Debug)]
pub struct Reply {
    /// Its status.
    pub status: StatusCode,
    /// Its header lines.
    pub headers: HeaderMap,
    /// Its body.
    pub body: Bytes,
}

/// No whole answer came.
#[derive(Debug)]
pub struct Broken {
    /// Whether a byte of the request may have left.
    pub sent: bool,
    /// Why.
    pub why: String,
}

/// A request.
pub struct Ask<'a> {
    /// The method.
    pub method: Method,
    /// Path and query.
    pub target: &'a str,
    /// Header lines beside `Host`.
    pub headers: &'a [(&'a str, &'a str)],
    /// The body.
    pub body: String,
}

/// Sends a request and reads the whole answer.
///
/// # Errors
/// When no whole answer came within `patience`.
pub async fn send(address: SocketAddr, ask: Ask<'_>, patience: Duration) -> Result<Reply, Broken> {
    let mut sent = false;
    match tokio::time::timeout(patience, exchange(address, ask, &mut sent)).await {
        Ok(Ok(reply)) => Ok(reply),
        Ok(Err(why)) => Err(Broken { sent, why }),
        Err(_elapsed) => Err(Broken { sent, why: "no answer in time".to_owned() }),
    }
}

async fn exchange(address: SocketAddr, ask: Ask<'_>, sent: &mut bool) -> Result<Reply, String> {
    let text = |error: &dyn std::fmt::Display| error.to_string();
    let stream = TcpStream::connect(address).await.map_err(|error| text(&error))?;
    stream.set_nodelay(true).map_err(|error| text(&error))?;
    let (mut sender, connection) =
        handshake(TokioIo::new(stream)).await.map_err(|error| text(&error))?;
    let _connection = Aborted(tokio::spawn(async move { drop(connection.await) }));
    let mut request = Request::builder().method(ask.method).uri(ask.target);
    request = request.header("host", address.to_string());
    for (name, value) in ask.headers {
        request = request.header(*name, *value);
    }
    let request = request.body(Full::new(Bytes::from(ask.body))).map_err(|error| text(&error))?;
    *sent = true;
    let answer = sender.send_request(request).await.map_err(|error| text(&error))?;
    let (head, body) = answer.into_parts();
    let body = body.collect().await.map_err(|error| text(&error))?.to_bytes();
    Ok(Reply { status: head.status, headers: head.headers, body })
}

/// A task that ends with whoever waits for it.
struct Aborted(JoinHandle<()>);

impl Drop for Aborted {
    fn drop(&mut self) {
        self.0.abort();
    }
}
