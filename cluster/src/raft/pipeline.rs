//! Pipelined appends to one follower.
//!
//! openraft hands over a stream of requests and wants the replies in the same order. Several
//! requests travel at once. Requests without entries, which only move the follower's commit
//! position, are held back for a moment: a data request that comes meanwhile carries a newer
//! position anyway, and under load that saves every other message. They are held only after the
//! follower has matched once in this stream, are always sent in the end, and no reply is ever made
//! up, since a made-up reply would extend a leader's lease that the follower has not granted.

use std::pin::Pin;
use std::time::Duration;

use futures_util::future::BoxFuture;
use futures_util::stream::FuturesOrdered;
use futures_util::{FutureExt, Stream, StreamExt};
use openraft::entry::RaftEntry;
use openraft::errors::RPCError;
use openraft::raft::{AppendEntriesRequest, StreamAppendResult};
use tokio::time::{Instant, Sleep, sleep};

use super::network::{APPEND_TIMEOUT, PeerReplica, unreadable};
use super::types::TypeConfig;
use super::{kind, wire};

/// Most appends under way to one follower of one shard. The actor proposes few entries at a time,
/// so a longer line would only grow while a follower catches up.
const WINDOW: usize = 8;

/// How long an empty commit update waits for a data request to overtake it.
const HOLD: Duration = Duration::from_millis(3);

type Reply = Result<StreamAppendResult<TypeConfig>, RPCError<TypeConfig>>;
type Request = AppendEntriesRequest<TypeConfig>;

/// The replies to `input`, in order. Ends with the input, or after the first reply that is not a
/// match.
pub(super) fn replies<S>(peer: PeerReplica, input: S) -> impl Stream<Item = Reply> + Send
where
    S: Stream<Item = Request> + Send + Unpin + 'static,
{
    let pipeline = Pipeline {
        peer,
        input,
        ended: false,
        matched: false,
        under_way: FuturesOrdered::new(),
        held: None,
        hold: Box::pin(sleep(Duration::ZERO)),
    };
    futures_util::stream::unfold(Some(pipeline), |pipeline| async move {
        let mut pipeline = pipeline?;
        let reply = pipeline.next_reply().await?;
        let goes_on = matches!(reply, Ok(Ok(_)));
        Some((reply, goes_on.then_some(pipeline)))
    })
}

struct Pipeline<S> {
    peer: PeerReplica,
    input: S,
    ended: bool,
    matched: bool,
    under_way: FuturesOrdered<BoxFuture<'static, Reply>>,
    held: Option<Request>,
    hold: Pin<Box<Sleep>>,
}

impl<S: Stream<Item = Request> + Send + Unpin> Pipeline<S> {
    async fn next_reply(&mut self) -> Option<Reply> {
        loop {
            if self.ended {
                self.send_held();
                if self.under_way.is_empty() {
                    return None;
                }
            }
            tokio::select! {
                biased;
                Some(reply) = self.under_way.next(), if !self.under_way.is_empty() => {
                    self.matched |= matches!(reply, Ok(Ok(_)));
                    return Some(reply);
                }
                request = self.input.next(), if !self.ended && self.under_way.len() < WINDOW => {
                    match request {
                        Some(request) => self.take(request),
                        None => self.ended = true,
                    }
                }
                () = self.hold.as_mut(), if self.held.is_some() => self.send_held(),
            }
        }
    }

    fn take(&mut self, request: Request) {
        if !request.entries.is_empty() {
            self.held = None;
            self.send(&request);
        } else if !self.matched {
            self.send(&request);
        } else {
            if self.held.is_none() {
                self.hold.as_mut().reset(Instant::now() + HOLD);
            }
            self.held = Some(request);
        }
    }

    fn send_held(&mut self) {
        if let Some(request) = self.held.take() {
            self.send(&request);
        }
    }

    fn send(&mut self, request: &Request) {
        let previous = request.prev_log_id;
        let last = request.entries.last().map(RaftEntry::log_id).or(previous);
        let reply =
            self.peer.call(kind::STREAM_APPEND, wire::encode_append(request), APPEND_TIMEOUT);
        let reply = async move {
            let reply = wire::decode_append_reply(&reply.await?).map_err(unreadable)?;
            Ok(reply.into_stream_result(previous, last))
        };
        self.under_way.push_back(reply.boxed());
    }
}
