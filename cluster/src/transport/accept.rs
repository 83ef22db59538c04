//! Connections from peers: who is let in, and how they are served.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Weak};
use std::time::Duration;

use tokio::io::AsyncRead;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, sleep};

use super::dial::Backoff;
use super::frame::{self, Frame, FrameError, FrameReader, Head};
use super::handshake::ShakeError;
use super::outgoing::{NotTaken, Outgoing};
use super::serving::Serving;
use super::silence::Signs;
use super::tcp::{Local, Tasks};
use super::{Answer, Caller, OWN_KINDS, PeerHello, Reply, Request, Route};
use crate::config::NodeId;

/// How many connections may be open that have not proved themselves yet. A cluster needs one for
/// each peer that dials just now; anybody who reaches the port can take the others.
const UNPROVEN_MAX: usize = 64;

/// How many gateways without a node are served at once. Each may have as much under way as a node,
/// so this bounds the memory; more of them than of nodes are of little use, since the nodes decide.
const GATEWAYS_MAX: usize = 64;

/// Takes connections until its task is dropped.
pub(super) async fn accept_all(
    listener: TcpListener,
    local: Arc<Local>,
    seats: Arc<Seats>,
    tasks: Weak<Tasks>,
) {
    let places = Arc::new(Semaphore::new(UNPROVEN_MAX));
    let mut backoff = Backoff::default();
    loop {
        let (stream, from) = match listener.accept().await {
            Ok(accepted) => accepted,
            Err(error) => {
                tracing::warn!(%error, "cannot accept connections of peers");
                sleep(backoff.next()).await;
                continue;
            }
        };
        backoff = Backoff::default();
        let Ok(place) = places.clone().try_acquire_owned() else {
            local.refusals.stranger(from, "too many without proof");
            continue;
        };
        let Some(tasks) = tasks.upgrade() else { return };
        let (local, seats) = (local.clone(), seats.clone());
        tasks.spawn(async move { welcome(stream, from, place, &local, &seats).await });
    }
}

async fn welcome(
    mut stream: TcpStream,
    from: SocketAddr,
    place: OwnedSemaphorePermit,
    local: &Arc<Local>,
    seats: &Arc<Seats>,
) {
    let peer = match shake(&mut stream, local).await {
        Ok(peer) => peer,
        Err(error) => return local.report(error, from, None),
    };
    drop(place);
    if peer.node.is_gateway() && seats.gateways() >= GATEWAYS_MAX {
        return tracing::warn!(%from, "too many gateways; connection closed");
    }
    local.refusals.admitted(peer.node);
    let seat = Seat::take(seats, peer.node, local).await;
    tracing::info!(node = peer.node.0, %from, "peer connected");
    serve(stream, &seat).await;
}

async fn shake(stream: &mut TcpStream, local: &Local) -> Result<PeerHello, ShakeError> {
    stream.set_nodelay(true)?;
    local.identity.accept(stream, &local.guard, &*local.service).await
}

/// Serves requests until the connection breaks, or a newer one of the same node takes its seat.
async fn serve(stream: TcpStream, seat: &Seat) {
    let node = seat.caller.node.0;
    let (read, write) = stream.into_split();
    let signs = Signs::default();
    tokio::select! {
        biased;
        () = seat.leave.notified() => tracing::info!(node, "peer connected anew"),
        end = read_requests(FrameReader::new(read), seat, &signs) => match end {
            Ok(()) => tracing::info!(node, "peer disconnected"),
            Err(error) => tracing::warn!(node, %error, "connection of peer broke"),
        },
        Err(error) = seat.inbound.outgoing.write_to(&write, &signs) => {
            tracing::warn!(node, %error, "connection of peer broke");
        }
        () = signs.silent(|| {}) => tracing::warn!(node, "peer is silent; connection closed"),
    }
}

async fn read_requests(
    mut reader: FrameReader<impl AsyncRead + Unpin>,
    seat: &Seat,
    signs: &Signs,
) -> Result<(), FrameError> {
    let inbound = &seat.inbound;
    while reader.fill().await? {
        signs.seen();
        let received = Instant::now();
        while let Some(Frame { head, body }) = reader.take()? {
            match head.kind {
                frame::PING => {
                    let wall = seat.local.guard.wall().as_millis().to_le_bytes();
                    inbound.push_word(Head::of(frame::PONG, head.call), &wall);
                }
                kind if kind >= OWN_KINDS => return Err(FrameError::Kind(kind)),
                kind if inbound.serving.begin(kind, body.len()).await => {
                    let until = received + Duration::from_millis(head.patience_ms.into());
                    let reply = Reply::new(inbound.clone(), head.call, body.len(), until);
                    let request = Request { kind, shard: head.shard, body };
                    seat.local.service.serve(seat.caller, request, reply);
                }
                _ => inbound.push_word(Head::of(frame::REFUSED, head.call), &[]),
            }
        }
    }
    Ok(())
}

