//! The connections to the upstream.
//!
//! The pool is our own because of one rule: a request whose bytes may have left is never sent
//! again, by nobody and for no reason. Pools made for general use retry on a dead keep-alive
//! connection, some of them *because* an idempotency key is there. This one hands out a connection,
//! sends one request on it when told to, and says of a failure whether it is proven that nothing
//! has left. It follows no redirect and keeps no cookie. It speaks HTTP/1.1, in clear or within
//! TLS; an upstream whose certificate is not for its name is one that could not be reached.

mod reply;
mod socket;
mod wire;

#[cfg(test)]
mod tests;

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use axum::body::Body;
use http::{HeaderValue, Request, Response, Uri};
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use thiserror::Error;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

pub(crate) use reply::Reply;
use socket::Socket;
use wire::{Watch, Wire};

use crate::config::{UpstreamTls, server_name};
use crate::judge::BootClock;

/// The most idle connections that are kept. One costs two descriptors in all and a few kilobytes;
/// past this number the upstream is better asked to open new ones than to hold them.
const IDLE_MAX: usize = 256;

/// For how long an idle connection is kept. Servers close idle connections after two seconds and
/// more (gunicorn two, Node.js and uvicorn five). A request that meets such a close on the wire
/// ends as *unknown*, so the gateway lets go first.
const IDLE_AGE: Duration = Duration::from_millis(1500);

/// How long a connection may take to be made, name look-up and TLS included. Half of a usual lease:
/// what takes longer is as good as unreachable.
const CONNECT_WAIT: Duration = Duration::from_secs(5);

/// How long a pooled connection may take to say that it is ready. It is, unless it is being closed.
const READY_WAIT: Duration = Duration::from_millis(100);

/// The most bytes of a response's head, and of its chunked trailers: what common servers send at
/// most.
const HEAD_BYTES_MAX: usize = 64 << 10;

/// The most header lines of a response.
const HEAD_LINES_MAX: usize = 128;

/// The most bytes that wait between the socket and the reader of a response.
const BUFFER_BYTES_MAX: usize = 128 << 10;

/// The upstream and the idle connections to it. Clones share them.
#[derive(Clone)]
pub(crate) struct Upstream {
    shared: Arc<Shared>,
}

struct Shared {
    authority: HeaderValue,
    host: String,
    port: u16,
    tls: Option<Tls>,
    clock: BootClock,
    /// The lock is held for a few instructions and never across an await.
    pool: Mutex<Pool>,
}

/// How a connection becomes one within TLS.
struct Tls {
    connector: TlsConnector,
    /// What the certificate must be for.
    name: ServerName<'static>,
}

#[derive(Default)]
struct Pool {
    /// Oldest first.
    idle: VecDeque<Idle>,
    /// Whether a task waits to close what becomes too old. It ends with the last idle connection.
    swept: bool,
}

struct Idle {
    connection: Connection,
    since: Instant,
}

/// A connection that takes one request.
pub(crate) struct Connection {
    sender: SendRequest<Body>,
    watch: Arc<Watch>,
    /// Whether it has carried a request before.
    pooled: bool,
}

