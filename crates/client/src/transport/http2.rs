//! The HTTP/2 connections to one server: as few as possible, as many as needed.
//!
//! Requests share a connection until it carries the maximum number of streams; then another
//! connection is opened. A stream counts until its response body ends or is dropped, so watches
//! count for as long as they last. Without this, requests beyond the server's limit would wait
//! behind watches that never end.
//!
//! A connection takes requests once the server's SETTINGS have arrived, so that its limit is known
//! before the first stream. Each connection has one task ([`drive`]), which ends by itself when the
//! pool and the last response are gone. Connections are opened in tasks as well: a caller that is
//! dropped leaves the connection to the next one.
//!
//! A request that the server certainly did not process (REFUSED_STREAM, or a GOAWAY with an earlier
//! stream id) is sent again whatever its method is, as in Go's transport (`http2canRetryError` in
//! Go's `net/http/h2_bundle.go`). [`is_repeatable_after_go_away`] is the exception.

use parking_lot::{Mutex, MutexGuard};
use std::sync::{Arc, Weak};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use http::{Method, Request, Response, Uri};
use http_body::Body;
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::{Notify, oneshot};
use tokio::time::Instant;

use super::body::SlotBody;
use super::connector::{Connector, ServerConnection};
use super::error::{TransportError, TransportErrorKind};
use super::options::TransportOptions;
use crate::body::{OutgoingBody, ResponseBody, boxed};
use crate::tls::Alpn;

/// The number of unread bytes that a server may send on one stream. Go's value
/// (`transportDefaultStreamFlow`): a list with 100 ms of latency still reaches 40 MB/s. It also
/// bounds the memory of a watch whose reader stalls.
const STREAM_WINDOW: u32 = 4 << 20;

/// The same for all streams of a connection together. Go's value (`transportDefaultConnFlow`).
const CONNECTION_WINDOW: u32 = 1 << 30;

/// The maximum number of streams for which stalled readers cannot use up the connection window:
/// whatever they hold, a whole stream window is left for another stream.
const MOST_STREAMS: usize = (CONNECTION_WINDOW / STREAM_WINDOW) as usize - 1;

/// The number of times that an unsent request is passed to another connection, not counting
/// connections that have answered before. Each of these connections had just been opened; three in
/// a row are no coincidence.
const UNSENT_RETRIES: u32 = 3;

/// The number of times that opening a connection is repeated because its task was dropped.
const DROPPED_DIALS: u32 = 3;

/// The number of retries of a request that the server refused unprocessed, as in Go (`retry <= 6`).
const UNPROCESSED_RETRIES: u32 = 6;

/// The pause before the second retry, doubled for each further one. The first retry is immediate:
/// usually only the connection ended, not the server.
const UNPROCESSED_PAUSE: Duration = Duration::from_millis(100);

/// The longest interval of pings. A longer one is the same as none, and hyper would add it to the
/// time.
const LONGEST_PING_INTERVAL: Duration = Duration::from_secs(365 * 24 * 60 * 60);

/// The maximum size of response headers. hyper's default of 16 KiB is less than what servers with
/// long warnings send.
const MAX_HEADER_BYTES: u32 = 1 << 20;

/// The stream limit that h2 assumes until the server's SETTINGS arrive. Any other value is the
/// server's.
const STREAMS_BEFORE_SETTINGS: usize = 7;

/// The time to wait for SETTINGS. A server sends them first; only a server that grants exactly
/// [`STREAMS_BEFORE_SETTINGS`] streams is not recognised.
const SETTINGS_TIME: Duration = Duration::from_secs(1);

/// The number of reset streams that a connection remembers, so that late frames of the server on
/// them are ignored rather than answered.
const REMEMBERED_RESETS: usize = 4096;

type Sender = http2::SendRequest<OutgoingBody>;
type Connection = http2::Connection<ServerConnection, OutgoingBody, TokioExecutor>;
/// An attempt to open a connection, awaited by all requests that need one; they share its error.
/// `None` if its task was dropped with its runtime: a program may use one client with several
/// runtimes in turn.
type Dialing = Shared<BoxFuture<'static, Option<Result<(), TransportError>>>>;

