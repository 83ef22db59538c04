//! The socket to the upstream, watched: did a byte of this request leave, and was it still allowed
//! to?
//!
//! Everything that is ever written to an upstream passes through here, so "no byte has left" is
//! something this file *knows*. That knowledge is what makes a second try or a release safe.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::socket::Socket;
use crate::judge::BootClock;

/// The reading of a clock that stands for "no limit".
const NEVER: u64 = u64::MAX;

/// A socket whose writes are watched. Within TLS they are watched above it: the bytes of a
/// handshake are none of a request, and what TLS has taken of a request counts as sent.
pub(super) struct Wire {
    socket: Socket,
    watch: Arc<Watch>,
}

/// What is known of the request that a [`Wire`] carries. Shared with the request's sender.
pub(super) struct Watch {
    clock: BootClock,
    /// Whether a write that fails may have sent something: TLS writes several times within one.
    hides_writes: bool,
    /// Whether the socket has taken a byte since the last [`Watch::arm`].
    touched: AtomicBool,
    /// Boot-time nanoseconds from which on the first byte may not leave any more.
    first_byte_before: AtomicU64,
}

impl Wire {
    pub(super) fn new(socket: Socket, clock: BootClock) -> (Self, Arc<Watch>) {
        let watch = Arc::new(Watch {
            clock,
            hides_writes: matches!(socket, Socket::Tls(_)),
            touched: AtomicBool::new(false),
            first_byte_before: AtomicU64::new(NEVER),
        });
        (Self { socket, watch: watch.clone() }, watch)
    }
}

impl Watch {
    /// Begins to watch a request, whose first byte may leave only before `limit` of the boot clock.
    ///
    /// The permission to send was given by whoever looked at the clock; between that look and the
    /// write lie a queue and a task switch, and this is what bounds them.
    pub(super) fn arm(&self, limit: Option<Duration>) {
        let limit = limit.and_then(|at| u64::try_from(at.as_nanos()).ok()).unwrap_or(NEVER);
        self.first_byte_before.store(limit, Ordering::Relaxed);
        self.touched.store(false, Ordering::Release);
    }

    /// Whether a byte of the request has left, or may have.
    pub(super) fn touched(&self) -> bool {
        self.touched.load(Ordering::Acquire)
    }

    fn may_write(&self) -> bool {
        if self.touched() {
            return true;
        }
        let limit = self.first_byte_before.load(Ordering::Relaxed);
        limit == NEVER || (self.clock)() < Duration::from_nanos(limit)
    }

    fn written(&self, result: &Poll<io::Result<usize>>) {
        let may_have_left = match result {
            Poll::Ready(Ok(bytes)) => *bytes > 0,
            Poll::Ready(Err(_)) => self.hides_writes,
            Poll::Pending => false,
        };
        if may_have_left {
            self.touched.store(true, Ordering::Release);
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        if !self.watch.may_write() {
            return Poll::Ready(Err(too_late()));
        }
        let result = Pin::new(&mut self.socket).poll_write(cx, bytes);
        self.watch.written(&result);
        result
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if !self.watch.may_write() {
            return Poll::Ready(Err(too_late()));
        }
        let result = Pin::new(&mut self.socket).poll_write_vectored(cx, slices);
        self.watch.written(&result);
        result
    }

    fn is_write_vectored(&self) -> bool {
        self.socket.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.socket).poll_shutdown(cx)
    }
}

fn too_late() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "the permission to send has lapsed")
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::*;

    async fn connected(clock: BootClock) -> (Wire, Arc<Watch>, TcpStream) {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
        let socket = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (peer, _) = listener.accept().await.unwrap();
        let (wire, watch) = Wire::new(Socket::Clear(socket), clock);
        (wire, watch, peer)
    }

    fn stopped_clock(at_ms: Arc<AtomicU64>) -> BootClock {
        Arc::new(move || Duration::from_millis(at_ms.load(Ordering::Relaxed)))
    }

    #[tokio::test]
    async fn the_first_byte_leaves_only_before_its_limit() {
        let now_ms = Arc::new(AtomicU64::new(100));
        let (mut wire, watch, _peer) = connected(stopped_clock(now_ms.clone())).await;
        watch.arm(Some(Duration::from_millis(100)));
        let error = wire.write(b"x").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert!(!watch.touched(), "nothing has left");

        watch.arm(Some(Duration::from_millis(101)));
        assert_eq!(wire.write(b"x").await.unwrap(), 1);
        assert!(watch.touched());
    }

    #[test]
    fn a_failed_write_proves_nothing_within_tls() {
        for hides_writes in [false, true] {
            let watch = Watch {
                clock: Arc::new(|| Duration::ZERO),
                hides_writes,
                touched: AtomicBool::new(false),
                first_byte_before: AtomicU64::new(NEVER),
            };
            watch.written(&Poll::Pending);
            assert!(!watch.touched());
            watch.written(&Poll::Ready(Err(io::ErrorKind::ConnectionReset.into())));
            assert_eq!(watch.touched(), hides_writes);
        }
    }

    #[tokio::test]
    async fn later_bytes_leave_whenever_they_are_ready() {
        let now_ms = Arc::new(AtomicU64::new(0));
        let (mut wire, watch, _peer) = connected(stopped_clock(now_ms.clone())).await;
        watch.arm(Some(Duration::from_millis(1)));
        wire.write_all(b"head").await.unwrap();
        now_ms.store(1000, Ordering::Relaxed);
        wire.write_all(b"body").await.unwrap();
        assert!(watch.touched());
    }

    #[tokio::test]
    async fn a_request_is_watched_anew() {
        let (mut wire, watch, _peer) = connected(stopped_clock(Arc::default())).await;
        watch.arm(None);
        wire.write_all(b"first").await.unwrap();
        watch.arm(None);
        assert!(!watch.touched());
    }
}
