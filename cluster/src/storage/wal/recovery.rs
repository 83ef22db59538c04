//! Reads the log back when a node starts: what was acknowledged, or a refusal that says what is
//! damaged.
//!
//! A crash may leave the group that was being written in pieces, in any order: a *torn tail*. It
//! was never acknowledged, so it is dropped. Everything else that does not check is damage. The two
//! are told apart by the groups' numbers: a group is written only after the one before it was
//! synced, so whatever stands after an incomplete group is either part of that same group, or the
//! proof that the group had been complete.
//!
//! Nothing is written before the whole log was found in order.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;

use bytes::Bytes;

use super::super::disk::Disk;
use super::WalError;
use super::failure::Failure;
use super::ledger::Ledger;
use super::replay::{Place, Replay};
use super::segment::{self, HEADER_BYTES, Segment};
use crate::placement::ShardId;

/// Zeros are written over a torn tail in pieces of this size.
const ZEROS: usize = 1 << 20;

/// The log as it was found, ready to go on.
pub(super) struct Recovered {
    pub(super) ledger: Ledger,
    pub(super) entries: BTreeMap<ShardId, VecDeque<Bytes>>,
    /// Number of the log, see [`segment::Header`].
    pub(super) log: u64,
    /// The segment to go on with, and where its next group begins.
    pub(super) active: Segment,
    pub(super) offset: u64,
    /// Number of the next group.
    pub(super) group: u64,
    /// Whether the log ended in order.
    pub(super) ended: bool,
}

impl Recovered {
    /// A log without a past.
    pub(super) fn new(log: u64, active: Segment) -> Self {
        let mut ledger = Ledger::default();
        ledger.begin(active.sequence);
        Self {
            ledger,
            entries: BTreeMap::new(),
            log,
            active,
            offset: HEADER_BYTES,
            group: 1,
            ended: false,
        }
    }
}

/// Reads the segments in `dir` that have these sequences, in ascending order and at least one.
pub(super) fn recover(
    disk: &dyn Disk,
    dir: &Path,
    sequences: &[u64],
) -> Result<Recovered, WalError> {
    let first = *sequences.first().expect("a log has a segment");
    let mut replay = Replay::new(dir, first);
    for (&sequence, expected) in sequences.iter().zip(first..) {
        if sequence != expected {
            let what = "segment is missing".into();
            let file = segment::path(dir, expected);
            return Err(WalError::Damaged { file, offset: 0, what });
        }
        let path = segment::path(dir, sequence);
        let bytes = disk.read(&path).map_err(|error| Failure::new("read", &path, &error))?;
        replay.segment(sequence, &bytes)?;
    }
    let entries = replay.take_entries()?;
    let active = settle(&replay, disk, sequences)?;
    let Replay { ledger, log, end, group, ended, .. } = replay;
    let log = log.expect("every segment names the log");
    let group = group.expect("a log without a complete group counts from 1");
    Ok(Recovered { ledger, entries, log, active, offset: end.offset, group, ended })
}

/// Removes every trace of what was dropped, so that nothing written later can be taken for a
/// part of it, or it for a part of that. The segment to go on with.
fn settle(replay: &Replay<'_>, disk: &dyn Disk, sequences: &[u64]) -> Result<Segment, WalError> {
    let Place { sequence, offset, bytes } = replay.end;
    let failed = |action, path: &Path, error| Failure::new(action, path, &error);
    // The newest first, each on its own: at no time may there be a hole in the sequence.
    for unused in sequences.iter().rev().take_while(|unused| **unused > sequence) {
        let path = segment::path(replay.dir, *unused);
        disk.remove(&path).map_err(|error| failed("remove", &path, error))?;
        disk.sync_dir(replay.dir).map_err(|error| failed("sync directory", replay.dir, error))?;
    }
    let path = segment::path(replay.dir, sequence);
    let file = disk.open(&path).map_err(|error| failed("open", &path, error))?;
    let in_order = replay.ended && replay.torn.is_none();
    if replay.dirty && !in_order {
        let torn = replay.torn.is_some();
        tracing::info!(file = %path.display(), offset, torn, "log did not end in order");
        let zeros = vec![0; ZEROS];
        for at in (offset..bytes).step_by(ZEROS) {
            let piece = ZEROS.min((bytes - at) as usize);
            let cleared = file.write_at(&zeros[..piece], at);
            cleared.map_err(|error| failed("write", &path, error))?;
        }
    }
    // What was read may have been in memory only, and after a failed sync a second one proves
    // nothing about it. Whatever came before the last group was synced before that was written.
    let rewritten = file.write_at(&replay.last, offset - replay.last.len() as u64);
    rewritten.map_err(|error| failed("write", &path, error))?;
    file.sync_data().map_err(|error| failed("sync", &path, error))?;
    Ok(Segment { sequence, capacity: bytes, path, file })
}
