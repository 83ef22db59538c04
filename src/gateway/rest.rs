//! The body of an answer that flows past the gateway.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use protocol::Millis;
use protocol::response::Measure;
use tokio::runtime::Handle;
use tokio::sync::oneshot;
use tokio::time::timeout;

use super::measure::Measuring;
use super::upstream::Reply;

/// A body of which the first part was buffered and the rest flows on from the upstream.
///
/// A client that leaves changes nothing: the rest is then read to its end, within the time that an
/// execution may take, so that an upstream that still works while it answers is not cut off.
pub(crate) struct Rest {
    buffered: Bytes,
    reply: Option<Reply>,
    /// For how long the rest is read after the client has left.
    patience: Millis,
    measuring: Measuring,
}

impl Rest {
    pub(crate) fn new(buffered: Bytes, reply: Reply, patience: Millis) -> Self {
        let mut measuring = Measuring::default();
        measuring.add(&buffered);
        Self { buffered, reply: Some(reply), patience, measuring }
    }

    /// What is known of the whole body once it has ended.
    pub(crate) fn measure(&mut self) -> oneshot::Receiver<Measure> {
        self.measuring.measure()
    }

    /// As the body of an answer.
    pub(crate) fn into_body(self) -> Body {
        Body::new(self)
    }
}

impl HttpBody for Rest {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        let this = self.get_mut();
        if !this.buffered.is_empty() {
            let buffered = std::mem::take(&mut this.buffered);
            return Poll::Ready(Some(Ok(Frame::data(buffered))));
        }
        let Some(reply) = &mut this.reply else { return Poll::Ready(None) };
        let frame = std::task::ready!(Pin::new(&mut *reply).poll_frame(cx));
        see(&frame, reply, &mut this.measuring);
        if !matches!(frame, Some(Ok(_))) {
            this.reply = None;
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        let rest_ended = self.reply.as_ref().is_none_or(HttpBody::is_end_stream);
        self.buffered.is_empty() && rest_ended
    }

    fn size_hint(&self) -> SizeHint {
        let buffered = self.buffered.len() as u64;
        let ended = SizeHint::with_exact(0);
        let rest = self.reply.as_ref().map_or(ended, HttpBody::size_hint);
        let mut hint = SizeHint::new();
        hint.set_lower(rest.lower() + buffered);
        if let Some(upper) = rest.upper() {
            hint.set_upper(upper + buffered);
        }
        hint
    }
}

impl Drop for Rest {
    fn drop(&mut self) {
        let Some(mut reply) = self.reply.take().filter(|reply| !reply.is_end_stream()) else {
            return;
        };
        let mut measuring = std::mem::take(&mut self.measuring);
        let patience = self.patience.to_std();
        // Without a runtime the process is ending, and the connection with it.
        if let Ok(runtime) = Handle::try_current() {
            runtime.spawn(timeout(patience, async move {
                loop {
                    let frame = reply.frame().await;
                    see(&frame, &reply, &mut measuring);
                    if !matches!(frame, Some(Ok(_))) {
                        return;
                    }
                }
            }));
        }
    }
}

/// Measures a frame that goes by, and sees whether it was the last: whoever serves the body need
/// not ask again when its length is known.
fn see(
    frame: &Option<Result<Frame<Bytes>, hyper::Error>>,
    reply: &Reply,
    measuring: &mut Measuring,
) {
    match frame {
        Some(Ok(frame)) => {
            frame.data_ref().into_iter().for_each(|data| measuring.add(data));
            if reply.is_end_stream() {
                measuring.finish();
            }
        }
        Some(Err(_)) => {}
        None => measuring.finish(),
    }
}
