//! Errors of starting a node and of submitting a command, and how certain they are.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use thiserror::Error;

/// Whether a failed command may still take effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Certainty {
    /// It did not and never will.
    Definite,
    /// It may have, or may yet.
    Indefinite,
}

/// Why a command was not answered.
///
/// Before a proposal is handed to Raft an error may be definite; after it none is, not even "I am
/// no longer the leader".
#[derive(Clone, Debug, PartialEq, Eq, Error, Serialize, Deserialize)]
pub enum SubmitError {
    /// No leader is known, or the one that is known cannot be reached.
    #[error("shard has no reachable leader")]
    NoLeader,
    /// The shard's mailbox or the connection to its leader is full.
    #[error("shard is overloaded")]
    Overloaded,
    /// The clock of the leader, or of this node, is not within its bound of the cluster's median.
    #[error("clock is not trusted")]
    ClockNotTrusted,
    /// The leader's disk is nearly full: it takes no new claims.
    #[error("leader's disk is full")]
    DiskFull,
    /// The node is stopping.
    #[error("node is stopping")]
    Stopping,
    /// The deadline passed before the command was handed over.
    #[error("no time left to submit")]
    Expired,
    /// The deadline passed while the answer was awaited.
    #[error("no answer in time")]
    TimedOut,
    /// The connection to the leader broke, or the leader lost its leadership, while the answer was
    /// awaited.
    #[error("answer lost with the leader")]
    Lost,
    /// This node's policy names records otherwise than those of so many nodes that it can have no
    /// leader with the rest.
    #[error("this node's policy is not the cluster's")]
    ConfigMismatch,
    /// The name's tenant has as many records as it may have, or as large ones: it gets no new keys.
    #[error("tenant's quota is used up")]
    QuotaExceeded,
    /// Nothing is ever kept under so long a name.
    #[error("name is too long")]
    NameTooLong,
}

impl SubmitError {
    /// Whether the command may still take effect.
    pub const fn certainty(&self) -> Certainty {
        match self {
            Self::NoLeader
            | Self::Overloaded
            | Self::ClockNotTrusted
            | Self::DiskFull
            | Self::Stopping
            | Self::Expired
            | Self::ConfigMismatch
            | Self::QuotaExceeded
            | Self::NameTooLong => Certainty::Definite,
            Self::TimedOut | Self::Lost => Certainty::Indefinite,
        }
    }

    /// Whether the cause stays for longer than a caller waits, mostly until an operator acts.
    pub const fn is_lasting(&self) -> bool {
        matches!(
            self,
            Self::DiskFull | Self::ConfigMismatch | Self::QuotaExceeded | Self::NameTooLong
        )
    }
}

/// Why a node did not start, or stopped. Each says in one line what to do.
#[derive(Debug, Error)]
pub enum StartError {
    /// The data directory is another node's, another cluster's, or was made for another number of
    /// shards.
    #[error("data directory {dir}: {found}; {remedy}")]
    ForeignDirectory {
        /// The directory.
        dir: PathBuf,
        /// What was found there.
        found: String,
        /// What to do.
        remedy: String,
    },
    /// Another process uses the data directory.
    #[error(
        "data directory {dir} is in use by another process; stop it or choose another data_dir"
    )]
    InUse {
        /// The directory.
        dir: PathBuf,
    },
    /// The log or the records are damaged.
    #[error(
        "{file}: damaged at byte {offset}: {what}; \
         remove this node from the cluster and add it again with an empty data_dir"
    )]
    Damaged {
        /// The damaged file.
        file: PathBuf,
        /// Where the damage begins.
        offset: u64,
        /// What is wrong there.
        what: String,
    },
    /// A file operation failed.
    #[error("{path}: {action}: {source}")]
    Io {
        /// What was being done.
        action: &'static str,
        /// With which file.
        path: PathBuf,
        /// The system's word on it.
        source: std::io::Error,
    },
    /// The disk is full.
    #[error(
        "{dir}: disk is full ({free} bytes free, {needed} needed); free some space and start again"
    )]
    DiskFull {
        /// The data directory.
        dir: PathBuf,
        /// Bytes free.
        free: u64,
        /// Bytes needed.
        needed: u64,
    },
    /// The configuration cannot work.
    #[error("{0}")]
    Config(String),
    /// Peers refuse this node.
    #[error("node {node} refuses this node: {reason}")]
    Refused {
        /// The peer.
        node: u64,
        /// Its reason, with the remedy.
        reason: String,
    },
    /// The consensus engine failed.
    #[error("consensus engine: {0}")]
    Engine(String),
}
