//! A connection that speaks HTTP/2.
//!
//! Requests on it are held to what holds for those of HTTP/1.1: strict heads, bounds on heads and
//! bodies, and a client that leaves (by RST_STREAM) changes nothing about what runs for it. Where
//! requests begin and end needs no watching here, since frames say so.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use http::Request;
use http::header::{COOKIE, HOST};
use http::request::Parts;
use http::{HeaderValue, Version};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::timeout;

use super::preface::Begun;
use super::watched::watch;
use super::{HEAD_BYTES_MAX, IDLE_MAX, answer};
use crate::shutdown::Stop;

/// The most requests at once on one connection: as many as clients may count on (RFC 9113, 6.5.2).
const STREAMS_MAX: u32 = 100;

/// How many bytes of a request's body a client may send before somebody reads them.
const STREAM_WINDOW: u32 = 64 * 1024;

/// The same for all requests of a connection together: one that is not read leaves room for others.
const CONNECTION_WINDOW: u32 = 1024 * 1024;

/// How many bytes of a response wait for a client that does not take them.
const SEND_BYTES_MAX: usize = 64 * 1024;

/// How often a client is asked whether it is still there, which also finds those that have stopped
/// in the middle of a head.
const PING_EVERY: Duration = Duration::from_secs(20);

/// How long it may take to answer that.
const PING_WAIT: Duration = Duration::from_secs(10);

/// Serves one connection; when told to stop, the requests that run are the last ones.
pub(super) async fn serve(
    stream: Begun<TcpStream>,
    addr: SocketAddr,
    router: Router,
    mut stop: Stop,
) {
    let (open, count) = watch::channel(0_usize);
    let open = Arc::new(open);
    let service = service_fn(move |request: Request<Incoming>| {
        let guard = Open::new(Arc::clone(&open));
        let answer = answer(router.clone(), addr, request, false);
        async move { Ok::<_, Infallible>(watch(answer.await, guard)) }
    });
    let mut server = http2::Builder::new(TokioExecutor::new());
    server
        .timer(TokioTimer::new())
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX as u32)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BYTES_MAX)
        .keep_alive_interval(PING_EVERY)
        .keep_alive_timeout(PING_WAIT);
    let mut served = pin!(server.serve_connection(TokioIo::new(stream), service));
    let result = tokio::select! {
        result = served.as_mut() => result,
        () = async { tokio::select! {
            () = stop.requested() => {}
            () = idle(count) => {}
        } } => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}

/// Makes of a head what it would be in HTTP/1.1: the authority stands in `Host`, and cookies, which
/// may come one by one, on one line (RFC 9113, 8.2.3). No later layer tells the versions apart.
pub(super) fn unify(head: &mut Parts) {
    if head.version != Version::HTTP_2 {
        return;
    }
    if let Some(authority) = head.uri.authority()
        && let Ok(host) = HeaderValue::from_str(authority.as_str())
    {
        head.headers.insert(HOST, host);
    }
    let mut cookies = head.headers.get_all(COOKIE).iter();
    if cookies.next().is_some() && cookies.next().is_some() {
        let crumbs: Vec<&[u8]> =
            head.headers.get_all(COOKIE).iter().map(HeaderValue::as_bytes).collect();
        if let Ok(whole) = HeaderValue::from_bytes(&crumbs.join(&b"; "[..])) {
            head.headers.insert(COOKIE, whole);
        }
    }
}

/// Resolves when no request has been open for as long as an idle connection is kept.
async fn idle(mut count: watch::Receiver<usize>) {
    loop {
        // An error says that the connection is gone, and whoever waits here with it.
        let _ = count.wait_for(|open| *open == 0).await;
        if timeout(IDLE_MAX, count.wait_for(|open| *open > 0)).await.is_err() {
            return;
        }
    }
}

/// Counts a request until its response is sent, or nobody wants it any more.
struct Open(Arc<watch::Sender<usize>>);

impl Open {
    fn new(count: Arc<watch::Sender<usize>>) -> Self {
        count.send_modify(|open| *open += 1);
        Self(count)
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.send_modify(|open| *open -= 1);
    }
}

#[cfg(test)]
mod tests;
