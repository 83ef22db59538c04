//! The connection to one peer: kept up, and called over.

use std::future::ready;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::{Buf, Bytes};
use futures_util::future::BoxFuture;
use protocol::Timestamp;
use rand::RngExt;
use tokio::io::AsyncRead;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

use super::frame::{self, Frame, FrameError, FrameReader, Head};
use super::handshake::ShakeError;
use super::outgoing::{NotTaken, Outgoing};
use super::pending::{Pending, Waiting};
use super::silence::Signs;
use super::tcp::Local;
use super::{Answer, CallError, OWN_KINDS, Request, deadline};
use crate::clock::Round;
use crate::config::NodeId;

/// How long to wait for a connection: a lost SYN is repeated after one second.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(2);

/// How long to wait before dialing again: at least this after the first failure, and twice as long
/// after each further one.
const BACKOFF_MIN: Duration = Duration::from_millis(50);

/// At most so long, so that a healed partition is noticed within the time of an election.
const BACKOFF_MAX: Duration = Duration::from_secs(1);

/// One peer, and the connection to it while there is one.
pub(super) struct Link {
    peer: NodeId,
    addr: SocketAddr,
    live: Mutex<Option<Live>>,
}

/// A connection over which the peer can be called.
#[derive(Clone, Default)]
struct Live {
    outgoing: Arc<Outgoing>,
    pending: Arc<Pending>,
}

impl Link {
    pub(super) fn new(peer: NodeId, addr: SocketAddr) -> Self {
        Self { peer, addr, live: Mutex::default() }
    }

    /// See [`Transport::call`](super::Transport::call).
    pub(super) fn call(
        &self,
        request: Request,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<Bytes, CallError>> {
        let (deadline, timeout) = deadline(timeout);
        match self.send(request, timeout) {
            Ok(waiting) => Box::pin(waiting.until(deadline)),
            Err(error) => Box::pin(ready(Err(error))),
        }
    }

    fn send(&self, request: Request, timeout: Duration) -> Result<Waiting, CallError> {
        assert!(request.kind < OWN_KINDS, "the kinds from {OWN_KINDS} are the transport's own");
        let live = self.lock().clone().ok_or(CallError::NotSent)?;
        let waiting = live.pending.begin(request.kind)?;
        let head = Head {
            call: waiting.call(),
            kind: request.kind,
            shard: request.shard,
            patience_ms: u32::try_from(timeout.as_millis()).unwrap_or(u32::MAX),
        };
        match live.outgoing.push(head, &request.body) {
            Ok(()) => Ok(waiting),
            Err(NotTaken::Full) => Err(CallError::Full),
            Err(NotTaken::Closed) => Err(CallError::NotSent),
        }
    }

    /// Whether the peer can be called.
    pub(super) fn is_connected(&self) -> bool {
        self.lock().is_some()
    }

    /// Waits until what was sent so far has been handed to the system.
    pub(super) async fn flushed(&self) {
        let live = self.lock().clone();
        if let Some(live) = live {
            live.outgoing.flushed().await;
        }
    }

    /// Dials the peer again and again, for ever.
    pub(super) async fn keep_up(&self, local: &Local) {
        let mut backoff = Backoff::default();
        loop {
            match self.connect(local).await {
                Ok(stream) => {
                    backoff = Backoff::default();
                    self.converse(stream, local).await;
                }
                Err(error) => local.report(error, self.addr, Some(self.peer)),
            }
            sleep(backoff.next()).await;
        }
    }

    async fn connect(&self, local: &Local) -> Result<TcpStream, ShakeError> {
        let connected = timeout(CONNECT_TIMEOUT, TcpStream::connect(self.addr)).await;
        let mut stream = connected.map_err(|_| ShakeError::TimedOut)??;
        stream.set_nodelay(true)?;
        local.identity.dial(&mut stream, self.peer, &local.guard, &*local.service).await?;
        local.refusals.admitted(self.peer);
        Ok(stream)
    }

    /// Sends requests and takes answers until the connection breaks.
    async fn converse(&self, stream: TcpStream, local: &Local) {
        let live = Live::default();
        let _up = Up::new(self, live.clone());
        let node = self.peer.0;
        tracing::info!(node, addr = %self.addr, "connected to peer");
        let (read, write) = stream.into_split();
        let signs = Signs::default();
        let pings = Pings { peer: self.peer, local, asked: Mutex::default() };
        tokio::select! {
            biased;
            end = read_answers(FrameReader::new(read), &live.pending, &pings, &signs) => match end {
                Ok(()) => tracing::info!(node, "peer closed the connection"),
                Err(error) => tracing::warn!(node, %error, "connection to peer broke"),
            },
            Err(error) = live.outgoing.write_to(&write, &signs) => {
                tracing::warn!(node, %error, "connection to peer broke");
            }
            () = signs.silent(|| pings.send(&live.outgoing)) => {
                tracing::warn!(node, "peer is silent; connection given up");
            }
        }
    }

    fn lock(&self) -> MutexGuard<'_, Option<Live>> {
        self.live.lock().expect("nothing panics while it holds the link")
    }
}

