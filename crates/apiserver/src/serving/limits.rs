//! The time and memory that a client may take.
//!
//! A client that does not read its responses costs the pieces in transit to it and nothing more:
//! stored bytes are shared, and no response is indented or compressed ahead of its reader. YAML in
//! block style is, up to a limit. Limits on request bodies belong to the code that reads them.

use std::time::Duration;

use hyper_util::rt::TokioTimer;
use hyper_util::server::conn::auto;

/// The grace period of requests in flight when the server stops.
pub(super) const GRACE: Duration = Duration::from_millis(500);

/// The maximum size of all headers of a request, and of HTTP/1.1's buffer in each direction.
const MAX_HEADERS: u32 = 128 * 1024;

/// The maximum number of concurrent requests on one connection. Each watch is one, and a client
/// that watches every kind has hundreds.
const MAX_STREAMS: u32 = 2_000;

/// The number of bytes that a client may send ahead of the reader, on one stream and on all streams
/// of a connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// The number of bytes of one HTTP/2 response that are buffered while its reader is busy.
const SEND_BUFFER: usize = 64 * 1024;

/// Time limits for a client. `None` means no limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Limits {
    /// The time for the TLS handshake.
    pub handshake: Option<Duration>,
    /// The time between two requests, and for the headers of the next one. It is longer than
    /// clients keep idle connections, so that clients close them first and no request meets a
    /// closing connection.
    pub idle: Option<Duration>,
    /// The time to drain the rest of a request body that was answered early.
    pub drain: Option<Duration>,
    /// The interval of HTTP/2 pings on a silent connection, and the time to answer one.
    pub ping: Option<(Duration, Duration)>,
}

impl Limits {
    /// The limits for remote clients.
    pub(crate) const REMOTE: Self = Self {
        handshake: Some(Duration::from_secs(10)),
        idle: Some(Duration::from_secs(120)),
        drain: Some(Duration::from_secs(5)),
        ping: Some((Duration::from_secs(30), Duration::from_secs(20))),
    };

    /// The limits for clients in the same process: none, so that no timer of the server moves a
    /// paused clock.
    pub(crate) const IN_PROCESS: Self = Self { handshake: None, idle: None, drain: None, ping: None };

    /// Returns hyper's settings for these limits.
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
