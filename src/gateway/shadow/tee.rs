//! A body that goes by unchanged while a copy of it is kept.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use axum::body::Body;
use bytes::{Bytes, BytesMut};
use http_body::{Body as _, Frame, SizeHint};

use super::Watch;
use crate::judge::Judge;

struct Tee<J: Judge> {
    body: Body,
    copy: BytesMut,
    /// More went by than is kept.
    large: bool,
    /// Who is told of the end; nobody any more once it was.
    watch: Option<Arc<Watch<J>>>,
}

/// The same body; `watch` is told once all of it has gone by.
pub(crate) fn tee<J: Judge>(body: Body, watch: Arc<Watch<J>>) -> Body {
    let mut tee = Tee { body, copy: BytesMut::new(), large: false, watch: Some(watch) };
    tee.look_for_the_end();
    Body::new(tee)
}

impl<J: Judge> Tee<J> {
    fn keep(&mut self, data: &Bytes) {
        let limit = self.watch.as_ref().map_or(0, |watch| watch.limit());
        self.large = self.large || (self.copy.len() + data.len()) as u64 > limit;
        if self.large {
            self.copy = BytesMut::new();
        } else {
            self.copy.extend_from_slice(data);
        }
    }

    /// Who reads a body of a known length need not ask for what is behind its last byte.
    fn look_for_the_end(&mut self) {
        if self.body.is_end_stream() {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(watch) = self.watch.take() {
            let copy = std::mem::take(&mut self.copy).freeze();
            watch.went_by((!self.large).then_some(copy));
        }
    }
}

impl<J: Judge> http_body::Body for Tee<J> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        match &frame {
            None => self.end(),
            Some(Ok(frame)) => {
                if let Some(data) = frame.data_ref() {
                    self.keep(data);
                }
                self.look_for_the_end();
            }
            // Told when this is dropped.
            Some(Err(_)) => {}
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<J: Judge> Drop for Tee<J> {
    fn drop(&mut self) {
        if let Some(watch) = self.watch.take() {
            watch.broke_off();
        }
    }
}
