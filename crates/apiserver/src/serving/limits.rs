//! What a client may take of the server: time and memory.
//!
//! A client that does not read its answers costs the pieces that are on their way to it and nothing more: no answer is
//! encoded ahead of its reader.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper_util::rt::TokioTimer;
use hyper_util::server::conn::auto;
use pin_project_lite::pin_project;
use tokio::time::Sleep;

use super::handler::BoxError;

/// What is under way gets this long when the server stops.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// All headers of a request together, and what HTTP/1.1 buffers in each direction.
const MAX_HEADERS: u32 = 128 * 1024;

/// Requests at a time on one connection. Each watch is one, and a client that watches every kind has hundreds.
const MAX_STREAMS: u32 = 2_000;

/// What a client may send ahead on one stream, and on all streams of a connection, before somebody reads it.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// What is held of one answer over HTTP/2 while its reader is busy.
const SEND_BUFFER: usize = 64 * 1024;

/// How long a client may take for what. `None` is for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// The TLS handshake.
    pub handshake: Option<Duration>,
    /// Between two requests, and for the headers of the next one. Longer than clients keep idle connections, so that it is
    /// they who close them and no request meets a closing connection.
    pub idle: Option<Duration>,
    /// For the whole body of a request: as long as the original gives a request altogether.
    pub body: Option<Duration>,
    /// How often an HTTP/2 connection is tried when nothing comes over it, and how long the answer may take.
    pub ping: Option<(Duration, Duration)>,
}

impl Limits {
    /// For clients elsewhere.
    pub const REMOTE: Self = Self {
        handshake: Some(Duration::from_secs(10)),
        idle: Some(Duration::from_secs(120)),
        body: Some(Duration::from_secs(60)),
        ping: Some((Duration::from_secs(30), Duration::from_secs(20))),
    };

    /// For clients in the same process: none, so that no timer of ours moves a paused clock.
    pub const IN_PROCESS: Self = Self { handshake: None, idle: None, body: None, ping: None };

    /// The settings of HTTP that go with them.
    pub(super) fn builder<E>(&self, executor: E) -> auto::Builder<E> {
        let mut builder = auto::Builder::new(executor);
        builder
            .http1()
            .timer(TokioTimer::new())
            .header_read_timeout(self.idle)
            .max_buf_size(MAX_HEADERS as usize);
        let mut http2 = builder.http2();
        http2
            .timer(TokioTimer::new())
            .max_concurrent_streams(MAX_STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_send_buf_size(SEND_BUFFER)
            .max_header_list_size(MAX_HEADERS);
        if let Some((interval, timeout)) = self.ping {
            http2.keep_alive_interval(interval).keep_alive_timeout(timeout);
        }
        builder
    }

    /// A body that fails when it is not whole in time.
    pub(super) fn in_time(&self, body: Incoming) -> InTime {
        InTime { body, limit: self.body, sleep: None }
    }
}

pin_project! {
    /// The body of a request, which has to come in time. The clock starts when somebody waits for it.
    #[derive(Debug)]
    pub(super) struct InTime {
        #[pin]
        body: Incoming,
        limit: Option<Duration>,
        sleep: Option<Pin<Box<Sleep>>>,
    }
}

impl Body for InTime {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = self.project();
        if let Poll::Ready(frame) = this.body.poll_frame(context) {
            return Poll::Ready(frame.map(|it| it.map_err(Into::into)));
        }
        let Some(limit) = *this.limit else { return Poll::Pending };
        let sleep = this.sleep.get_or_insert_with(|| Box::pin(tokio::time::sleep(limit)));
        match sleep.as_mut().poll(context) {
            Poll::Ready(()) => Poll::Ready(Some(Err("the body did not come in time".into()))),
            Poll::Pending => Poll::Pending,
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
