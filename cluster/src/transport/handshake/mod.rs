//! Two processes prove to each other that they hold the cluster's secret, and agree to talk.
//!
//! ```text
//! dialer                                   acceptor
//!   opening: who dials whom, nonce     →
//!                                      ←    opening: who answers whom, nonce
//!   hello, sealed                      →
//!                                      ←    hello, sealed
//!                                      ←    verdict, sealed
//!   verdict, sealed                    →
//! ```
//! A *seal* is an HMAC-SHA256 over all that either side has said so far and the message itself,
//! each with the role of who said it, under a key made of the secret and the cluster's name
//! ([`seal`]).
//! So a sealed hello answers the other side's nonce and proves the secret without sending it; a
//! message that is reflected, replayed, or taken from another cluster or between other nodes has no
//! valid seal. The acceptor seals nothing before the dialer has proved itself, so who merely
//! reaches the port gets nothing to guess the secret by; all he sees is a closed connection.
//!
//! Those who hold the secret tell each other in the verdict why they refuse to talk, in words for
//! the operator. Messages are short and the whole takes at most [`TIMEOUT`]. This layout is frozen:
//! the versions that a hello names are of everything that comes after it.

mod message;
mod seal;
mod talk;

use std::collections::BTreeSet;
use std::io;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite};
use tokio::time::timeout;

use self::message::{Hello, Opening, Versions};
use self::seal::{ClusterKey, Role};
use self::talk::Talk;
use super::{Cause, PeerHello, Refusal, Service};
use crate::clock::{ClockGuard, Round};
use crate::config::{NodeConfig, NodeId, RemoteConfig};

/// How long a handshake may take. It is four short messages, so this is for the farthest peer on a
/// bad day; and who keeps a connection open without a word holds a place for no longer.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

/// The versions of frames, requests and answers that this program speaks.
const SPOKEN: Versions = Versions { oldest: 1, newest: 1 };

/// What a node says of itself, and whom it expects.
pub(super) struct Identity {
    id: NodeId,
    members: BTreeSet<NodeId>,
    key: ClusterKey,
    versions: Versions,
    shards: u16,
    naming: [u8; 32],
    instance: [u8; 16],
}

