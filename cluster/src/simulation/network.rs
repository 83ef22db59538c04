//! The network between simulated machines, as a test sees it.

use std::ops::RangeInclusive;
use std::time::Duration;

use crate::config::NodeId;
use crate::transport::memory::MemoryNetwork;

/// Ways between nodes, each in its own direction. Clones share them.
#[derive(Clone)]
pub struct Network(pub(super) MemoryNetwork);

impl Network {
    /// A network without nodes. Delays and losses follow from `seed`.
    pub fn new(seed: u64) -> Self {
        Self(MemoryNetwork::new(seed))
    }

    /// Loses everything from one node to another; nobody is told.
    pub fn cut(&self, from: NodeId, to: NodeId) {
        self.0.cut(from, to);
    }

    /// Breaks the connections between two nodes, and lets them make no new ones.
    pub fn sever(&self, one: NodeId, other: NodeId) {
        self.0.sever(one, other);
    }

    /// Ends every cut and severance between two nodes.
    pub fn heal(&self, one: NodeId, other: NodeId) {
        self.0.heal(one, other);
    }

    /// Makes everything from one node to another take a time from this range.
    pub fn delay(&self, from: NodeId, to: NodeId, delay: RangeInclusive<Duration>) {
        self.0.delay(from, to, delay);
    }

    /// Loses this share of what goes from one node to another, from 0 to 1.
    pub fn lose(&self, from: NodeId, to: NodeId, share: f64) {
        self.0.lose(from, to, share);
    }
}
