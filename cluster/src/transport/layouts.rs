//! The layout of a connection's frames, for tests and fuzzing.

use futures_util::FutureExt;

use super::frame::{FrameReader, Head};
use crate::layouts::Layout;

pub(crate) fn layout() -> Layout {
    Layout { name: "frames of a connection", version: None, rewrite, sample }
}

/// Reads the bytes as a whole connection.
fn rewrite(bytes: &[u8]) -> Option<Vec<u8>> {
    let mut reader = FrameReader::new(bytes);
    let mut again = Vec::new();
    // Bytes that are there already are never waited for.
    while reader.fill().now_or_never()?.ok()? {
        while let Some(frame) = reader.take().ok()? {
            frame.head.encode(&frame.body, &mut again);
        }
    }
    Some(again)
}

fn sample(seed: &[u8]) -> Option<Vec<u8>> {
    let mut frames = Vec::new();
    for (call, body) in seed.chunks(7).enumerate() {
        let kind = body.first().copied().unwrap_or_default();
        Head::of(kind, call as u64).encode(body, &mut frames);
    }
    Some(frames)
}