/// The HTTP/2 connections to one server.
pub(super) struct Http2Pool {
    dialer: Dialer,
    open: Arc<OpenConnections>,
}

/// The parameters for opening a connection.
#[derive(Clone)]
struct Dialer {
    server: Uri,
    connector: Connector,
    settings: Settings,
}

#[derive(Clone)]
struct Settings {
    builder: http2::Builder<TokioExecutor>,
    max_streams: usize,
    idle_timeout: Duration,
}

/// The connections that take new requests, and the attempt to open another.
#[derive(Default)]
struct OpenConnections {
    /// The connections in the order they were opened.
    connections: Mutex<Vec<Arc<SharedConnection>>>,
    state: Mutex<PoolState>,
}

#[derive(Default)]
struct PoolState {
    /// True if the server chose HTTP/1.1; HTTP/2 is not offered again.
    http1_only: bool,
    /// The attempt in progress. At most one connection is opened at a time, so that a burst of
    /// requests opens one connection and not one per request.
    dialing: Option<Dialing>,
}

/// One connection.
struct SharedConnection {
    sender: Sender,
    load: Mutex<Load>,
    /// Wakes [`drive`] to read the server's limit. In its own `Arc`: the task must not keep the
    /// sender alive.
    recheck: Arc<Notify>,
}

struct Load {
    in_flight: usize,
    /// The maximum number of concurrent streams: ours or the server's, whichever is less.
    limit: usize,
    /// The time since which `in_flight` is 0.
    idle_since: Instant,
    /// True if it takes no more requests.
    closing: bool,
    /// True once it has answered a request.
    has_answered: bool,
}

/// A stream slot on a connection, released when dropped.
pub(super) struct StreamSlot {
    connection: Arc<SharedConnection>,
}

/// The result of sending a request.
pub(super) enum Sent {
    /// The server answered.
    Answered(Response<ResponseBody>),
    /// The server does not support HTTP/2; the request was not sent.
    Http1Only(Request<OutgoingBody>),
}

impl Http2Pool {
    pub(super) fn new(server: Uri, connector: Connector, options: &TransportOptions) -> Self {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .initial_max_send_streams(STREAMS_BEFORE_SETTINGS)
            .max_header_list_size(MAX_HEADER_BYTES)
            // Frames that cross the reset of a cancelled request are no attack. h2 counts those for
            // streams that it has forgotten over the life of a connection, and with hyper's default
            // it would end the connection with all its requests at the 1,024th.
            .max_local_error_reset_streams(None)
            .max_concurrent_reset_streams(REMEMBERED_RESETS)
            .keep_alive_interval(options.ping_interval.filter(|it| *it <= LONGEST_PING_INTERVAL))
            .keep_alive_timeout(options.ping_timeout)
            .keep_alive_while_idle(true);
        let settings = Settings {
            builder,
            max_streams: options.max_streams_per_connection.clamp(1, MOST_STREAMS),
            idle_timeout: options.idle_limit().unwrap_or(Duration::MAX),
        };
        Self { dialer: Dialer { server, connector, settings }, open: Arc::default() }
    }

