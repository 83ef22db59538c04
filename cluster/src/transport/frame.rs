//! Frames: how requests and answers are cut out of the bytes of a connection.
//!
//! A frame is its length (4 bytes, of what follows), a head of fixed size, and a body; numbers are
//! little-endian. Only [`handshake`](super::handshake) comes before the first frame. A change of
//! this layout takes a new wire version.

use std::io;

use bytes::{Buf, Bytes, BytesMut};
use thiserror::Error;
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::placement::ShardId;

/// The longest body: an encoded value of the codec's largest size (16 MiB) in an envelope.
pub(crate) const BODY_BYTES_MAX: usize = 17 << 20;

/// Asks for the peer's wall clock; carries nothing.
pub(super) const PING: u8 = super::OWN_KINDS;
/// Answers a ping with the wall clock: milliseconds since the Unix epoch, 8 bytes.
pub(super) const PONG: u8 = super::OWN_KINDS + 1;
/// Answers a request with a body.
pub(super) const ANSWER: u8 = super::OWN_KINDS + 2;
/// Answers a request: nothing was done.
pub(super) const REFUSED: u8 = super::OWN_KINDS + 3;
/// Answers a request: the answer is lost.
pub(super) const LOST: u8 = super::OWN_KINDS + 4;

const LENGTH_BYTES: usize = 4;
const HEAD_BYTES: usize = 15;

/// How much room there is at least for each read: many small frames come in one.
const READ_BYTES: usize = 16 << 10;

/// How much memory a reader holds while frames are small.
const BUFFER_BYTES: usize = 64 << 10;

/// What stands before the body of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Head {
    /// Joins an answer to its request; the asking side counts.
    pub(super) call: u64,
    /// What the frame is.
    pub(super) kind: u8,
    /// The shard that a request is about; 0 in other frames.
    pub(super) shard: ShardId,
    /// For how many milliseconds from now the sender waits for an answer; 0 in an answer.
    pub(super) patience_ms: u32,
}

/// A frame as it was received.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Frame {
    pub(super) head: Head,
    pub(super) body: Bytes,
}

/// Why the bytes are not frames; the connection cannot be read any further.
#[derive(Debug, Error)]
pub(super) enum FrameError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("frame of {0} bytes announced")]
    Length(usize),
    #[error("connection ended within a frame")]
    Truncated,
    #[error("frame of kind {0} does not belong here")]
    Kind(u8),
}

impl Head {
    /// Of an answer, or another frame that is not about a shard.
    pub(super) fn of(kind: u8, call: u64) -> Self {
        Self { call, kind, shard: ShardId(0), patience_ms: 0 }
    }

    /// Appends the frame with this head and `body`.
    pub(super) fn encode(&self, body: &[u8], out: &mut Vec<u8>) {
        let length = u32::try_from(HEAD_BYTES + body.len()).expect("bodies are within their bound");
        out.reserve(frame_bytes(body.len()));
        out.extend_from_slice(&length.to_le_bytes());
        out.extend_from_slice(&self.call.to_le_bytes());
        out.push(self.kind);
        out.extend_from_slice(&self.shard.0.to_le_bytes());
        out.extend_from_slice(&self.patience_ms.to_le_bytes());
        out.extend_from_slice(body);
    }
}

/// How many bytes a frame with such a body takes.
pub(super) const fn frame_bytes(body_bytes: usize) -> usize {
    LENGTH_BYTES + HEAD_BYTES + body_bytes
}

/// Reads frames.
pub(super) struct FrameReader<R> {
    source: R,
    buffer: BytesMut,
    /// How much more the frame at the front of the buffer needs.
    missing: usize,
}

impl<R: AsyncRead + Unpin> FrameReader<R> {
    pub(super) fn new(source: R) -> Self {
        Self { source, buffer: BytesMut::with_capacity(BUFFER_BYTES), missing: 0 }
    }

    /// Reads what is there, after waiting for at least one byte; `false` at the end.
    pub(super) async fn fill(&mut self) -> Result<bool, FrameError> {
        self.buffer.reserve(self.missing.max(READ_BYTES));
        match self.source.read_buf(&mut self.buffer).await? {
            0 if self.buffer.is_empty() => Ok(false),
            0 => Err(FrameError::Truncated),
            _ => Ok(true),
        }
    }

