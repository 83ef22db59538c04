//! One protected request and the upstream's answer to it.

use std::sync::{Arc, Weak};
use std::time::Duration;

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Method, Request, Response, Uri, response};
use http_body_util::BodyExt;
use protocol::policy::Effect;
use tokio::time::{Instant, timeout_at};

use super::forward::{self, Attempt, ForwardedKey, Protected};
use super::keeping::Keeping;
use super::metrics;
use super::pace::Pace;
use super::rest::Rest;
use super::upstream::{Connection, Reply, SendError, Upstream};

/// The most bytes of an answer that is not stored. It must be whole before the claim is given up,
/// and must not flow before that, so it is buffered like one that is stored.
const UNSTORED_BYTES_MAX: u64 = 1 << 20;

/// A protected request as it goes upstream, apart from what its grant adds.
#[derive(Clone, Debug)]
pub(crate) struct Outgoing {
    /// The method.
    pub(crate) method: Method,
    /// The target in origin form.
    pub(crate) target: Uri,
    /// The header lines, see [`forward::request_headers`].
    pub(crate) headers: HeaderMap,
    /// The key that the upstream gets.
    pub(crate) key: ForwardedKey,
    /// The body as it came.
    pub(crate) body: Bytes,
}

/// Tells whether a client still waits for the answer.
#[derive(Clone, Debug)]
pub(crate) struct Waiting(Weak<()>);

impl Waiting {
    /// A client that waits for as long as the other half is kept.
    pub(crate) fn new() -> (Arc<()>, Self) {
        let client = Arc::new(());
        let waiting = Self(Arc::downgrade(&client));
        (client, waiting)
    }

    fn is_over(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// What became of a step of the exchange.
pub(crate) enum News {
    /// A connection is ready; nothing was sent.
    Ready(Box<Connection>),
    /// It is proven that nothing was sent.
    Unsent {
        /// Whether the connection had carried requests before.
        pooled: bool,
    },
    /// The upstream's answer is here, as far as it must be.
    Answered(Box<Answered>),
    /// Bytes may have left, and there is no whole answer.
    Broken,
}

/// An upstream's answer.
pub(crate) struct Answered {
    /// Status and header lines as they came.
    pub(crate) head: response::Parts,
    /// What the operation's policy makes of it.
    pub(crate) effect: Effect,
    /// The body.
    pub(crate) body: AnsweredBody,
}

/// The body of an upstream's answer.
pub(crate) enum AnsweredBody {
    /// All of it.
    Whole(Bytes),
    /// What came before it was found to be too large, or too slow, to be kept; the rest flows on.
    Flowing(Box<Rest>),
}

impl Outgoing {
    /// The request under a grant.
    fn under(&self, attempt: Attempt) -> Request<Body> {
        let mut request = Request::new(Body::from(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.target.clone();
        *request.headers_mut() = self.headers.clone();
        let protected = Protected { key: self.key.clone(), attempt };
        forward::protect(request.headers_mut(), &protected, self.body.len());
        request
    }
}

impl News {
    fn label(&self) -> &'static str {
        match self {
            Self::Ready(_) => "ready",
            Self::Unsent { .. } => "unsent",
            Self::Answered(_) => "answered",
            Self::Broken => "broken",
        }
    }
}

/// Gets a connection. `fresh`: not one of earlier requests.
pub(crate) async fn connect(upstream: Upstream, fresh: bool) -> News {
    let connection =
        if fresh { upstream.fresh_connection().await } else { upstream.connection().await };
    match connection {
        Ok(connection) => News::Ready(Box::new(connection)),
        Err(error) => {
            tracing::warn!(%error, "nothing was sent");
            News::Unsent { pooled: false }
        }
    }
}

/// Sends the request and waits for its answer. The first byte leaves before `limit` of the boot
/// clock, or none does.
pub(crate) fn send(
    outgoing: &Outgoing,
    attempt: Attempt,
    connection: Connection,
    upstream: Upstream,
    limit: Duration,
    keeping: Keeping,
    waiting: Waiting,
) -> impl Future<Output = News> + Send + 'static {
    let request = outgoing.under(attempt);
    async move {
        let started = Instant::now();
        let timing = keeping.pace.as_ref().map(Pace::begin);
        let news = match connection.send(&upstream, request, Some(limit)).await {
            Ok(answer) => receive(answer, &keeping, attempt.attempt_no, &waiting).await,
            Err(SendError::Unsent { pooled, source, .. }) => {
                tracing::debug!(error = %source, pooled, "nothing was sent");
                News::Unsent { pooled }
            }
            Err(SendError::Lost(error)) => {
                tracing::warn!(%error, "the upstream broke off before it answered");
                News::Broken
            }
        };
        if let (Some(timing), News::Unsent { .. }) = (timing, &news) {
            timing.forget();
        }
        metrics::upstream(started.elapsed(), news.label());
        news
    }
}

async fn receive(
    answer: Response<Reply>,
    keeping: &Keeping,
    attempt_no: u32,
    waiting: &Waiting,
) -> News {
    let (head, body) = answer.into_parts();
    if head.status.is_informational() {
        tracing::warn!(status = %head.status, "the upstream switched protocols unasked");
        return News::Broken;
    }
    if forward::is_coded(&head.headers) {
        tracing::warn!("the upstream answered in a transfer coding that nobody asked for");
        return News::Broken;
    }
    let mut effect = keeping.effect(&head, attempt_no);
    let stored = effect == Effect::Store;
    let limit = if stored { keeping.max_snapshot } else { UNSTORED_BYTES_MAX };
    let deadline = stored.then(|| Instant::now() + keeping.buffer_wait);
    let body = match buffer(body, limit, deadline, waiting).await {
        Ok(Buffered::Whole(bytes)) => AnsweredBody::Whole(bytes),
        Ok(Buffered::More(bytes, reply)) => {
            if !stored {
                // It is not known to be whole, and so it does not prove that nothing was done.
                effect = Effect::Unknown;
            }
            AnsweredBody::Flowing(Box::new(Rest::new(bytes, reply, keeping.max_execution)))
        }
        Err(error) => {
            tracing::warn!(%error, "the upstream broke off within its answer");
            return News::Broken;
        }
    };
    News::Answered(Box::new(Answered { head, effect, body }))
}

enum Buffered {
    Whole(Bytes),
    More(Bytes, Reply),
}

/// Reads a body until its end, until it has more than `limit` bytes, or until the deadline where a
/// client still waits then: without one, nobody is served by what there is of it.
async fn buffer(
    mut body: Reply,
    limit: u64,
    mut deadline: Option<Instant>,
    waiting: &Waiting,
) -> Result<Buffered, hyper::Error> {
    let mut bytes = BytesMut::new();
    if http_body::Body::size_hint(&body).lower() > limit {
        return Ok(Buffered::More(bytes.freeze(), body));
    }
    loop {
        let frame = match deadline {
            None => body.frame().await,
            Some(at) => match timeout_at(at, body.frame()).await {
                Ok(frame) => frame,
                Err(_) if waiting.is_over() => {
                    deadline = None;
                    continue;
                }
                Err(_) => return Ok(Buffered::More(bytes.freeze(), body)),
            },
        };
        let Some(frame) = frame else { return Ok(Buffered::Whole(bytes.freeze())) };
        if let Ok(data) = frame?.into_data() {
            bytes.extend_from_slice(&data);
        }
        if bytes.len() as u64 > limit {
            return Ok(Buffered::More(bytes.freeze(), body));
        }
    }
}