    /// Sends a request on a connection with a free slot, opening one if necessary.
    pub(super) async fn send(&self, mut request: Request<OutgoingBody>) -> Result<Sent, TransportError> {
        let (mut unsent, mut unprocessed) = (0, 0);
        loop {
            let Some(slot) = self.reserve().await? else { return Ok(Sent::Http1Only(request)) };
            let mut sender = slot.connection.sender.clone();
            let copy = copy_of(&request);
            let mut error = match sender.try_send_request(request).await {
                Ok(response) => {
                    slot.connection.load().has_answered = true;
                    slot.connection.recheck.notify_one();
                    return Ok(Sent::Answered(response.map(|body| boxed(SlotBody::new(body, slot)))));
                }
                Err(error) => error,
            };
            request = match error.take_message() {
                Some(returned) => {
                    let mut load = slot.connection.load();
                    load.closing = true;
                    // A server that shuts down ends all its connections, however many, and each
                    // returns the request. Only connections that ended before they answered
                    // anything count.
                    unsent += u32::from(!load.has_answered);
                    drop(load);
                    if unsent > UNSENT_RETRIES {
                        return Err(TransportError::before_sending(error.into_error()));
                    }
                    returned
                }
                None => {
                    let mut error = TransportError::after_sending(error.into_error());
                    if error.is_go_away() {
                        slot.connection.load().closing = true;
                    }
                    // A streamed body cannot be sent again: its sender has to decide.
                    let Some(copy) = copy else { return Err(error) };
                    if error.is_go_away() && !is_repeatable_after_go_away(copy.method(), copy.body()) {
                        error = error.with_request_sent();
                    }
                    unprocessed += 1;
                    if error.request_was_sent() || unprocessed > UNPROCESSED_RETRIES {
                        return Err(error);
                    }
                    tracing::debug!(%error, unprocessed, "the server did not process the request; sending it again");
                    // The server may have lowered its limit.
                    slot.connection.recheck.notify_one();
                    drop(slot);
                    if unprocessed > 1 {
                        tokio::time::sleep(UNPROCESSED_PAUSE * (1 << (unprocessed - 2))).await;
                    }
                    copy
                }
            };
        }
    }

    /// Reserves a slot on an open or a new connection; `None` if the server supports HTTP/1.1 only.
    async fn reserve(&self) -> Result<Option<StreamSlot>, TransportError> {
        let mut dropped = 0;
        loop {
            let dialing = {
                let mut state = self.open.state();
                if state.http1_only {
                    return Ok(None);
                }
                if let Some(slot) = self.open.reserve() {
                    return Ok(Some(slot));
                }
                state.dialing.get_or_insert_with(|| self.dialer.start(&self.open)).clone()
            };
            match dialing.clone().await {
                // Other requests may fill the new connection first; then another one is opened.
                Some(dialed) => dialed?,
                None => {
                    // It would fail every later request, too.
                    self.open.state().dialing.take_if(|it| it.ptr_eq(&dialing));
                    dropped += 1;
                    if dropped > DROPPED_DIALS {
                        let message = "the runtime ended while a connection was opened";
                        return Err(TransportError::new(TransportErrorKind::Lost, message));
                    }
                }
            }
        }
    }
}

impl Dialer {
    /// Opens a connection in its own task, so that a caller that is dropped does not cancel it.
    fn start(&self, open: &Arc<OpenConnections>) -> Dialing {
        let (done, dialed) = oneshot::channel();
        let dialer = self.clone();
        let open = Arc::downgrade(open);
        tokio::spawn(async move {
            let dialed = dialer.dial().await;
            // If the pool is gone, so are all waiting requests.
            let Some(open) = open.upgrade() else { return };
            let result = match dialed {
                Ok(None) => {
                    open.state().http1_only = true;
                    Ok(())
                }
                Ok(Some((sender, connection))) => {
                    open.add(sender, connection, dialer.settings);
                    Ok(())
                }
                Err(error) => Err(error),
            };
            open.state().dialing = None;
            let _ = done.send(result);
        });
        dialed.map(Result::ok).boxed().shared()
    }