    /// Takes the next frame, when it is there whole. An announced length is checked before any
    /// memory is set aside for it.
    pub(super) fn take(&mut self) -> Result<Option<Frame>, FrameError> {
        self.missing = 0;
        let Some(length) = self.buffer.first_chunk::<LENGTH_BYTES>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if !(HEAD_BYTES..=HEAD_BYTES + BODY_BYTES_MAX).contains(&length) {
            return Err(FrameError::Length(length));
        }
        let whole = LENGTH_BYTES + length;
        if self.buffer.len() < whole {
            self.missing = whole - self.buffer.len();
            return Ok(None);
        }
        let mut bytes = self.buffer.split_to(whole).freeze();
        if whole > BUFFER_BYTES {
            // The frame keeps the large buffer it came in; the reader goes back to a small one.
            let rest = std::mem::replace(&mut self.buffer, BytesMut::with_capacity(BUFFER_BYTES));
            self.buffer.extend_from_slice(&rest);
        }
        bytes.advance(LENGTH_BYTES);
        let head = Head {
            call: bytes.get_u64_le(),
            kind: bytes.get_u8(),
            shard: ShardId(bytes.get_u16_le()),
            patience_ms: bytes.get_u32_le(),
        };
        Ok(Some(Frame { head, body: bytes }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(call: u64) -> Head {
        Head { call, kind: 3, shard: ShardId(0x0102), patience_ms: 7 }
    }

    fn encoded(call: u64, body: &[u8]) -> Vec<u8> {
        let mut bytes = Vec::new();
        head(call).encode(body, &mut bytes);
        bytes
    }

    async fn read_all(mut reader: FrameReader<&[u8]>) -> Result<Vec<Frame>, FrameError> {
        let mut frames = Vec::new();
        while reader.fill().await? {
            while let Some(frame) = reader.take()? {
                frames.push(frame);
            }
        }
        Ok(frames)
    }

    #[test]
    fn the_layout_of_a_frame_is_pinned() {
        let expected =
            [&[18, 0, 0, 0][..], &[5, 0, 0, 0, 0, 0, 0, 0], &[3], &[2, 1], &[7, 0, 0, 0], b"abc"];
        assert_eq!(encoded(5, b"abc"), expected.concat());
        assert_eq!(frame_bytes(3), expected.concat().len());
    }

    #[tokio::test]
    async fn frames_come_back_whole_however_the_bytes_are_cut() {
        let bytes: Vec<u8> =
            (0..3).flat_map(|call| encoded(call, &vec![call as u8; call as usize * 9])).collect();
        for cut in 0..bytes.len() {
            let source = AsyncReadExt::chain(&bytes[..cut], &bytes[cut..]);
            let mut reader = FrameReader::new(source);
            let mut calls = Vec::new();
            while reader.fill().await.unwrap() {
                while let Some(frame) = reader.take().unwrap() {
                    assert_eq!(frame.head, head(frame.head.call));
                    assert_eq!(
                        frame.body,
                        vec![frame.head.call as u8; frame.head.call as usize * 9]
                    );
                    calls.push(frame.head.call);
                }
            }
            assert_eq!(calls, [0, 1, 2], "cut at {cut}");
        }
    }

    #[tokio::test]
    async fn the_end_within_a_frame_is_an_error() {
        let bytes = encoded(1, b"body");
        for cut in 1..bytes.len() {
            let result = read_all(FrameReader::new(&bytes[..cut])).await;
            assert!(matches!(result, Err(FrameError::Truncated)), "cut at {cut}: {result:?}");
        }
        assert!(read_all(FrameReader::new(&[][..])).await.unwrap().is_empty());
    }

    #[tokio::test]
    async fn a_length_out_of_bounds_is_refused_before_memory_is_set_aside() {
        for length in [0, 14, HEAD_BYTES + BODY_BYTES_MAX + 1, u32::MAX as usize] {
            let bytes = (length as u32).to_le_bytes();
            let mut reader = FrameReader::new(&bytes[..]);
            assert!(reader.fill().await.unwrap());
            assert!(matches!(reader.take(), Err(FrameError::Length(found)) if found == length));
            assert!(reader.buffer.capacity() <= BUFFER_BYTES);
        }
    }

    #[tokio::test]
    async fn the_longest_frame_passes_and_leaves_no_large_buffer_behind() {
        let mut bytes = encoded(1, &vec![9; BODY_BYTES_MAX]);
        bytes.extend(encoded(2, b"after"));
        let mut reader = FrameReader::new(&bytes[..]);
        let mut bodies = Vec::new();
        while reader.fill().await.unwrap() {
            while let Some(frame) = reader.take().unwrap() {
                bodies.push(frame.body.len());
            }
        }
        assert_eq!(bodies, [BODY_BYTES_MAX, 5]);
        assert!(reader.buffer.capacity() <= BUFFER_BYTES);
    }
}