/// Keeps the connection open for calls; when it goes, by whatever way, all calls on it fail.
struct Up<'a> {
    link: &'a Link,
    live: Live,
}

impl<'a> Up<'a> {
    fn new(link: &'a Link, live: Live) -> Self {
        *link.lock() = Some(live.clone());
        Self { link, live }
    }
}

impl Drop for Up<'_> {
    fn drop(&mut self) {
        *self.link.lock() = None;
        self.live.outgoing.close();
        self.live.pending.close();
    }
}

async fn read_answers(
    mut reader: FrameReader<impl AsyncRead + Unpin>,
    pending: &Pending,
    pings: &Pings<'_>,
    signs: &Signs,
) -> Result<(), FrameError> {
    while reader.fill().await? {
        signs.seen();
        while let Some(Frame { head, body }) = reader.take()? {
            match head.kind {
                frame::ANSWER => pending.answer(head.call, Answer::Body(body)),
                frame::REFUSED => pending.answer(head.call, Answer::Refused),
                frame::LOST => pending.answer(head.call, Answer::Lost),
                frame::PONG if body.len() == 8 => pings.answered(head.call, body),
                kind => return Err(FrameError::Kind(kind)),
            }
        }
    }
    Ok(())
}

/// Asks the peer for its wall clock, one question at a time.
struct Pings<'a> {
    peer: NodeId,
    local: &'a Local,
    asked: Mutex<Asked>,
}

#[derive(Default)]
struct Asked {
    last: u64,
    at: Option<Duration>,
}

impl Pings<'_> {
    fn send(&self, outgoing: &Outgoing) {
        let mut asked = self.lock();
        if asked.at.is_some() {
            return;
        }
        asked.last += 1;
        asked.at = Some(self.local.guard.boot());
        if outgoing.push(Head::of(frame::PING, asked.last), &[]).is_err() {
            asked.at = None;
        }
    }

    fn answered(&self, call: u64, mut wall: Bytes) {
        let mut asked = self.lock();
        if call != asked.last {
            return;
        }
        let Some(at) = asked.at.take() else { return };
        drop(asked);
        let wall = Timestamp::from_millis(wall.get_u64_le());
        let heard = self.local.guard.boot();
        self.local.guard.sample(self.peer, Round { asked: at, wall, heard });
    }

    fn lock(&self) -> MutexGuard<'_, Asked> {
        self.asked.lock().expect("nothing panics while it holds the question")
    }
}

/// How long to wait before trying again; jittered, so that nodes that failed together do not come
/// back together.
pub(super) struct Backoff(Duration);

impl Default for Backoff {
    fn default() -> Self {
        Self(BACKOFF_MIN)
    }
}

impl Backoff {
    pub(super) fn next(&mut self) -> Duration {
        let least = self.0;
        let most = (least * 2).min(BACKOFF_MAX);
        self.0 = most.min(BACKOFF_MAX / 2);
        rand::rng().random_range(least..=most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn backoff_grows_from_fifty_milliseconds_to_a_second() {
        let mut backoff = Backoff::default();
        let mut bounds = (BACKOFF_MIN, BACKOFF_MIN * 2);
        for _ in 0..20 {
            let wait = backoff.next();
            assert!(bounds.0 <= wait && wait <= bounds.1, "{wait:?} not in {bounds:?}");
            let least = bounds.1.min(BACKOFF_MAX / 2);
            bounds = (least, (least * 2).min(BACKOFF_MAX));
        }
        assert_eq!(bounds, (BACKOFF_MAX / 2, BACKOFF_MAX));
    }
}
