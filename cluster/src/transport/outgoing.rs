//! What leaves on one connection: many producers push frames into one buffer, and one writer swaps
//! it out and writes all of it with one system call.

use std::convert::Infallible;
use std::io;
use std::sync::{Mutex, MutexGuard};

use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::Notify;

use super::frame::{self, BODY_BYTES_MAX, Head};
use super::silence::Signs;
use super::{OWN_KINDS, share_of};

/// How many bytes may wait to be written. It holds the longest frame and as much again, and takes
/// less than three seconds to leave on a link of 100 Mbit/s. As much may be in the writer's hands.
pub(super) const WAITING_BYTES_MAX: usize = 36 << 20;

/// How far the transport's own frames with no more than a word to say may go beyond: twenty
/// thousand of them. They tell the peer how its requests ended, so they matter most when the buffer
/// is full.
const BARE_BYTES: usize = 512 << 10;

/// The longest body of such a frame.
const WORD_BYTES: usize = 8;

/// A buffer that grew beyond this is given back once it is written.
const KEPT_BYTES: usize = 1 << 20;

/// Frames that wait to be written.
#[derive(Default)]
pub(super) struct Outgoing {
    queue: Mutex<Queue>,
    /// The writer's cue: there is something to write.
    filled: Notify,
    /// The other way round, for [`Outgoing::flushed`].
    written: Notify,
}

#[derive(Default)]
struct Queue {
    bytes: Vec<u8>,
    writing: bool,
    closed: bool,
}

/// Why a frame was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NotTaken {
    /// The buffer is at its bound, or the body is too long.
    Full,
    /// The connection is gone.
    Closed,
}

impl Outgoing {
    /// Takes a frame, behind all that were taken before.
    pub(super) fn push(&self, head: Head, body: &[u8]) -> Result<(), NotTaken> {
        if body.len() > BODY_BYTES_MAX {
            tracing::error!(kind = head.kind, bytes = body.len(), "body is too long for a frame");
            return Err(NotTaken::Full);
        }
        let mut queue = self.lock();
        if queue.closed {
            return Err(NotTaken::Closed);
        }
        let room = match body.len() {
            ..=WORD_BYTES if head.kind >= OWN_KINDS => WAITING_BYTES_MAX + BARE_BYTES,
            _ if head.kind >= OWN_KINDS => WAITING_BYTES_MAX,
            _ => share_of(head.kind, WAITING_BYTES_MAX),
        };
        if queue.bytes.len() + frame::frame_bytes(body.len()) > room {
            return Err(NotTaken::Full);
        }
        let idle = queue.bytes.is_empty();
        head.encode(body, &mut queue.bytes);
        drop(queue);
        if idle {
            self.filled.notify_one();
        }
        Ok(())
    }

    /// Writes what is pushed until the connection breaks or the buffer is closed. A write that was
    /// blocked and goes on shows that the peer's machine takes data, so it is a sign of life.
    pub(super) async fn write_to(
        &self,
        socket: &OwnedWriteHalf,
        signs: &Signs,
    ) -> io::Result<Infallible> {
        let mut batch = Vec::new();
        loop {
            {
                let mut queue = self.lock();
                if queue.closed {
                    return Err(io::ErrorKind::ConnectionAborted.into());
                }
                std::mem::swap(&mut queue.bytes, &mut batch);
                queue.writing = !batch.is_empty();
            }
            if batch.is_empty() {
                self.written.notify_one();
                self.filled.notified().await;
                continue;
            }
            write_all(socket, &batch, signs).await?;
            batch.clear();
            if batch.capacity() > KEPT_BYTES {
                batch = Vec::new();
            }
        }
    }

    /// Waits until all that was pushed has been handed to the system, or the connection is gone.
    pub(super) async fn flushed(&self) {
        loop {
            {
                let queue = self.lock();
                if queue.closed || (queue.bytes.is_empty() && !queue.writing) {
                    return;
                }
            }
            self.written.notified().await;
        }
    }

