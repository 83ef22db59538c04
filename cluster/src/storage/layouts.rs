//! The layout of the log's frames, for tests and fuzzing.

use super::frame;
use crate::layouts::Layout;
use crate::placement::ShardId;

/// What the log's frames are salted with here.
const SALT: u32 = 7;

pub(crate) fn layout() -> Layout {
    Layout { name: "frame of the log", version: None, rewrite, sample }
}

fn rewrite(bytes: &[u8]) -> Option<Vec<u8>> {
    let (read, taken) = frame::decode(bytes, SALT).ok()?;
    let mut again = Vec::new();
    frame::push(&mut again, read.shard, read.kind, &[read.payload]);
    assert_eq!(again.len(), taken, "a frame takes as many bytes as it has");
    frame::seal(&mut again, read.group, SALT);
    Some(again)
}

fn sample(seed: &[u8]) -> Option<Vec<u8>> {
    let mut frame = Vec::new();
    frame::push(&mut frame, ShardId(3), 5, &[seed]);
    frame::seal(&mut frame, 9, SALT);
    Some(frame)
}
