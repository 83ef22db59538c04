//! One connection of the in-process network.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use protocol::Timestamp;
use tokio::sync::Notify;
use tokio::time::{Instant, interval, sleep_until};

use super::super::frame::{BODY_BYTES_MAX, frame_bytes};
use super::super::outgoing::WAITING_BYTES_MAX;
use super::super::pending::{Pending, Waiting};
use super::super::serving::Serving;
use super::super::silence::TICK;
use super::super::{Answer, CallError, Caller, Reply, Request, Route, share_of};
use super::{Member, MemoryNetwork};
use crate::clock::Round;
use crate::config::NodeId;

/// One node dialed another.
pub(super) struct Connection {
    network: MemoryNetwork,
    dialer: (NodeId, Member),
    dialed: (NodeId, Member),
    number: u64,
    pending: Arc<Pending>,
    serving: Serving,
    requests: Lane,
    answers: Lane,
    closed: AtomicBool,
}

#[derive(Clone, Copy)]
enum Towards {
    Dialer,
    Dialed,
}

enum Parcel {
    Request { call: u64, request: Request, until: Instant },
    Answer { call: u64, answer: Answer },
    Ping { asked: Duration },
    Pong { asked: Duration, wall: Timestamp },
}

/// What travels one way, in order.
#[derive(Default)]
struct Lane {
    queue: Mutex<Queue>,
    changed: Notify,
}

impl Lane {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().expect("nothing panics while it holds a lane")
    }
}

#[derive(Default)]
struct Queue {
    parcels: VecDeque<(Instant, usize, Parcel)>,
    bytes: usize,
}

impl Connection {
    /// Connects two nodes and starts the tasks that carry frames between them.
    pub(super) fn open(
        network: &MemoryNetwork,
        number: u64,
        dialer: (NodeId, Member),
        dialed: (NodeId, Member),
    ) -> Arc<Self> {
        let connection = Arc::new(Self {
            network: network.clone(),
            dialer,
            dialed,
            number,
            pending: Arc::default(),
            serving: Serving::default(),
            requests: Lane::default(),
            answers: Lane::default(),
            closed: AtomicBool::new(false),
        });
        connection.dialed.1.spawn(connection.clone().run_requests());
        connection.dialer.1.spawn(connection.clone().run_answers());
        connection.dialer.1.spawn(connection.clone().run_pings());
        connection
    }

    /// Puts a request on its way.
    pub(super) fn call(&self, request: Request, until: Instant) -> Result<Waiting, CallError> {
        let waiting = self.pending.begin(request.kind)?;
        let bound = share_of(request.kind, WAITING_BYTES_MAX);
        let bytes = request.body.len();
        let parcel = Parcel::Request { call: waiting.call(), request, until };
        if bytes > BODY_BYTES_MAX || !self.send(Towards::Dialed, parcel, bytes, bound) {
            return Err(CallError::Full);
        }
        Ok(waiting)
    }

    /// Puts a parcel on its way; `false` when more than `bound` bytes would be under way.
    fn send(&self, towards: Towards, parcel: Parcel, bytes: usize, bound: usize) -> bool {
        let (dialer, dialed) = (self.dialer.0, self.dialed.0);
        let (lane, from, to) = match towards {
            Towards::Dialed => (&self.requests, dialer, dialed),
            Towards::Dialer => (&self.answers, dialed, dialer),
        };
        let arrival = self.network.lock().arrival(from, to);
        let mut queue = lane.lock();
        let bytes = frame_bytes(bytes);
        if queue.bytes + bytes > bound {
            return false;
        }
        let Some(arrival) = arrival else { return true };
        let last = queue.parcels.back().map_or(arrival, |(last, ..)| *last);
        queue.bytes += bytes;
        queue.parcels.push_back((arrival.max(last), bytes, parcel));
        drop(queue);
        lane.changed.notify_one();
        true
    }

    /// The next parcel to arrive; `None` once the connection is closed.
    async fn receive(&self, lane: &Lane) -> Option<Parcel> {
        while !self.closed.load(Ordering::SeqCst) {
            let due = lane.lock().parcels.front().map(|(due, ..)| *due);
            match due {
                None => lane.changed.notified().await,
                Some(due) if Instant::now() < due => sleep_until(due).await,
                Some(_) => {
                    let mut queue = lane.lock();
                    let (_, bytes, parcel) = queue.parcels.pop_front()?;
                    queue.bytes -= bytes;
                    return Some(parcel);
                }
            }
        }
        None
    }

    async fn run_requests(self: Arc<Self>) {
        let caller = Caller { node: self.dialer.0, connection: self.number };
        while let Some(parcel) = self.receive(&self.requests).await {
            if self.network.lock().is_cut(self.dialer.0, self.dialed.0) {
                continue;
            }
            match parcel {
                Parcel::Request { call, request, until } => {
                    let bytes = request.body.len();
                    if !self.serving.begin(request.kind, bytes).await {
                        self.reply(call, Answer::Refused);
                    } else if !self.is_closed() {
                        let reply = Reply::new(self.clone(), call, bytes, until);
                        self.dialed.1.service.serve(caller, request, reply);
                    }
                }
                Parcel::Ping { asked } => {
                    let pong = Parcel::Pong { asked, wall: self.dialed.1.guard.wall() };
                    self.send(Towards::Dialer, pong, 8, usize::MAX);
                }
                Parcel::Answer { .. } | Parcel::Pong { .. } => unreachable!("goes the other way"),
            }
        }
    }

    async fn run_answers(self: Arc<Self>) {
        while let Some(parcel) = self.receive(&self.answers).await {
            if self.network.lock().is_cut(self.dialed.0, self.dialer.0) {
                continue;
            }
            match parcel {
                Parcel::Answer { call, answer } => self.pending.answer(call, answer),
                Parcel::Pong { asked, wall } => {
                    let guard = &self.dialer.1.guard;
                    guard.sample(self.dialed.0, Round { asked, wall, heard: guard.boot() });
                }
                Parcel::Request { .. } | Parcel::Ping { .. } => unreachable!("goes the other way"),
            }
        }
    }

    async fn run_pings(self: Arc<Self>) {
        let mut ticks = interval(TICK);
        while !self.is_closed() {
            ticks.tick().await;
            let ping = Parcel::Ping { asked: self.dialer.1.guard.boot() };
            self.send(Towards::Dialed, ping, 0, usize::MAX);
        }
    }

    fn reply(&self, call: u64, answer: Answer) {
        let bytes = if let Answer::Body(body) = &answer { body.len() } else { 0 };
        let fits = bytes <= BODY_BYTES_MAX;
        let parcel = Parcel::Answer { call, answer };
        if !fits || !self.send(Towards::Dialer, parcel, bytes, WAITING_BYTES_MAX) {
            let lost = Parcel::Answer { call, answer: Answer::Lost };
            self.send(Towards::Dialer, lost, 0, usize::MAX);
        }
    }

    /// Fails the calls that wait and tells the service; what is under way is lost.
    pub(super) fn close(&self) {
        self.closed.store(true, Ordering::SeqCst);
        self.pending.close();
        self.requests.changed.notify_one();
        self.answers.changed.notify_one();
        let caller = Caller { node: self.dialer.0, connection: self.number };
        self.dialed.1.service.closed(caller);
    }
}

impl Route for Connection {
    fn answer(&self, call: u64, request_bytes: usize, answer: Answer) {
        self.serving.end(request_bytes);
        if !self.is_closed() {
            self.reply(call, answer);
        }
    }

    fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }
}
