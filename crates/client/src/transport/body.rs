//! Response bodies that hold a stream slot while they are read, and convert hyper's errors.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;

use super::error::TransportError;

/// A hyper body with converted errors, which holds `P` until it ends or is dropped.
pub(super) struct SlotBody<P> {
    inner: Incoming,
    slot: Option<P>,
}

impl<P> SlotBody<P> {
    pub(super) fn new(inner: Incoming, slot: P) -> Self {
        // An empty body may never be polled, so it releases its slot at once.
        let slot = if inner.is_end_stream() { None } else { Some(slot) };
        Self { inner, slot }
    }
}

impl<P: Unpin> Body for SlotBody<P> {
    type Data = Bytes;
    type Error = TransportError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, TransportError>>> {
        let polled = Pin::new(&mut self.inner).poll_frame(cx);
        if matches!(polled, Poll::Ready(None | Some(Err(_)))) || self.inner.is_end_stream() {
            self.slot = None;
        }
        polled.map_err(TransportError::in_body)
    }

    fn is_end_stream(&self) -> bool {
        self.inner.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.inner.size_hint()
    }
}
