//! The rest of a request body after a response that did not need all of it: 401, 404, 405, 415.
//!
//! HTTP/1.1 cannot continue with the next request before the body is read. hyper then closes the
//! connection without announcing it, and a client that has already sent its next request sees it
//! fail. Go's `net/http` server reads up to 256 KiB and keeps the connection, or answers with
//! `Connection: close`, and so does this one. HTTP/2 resets the stream by itself.

use parking_lot::Mutex;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::header::{EXPECT, HeaderValue};
use http::{Request, Version};
use http_body::{Body, Frame, SizeHint};
use http_body_util::BodyExt;
use hyper::body::Incoming;

/// The number of bytes that are read and discarded to keep a connection: `maxPostHandlerReadBytes`
/// in Go 1.26 net/http/server.go.
const MAX_DRAINED: u64 = 256 * 1024;

/// The slot for a body that was not read to its end.
#[derive(Debug)]
pub(super) struct UnreadBody {
    remainder: Arc<Mutex<Option<Remainder>>>,
    /// Set if the client waits for `100 Continue` before it sends the body.
    expects_continue: bool,
}

#[derive(Debug)]
struct Remainder {
    body: Incoming,
    /// Set if the body was polled at least once.
    polled: bool,
}

/// A request body that moves into the slot if it is dropped before its end.
pub(super) struct RecoverableBody {
    body: Option<Incoming>,
    polled: bool,
    remainder: Option<Arc<Mutex<Option<Remainder>>>>,
}

/// Wraps the body of a request that may be answered early. Does nothing for requests without a body
/// and for HTTP/2.
pub(super) fn track(request: Request<Incoming>) -> (Request<RecoverableBody>, Option<UnreadBody>) {
    let matters = request.version() < Version::HTTP_2 && !request.body().is_end_stream();
    let unread = matters.then(|| {
        let expects = request.headers().get(EXPECT).map(HeaderValue::as_bytes);
        let expects_continue = expects.is_some_and(|it| it.eq_ignore_ascii_case(b"100-continue"));
        UnreadBody { remainder: Arc::default(), expects_continue }
    });
    let remainder = unread.as_ref().map(|it| Arc::clone(&it.remainder));
    (request.map(|body| RecoverableBody { body: Some(body), polled: false, remainder }), unread)
}

impl UnreadBody {
    /// Reads the rest of the body, if there is any. Returns true if all of it was read, so that the
    /// connection can be kept.
    pub(super) async fn drain_rest(self, limit: Option<Duration>) -> bool {
        let remainder = self.remainder.lock().take();
        let Some(remainder) = remainder else { return true };
        // Polling the body would make hyper send `100 Continue`, and the client would send the body
        // in vain.
        if self.expects_continue && !remainder.polled {
            return false;
        }
        match limit {
            Some(limit) => tokio::time::timeout(limit, drain(remainder.body)).await.unwrap_or(false),
            None => drain(remainder.body).await,
        }
    }
}

/// Reads a body to its end; returns false if it is too long.
async fn drain(mut body: Incoming) -> bool {
    if body.size_hint().lower() > MAX_DRAINED {
        return false;
    }
    let mut read = 0;
    while let Some(frame) = body.frame().await {
        let Ok(frame) = frame else { return false };
        read += frame.data_ref().map_or(0, |it| it.len() as u64);
        if read > MAX_DRAINED {
            return false;
        }
    }
    true
}

impl Body for RecoverableBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        self.polled = true;
        match &mut self.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.as_ref().is_none_or(Body::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        self.body.as_ref().map_or_else(SizeHint::default, Body::size_hint)
    }
}

impl Drop for RecoverableBody {
    fn drop(&mut self) {
        let (Some(remainder), Some(body)) = (&self.remainder, self.body.take()) else { return };
        if !body.is_end_stream() {
            let polled = self.polled;
            *remainder.lock() = Some(Remainder { body, polled });
        }
    }
}
