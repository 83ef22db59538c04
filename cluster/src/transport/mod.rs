//! Requests and replies between nodes: in what order they arrive, and how a call can fail.
//!
//! The transport carries bodies that it never looks into. It promises:
//! - **Order.** Requests of one node that were called one after the other arrive in that order, as
//!   long as they travel on one connection. A connection has a number, and [`Service::closed`] is
//!   called before anything of the next connection of the same node is served.
//! - **Honest failures.** A [`CallError`] is definite only when the request never left this node or
//!   the peer said that it did nothing. Nothing is sent twice.
//! - **Bounds.** Every buffer and table below is bounded; a full one refuses at once.
//! - **No strangers.** Only a process that holds the cluster's secret is served. What is sent after
//!   the [`handshake`] is neither encrypted nor sealed, so the network between the nodes must keep
//!   out those who can alter what travels on it.

mod accept;
mod dial;
#[cfg(test)]
mod fixtures;
mod frame;
mod handshake;
#[cfg(feature = "testing")]
mod layouts;
#[cfg(any(test, feature = "testing"))]
pub(crate) mod memory;
mod outgoing;
mod pending;
mod refusals;
mod serving;
mod silence;
mod tcp;

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures_util::future::BoxFuture;
use thiserror::Error;
use tokio::time::Instant;

use crate::config::NodeId;
use crate::placement::ShardId;

#[cfg(feature = "testing")]
pub(crate) use self::layouts::layout;
pub(crate) use self::refusals::{Cause, Refusal};
pub(crate) use self::tcp::TcpTransport;

/// Kinds of requests from here on are *bulk*: they may fill a buffer or a table only up to three
/// quarters. So however much work is forwarded, the consensus that must decide it gets through.
pub(crate) const BULK_KINDS: u8 = 16;

/// Kinds from here on are the transport's own.
pub(crate) const OWN_KINDS: u8 = 128;

/// No call waits longer than this, whatever its timeout: the longest that is of use is the
/// installation of a large snapshot.
pub(crate) const TIMEOUT_MAX: Duration = Duration::from_secs(600);

/// What one node asks of another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Request {
    /// What is asked, below [`OWN_KINDS`]; the layers above give it a meaning.
    pub(crate) kind: u8,
    /// Of which shard.
    pub(crate) shard: ShardId,
    /// The rest, at most [`frame::BODY_BYTES_MAX`] bytes. A received body shares its memory with
    /// its neighbours on the wire: what is kept for long should be copied.
    pub(crate) body: Bytes,
}

/// Why a call has no answer. Definite: the peer neither did nor will do what was asked. Indefinite:
/// it may have, or may yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub(crate) enum CallError {
    /// There is no connection to the node. Definite.
    #[error("not connected")]
    NotSent,
    /// A buffer or table is at its bound, or the body is too long for a frame. Definite.
    #[error("too much is under way already")]
    Full,
    /// The peer did nothing and said so. Definite.
    #[error("refused by the peer")]
    Refused,
    /// The connection broke while the answer was awaited, or the peer lost the answer. Indefinite.
    #[error("answer lost")]
    Lost,
    /// No answer came in time. Indefinite.
    #[error("no answer in time")]
    TimedOut,
}

/// Reaches the other nodes.
pub(crate) trait Transport: Send + Sync {
    /// Asks `to`. The request is in the outgoing buffer, or has failed, when this returns; the
    /// future only waits for the answer, for at most `timeout` from now. The peer learns the
    /// timeout too, so that it need not serve a caller who has gone ([`Reply::is_closed`]).
    fn call(
        &self,
        to: NodeId,
        request: Request,
        timeout: Duration,
    ) -> BoxFuture<'static, Result<Bytes, CallError>>;

    /// The nodes that can be called now, in order.
    fn connected(&self) -> Vec<NodeId>;

    /// With how many other nodes this one does not talk because their policies name records
    /// differently, as far as each was met.
    fn naming_refusals(&self) -> usize;

    /// Why this node and a peer do not talk, as far as the reasons still stand.
    fn refusals(&self) -> Vec<Refusal>;

    /// Sends what is left to send, for a bounded time, and closes all connections. When this
    /// returns, every call has failed and the service has heard of the end of every connection.
    fn stop(&self) -> BoxFuture<'_, ()>;
}

/// A node's side that serves its peers.
pub(crate) trait Service: Send + Sync + 'static {
    /// Whether a process that proved itself may take part; asked once for every new connection, in
    /// either direction, before anything is served or called on it.
    ///
    /// # Errors
    /// Why not, and what to do about it: both sides show the text to their operators.
    fn admit(&self, hello: &PeerHello) -> Result<(), String>;

    /// Takes a request, in the order of arrival on its connection. Must not block: it queues the
    /// request or spawns a task. Never called again for a connection after [`Service::closed`].
    fn serve(&self, from: Caller, request: Request, reply: Reply);

    /// The connection is gone. Called exactly once for every one on which anything could be served.
    fn closed(&self, from: Caller);
}

/// A connection from another node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Caller {
    /// The node.
    pub(crate) node: NodeId,
    /// Tells the connection from every other one that this process has accepted.
    pub(crate) connection: u64,
}

/// What a process said of itself when it proved that it holds the cluster's secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PeerHello {
    /// Its node.
    pub(crate) node: NodeId,
    /// Tells its data directory from every other one: drawn when the directory was made.
    pub(crate) instance: [u8; 16],
}

/// The answer that a request waits for. Dropping it tells the caller at once that the answer is
/// lost, which says nothing about what was done.
pub(crate) struct Reply {
    route: Arc<dyn Route>,
    call: u64,
    request_bytes: usize,
    caller_waits_until: Instant,
    answered: bool,
}

/// How a request ended, as it travels back.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Answer {
    Body(Bytes),
    Refused,
    Lost,
}

/// The way back to the caller; each transport has its own.
trait Route: Send + Sync {
    /// Sends the answer to `call`, whose request was `request_bytes` long.
    fn answer(&self, call: u64, request_bytes: usize, answer: Answer);
    /// Whether no answer can get back any more.
    fn is_closed(&self) -> bool;
}

impl Reply {
    fn new(route: Arc<dyn Route>, call: u64, request_bytes: usize, waits_until: Instant) -> Self {
        Self { route, call, request_bytes, caller_waits_until: waits_until, answered: false }
    }

    /// Answers. An answer that does not fit into the outgoing buffer is lost; the caller is told.
    pub(crate) fn send(mut self, body: Bytes) {
        self.answer(Answer::Body(body));
    }

    /// Tells the caller that nothing was done and nothing will be.
    pub(crate) fn refuse(mut self) {
        self.answer(Answer::Refused);
    }

    /// Whether nobody waits for the answer any more: the connection is gone, or the caller's time
    /// is over.
    pub(crate) fn is_closed(&self) -> bool {
        self.route.is_closed() || Instant::now() >= self.caller_waits_until
    }

    fn answer(&mut self, answer: Answer) {
        self.answered = true;
        self.route.answer(self.call, self.request_bytes, answer);
    }
}

impl Drop for Reply {
    fn drop(&mut self) {
        if !self.answered {
            self.answer(Answer::Lost);
        }
    }
}

/// When a call made now with this timeout is over, and how long that is.
fn deadline(timeout: Duration) -> (Instant, Duration) {
    let timeout = timeout.min(TIMEOUT_MAX);
    (Instant::now() + timeout, timeout)
}

/// How much of a bound requests of this kind may use.
fn share_of(kind: u8, bound: usize) -> usize {
    if kind < BULK_KINDS { bound } else { bound / 4 * 3 }
}
