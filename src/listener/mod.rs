//! Accepts connections and serves HTTP/1.1 and HTTP/2 on them: the one listener of the gateway and
//! of the API.
//!
//! Every bound on what a client may send or hold is set here, but for bodies, which belong to
//! whoever reads them. A request is checked by [`crate::strict`] before it reaches the
//! router, and a handler that panics costs its own request only.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::panic::AssertUnwindSafe;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::response::{IntoResponse, Response};
use futures_util::FutureExt;
use http::HeaderValue;
use http::header::CONNECTION;
use http::request::Parts;
use http::{Request, Version};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time;
use tower::Service;

use crate::problem::{self, Code, Problem};
use crate::shutdown::Stop;
use crate::strict;
use patient::Patient;
use preface::{Begun, Spoken};
use watched::watch;
use wire::{Progress, Wire};

mod framing;
mod patient;
mod preface;
#[cfg(test)]
mod tests;
mod two;
mod watched;
mod wire;

/// The most bytes of a request's head: twice what common servers allow for their header fields, so
/// that cookies and signed headers pass.
const HEAD_BYTES_MAX: usize = 64 * 1024;

/// The most header fields of a request.
const HEADERS_MAX: usize = 128;

/// How long a head may take from its first byte on. It fits into one packet or two.
const HEAD_TIME_MAX: Duration = Duration::from_secs(10);

/// How long a connection may stay idle between requests: longer than the 60 s after which common
/// load balancers drop theirs, so that they, and not we, close first and no request is lost on a
/// closing connection.
const IDLE_MAX: Duration = Duration::from_secs(75);

/// The most connections at once of one listener. Further ones wait in the system's backlog.
const CONNECTIONS_MAX: usize = 8192;

/// How long to wait after the system refused a connection, which it does when descriptors run out.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// What is said of a head that two programs in a row could read differently.
const AMBIGUOUS: &str = "the head can be read in more than one way: it gives two lengths, or one \
    that is no number, or has a line that does not end in CR LF";

/// A client's address, found among a request's extensions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientAddr(pub SocketAddr);

/// Serves `router` on `listener` until `stop`, then lets running requests finish for at most
/// `drain`.
///
/// Returns whether all of them finished.
pub async fn serve(listener: TcpListener, router: Router, mut stop: Stop, drain: Duration) -> bool {
    let slots = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    let mut connections = JoinSet::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = stop.requested() => break,
            accepted = accept(&listener, &slots) => accepted,
        };
        // Those that have ended since the last one are let go here, so that they do not pile up.
        while connections.try_join_next().is_some() {}
        match accepted {
            Ok((stream, addr, slot)) => {
                let (router, stop) = (router.clone(), stop.clone());
                connections.spawn(connection(stream, addr, router, stop, slot));
            }
            // The client went away while it waited in the backlog.
            Err(error) if is_of_client(&error) => {}
            Err(error) => {
                tracing::warn!(%error, "cannot accept a connection");
                time::sleep(ACCEPT_BACKOFF).await;
            }
        }
    }
    drop(listener);
    let finish = async { while connections.join_next().await.is_some() {} };
    time::timeout(drain, finish).await.is_ok()
}

/// The next connection, once there is room for it.
async fn accept(
    listener: &TcpListener,
    slots: &Arc<Semaphore>,
) -> io::Result<(TcpStream, SocketAddr, OwnedSemaphorePermit)> {
    let slot = Arc::clone(slots).acquire_owned().await.expect("the semaphore is never closed");
    let (stream, addr) = listener.accept().await?;
    // A claim's answer is one small packet that must not wait for an acknowledgement.
    stream.set_nodelay(true)?;
    Ok((stream, addr, slot))
}

/// Whether a client is the reason that its connection could not be accepted.
fn is_of_client(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionReset, InvalidInput, NotConnected};
    // A reset before the options are set shows as an invalid argument on some systems.
    matches!(error.kind(), ConnectionAborted | ConnectionReset | InvalidInput | NotConnected)
}

/// Serves one connection in the version of HTTP that its client speaks.
async fn connection(
    stream: TcpStream,
    addr: SocketAddr,
    router: Router,
    mut stop: Stop,
    _slot: OwnedSemaphorePermit,
) {
    let detected = tokio::select! {
        detected = preface::detect(stream) => detected,
        () = stop.requested() => return,
    };
    match detected {
        Ok((Spoken::One, stream)) => serve_one(stream, addr, router, stop).await,
        Ok((Spoken::Two, stream)) => two::serve(stream, addr, router, stop).await,
        Err(error) => tracing::debug!(%error, "connection ended before its first request"),
    }
}

/// Serves a connection that speaks HTTP/1.1; when told to stop, the request that runs is the last
/// one.
async fn serve_one(stream: Begun<TcpStream>, addr: SocketAddr, router: Router, mut stop: Stop) {
    let progress = Progress::default();
    let wire = TokioIo::new(Wire::new(stream, progress.clone()));
    let service = service_fn(move |request: Request<Incoming>| {
        let (ambiguous, open) = progress.begin();
        let answer = answer(router.clone(), addr, request, ambiguous);
        async move { Ok::<_, Infallible>(watch(answer.await, open)) }
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(IDLE_MAX)
        .max_buf_size(HEAD_BYTES_MAX)
        .max_header_size(HEAD_BYTES_MAX)
        .max_headers(HEADERS_MAX);
    let mut served = pin!(server.serve_connection(wire, service));
    let result = tokio::select! {
        result = served.as_mut() => result,
        () = stop.requested() => {
            served.as_mut().graceful_shutdown();
            served.await
        }
    };
    if let Err(error) = result {
        tracing::debug!(%error, "connection ended");
    }
}

/// Answers one request: by a problem when it is not strict HTTP, else by the router.
async fn answer(
    mut router: Router,
    addr: SocketAddr,
    request: Request<Incoming>,
    ambiguous: bool,
) -> Response {
    let (mut head, body) = request.into_parts();
    let refused = if ambiguous { Err(Problem::invalid(AMBIGUOUS)) } else { check(&head) };
    if let Err(problem) = refused {
        let mut response = problem.into_response();
        if head.version != Version::HTTP_2 {
            // Where the next request begins is not certain after a head that is refused.
            response.headers_mut().insert(CONNECTION, HeaderValue::from_static("close"));
        }
        return response;
    }
    two::unify(&mut head);
    head.extensions.insert(ClientAddr(addr));
    if let Some(page) = problem::page(&head.method, head.uri.path()) {
        return page;
    }
    let call = router.call(Request::from_parts(head, Body::new(Patient::new(body))));
    match AssertUnwindSafe(call).catch_unwind().await {
        Ok(Ok(response)) => response,
        Err(_panic) => {
            metrics::counter!(crate::api::metrics::PANICS).increment(1);
            tracing::error!("a handler panicked");
            Problem::new(Code::Internal, "the request met a defect").into_response()
        }
    }
}

/// Whether the head is strict HTTP and within its bounds. HTTP/1.1 heads of too many lines never
/// come this far.
fn check(head: &Parts) -> Result<(), Problem> {
    if head.headers.len() > HEADERS_MAX {
        let detail = format!("the request has more than {HEADERS_MAX} header fields");
        return Err(Problem::new(Code::HeadTooLarge, detail));
    }
    strict::check(head)
}
