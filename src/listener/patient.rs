//! A request's body that must not stand still.

use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use http_body::{Body, Frame, SizeHint};
use thiserror::Error;
use tokio::time::{Sleep, sleep};

/// How long a client may send nothing of a body that is waited for. Longer than the 30 s in which
/// a body must be whole where it is read whole, so that the problem that says so comes first.
const STALL_MAX: Duration = Duration::from_secs(45);

/// A body whose next part must come within [`STALL_MAX`] of being asked for. A part that nobody
/// asks for, because an upstream takes its time, is not late.
pub(super) struct Patient<B> {
    body: B,
    deadline: Option<Pin<Box<Sleep>>>,
}

/// Why the rest of a body is not there.
#[derive(Debug, Error)]
pub(super) enum BodyLost<E> {
    /// It broke off, or was malformed.
    #[error(transparent)]
    Broken(E),
    /// The client has sent nothing of it for too long.
    #[error("the client sent nothing of the body for {} s", STALL_MAX.as_secs())]
    Stalled,
}

impl<B> Patient<B> {
    pub(super) fn new(body: B) -> Self {
        Self { body, deadline: None }
    }
}

impl<B: Body + Unpin> Body for Patient<B> {
    type Data = B::Data;
    type Error = BodyLost<B::Error>;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, Self::Error>>> {
        if let Poll::Ready(frame) = Pin::new(&mut self.body).poll_frame(cx) {
            self.deadline = None;
            return Poll::Ready(frame.map(|frame| frame.map_err(BodyLost::Broken)));
        }
        let deadline = self.deadline.get_or_insert_with(|| Box::pin(sleep(STALL_MAX)));
        ready!(deadline.as_mut().poll(cx));
        Poll::Ready(Some(Err(BodyLost::Stalled)))
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;

    use bytes::Bytes;
    use futures_util::stream;
    use http_body_util::{BodyExt, StreamBody};
    use tokio::time::Instant;

    use super::*;

    /// A body of parts that come so many seconds apart.
    fn parts(waits: Vec<u64>) -> impl Body<Data = Bytes, Error = Infallible> + Unpin {
        let parts = stream::unfold(waits.into_iter(), |mut waits| async move {
            sleep(Duration::from_secs(waits.next()?)).await;
            Some((Ok(Frame::data(Bytes::from_static(b"x"))), waits))
        });
        StreamBody::new(Box::pin(parts))
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_body_passes_and_one_that_stands_still_does_not() {
        let slow = Patient::new(parts(vec![40, 40, 40, 40]));
        assert_eq!(slow.collect().await.unwrap().to_bytes(), "xxxx");
        let began = Instant::now();
        let still = Patient::new(parts(vec![1, 3600])).collect().await;
        assert!(matches!(still, Err(BodyLost::Stalled)));
        assert_eq!(began.elapsed().as_secs(), 1 + STALL_MAX.as_secs());
    }

    #[tokio::test(start_paused = true)]
    async fn the_time_in_which_nobody_asks_does_not_count() {
        let mut body = Patient::new(parts(vec![1, 1]));
        assert!(body.frame().await.is_some());
        sleep(STALL_MAX * 2).await;
        assert!(matches!(body.frame().await, Some(Ok(_))));
    }
}
