//! A client's connection as the HTTP library sees it, watched from both sides.
//!
//! Reading, it follows where requests begin ([`Framing`]) and gives a head only so much time.
//! Writing, it turns the bare answers that the library gives to a malformed head into problems, and
//! gives up on a client that takes no bytes.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

use super::framing::Framing;
use super::{AMBIGUOUS, HEAD_TIME_MAX};
use crate::problem::{Code, MEDIA_TYPE, Problem};

/// How long a client may take no bytes of its answer.
const STALL_MAX: Duration = Duration::from_secs(30);

/// Marks "no head was ambiguous": no connection has that many requests.
const NONE: u64 = u64::MAX;

/// How far the requests of a connection are, shared between its [`Wire`] and its service. Both are
/// polled by one task, so the order of memory operations does not matter.
#[derive(Clone, Debug)]
pub(super) struct Progress(Arc<Counts>);

#[derive(Debug)]
struct Counts {
    /// Requests handed to the service.
    begun: AtomicU64,
    /// Responses whose body is all in the library's hands.
    ended: AtomicU64,
    /// The number of the head that could be read in more than one way.
    ambiguous: AtomicU64,
}

impl Default for Progress {
    fn default() -> Self {
        Self(Arc::new(Counts {
            begun: AtomicU64::new(0),
            ended: AtomicU64::new(0),
            ambiguous: AtomicU64::new(NONE),
        }))
    }
}

impl Progress {
    /// Notes that a request reached the service; says whether its head could be read in more than
    /// one way, and what to drop once the library has taken the whole response.
    pub(super) fn begin(&self) -> (bool, OpenRequest) {
        let number = self.0.begun.fetch_add(1, Ordering::Relaxed);
        let ambiguous = number == self.0.ambiguous.load(Ordering::Relaxed);
        (ambiguous, OpenRequest(self.clone()))
    }

    /// Whether the head that follows those of the begun requests is ambiguous.
    fn is_next_ambiguous(&self) -> bool {
        let begun = self.0.begun.load(Ordering::Relaxed);
        begun == self.0.ambiguous.load(Ordering::Relaxed)
    }

    /// How many requests are answered, when none is open.
    fn settled(&self) -> Option<u64> {
        let begun = self.0.begun.load(Ordering::Relaxed);
        (begun == self.0.ended.load(Ordering::Relaxed)).then_some(begun)
    }
}

/// One request, from the moment it reached the service until the library has taken the whole
/// response.
pub(super) struct OpenRequest(Progress);

impl Drop for OpenRequest {
    fn drop(&mut self) {
        self.0.0.ended.fetch_add(1, Ordering::Relaxed);
    }
}

/// A connection, watched.
pub(super) struct Wire<S> {
    stream: S,
    framing: Framing,
    progress: Progress,
    /// How many requests had been answered when all bytes were last flushed.
    flushed: u64,
    /// What is left of a problem that goes out in the place of one of the library's own answers.
    substitute: Option<Bytes>,
    head_deadline: Option<Pin<Box<Sleep>>>,
    stall_deadline: Option<Pin<Box<Sleep>>>,
}

impl<S> Wire<S> {
    pub(super) fn new(stream: S, progress: Progress) -> Self {
        Self {
            stream,
            framing: Framing::default(),
            progress,
            flushed: 0,
            substitute: None,
            head_deadline: None,
            stall_deadline: None,
        }
    }

    /// Whether bytes written now are the library's own answer: no request is open, and everything
    /// that belongs to earlier ones has been flushed.
    fn is_own_answer(&self) -> bool {
        self.progress.settled() == Some(self.flushed)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Wire<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let this = &mut *self;
        let before = buf.filled().len();
        let read = Pin::new(&mut this.stream).poll_read(cx, buf);
        match read {
            Poll::Ready(result) => {
                this.framing.feed(&buf.filled()[before..]);
                if let Some(number) = this.framing.ambiguous() {
                    this.progress.0.ambiguous.store(number, Ordering::Relaxed);
                }
                if !this.framing.within_head() {
                    this.head_deadline = None;
                }
                Poll::Ready(result)
            }
            Poll::Pending if this.framing.within_head() => {
                timed_out(&mut this.head_deadline, HEAD_TIME_MAX, cx, "head not in time")
            }
            Poll::Pending => Poll::Pending,
        }
    }
}

impl<S: AsyncWrite + Unpin> Wire<S> {
    /// Bounds how long a write may make no progress.
    fn unless_stalled(
        &mut self,
        cx: &mut Context<'_>,
        written: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match written {
            Poll::Ready(result) => {
                self.stall_deadline = None;
                Poll::Ready(result)
            }
            Poll::Pending => {
                timed_out(&mut self.stall_deadline, STALL_MAX, cx, "client takes no bytes")
            }
        }
    }