/// Why there is no connection. Nothing was sent.
#[derive(Debug, Error)]
pub(crate) enum Unreachable {
    /// The name could not be resolved, or the connection was refused.
    #[error("cannot connect to the upstream: {0}")]
    Connect(#[from] io::Error),
    /// It did not prove its name, or does not speak TLS.
    #[error("no TLS with the upstream: {0}")]
    Tls(io::Error),
    /// The upstream did not accept in time.
    #[error("the upstream did not accept a connection in time")]
    Timeout,
    /// The connection was closed as soon as it was open.
    #[error("the upstream closed the connection at once: {0}")]
    Handshake(#[from] hyper::Error),
}

/// Why a request has no answer.
#[derive(Debug, Error)]
pub(crate) enum SendError {
    /// It is proven that no byte of it has left.
    #[error("the connection to the upstream took no byte of the request: {source}")]
    Unsent {
        /// The request, where the connection gave it back.
        request: Option<Box<Request<Body>>>,
        /// Whether the connection had carried a request before, so that a new one may well work.
        pooled: bool,
        /// What went wrong.
        source: hyper::Error,
    },
    /// Bytes may have left.
    #[error("the upstream's answer did not come: {0}")]
    Lost(hyper::Error),
}

impl Upstream {
    /// The upstream at `uri`, which has a host and at most the path `/`; within TLS where `tls`
    /// says whom to believe. `clock` is what [`Connection::send`] compares its limit with.
    pub(crate) fn new(uri: &Uri, tls: Option<&UpstreamTls>, clock: BootClock) -> Self {
        let authority = uri.authority().map_or("", |authority| authority.as_str());
        let authority = HeaderValue::from_str(authority).expect("an authority is ASCII");
        let host = uri.host().unwrap_or_default();
        // A literal IPv6 address stands in brackets in a URI, but not in a look-up.
        let host = host.trim_start_matches('[').trim_end_matches(']').to_owned();
        let tls = tls.map(|tls| Tls {
            connector: TlsConnector::from(tls.config()),
            name: server_name(uri).expect("the configuration takes only names of servers"),
        });
        let port = uri.port_u16().unwrap_or(if tls.is_some() { 443 } else { 80 });
        let shared = Shared { authority, host, port, tls, clock, pool: Mutex::default() };
        Self { shared: Arc::new(shared) }
    }

    /// The upstream's own name, for a request that has none for it.
    pub(crate) fn authority(&self) -> HeaderValue {
        self.shared.authority.clone()
    }

    /// A connection that is ready for a request: an idle one where there is one, else a new one.
    pub(crate) async fn connection(&self) -> Result<Connection, Unreachable> {
        while let Some(mut connection) = self.shared.take_idle() {
            if matches!(timeout(READY_WAIT, connection.sender.ready()).await, Ok(Ok(()))) {
                return Ok(connection);
            }
        }
        self.fresh_connection().await
    }

    /// A new connection.
    pub(crate) async fn fresh_connection(&self) -> Result<Connection, Unreachable> {
        timeout(CONNECT_WAIT, self.shared.connect()).await.map_err(|_| Unreachable::Timeout)?
    }

    /// Number of idle connections.
    #[cfg(test)]
    pub(crate) fn idle(&self) -> usize {
        self.shared.pool().idle.len()
    }

    fn put_back(&self, connection: Connection) {
        if self.shared.put_idle(connection) {
            tokio::spawn(sweep(Arc::downgrade(&self.shared)));
        }
    }
}

impl Shared {
    async fn connect(&self) -> Result<Connection, Unreachable> {
        let socket = TcpStream::connect((self.host.as_str(), self.port)).await?;
        socket.set_nodelay(true)?;
        let socket = match &self.tls {
            None => Socket::Clear(socket),
            Some(Tls { connector, name }) => {
                let stream = connector.connect(name.clone(), socket).await;
                Socket::Tls(Box::new(stream.map_err(Unreachable::Tls)?))
            }
        };
        let (wire, watch) = Wire::new(socket, self.clock.clone());
        let (mut sender, connection) = http1::Builder::new()
            .max_headers(HEAD_LINES_MAX)
            .max_header_size(HEAD_BYTES_MAX)
            .max_buf_size(BUFFER_BYTES_MAX)
            .handshake(TokioIo::new(wire))
            .await?;
        tokio::spawn(async move {
            // What it ends with reaches the request on it; without one, nobody misses it.
            if let Err(error) = connection.await {
                tracing::debug!(%error, "a connection to the upstream ended");
            }
        });
        sender.ready().await?;
        Ok(Connection { sender, watch, pooled: false })
    }

    /// The idle connection that was used last, which is the least likely to be dead.
    fn take_idle(&self) -> Option<Connection> {
        let mut pool = self.pool();
        pool.drop_stale();
        pool.idle.pop_back().map(|idle| idle.connection)
    }

    /// Keeps a connection, where there is room, and says whether somebody must begin to sweep.
    fn put_idle(&self, connection: Connection) -> bool {
        let mut pool = self.pool();
        pool.drop_stale();
        if pool.idle.len() >= IDLE_MAX {
            return false;
        }
        let connection = Connection { pooled: true, ..connection };
        pool.idle.push_back(Idle { connection, since: Instant::now() });
        !std::mem::replace(&mut pool.swept, true)
    }

    fn pool(&self) -> MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    fn drop_stale(&mut self) {
        while self.idle.front().is_some_and(|oldest| oldest.since.elapsed() >= IDLE_AGE) {
            self.idle.pop_front();
        }
    }

    /// Drops what is too old and says when to look again; `None` when nothing is left.
    fn sweep(&mut self) -> Option<Instant> {
        self.drop_stale();
        let next = self.idle.front().map(|oldest| oldest.since + IDLE_AGE);
        self.swept = next.is_some();
        next
    }
}

impl Connection {
    /// Sends a request, unless its first byte would leave at `limit` of the boot clock or later,
    /// and waits for the head of the answer. The connection goes back to the pool once the answer's
    /// body was read to its end.
    pub(crate) async fn send(
        mut self,
        upstream: &Upstream,
        request: Request<Body>,
        limit: Option<Duration>,
    ) -> Result<Response<Reply>, SendError> {
        self.watch.arm(limit);
        match self.sender.try_send_request(request).await {
            Ok(answer) => Ok(answer.map(|body| Reply::new(body, (self, upstream.clone())))),
            Err(mut error) => {
                let request = error.take_message().map(Box::new);
                let source = error.into_error();
                // A request that came back was never written; one that did not come back may have
                // waited in a buffer that the socket never took a byte of.
                if request.is_some() || !self.watch.touched() {
                    Err(SendError::Unsent { request, pooled: self.pooled, source })
                } else {
                    Err(SendError::Lost(source))
                }
            }
        }
    }

    fn give_back(self, upstream: &Upstream) {
        if !self.sender.is_closed() {
            upstream.put_back(self);
        }
    }
}

/// Closes idle connections when they become too old, until there is none.
async fn sweep(shared: Weak<Shared>) {
    loop {
        let Some(next) = shared.upgrade().and_then(|shared| shared.pool().sweep()) else { return };
        tokio::time::sleep_until(next).await;
    }
}
