//! HTTP/2 connections to one server: as few as possible, as many as needed.
//!
//! Requests share a connection until it carries the most streams allowed; then the next connection is opened. A stream
//! counts until its response body ends or is dropped, so that watches count for as long as they last. Without this,
//! requests past the server's limit would wait behind watches that never end.
//!
//! Each connection has one task ([`drive`]), which ends by itself when the pool and the last response are gone.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use http::{Request, Response, Uri};
use hyper::client::conn::http2;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use tokio::sync::Notify;
use tokio::time::Instant;

use super::body::Counted;
use super::connector::{Connector, Wire};
use super::error::TransportError;
use super::options::TransportOptions;
use crate::body::{RequestBody, ResponseBody, boxed};
use crate::tls::Offer;

/// Bytes a server may send on one stream before we have read them. As in Go: a list over 100 ms of distance still runs
/// at 40 MB/s. It is also what a watch whose reader stalls can hold in memory.
const STREAM_WINDOW: u32 = 4 << 20;

/// The same for all streams of a connection together; as in Go, too.
const CONNECTION_WINDOW: u32 = 1 << 30;

/// With no more streams than this, stalled readers can never use up the window of the connection: whatever they hold, a
/// whole stream window is left for a neighbour.
const MOST_STREAMS: usize = (CONNECTION_WINDOW / STREAM_WINDOW) as usize - 1;

/// How often a request that was not sent at all is given to another connection. Each time the connection had just been
/// closed by the server; three times in a row is no coincidence.
const UNSENT_RETRIES: usize = 3;

type Sender = http2::SendRequest<RequestBody>;

/// The HTTP/2 connections to one server.
pub(super) struct Http2Pool {
    server: Uri,
    connector: Connector,
    settings: Settings,
    open: Arc<Open>,
    /// Held while a connection is being opened, so that a burst of requests opens one and not as many as it has requests.
    dialing: tokio::sync::Mutex<()>,
    state: Mutex<State>,
}

#[derive(Clone)]
struct Settings {
    builder: http2::Builder<TokioExecutor>,
    max_streams: usize,
    idle_timeout: Duration,
}

#[derive(Default)]
struct State {
    /// The server chose HTTP/1.1; it is not asked again.
    speaks_http1: bool,
    /// How often opening a connection failed.
    failures: u64,
    last_failure: Option<TransportError>,
}

/// The connections that take new requests, in the order they were opened.
#[derive(Default)]
struct Open {
    /// A plain mutex: never held across an await.
    connections: Mutex<Vec<Arc<Shared>>>,
}

/// One connection.
struct Shared {
    sender: Sender,
    load: Mutex<Load>,
    /// Asks [`drive`] to look at the server's limit. Shared by itself: the task must not keep the sender alive.
    look: Arc<Notify>,
}

struct Load {
    in_flight: usize,
    /// The most streams at once: ours or the server's, whichever is less.
    limit: usize,
    /// Since when `in_flight` has been 0.
    idle_since: Instant,
    /// Takes no more requests.
    closing: bool,
}

/// A request's place on a connection, given back when dropped.
pub(super) struct Place {
    connection: Arc<Shared>,
}

/// What became of a request.
pub(super) enum Sent {
    /// It was answered.
    Answered(Response<ResponseBody>),
    /// The server does not speak HTTP/2; the request was not sent.
    SpeaksHttp1(Request<RequestBody>),
}

impl Http2Pool {
    pub(super) fn new(server: Uri, connector: Connector, options: &TransportOptions) -> Self {
        let mut builder = http2::Builder::new(TokioExecutor::new());
        builder
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .keep_alive_interval(options.ping_interval)
            .keep_alive_timeout(options.ping_timeout)
            .keep_alive_while_idle(true);
        let settings = Settings {
            builder,
            max_streams: options.max_streams_per_connection.clamp(1, MOST_STREAMS),
            idle_timeout: options.idle_timeout,
        };
        Self {
            server,
            connector,
            settings,
            open: Arc::default(),
            dialing: tokio::sync::Mutex::default(),
            state: Mutex::default(),
        }
    }

    /// Sends a request on a connection with room, opening one where there is none.
    pub(super) async fn send(&self, mut request: Request<RequestBody>) -> Result<Sent, TransportError> {
        let mut unsent = 0;
        loop {
            let Some(place) = self.place().await? else { return Ok(Sent::SpeaksHttp1(request)) };
            let mut sender = place.connection.sender.clone();
            match sender.try_send_request(request).await {
                Ok(response) => {
                    place.connection.look.notify_one();
                    return Ok(Sent::Answered(response.map(|body| boxed(Counted::new(body, place)))));
                }
                Err(mut error) => match error.take_message() {
                    Some(returned) if unsent < UNSENT_RETRIES => {
                        place.connection.load().closing = true;
                        request = returned;
                        unsent += 1;
                    }
                    Some(_) => return Err(TransportError::before_sending(error.into_error())),
                    None => return Err(TransportError::after_sending(error.into_error())),
                },
            }
        }
    }