    /// Opens a connection and waits for the server's stream limit; `None` if the server supports
    /// HTTP/1.1 only.
    async fn dial(&self) -> Result<Option<(Sender, Connection)>, TransportError> {
        let wire = self.connector.connect(&self.server, Alpn::Http2OrHttp1).await?;
        if !wire.is_http2 {
            return Ok(None);
        }
        let (sender, mut connection) =
            self.settings.builder.handshake(wire).await.map_err(TransportError::before_sending)?;
        // hyper reads frames in its own task and does not report the arrival of SETTINGS, so they
        // have to be polled for.
        let give_up = after(Instant::now(), SETTINGS_TIME);
        let mut pause = Duration::from_millis(1);
        while connection.current_max_send_streams() == STREAMS_BEFORE_SETTINGS && Instant::now() < give_up {
            tokio::select! {
                biased;
                ended = &mut connection => {
                    let closed = || TransportError::new(TransportErrorKind::Lost, "the server closed the connection at once");
                    return Err(ended.err().map_or_else(closed, TransportError::before_sending));
                }
                () = tokio::time::sleep(pause) => pause *= 2,
            }
        }
        Ok(Some((sender, connection)))
    }
}

impl OpenConnections {
    fn add(self: &Arc<Self>, sender: Sender, connection: Connection, settings: Settings) {
        let limit = connection.current_max_send_streams().clamp(1, settings.max_streams);
        let idle_since = Instant::now();
        let load = Load { in_flight: 0, limit, idle_since, closing: false, has_answered: false };
        let shared = Arc::new(SharedConnection { sender, load: Mutex::new(load), recheck: Arc::default() });
        let entry = PoolEntry { shared: Arc::downgrade(&shared), open: Arc::downgrade(self) };
        let recheck = Arc::clone(&shared.recheck);
        // First the list: on a runtime that shuts down, the task is dropped at once, and its entry
        // with it.
        self.connections().push(shared);
        tokio::spawn(drive(connection, entry, recheck, settings));
    }

    /// Reserves a slot on the oldest connection with room, so that later ones become idle and
    /// close.
    fn reserve(&self) -> Option<StreamSlot> {
        self.connections().iter().find_map(SharedConnection::reserve)
    }

    fn remove(&self, connection: &Arc<SharedConnection>) {
        self.connections().retain(|it| !Arc::ptr_eq(it, connection));
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Arc<SharedConnection>>> {
        self.connections.lock()
    }

    fn state(&self) -> MutexGuard<'_, PoolState> {
        self.state.lock()
    }
}

impl SharedConnection {
    fn reserve(self: &Arc<Self>) -> Option<StreamSlot> {
        let mut load = self.load();
        if load.closing || load.in_flight >= load.limit || self.sender.is_closed() {
            return None;
        }
        load.in_flight += 1;
        Some(StreamSlot { connection: Arc::clone(self) })
    }

    fn load(&self) -> MutexGuard<'_, Load> {
        self.load.lock()
    }
}

impl Drop for StreamSlot {
    fn drop(&mut self) {
        let mut load = self.connection.load();
        load.in_flight -= 1;
        if load.in_flight == 0 {
            load.idle_since = Instant::now();
        }
    }
}