/// A connection that is served: the way back to its peer.
#[derive(Default)]
pub(super) struct Inbound {
    outgoing: Outgoing,
    serving: Serving,
}

impl Inbound {
    /// Pushes a short frame that must not get lost. A peer that lets even those pile up does not
    /// read what it asked for, so its connection is closed.
    fn push_word(&self, head: Head, body: &[u8]) {
        if self.outgoing.push(head, body) == Err(NotTaken::Full) {
            self.outgoing.close();
        }
    }
}

impl Route for Inbound {
    fn answer(&self, call: u64, request_bytes: usize, answer: Answer) {
        self.serving.end(request_bytes);
        let word = match answer {
            Answer::Body(body) => match self.outgoing.push(Head::of(frame::ANSWER, call), &body) {
                Ok(()) | Err(NotTaken::Closed) => return,
                Err(NotTaken::Full) => frame::LOST,
            },
            Answer::Refused => frame::REFUSED,
            Answer::Lost => frame::LOST,
        };
        self.push_word(Head::of(word, call), &[]);
    }

    fn is_closed(&self) -> bool {
        self.outgoing.is_closed()
    }
}

/// The connections that are served: one for each node.
#[derive(Default)]
pub(super) struct Seats {
    taken: Mutex<BTreeMap<NodeId, Sitter>>,
    last_connection: AtomicU64,
}

struct Sitter {
    connection: u64,
    inbound: Arc<Inbound>,
    leave: Arc<Notify>,
    left: oneshot::Receiver<()>,
}

impl Seats {
    /// Waits until all answers given so far have been handed to the system.
    pub(super) async fn flushed(&self) {
        let inbound: Vec<_> = self.lock().values().map(|sitter| sitter.inbound.clone()).collect();
        for inbound in inbound {
            inbound.outgoing.flushed().await;
        }
    }

    /// How many gateways without a node are served.
    fn gateways(&self) -> usize {
        self.lock().keys().filter(|node| node.is_gateway()).count()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<NodeId, Sitter>> {
        self.taken.lock().expect("nothing panics while it holds the seats")
    }
}

/// One connection's right to be served; dropping it gives it up.
struct Seat {
    caller: Caller,
    inbound: Arc<Inbound>,
    leave: Arc<Notify>,
    seats: Arc<Seats>,
    local: Arc<Local>,
    /// Whether the service may have heard of the connection, and so must hear of its end.
    served: bool,
    /// Dropped last: who waits for the seat may then sit down.
    _left: oneshot::Sender<()>,
}

impl Seat {
    /// Takes the seat of `node`. Whoever has it is sent away first, and is gone when this returns.
    async fn take(seats: &Arc<Seats>, node: NodeId, local: &Arc<Local>) -> Self {
        let connection = seats.last_connection.fetch_add(1, Ordering::Relaxed) + 1;
        let (left_sender, left) = oneshot::channel();
        let mut seat = Self {
            caller: Caller { node, connection },
            inbound: Arc::default(),
            leave: Arc::default(),
            seats: seats.clone(),
            local: local.clone(),
            served: false,
            _left: left_sender,
        };
        let (inbound, leave) = (seat.inbound.clone(), seat.leave.clone());
        let sitter = Sitter { connection, inbound, leave, left };
        let former = seats.lock().insert(node, sitter);
        if let Some(former) = former {
            former.leave.notify_one();
            // An error says that the former one is gone, which is what is waited for.
            let _ = former.left.await;
        }
        seat.served = true;
        seat
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.inbound.outgoing.close();
        if self.served {
            self.local.service.closed(self.caller);
        }
        let mut taken = self.seats.lock();
        let ours = taken.get(&self.caller.node);
        if ours.is_some_and(|sitter| sitter.connection == self.caller.connection) {
            taken.remove(&self.caller.node);
        }
    }
}

#[cfg(test)]
mod tests;
