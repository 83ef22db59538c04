//! Keeps what went wrong with peers for operators: who refused whom and why, and how many strangers
//! knocked.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use tokio::time::Instant;

use crate::config::NodeId;

/// How many refusals are remembered, two for a peer. A cluster is smaller; only holders of the
/// secret get here at all.
const STANDING_MAX: usize = 64;

/// At most one log line of a sort in this time: anybody who reaches the port can cause it.
const LOG_EVERY: Duration = Duration::from_secs(10);

/// Connections that did not prove themselves, by what they did instead.
const STRANGERS: &str = "oncegate_transport_strangers_total";
/// Connections that were refused, by this node or by the peer.
const REFUSED: &str = "oncegate_transport_refused_total";

/// Why this node and a peer do not talk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Refusal {
    /// The peer.
    pub(crate) peer: NodeId,
    /// Whether this node refused the peer, or the peer this node.
    pub(crate) by_us: bool,
    /// What this node makes of it.
    pub(crate) cause: Cause,
    /// The reason, with what to do about it.
    pub(crate) reason: String,
}

/// Causes of refusals, as far as a node acts on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cause {
    /// The two policies name records differently. Both sides find that out by themselves.
    Naming,
    /// Anything else: the reason is for operators.
    Other,
}

/// Causes and reasons, by the peer and by whether this node is the one that refuses.
type Standing = BTreeMap<(NodeId, bool), (Cause, String)>;

/// The refusals that stand, and the log of strangers.
#[derive(Default)]
pub(super) struct Refusals {
    standing: Mutex<Standing>,
    /// How many of them are for the naming of records; asked with every command.
    naming: AtomicUsize,
    strangers: Gate,
    spurned: Gate,
    gateways: Gate,
}

impl Refusals {
    /// Notes a refusal; it stands until the peer is admitted.
    pub(super) fn refused(&self, refusal: Refusal) {
        let by = if refusal.by_us { "us" } else { "peer" };
        metrics::counter!(REFUSED, "by" => by).increment(1);
        let Refusal { peer, by_us, cause, reason } = refusal;
        if peer.is_gateway() {
            // It is no member, and comes back under another id: it has no say in what the nodes
            // think of each other, and no place among their refusals.
            if let Some(unlogged) = self.gateways.pass() {
                tracing::warn!(%reason, unlogged, "this node refuses a gateway");
            }
            return;
        }
        let mut standing = self.lock();
        let place = standing.len();
        match standing.entry((peer, by_us)) {
            Entry::Occupied(old) if old.get().1 == reason => return,
            Entry::Vacant(_) if place >= STANDING_MAX => {}
            entry => drop(entry.insert_entry((cause, reason.clone()))),
        }
        self.count_naming(&standing);
        drop(standing);
        if by_us {
            tracing::warn!(node = peer.0, %reason, "this node refuses a peer");
        } else {
            tracing::warn!(node = peer.0, %reason, "a peer refuses this node");
        }
    }

    /// The peer was admitted, and admitted this node.
    pub(super) fn admitted(&self, peer: NodeId) {
        let mut standing = self.lock();
        standing.retain(|(refused, _), _| *refused != peer);
        self.count_naming(&standing);
    }

    /// With how many peers this node does not talk because their policies name records differently.
    pub(super) fn naming(&self) -> usize {
        self.naming.load(Ordering::Relaxed)
    }

    fn count_naming(&self, standing: &Standing) {
        let naming = standing.values().filter(|(cause, _)| *cause == Cause::Naming);
        self.naming.store(naming.count(), Ordering::Relaxed);
    }

    /// The refusals that stand.
    pub(super) fn standing(&self) -> Vec<Refusal> {
        let standing = self.lock();
        let all = standing.iter();
        all.map(|((peer, by_us), (cause, reason))| Refusal {
            peer: *peer,
            by_us: *by_us,
            cause: *cause,
            reason: reason.clone(),
        })
        .collect()
    }

    /// Somebody who knocked here did not prove to hold the secret.
    pub(super) fn stranger(&self, from: SocketAddr, what: &'static str) {
        metrics::counter!(STRANGERS, "what" => what).increment(1);
        if let Some(unlogged) = self.strangers.pass() {
            tracing::warn!(%from, what, unlogged, "connection of a stranger closed");
        }
    }