/// Returns a copy of a request that can be sent again: the body is shared, not copied. `None` if
/// the body is streamed.
fn copy_of(request: &Request<OutgoingBody>) -> Option<Request<OutgoingBody>> {
    let mut copy = Request::new(request.body().shared()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

/// Returns true if a request that failed with a GOAWAY of the server may be sent again.
///
/// Usually its stream is above the last one of the GOAWAY, and was not processed. But hyper 1.12
/// also reports a GOAWAY that arrives right after it has queued the headers of a request
/// (`ClientTask::poll` in `src/proto/h2/client.rs`). h2 still sends them if the GOAWAY permits
/// their stream, as the first one of a graceful shutdown does (RFC 9113, 6.8), and then resets the
/// stream. A request with a body is incomplete without its data, and servers do not process it. A
/// request without a body is complete.
fn is_repeatable_after_go_away(method: &Method, body: &impl Body) -> bool {
    method.is_safe() || !body.is_end_stream()
}

/// A connection's entry in its pool, removed when this is dropped: when the connection's task ends,
/// by itself or with its runtime. It keeps neither alive.
struct PoolEntry {
    shared: Weak<SharedConnection>,
    open: Weak<OpenConnections>,
}

impl PoolEntry {
    fn remove(&self) {
        if let (Some(open), Some(shared)) = (self.open.upgrade(), self.shared.upgrade()) {
            open.remove(&shared);
        }
    }

    /// Records the server's limit, removes the connection from the pool if it has been idle for
    /// long, and returns the time of the next review.
    fn review(&self, allowed: usize, settings: &Settings) -> Instant {
        let now = Instant::now();
        let Some(shared) = self.shared.upgrade() else { return after(now, settings.idle_timeout) };
        let mut load = shared.load();
        load.limit = allowed.clamp(1, settings.max_streams);
        let since = if load.in_flight > 0 { now } else { load.idle_since };
        let idle_until = after(since, settings.idle_timeout);
        if idle_until > now {
            return idle_until;
        }
        load.closing = true;
        drop(load);
        self.remove();
        after(now, settings.idle_timeout)
    }
}

impl Drop for PoolEntry {
    fn drop(&mut self) {
        self.remove();
    }
}

/// Adds a duration without exceeding the clock's range: an idle time of `Duration::MAX` means
/// "never".
fn after(instant: Instant, duration: Duration) -> Instant {
    const FAR: Duration = Duration::from_secs(86_400 * 365);
    instant.checked_add(duration).unwrap_or(instant + FAR)
}

/// Runs one connection to its end.
async fn drive(mut connection: Connection, entry: PoolEntry, recheck: Arc<Notify>, settings: Settings) {
    let mut review = after(Instant::now(), settings.idle_timeout);
    loop {
        tokio::select! {
            biased;
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "an HTTP/2 connection ended");
                }
                return;
            }
            () = recheck.notified() => {}
            () = tokio::time::sleep_until(review) => {}
        }
        review = entry.review(connection.current_max_send_streams(), &settings);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn connections_of_ended_runtimes_leave_the_pool() {
        let open = Arc::new(OpenConnections::default());
        let mut peers = Vec::new();
        for _ in 0..3 {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime = runtime.expect("a runtime");
            runtime.block_on(async {
                let (ours, theirs) = tokio::io::duplex(1 << 16);
                peers.push(theirs);
                let builder = http2::Builder::new(TokioExecutor::new());
                let (sender, connection) =
                    builder.handshake(ServerConnection::over(ours)).await.expect("a connection");
                let idle_timeout = Duration::from_secs(60);
                open.add(sender, connection, Settings { builder, max_streams: 1, idle_timeout });
                assert!(open.reserve().is_some(), "the new connection takes requests");
            });
            assert_eq!(open.connections().len(), 1);
            drop(runtime);
            assert_eq!(open.connections().len(), 0, "its runtime has ended");
        }
    }

    #[test]
    fn a_request_with_a_streamed_body_has_no_copy_unless_the_body_is_empty() {
        let of = |body| copy_of(&Request::post("/").header("a", "b").body(body).expect("a request"));
        let whole = of(OutgoingBody::Whole("{}".into())).expect("a copy");
        assert_eq!((whole.method(), &whole.headers()["a"]), (&Method::POST, &"b".parse().expect("a value")));
        assert!(of(OutgoingBody::streamed(boxed(crate::RequestBody::from("{}")))).is_none());
        let empty = of(OutgoingBody::streamed(boxed(crate::RequestBody::default())));
        assert!(empty.is_some_and(|it| it.body().is_end_stream()));
    }

    #[test]
    fn after_a_goaway_a_request_that_changes_something_is_repeated_only_if_it_has_a_body() {
        for (method, empty, with_body) in [
            (Method::GET, true, true),
            (Method::HEAD, true, true),
            (Method::OPTIONS, true, true),
            (Method::POST, false, true),
            (Method::PUT, false, true),
            (Method::PATCH, false, true),
            (Method::DELETE, false, true),
        ] {
            let repeatable =
                |body: &'static str| is_repeatable_after_go_away(&method, &crate::RequestBody::from(body));
            assert_eq!((repeatable(""), repeatable("{}")), (empty, with_body), "{method}");
        }
    }
}
