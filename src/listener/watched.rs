//! A response's body that tells when the server is done with it.

use std::pin::Pin;
use std::task::{Context, Poll};

use axum::body::Body;
use axum::response::Response;
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};

/// A response's body that holds a guard for as long as it lives.
pub(super) struct Watched<G> {
    body: Body,
    _guard: G,
}

/// The response with a guard in it.
pub(super) fn watch<G>(response: Response, guard: G) -> http::Response<Watched<G>> {
    response.map(|body| Watched { body, _guard: guard })
}

impl<G: Unpin> HttpBody for Watched<G> {
    type Data = Bytes;
    type Error = axum::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, axum::Error>>> {
        Pin::new(&mut self.body).poll_frame(cx)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