    /// A peer closed the connection when this node had proved itself.
    pub(super) fn spurned(&self, peer: NodeId, addr: SocketAddr) {
        if let Some(unlogged) = self.spurned.pass() {
            tracing::warn!(
                node = peer.0,
                %addr,
                unlogged,
                "peer closed the connection during the handshake; if this goes on, compare \
                 [cluster] name and secret_file of both nodes"
            );
        }
    }

    fn lock(&self) -> MutexGuard<'_, Standing> {
        self.standing.lock().expect("nothing panics while it holds the refusals")
    }
}

/// Lets one log line pass in every [`LOG_EVERY`].
#[derive(Debug, Default)]
struct Gate(Mutex<(Option<Instant>, u64)>);

impl Gate {
    /// How many lines were held back since the last that passed; `None` to hold this one back.
    fn pass(&self) -> Option<u64> {
        let mut state = self.0.lock().expect("nothing panics while it holds the gate");
        let (last, held_back) = &mut *state;
        if last.is_some_and(|last| last.elapsed() < LOG_EVERY) {
            *held_back += 1;
            return None;
        }
        *last = Some(Instant::now());
        Some(std::mem::take(held_back))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(peer: u64, reason: &str) -> Refusal {
        let (peer, reason) = (NodeId(peer), reason.to_owned());
        Refusal { peer, by_us: true, cause: Cause::Other, reason }
    }

    #[test]
    fn a_refusal_stands_until_the_peer_is_admitted() {
        let refusals = Refusals::default();
        refusals.refused(refusal(2, "first"));
        refusals.refused(refusal(2, "second"));
        refusals.refused(refusal(3, "third"));
        let theirs = Refusal { by_us: false, ..refusal(2, "theirs") };
        refusals.refused(theirs.clone());
        assert_eq!(refusals.standing(), [theirs, refusal(2, "second"), refusal(3, "third")]);
        refusals.admitted(NodeId(2));
        assert_eq!(refusals.standing(), [refusal(3, "third")]);
    }

    #[test]
    fn gateways_have_no_say_in_what_nodes_think_of_each_other() {
        let refusals = Refusals::default();
        for id in 0..100 {
            let peer = NodeId::of_gateway(id);
            refusals.refused(Refusal { peer, cause: Cause::Naming, ..refusal(1, "naming") });
        }
        assert_eq!((refusals.naming(), refusals.standing()), (0, vec![]));
        refusals.refused(refusal(2, "a node"));
        assert_eq!(refusals.standing().len(), 1, "there is room for nodes");
    }

    #[test]
    fn peers_that_name_records_differently_are_counted_until_they_are_admitted() {
        let refusals = Refusals::default();
        let naming = |peer| Refusal { cause: Cause::Naming, ..refusal(peer, "naming") };
        refusals.refused(refusal(1, "other"));
        assert_eq!(refusals.naming(), 0);
        for peer in [2, 3, 2] {
            refusals.refused(naming(peer));
        }
        assert_eq!(refusals.naming(), 2, "each peer counts once");
        refusals.refused(refusal(2, "something else by now"));
        assert_eq!(refusals.naming(), 1);
        refusals.admitted(NodeId(3));
        assert_eq!(refusals.naming(), 0);
    }

    #[test]
    fn refusals_are_bounded_and_known_peers_keep_their_place() {
        let refusals = Refusals::default();
        for peer in 0..100 {
            refusals.refused(refusal(peer, "reason"));
        }
        assert_eq!(refusals.standing().len(), STANDING_MAX);
        refusals.refused(refusal(0, "changed"));
        assert_eq!(refusals.standing()[0], refusal(0, "changed"));
    }

    #[tokio::test(start_paused = true)]
    async fn one_line_passes_in_ten_seconds_and_counts_the_others() {
        let gate = Gate::default();
        assert_eq!(gate.pass(), Some(0));
        assert_eq!(gate.pass(), None);
        assert_eq!(gate.pass(), None);
        tokio::time::advance(LOG_EVERY).await;
        assert_eq!(gate.pass(), Some(2));
    }
}