/// Why two processes do not talk.
#[derive(Debug, thiserror::Error)]
pub(super) enum ShakeError {
    #[error(transparent)]
    Io(#[from] io::Error),
    #[error("no answer in time")]
    TimedOut,
    /// The other side closed the connection.
    #[error("connection closed by the other side")]
    Closed,
    /// The other side closed the connection when this one had proved itself: the proof was wrong
    /// for it, or it stopped at this very moment.
    #[error("connection closed by the other side after this side's proof")]
    Spurned,
    /// The other side does not hold the secret, or speaks something else altogether.
    #[error("{0}")]
    Stranger(&'static str),
    /// The other side holds the secret, and one of the two refuses to talk.
    #[error("{}", .0.reason)]
    Refused(Refusal),
}

/// Why this process does not talk to another one that holds the secret.
#[derive(Debug)]
struct Unfit {
    cause: Cause,
    reason: String,
}

impl From<String> for Unfit {
    fn from(reason: String) -> Self {
        Self { cause: Cause::Other, reason }
    }
}

impl Identity {
    /// Of the node with this configuration and data directory.
    pub(super) fn new(config: &NodeConfig, instance: [u8; 16]) -> Self {
        Self {
            id: config.id,
            members: config.peers.iter().map(|peer| peer.id).collect(),
            key: ClusterKey::new(&config.secret, &config.cluster),
            versions: SPOKEN,
            shards: config.shards,
            naming: config.naming,
            instance,
        }
    }

    /// Of a gateway without a node and with this id, which only dials.
    pub(super) fn of_gateway(config: &RemoteConfig, id: NodeId) -> Self {
        Self {
            id,
            members: config.peers.iter().map(|peer| peer.id).collect(),
            key: ClusterKey::new(&config.secret, &config.cluster),
            versions: SPOKEN,
            shards: config.shards,
            naming: config.naming,
            instance: [0; 16],
        }
    }

    /// Shakes hands as the one who dialed `to`.
    ///
    /// # Errors
    /// See [`ShakeError`]; the connection is of no use then.
    pub(super) async fn dial<S>(
        &self,
        stream: &mut S,
        to: NodeId,
        guard: &ClockGuard,
        service: &dyn Service,
    ) -> Result<PeerHello, ShakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let shake = async {
            let mut talk = Talk::new(&self.key, stream, Role::Dialer);
            talk.say(&Opening::new(self.id, to).encode()).await?;
            let theirs = talk.hear_opening().await?;
            let asked = guard.boot();
            talk.say_sealed(&self.hello(guard).encode()).await?;
            let hello = talk.hear_hello().await.map_err(spurned)?;
            let round = Round { asked, wall: hello.wall, heard: guard.boot() };
            let met = self.meet(theirs, Some(to), &hello);
            let ours = met.and_then(|peer| admitted(peer, service));
            talk.say_verdict(&ours).await?;
            let peer = talk.settle(theirs.from, ours).await?;
            guard.sample(peer.node, round);
            Ok(peer)
        };
        timeout(TIMEOUT, shake).await.unwrap_or(Err(ShakeError::TimedOut))
    }

    /// Shakes hands as the one who was dialed.
    ///
    /// # Errors
    /// See [`ShakeError`]; the connection is of no use then.
    pub(super) async fn accept<S>(
        &self,
        stream: &mut S,
        guard: &ClockGuard,
        service: &dyn Service,
    ) -> Result<PeerHello, ShakeError>
    where
        S: AsyncRead + AsyncWrite + Unpin,
    {
        let shake = async {
            let mut talk = Talk::new(&self.key, stream, Role::Acceptor);
            let theirs = talk.hear_opening().await?;
            let asked = guard.boot();
            talk.say(&Opening::new(self.id, theirs.from).encode()).await?;
            let hello = talk.hear_hello().await?;
            let round = Round { asked, wall: hello.wall, heard: guard.boot() };
            talk.say_sealed(&self.hello(guard).encode()).await?;
            let met = self.meet(theirs, None, &hello);
            let ours = met.and_then(|peer| admitted(peer, service));
            talk.say_verdict(&ours).await?;
            let peer = talk.settle(theirs.from, ours).await?;
            guard.sample(peer.node, round);
            Ok(peer)
        };
        timeout(TIMEOUT, shake).await.unwrap_or(Err(ShakeError::TimedOut))
    }

    fn hello(&self, guard: &ClockGuard) -> Hello {
        Hello {
            versions: self.versions,
            shards: self.shards,
            instance: self.instance,
            naming: self.naming,
            wall: guard.wall(),
        }
    }

    /// Whether a proven peer fits: who it is, or why not and what to do about it.
    fn meet(
        &self,
        opening: Opening,
        dialed: Option<NodeId>,
        hello: &Hello,
    ) -> Result<PeerHello, Unfit> {
        self.is_expected(opening, dialed)?;
        self.speaks_with(opening.from, hello)?;
        let (us, peer) = (self.id, opening.from);
        if hello.naming != self.naming {
            let reason = format!(
                "the policies of {} and {} name records differently; give all nodes the same \
                 policy file",
                called(us),
                called(peer)
            );
            return Err(Unfit { cause: Cause::Naming, reason });
        }
        Ok(PeerHello { node: peer, instance: hello.instance })
    }

    /// Whether the peer is a member of the cluster, and the one that was meant.
    fn is_expected(&self, opening: Opening, dialed: Option<NodeId>) -> Result<(), String> {
        let (us, peer) = (self.id, opening.from);
        if peer == us {
            return Err(format!("two processes are node {us}; give each its own [node] id"));
        }
        if let Some(dialed) = dialed.filter(|dialed| *dialed != peer) {
            return Err(format!(
                "node {us} dialed node {dialed} and node {peer} answered; correct the addresses \
                 in [cluster] peers"
            ));
        }
        if opening.to != us {
            return Err(format!(
                "node {peer} dialed node {} and node {us} answered; correct the addresses in \
                 [cluster] peers",
                opening.to
            ));
        }
        let is_gateway = dialed.is_none() && peer.is_gateway();
        if !is_gateway && !self.members.contains(&peer) {
            return Err(format!(
                "node {peer} is not in [cluster] peers of node {us}; add it there, or correct its \
                 [node] id"
            ));
        }
        Ok(())
    }

    /// Whether the peer speaks what this node speaks, about the same shards.
    fn speaks_with(&self, peer: NodeId, hello: &Hello) -> Result<(), String> {
        let us = self.id;
        if !self.versions.overlap(hello.versions) {
            return Err(format!(
                "{} speaks wire versions {} and {} {}; upgrade one release at a time, every node \
                 before the next",
                called(us),
                self.versions,
                called(peer),
                hello.versions
            ));
        }
        if hello.shards != self.shards {
            return Err(format!(
                "{} has {} shards and {} {}; [cluster] shards must be the same everywhere",
                called(us),
                self.shards,
                called(peer),
                hello.shards
            ));
        }
        Ok(())
    }
}

/// A process as its operators know it.
fn called(id: NodeId) -> String {
    if id.is_gateway() { "a gateway".to_owned() } else { format!("node {id}") }
}

/// Whether the service takes the peer.
fn admitted(peer: PeerHello, service: &dyn Service) -> Result<PeerHello, Unfit> {
    service.admit(&peer)?;
    Ok(peer)
}

fn spurned(error: ShakeError) -> ShakeError {
    if matches!(error, ShakeError::Closed) { ShakeError::Spurned } else { error }
}

#[cfg(test)]
mod tests;
