//! The body of an upstream's answer, and what becomes of its connection.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::{Connection, Upstream};

/// The body of an upstream's answer.
///
/// When it was read to its end the connection goes back to the pool; when it is dropped before, the
/// connection is closed, since what is left of the answer stands in the way of the next.
pub(crate) struct Reply {
    body: Incoming,
    connection: Option<(Connection, Upstream)>,
}

impl Reply {
    pub(super) fn new(body: Incoming, connection: (Connection, Upstream)) -> Self {
        let mut reply = Self { body, connection: Some(connection) };
        if reply.body.is_end_stream() {
            reply.ended();
        }
        reply
    }

    fn ended(&mut self) {
        if let Some((connection, upstream)) = self.connection.take() {
            connection.give_back(&upstream);
        }
    }
}

impl Body for Reply {
    type Data = Bytes;
    type Error = hyper::Error;

    /// Trailers are dropped: they are not stored, and a client must not come to rely on something
    /// that a replay lacks.
    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        loop {
            let frame = std::task::ready!(Pin::new(&mut self.body).poll_frame(cx));
            match frame {
                None => {
                    self.ended();
                    return Poll::Ready(None);
                }
                Some(Err(error)) => {
                    self.connection = None;
                    return Poll::Ready(Some(Err(error)));
                }
                Some(Ok(frame)) if frame.is_data() => {
                    if self.body.is_end_stream() {
                        self.ended();
                    }
                    return Poll::Ready(Some(Ok(frame)));
                }
                Some(Ok(_)) => {}
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
