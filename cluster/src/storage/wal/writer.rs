//! The thread that writes and syncs: the only one that touches the segment in use.

use std::sync::Arc;

use super::super::frame;
use super::change::{Change, END_BYTES};
use super::failure::{Alarm, Failure};
use super::ledger::Ledger;
use super::queue::{Batch, Queue};
use super::segment::{HEADER_BYTES, Header, Segment};
use super::shard_log::Shards;
use super::supply::Supply;
use crate::placement::ShardId;

/// Entries of an old segment are written again in pieces of this size, so that nobody waits long
/// behind one.
const REWRITE_BYTES: usize = 1 << 20;

pub(super) struct Writer {
    pub(super) queue: Arc<Queue>,
    pub(super) supply: Arc<Supply>,
    pub(super) shards: Arc<Shards>,
    pub(super) alarm: Arc<Alarm>,
    pub(super) ledger: Ledger,
    /// Number of the log, see [`Header`].
    pub(super) log: u64,
    /// The segment being written, and where its next group begins.
    pub(super) active: Segment,
    pub(super) offset: u64,
    /// Number of the next group.
    pub(super) group: u64,
    /// Whether the last group is the mark of an orderly end.
    pub(super) ended: bool,
    pub(super) segment_bytes: u64,
    /// Old segments are rewritten when more are held, see [`Writer::rewrite`].
    pub(super) segments_held: usize,
}

impl Writer {
    /// The thread's life: until the queue is closed and empty.
    pub(super) fn run(mut self) {
        let mut batch = Batch::default();
        while self.queue.drain(&mut batch) {
            self.settle(&mut batch);
        }
        self.end();
    }

    /// Makes a batch durable and tells everybody who waits for it.
    pub(super) fn settle(&mut self, batch: &mut Batch) {
        let committed = self.commit(&mut batch.frames, END_BYTES);
        for synced in batch.synced.drain(..) {
            synced(committed.as_ref().copied().map_err(Failure::to_io));
        }
        if committed.is_ok() {
            self.release();
            self.rewrite();
        }
    }

    /// Marks an orderly end.
    pub(super) fn end(&mut self) {
        if !self.ended {
            let mut end = Vec::new();
            Change::End.push(&mut end, ShardId(0));
            // An alarm was raised if it fails; nobody else waits for it.
            self.ended = self.commit(&mut end, 0).is_ok();
        }
    }

    /// Makes frames durable as one group, with at least `reserve` bytes of the segment left after
    /// them. After a failure nothing is written any more.
    fn commit(&mut self, frames: &mut Vec<u8>, reserve: u64) -> Result<(), Failure> {
        if let Some(failure) = self.alarm.raised() {
            return Err(failure);
        }
        if frames.is_empty() {
            return Ok(());
        }
        let full = self.offset + frames.len() as u64 + reserve > self.active.capacity;
        let ready = if full { self.roll(frames) } else { Ok(()) };
        let written = ready.and_then(|()| self.write(frames));
        written.inspect_err(|failure| self.alarm.raise(failure.clone()))
    }

    fn write(&mut self, frames: &mut [u8]) -> Result<(), Failure> {
        let salt = Header { sequence: self.active.sequence, log: self.log }.salt();
        frame::seal(frames, self.group, salt);
        let failed = |action, error| Failure::new(action, &self.active.path, &error);
        self.active.file.write_at(frames, self.offset).map_err(|error| failed("write", error))?;
        self.active.file.sync_data().map_err(|error| failed("sync", error))?;
        for frame in frame::walk(frames) {
            let change = Change::of(&frame).expect("the frame was made from a change");
            let noted = self.ledger.note(frame.shard, &change);
            noted.expect("a shard's log keeps its changes in order");
        }
        self.offset += frames.len() as u64;
        self.group += 1;
        self.ended = false;
        Ok(())
    }

    /// Goes on in the next segment, which begins with the state of every shard as it is on disk
    /// now.
    fn roll(&mut self, frames: &mut Vec<u8>) -> Result<(), Failure> {
        let mut whole = Vec::with_capacity(frames.len());
        self.ledger.push_state(&mut whole);
        whole.append(frames);
        *frames = whole;
        let needed = HEADER_BYTES + frames.len() as u64 + END_BYTES;
        self.active = self.supply.take(needed)?;
        self.offset = HEADER_BYTES;
        self.ledger.begin(self.active.sequence);
        Ok(())
    }

    fn release(&mut self) {
        while let Some(sequence) = self.ledger.release() {
            self.supply.retire(sequence);
        }
    }

    /// Writes what keeps the oldest segment again, when many segments are held and less than half
    /// of what they hold matters: a few entries of an idle shard never keep the log of all others.
    /// Since each pass frees at least as much as it writes, the log cannot chase its own tail.
    fn rewrite(&self) {
        let held = self.ledger.held();
        if held <= self.segments_held || self.shards.bytes() * 2 > held as u64 * self.segment_bytes
        {
            return;
        }
        let mut budget = REWRITE_BYTES;
        for (shard, range) in self.ledger.pinning() {
            self.shards.get(shard).rewrite(range, &mut budget);
            if budget == 0 {
                break;
            }
        }
    }
}
