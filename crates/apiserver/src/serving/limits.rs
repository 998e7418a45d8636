//! What a client may take of the server: time and memory.
//!
//! A client that does not read its answers costs the pieces that are on their way to it and nothing more: no answer is
//! encoded ahead of its reader. How long the body of a request may be and take is the business of whoever reads it.

use std::time::Duration;

use hyper_util::rt::TokioTimer;
use hyper_util::server::conn::auto;

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
    /// What is left of a body that an answer came before.
    pub drain: Option<Duration>,
    /// How often an HTTP/2 connection is tried when nothing comes over it, and how long the answer may take.
    pub ping: Option<(Duration, Duration)>,
}

impl Limits {
    /// For clients elsewhere.
    pub const REMOTE: Self = Self {
        handshake: Some(Duration::from_secs(10)),
        idle: Some(Duration::from_secs(120)),
        drain: Some(Duration::from_secs(5)),
        ping: Some((Duration::from_secs(30), Duration::from_secs(20))),
    };

    /// For clients in the same process: none, so that no timer of ours moves a paused clock.
    pub const IN_PROCESS: Self = Self { handshake: None, idle: None, drain: None, ping: None };

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
}