    /// A place on an open or a new connection; `None` where the server speaks HTTP/1.1 only.
    async fn place(&self) -> Result<Option<Place>, TransportError> {
        let failures = match self.place_without_dialing() {
            Ok(found) => return Ok(found),
            Err(failures) => failures,
        };
        let _dialing = self.dialing.lock().await;
        match self.place_without_dialing() {
            Ok(found) => return Ok(found),
            // Somebody we waited for tried in vain meanwhile: his answer is ours, or else a hundred requests would time
            // out one after the other.
            Err(now) if now != failures => {
                if let Some(error) = self.state().last_failure.clone() {
                    return Err(error);
                }
            }
            Err(_) => {}
        }
        match self.dial().await {
            Ok(place) => {
                self.state().speaks_http1 = place.is_none();
                Ok(place)
            }
            Err(error) => {
                let mut state = self.state();
                state.failures += 1;
                state.last_failure = Some(error.clone());
                Err(error)
            }
        }
    }

    /// What can be said at once, or the number of failures so far.
    fn place_without_dialing(&self) -> Result<Option<Place>, u64> {
        let state = self.state();
        if state.speaks_http1 {
            return Ok(None);
        }
        self.open.place().map(Some).ok_or(state.failures)
    }

    async fn dial(&self) -> Result<Option<Place>, TransportError> {
        let wire = self.connector.connect(&self.server, Offer::Http2OrHttp1).await?;
        if !wire.is_http2 {
            return Ok(None);
        }
        let (sender, connection) =
            self.settings.builder.handshake(wire).await.map_err(TransportError::before_sending)?;
        let load = Load {
            in_flight: 0,
            limit: self.settings.max_streams,
            idle_since: Instant::now(),
            closing: false,
        };
        let shared = Arc::new(Shared { sender, load: Mutex::new(load), look: Arc::default() });
        let place = shared.place();
        let member = Member { shared: Arc::downgrade(&shared), open: Arc::downgrade(&self.open) };
        tokio::spawn(drive(connection, member, Arc::clone(&shared.look), self.settings.clone()));
        self.open.connections().push(shared);
        Ok(place)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Open {
    /// A place on the oldest connection with room, so that later ones run empty and close.
    fn place(&self) -> Option<Place> {
        self.connections().iter().find_map(Shared::place)
    }

    fn remove(&self, connection: &Arc<Shared>) {
        self.connections().retain(|it| !Arc::ptr_eq(it, connection));
    }

    fn connections(&self) -> MutexGuard<'_, Vec<Arc<Shared>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shared {
    fn place(self: &Arc<Self>) -> Option<Place> {
        let mut load = self.load();
        if load.closing || load.in_flight >= load.limit || self.sender.is_closed() {
            return None;
        }
        load.in_flight += 1;
        Some(Place { connection: Arc::clone(self) })
    }

    fn load(&self) -> MutexGuard<'_, Load> {
        self.load.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut load = self.connection.load();
        load.in_flight -= 1;
        if load.in_flight == 0 {
            load.idle_since = Instant::now();
        }
    }
}

/// A connection's entry in its pool, which it does not keep alive.
struct Member {
    shared: Weak<Shared>,
    open: Weak<Open>,
}

impl Member {
    fn remove(&self) {
        if let (Some(open), Some(shared)) = (self.open.upgrade(), self.shared.upgrade()) {
            open.remove(&shared);
        }
    }

    /// Notes the server's limit, takes the connection out of the pool where it has been idle for long, and says when to
    /// look again.
    fn review(&self, allowed: usize, settings: &Settings) -> Instant {
        let now = Instant::now();
        let Some(shared) = self.shared.upgrade() else { return now + settings.idle_timeout };
        let mut load = shared.load();
        load.limit = allowed.clamp(1, settings.max_streams);
        let since = if load.in_flight > 0 { now } else { load.idle_since };
        if since + settings.idle_timeout > now {
            return since + settings.idle_timeout;
        }
        load.closing = true;
        drop(load);
        self.remove();
        now + settings.idle_timeout
    }
}

/// Runs one connection to its end.
async fn drive(
    mut connection: http2::Connection<Wire, RequestBody, TokioExecutor>,
    member: Member,
    look: Arc<Notify>,
    settings: Settings,
) {
    let mut review = Instant::now() + settings.idle_timeout;
    loop {
        tokio::select! {
            ended = &mut connection => {
                if let Err(error) = ended {
                    tracing::debug!(%error, "an HTTP/2 connection ended");
                }
                return member.remove();
            }
            () = look.notified() => {}
            () = tokio::time::sleep_until(review) => {}
        }
        review = member.review(connection.current_max_send_streams(), &settings);
    }
}
