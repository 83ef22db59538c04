//! What a node is told when it starts. Typed and checked by the caller; no file or environment is
//! read here.

use std::collections::HashMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use hmac::{Hmac, KeyInit, Mac};
use serde::{Deserialize, Serialize};
use sha2::Sha256;

/// Identifies a node of a cluster; chosen by the operator, never reused. Below 2^63.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct NodeId(pub u64);

/// Ids from here on are those of gateways without a node; no node may have one.
const GATEWAYS: u64 = 1 << 63;

impl NodeId {
    /// An id for a gateway without a node, drawn from `random` when it starts. Nobody keeps it.
    pub(crate) const fn of_gateway(random: u64) -> Self {
        Self(random | GATEWAYS)
    }

    /// Whether this is no node but a gateway.
    pub(crate) const fn is_gateway(self) -> bool {
        self.0 >= GATEWAYS
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A first member of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Its id.
    pub id: NodeId,
    /// Where the other nodes reach it.
    pub addr: SocketAddr,
    /// The region it stands in.
    pub region: String,
}

/// The cluster's secret, with which nodes prove themselves to each other; never sent, never
/// printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Vec<u8>);

impl Secret {
    /// A secret of at least [`Secret::BYTES_MIN`] bytes; `None` when it is shorter.
    pub fn new(bytes: Vec<u8>) -> Option<Self> {
        (bytes.len() >= Self::BYTES_MIN).then_some(Self(bytes))
    }

    /// The shortest secret accepted: 16 bytes cannot be guessed over the network.
    pub const BYTES_MIN: usize = 16;

    /// The secret itself.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// Another secret for one purpose, the same for whoever has this one. It does not tell this
    /// one, nor that for another purpose or of another cluster.
    pub fn derived(&self, purpose: &str, cluster: &str) -> [u8; 32] {
        let mut mac =
            Hmac::<Sha256>::new_from_slice(&self.0).expect("HMAC takes keys of any length");
        for part in [purpose, cluster] {
            mac.update(&(part.len() as u64).to_be_bytes());
            mac.update(part.as_bytes());
        }
        mac.finalize().into_bytes().into()
    }
}

impl Secret {
    /// What records' hashes of requests are made under.
    pub(crate) fn outlines(&self, cluster: &str) -> [u8; 32] {
        self.derived("oncegate outlines of requests 1", cluster)
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

/// The most that a tenant's records may come to. Records count from their claim until some moments
/// after their retention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Quota {
    /// How many there may be; `None`: any number.
    pub records: Option<u64>,
    /// How many bytes they may take up, names and stored responses included; `None`: any number.
    pub bytes: Option<u64>,
}

/// What a node is told when it starts.
#[derive(Clone, Debug)]
pub struct NodeConfig {
    /// The cluster's name; a data directory of another cluster is refused.
    pub cluster: String,
    /// This node's id, one of `peers`.
    pub id: NodeId,
    /// Where the log and the records are kept; created when absent.
    pub data_dir: PathBuf,
    /// The first members, this node among them. One or three or five.
    pub peers: Vec<Peer>,
    /// Number of shards, fixed when the cluster is created. 1 to [`crate::placement::SLOTS`].
    pub shards: u16,
    /// Proves this node to its peers.
    pub secret: Secret,
    /// Digest of the policy's naming part; peers with another digest are refused.
    pub naming: [u8; 32],
    /// What tenants may store; whoever is not named, as much as there is room for.
    pub quotas: HashMap<String, Quota>,
}

/// What a gateway without a node is told when it starts.
#[derive(Clone, Debug)]
pub struct RemoteConfig {
    /// The cluster's name.
    pub cluster: String,
    /// The nodes.
    pub peers: Vec<Peer>,
    /// Number of shards of the cluster.
    pub shards: u16,
    /// Proves this process to the nodes.
    pub secret: Secret,
    /// Digest of the policy's naming part; nodes with another digest do not serve this process.
    pub naming: [u8; 32],
}