    /// Takes nothing any more and forgets what waits.
    pub(super) fn close(&self) {
        let mut queue = self.lock();
        *queue = Queue { closed: true, ..Queue::default() };
        drop(queue);
        self.filled.notify_one();
        self.written.notify_one();
    }

    pub(super) fn is_closed(&self) -> bool {
        self.lock().closed
    }

    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nothing panics while it holds the outgoing buffer")
    }
}

async fn write_all(socket: &OwnedWriteHalf, bytes: &[u8], signs: &Signs) -> io::Result<()> {
    let mut written = 0;
    while written < bytes.len() {
        match socket.try_write(&bytes[written..]) {
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(count) => written += count,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                socket.writable().await?;
                signs.seen();
            }
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use tokio::io::AsyncReadExt;
    use tokio::net::{TcpListener, TcpStream};

    use super::super::frame::FrameReader;
    use super::*;
    use crate::placement::ShardId;

    fn request(call: u64, kind: u8) -> Head {
        Head { call, kind, shard: ShardId(1), patience_ms: 0 }
    }

    async fn pair() -> (TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let dialed = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        (dialed, listener.accept().await.unwrap().0)
    }

    #[tokio::test]
    async fn frames_pushed_together_leave_in_order_and_in_one_piece() {
        let (ours, mut theirs) = pair().await;
        let (_read, write) = ours.into_split();
        let outgoing = Outgoing::default();
        for call in 0..100 {
            outgoing.push(request(call, 1), b"body").unwrap();
        }
        let signs = Signs::default();
        tokio::select! {
            result = outgoing.write_to(&write, &signs) => panic!("{result:?}"),
            () = outgoing.flushed() => {}
        }
        // Loopback delivers what one write hands over as a whole.
        let mut bytes = vec![0; 64 << 10];
        let count = theirs.read(&mut bytes).await.unwrap();
        assert_eq!(count, 100 * frame::frame_bytes(4));
        let mut reader = FrameReader::new(&bytes[..count]);
        reader.fill().await.unwrap();
        for call in 0..100 {
            assert_eq!(reader.take().unwrap().unwrap().head.call, call);
        }
    }

    #[test]
    fn a_full_buffer_takes_nothing_and_bulk_leaves_room_for_the_rest() {
        let outgoing = Outgoing::default();
        let body = Bytes::from(vec![0; 1 << 20]);
        let bulk =
            (0..).take_while(|call| outgoing.push(request(*call, 16), &body).is_ok()).count();
        let more =
            (0..).take_while(|call| outgoing.push(request(*call, 15), &body).is_ok()).count();
        assert_eq!((bulk, more), (26, 9));
        assert_eq!(outgoing.push(request(0, 1), &body), Err(NotTaken::Full));
        let bare = (0..)
            .take_while(|call| outgoing.push(Head::of(frame::LOST, *call), b"").is_ok())
            .count();
        assert!(bare > 10_000, "{bare}");
        let held = outgoing.lock().bytes.len();
        assert!(held <= WAITING_BYTES_MAX + BARE_BYTES, "{held}");
    }

    #[test]
    fn a_body_beyond_the_bound_is_refused() {
        let outgoing = Outgoing::default();
        let body = vec![0; BODY_BYTES_MAX + 1];
        assert_eq!(outgoing.push(request(0, 1), &body), Err(NotTaken::Full));
        assert_eq!(outgoing.push(request(0, 1), &body[1..]), Ok(()));
    }

    #[tokio::test]
    async fn a_closed_buffer_takes_nothing_and_has_nothing_left_to_flush() {
        let outgoing = Outgoing::default();
        outgoing.push(request(0, 1), b"never written").unwrap();
        outgoing.close();
        assert_eq!(outgoing.push(request(1, 1), b""), Err(NotTaken::Closed));
        outgoing.flushed().await;
        assert!(outgoing.is_closed());
        let (ours, _theirs) = pair().await;
        let (_read, write) = ours.into_split();
        let ended = outgoing.write_to(&write, &Signs::default()).await;
        assert_eq!(ended.unwrap_err().kind(), io::ErrorKind::ConnectionAborted);
    }
}
