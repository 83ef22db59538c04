//! openraft's log storage over the node's write-ahead log.
//!
//! Order is what matters: votes and entries of a shard reach the disk in the order of the calls. A
//! vote is durable before the call returns; an append is readable when it returns and reported once
//! it is durable. Truncation and purge are ordered with the appends around them, so they need no
//! wait of their own.

use std::fmt::Debug;
use std::io;
use std::ops::{Bound, RangeBounds};

use openraft::storage::{IOFlushed, LogState, RaftLogReader, RaftLogStorage};
use openraft::{OptionalSend, entry::RaftEntry};
use tokio::sync::oneshot;

use super::types::{Entry, LogId, TypeConfig, Vote};
use super::wire;
use crate::codec::CodecError;
#[cfg(feature = "testing")]
use crate::failpoint;
use crate::storage::wal::ShardLog;

/// Most bytes that one append to a follower carries. An entry that is larger travels alone.
const APPEND_BYTES_MAX: usize = 1 << 20;

/// The log of one shard on this node. Clones share it.
#[derive(Clone)]
pub(crate) struct LogStore {
    log: ShardLog,
}

impl LogStore {
    pub(crate) fn new(log: ShardLog) -> Self {
        Self { log }
    }

    fn read(&self, from: u64, to: u64, bytes_max: usize) -> Result<Vec<Entry>, io::Error> {
        let entries = self.log.read(from, to, bytes_max);
        entries.into_iter().map(|(_, bytes)| wire::decode_entry(bytes).map_err(damaged)).collect()
    }
}

impl RaftLogReader<TypeConfig> for LogStore {
    async fn try_get_log_entries<RB>(&mut self, range: RB) -> Result<Vec<Entry>, io::Error>
    where
        RB: RangeBounds<u64> + Clone + Debug + OptionalSend,
    {
        let from = match range.start_bound() {
            Bound::Included(index) => *index,
            Bound::Excluded(index) => index + 1,
            Bound::Unbounded => 0,
        };
        let to = match range.end_bound() {
            Bound::Included(index) => index + 1,
            Bound::Excluded(index) => *index,
            Bound::Unbounded => u64::MAX,
        };
        self.read(from, to, usize::MAX)
    }

    async fn limited_get_log_entries(
        &mut self,
        start: u64,
        end: u64,
    ) -> Result<Vec<Entry>, io::Error> {
        self.read(start, end, APPEND_BYTES_MAX)
    }

    async fn read_vote(&mut self) -> Result<Option<Vote>, io::Error> {
        self.log.vote().map(|bytes| wire::decode_vote(&bytes)).transpose().map_err(damaged)
    }
}

impl RaftLogStorage<TypeConfig> for LogStore {
    type LogReader = Self;

    async fn get_log_state(&mut self) -> Result<LogState<TypeConfig>, io::Error> {
        let last_purged_log_id = self.purged()?;
        let last_log_id = match self.log.last_index() {
            Some(last) => self.read(last, last + 1, usize::MAX)?.first().map(RaftEntry::log_id),
            None => None,
        };
        let last_log_id = last_log_id.or(last_purged_log_id);
        Ok(LogState { last_purged_log_id, last_log_id })
    }

    async fn get_log_reader(&mut self) -> Self {
        self.clone()
    }

    async fn save_vote(&mut self, vote: &Vote) -> Result<(), io::Error> {
        let (sender, synced) = oneshot::channel();
        // A receiver that is gone means that Raft is shutting down and no longer waits for the
        // vote.
        let reported = Box::new(move |result| drop(sender.send(result)));
        self.log.save_vote(wire::encode_vote(vote), reported);
        #[cfg(feature = "testing")]
        if failpoint::is_planted(failpoint::Bug::VoteNotSynced) {
            return Ok(());
        }
        synced.await.map_err(|_| io::Error::other("log closed before the vote was durable"))?
    }

    async fn save_committed(&mut self, committed: Option<LogId>) -> Result<(), io::Error> {
        if let Some(log_id) = committed {
            self.log.save_committed(wire::encode_log_id(&log_id));
        }
        Ok(())
    }

    async fn read_committed(&mut self) -> Result<Option<LogId>, io::Error> {
        self.log.committed().map(|bytes| wire::decode_log_id(&bytes)).transpose().map_err(damaged)
    }

    async fn append<I>(
        &mut self,
        entries: I,
        callback: IOFlushed<TypeConfig>,
    ) -> Result<(), io::Error>
    where
        I: IntoIterator<Item = Entry> + OptionalSend,
        I::IntoIter: OptionalSend,
    {
        let entries = entries
            .into_iter()
            .map(|entry| (entry.index(), wire::encode_entry(&entry)))
            .collect::<Vec<_>>();
        self.log.room().await;
        #[cfg(feature = "testing")]
        if failpoint::is_planted(failpoint::Bug::AppendNotSynced) {
            self.log.append(entries, Box::new(|_| ()));
            callback.io_completed(Ok(()));
            return Ok(());
        }
        self.log.append(entries, Box::new(move |result| callback.io_completed(result)));
        Ok(())
    }

    async fn truncate_after(&mut self, last_log_id: Option<LogId>) -> Result<(), io::Error> {
        self.log.truncate_after(last_log_id.map(|log_id| log_id.index));
        Ok(())
    }

    async fn purge(&mut self, log_id: LogId) -> Result<(), io::Error> {
        self.log.purge(log_id.index, wire::encode_log_id(&log_id));
        Ok(())
    }
}

impl LogStore {
    fn purged(&self) -> Result<Option<LogId>, io::Error> {
        self.log.purged().map(|(_, mark)| wire::decode_log_id(&mark)).transpose().map_err(damaged)
    }
}

fn damaged(error: CodecError) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, error)
}