    /// Writes the substitute, if `head` is an answer of the library's own; `None` when it is not.
    fn poll_substitute(
        &mut self,
        cx: &mut Context<'_>,
        head: &[u8],
    ) -> Option<Poll<io::Result<usize>>> {
        if self.substitute.is_none() && self.is_own_answer() {
            self.substitute = substitute(head, self.progress.is_next_ambiguous());
        }
        let mut rest = self.substitute.take()?;
        while rest.has_remaining() {
            let written = Pin::new(&mut self.stream).poll_write(cx, &rest);
            match self.unless_stalled(cx, written) {
                Poll::Ready(Ok(0)) => return Some(Poll::Ready(Ok(0))),
                Poll::Ready(Ok(count)) => rest.advance(count),
                Poll::Ready(Err(error)) => return Some(Poll::Ready(Err(error))),
                Poll::Pending => {
                    self.substitute = Some(rest);
                    return Some(Poll::Pending);
                }
            }
        }
        Some(Poll::Ready(Ok(head.len())))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Wire<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        if let Some(substituted) = self.poll_substitute(cx, buf) {
            return substituted;
        }
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.unless_stalled(cx, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        // The library's own answer has no body: its head is the first and only part.
        if let Some(substituted) = bufs.first().and_then(|head| self.poll_substitute(cx, head)) {
            return substituted;
        }
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.unless_stalled(cx, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        if let Some(settled) = self.progress.settled() {
            self.flushed = settled;
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// Starts the deadline where it does not run yet; an error once it has passed.
fn timed_out<T>(
    deadline: &mut Option<Pin<Box<Sleep>>>,
    after: Duration,
    cx: &mut Context<'_>,
    what: &'static str,
) -> Poll<io::Result<T>> {
    let sleep = deadline.get_or_insert_with(|| Box::pin(sleep(after)));
    ready!(sleep.as_mut().poll(cx));
    Poll::Ready(Err(io::Error::new(io::ErrorKind::TimedOut, what)))
}

/// The problem that says what a bare answer of the library means; `None` when it is none. A head
/// that is `ambiguous` is malformed, whatever the library takes it for.
fn substitute(head: &[u8], ambiguous: bool) -> Option<Bytes> {
    const NO_BODY: &str = "content-length: 0\r\n";
    let text = str::from_utf8(head).ok()?;
    let (line, fields) = text.split_once("\r\n")?;
    let (status, code, detail) = match line.strip_prefix("HTTP/1.1 ")?.get(..3)? {
        "400" | "414" | "431" if ambiguous => {
            ("HTTP/1.1 400 Bad Request", Code::InvalidRequest, AMBIGUOUS)
        }
        "400" => (line, Code::InvalidRequest, "the request is not well-formed HTTP/1.1"),
        "414" => (line, Code::TargetTooLong, "the request's target is too long"),
        "431" => {
            (line, Code::HeadTooLarge, "the request's header fields are too many or too large")
        }
        _ => return None,
    };
    let (before, after) = fields.split_once(NO_BODY)?;
    let body = Problem::new(code, detail).document();
    let media_type = MEDIA_TYPE.to_str().expect("a media type is ASCII").to_owned();
    let length = body.len();
    let mut answer = format!(
        "{status}\r\n{before}content-type: {media_type}\r\ncontent-length: {length}\r\n{after}"
    )
    .into_bytes();
    answer.extend_from_slice(&body);
    Some(answer.into())
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_head_has_a_deadline_and_an_idle_connection_none() {
        let (mut client, server) = duplex(1024);
        let mut wire = Wire::new(server, Progress::default());
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nGET").await.unwrap();
        let mut bytes = [0; 1024];
        let _whole = wire.read(&mut bytes).await.unwrap();
        let began = Instant::now();
        let error = wire.read(&mut bytes).await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), HEAD_TIME_MAX.as_secs());

        let (mut client, server) = duplex(1024);
        let mut wire = Wire::new(server, Progress::default());
        client.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.unwrap();
        let _whole = wire.read(&mut bytes).await.unwrap();
        let idle = tokio::time::timeout(HEAD_TIME_MAX * 10, wire.read(&mut bytes)).await;
        assert!(idle.is_err(), "it goes on waiting");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_no_bytes_is_given_up() {
        let (_client, server) = duplex(4);
        let mut wire = Wire::new(server, Progress::default());
        let began = Instant::now();
        let error = wire.write_all(b"more than fits").await.unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::TimedOut);
        assert_eq!(began.elapsed().as_secs(), STALL_MAX.as_secs());
    }

    #[test]
    fn only_a_bare_refusal_is_substituted() {
        let bare = |status: &str| {
            format!(
                "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: 0\r\ndate: x\r\n\r\n"
            )
        };
        for status in ["400 Bad Request", "414 URI Too Long", "431 Request Header Fields Too Large"]
        {
            let answer = substitute(bare(status).as_bytes(), false).unwrap();
            let answer = str::from_utf8(&answer).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status}\r\nconnection: close\r\n")));
            assert!(answer.contains("date: x\r\n\r\n{\"type\":"), "{answer}");
        }
        assert_eq!(substitute(bare("200 OK").as_bytes(), true), None);
        assert_eq!(
            substitute(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 7\r\n\r\n", false),
            None
        );
        assert_eq!(substitute(b"HTTP/1.1 100 Continue\r\n\r\n", true), None);
    }
}
