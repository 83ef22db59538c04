//! Which version of HTTP a client speaks, by the first bytes that it sends.
//!
//! There is no TLS on a listener, and so nothing that could negotiate a version: a client that
//! speaks HTTP/2 begins with its preface ("prior knowledge", RFC 9113, 3.3), and every other one
//! with the method of an HTTP/1.1 request.

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::{Buf, Bytes};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, ReadBuf};
use tokio::time::timeout;

use super::{HEAD_TIME_MAX, IDLE_MAX};

/// What a client of HTTP/2 begins with (RFC 9113, 3.4).
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// A version of HTTP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Spoken {
    /// HTTP/1.1 or HTTP/1.0, or what is to be refused as such.
    One,
    /// HTTP/2.
    Two,
}

/// A connection of which the first bytes have been read; whoever reads it gets them first.
pub(super) struct Begun<S> {
    first: Bytes,
    stream: S,
}

/// Reads no more than it takes to tell the versions apart.
///
/// # Errors
/// Those of the connection, its end before the first byte, or when the bytes do not come in time.
pub(super) async fn detect<S: AsyncRead + Unpin>(mut stream: S) -> io::Result<(Spoken, Begun<S>)> {
    let mut first = [0; PREFACE.len()];
    let mut filled = timeout(IDLE_MAX, stream.read(&mut first)).await??;
    if filled == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let rest = async {
        while filled < first.len() && first[..filled] == PREFACE[..filled] {
            match stream.read(&mut first[filled..]).await? {
                0 => break,
                more => filled += more,
            }
        }
        io::Result::Ok(())
    };
    timeout(HEAD_TIME_MAX, rest).await??;
    let spoken = if first[..filled] == PREFACE[..] { Spoken::Two } else { Spoken::One };
    Ok((spoken, Begun { first: Bytes::copy_from_slice(&first[..filled]), stream }))
}

impl<S: AsyncRead + Unpin> AsyncRead for Begun<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.first.has_remaining() {
            let count = self.first.len().min(buf.remaining());
            buf.put_slice(&self.first[..count]);
            self.first.advance(count);
            return Poll::Ready(Ok(()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Begun<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncWriteExt, duplex};
    use tokio::time::Instant;

    use super::*;

    /// What is detected in these bytes, sent in pieces, and everything that is read after that.
    async fn detected(bytes: &[u8], piece: usize) -> (Spoken, Vec<u8>) {
        let (mut client, server) = duplex(64);
        let sent = bytes.to_vec();
        let sending = tokio::spawn(async move {
            for part in sent.chunks(piece) {
                client.write_all(part).await.unwrap();
            }
        });
        let (spoken, mut begun) = detect(server).await.unwrap();
        let mut read = Vec::new();
        begun.read_to_end(&mut read).await.unwrap();
        sending.await.unwrap();
        (spoken, read)
    }

    #[tokio::test]
    async fn the_preface_tells_the_versions_apart_however_it_is_cut() {
        let mut two = PREFACE.to_vec();
        two.extend_from_slice(b"frames");
        for piece in 1..=two.len() {
            assert_eq!(detected(&two, piece).await, (Spoken::Two, two.clone()), "{piece}");
            for one in [&b"GET / HTTP/1.1\r\n\r\n"[..], b"P", b"POST", b"PRI * HTTP/1.1\r\n\r\n"] {
                assert_eq!(detected(one, piece).await, (Spoken::One, one.to_vec()));
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_does_not_go_on_is_given_up() {
        for (bytes, after) in [(&b""[..], IDLE_MAX), (b"PRI * HT", HEAD_TIME_MAX)] {
            let (mut client, server) = duplex(64);
            client.write_all(bytes).await.unwrap();
            let began = Instant::now();
            let error = detect(server).await.map(|_| ()).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert_eq!(began.elapsed().as_secs(), after.as_secs());
        }
    }
}
