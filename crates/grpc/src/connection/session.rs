//! One HTTP/2 connection, from the dial to its end.
//!
//! Calls go straight to `h2`: a call queues its frames on the connection under that library's own short lock and is woken by the
//! connection's task alone. Going through hyper's client would add a channel, a spawned task and two wake-ups to each call.
//! A connection counts as made when the peer has answered a first PING: a listener that never accepts also "connects".

use std::fmt;
use std::future::{Future, poll_fn};
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use bytes::Bytes;
use h2::client::SendRequest;
use h2::{Ping, PingPong, Reason};
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::{Instant, Sleep, sleep, timeout};
use tokio_rustls::TlsConnector;

use super::corked::Corked;
use super::counted::{Counted, Writes};
use super::dial::dial;
use super::error::ConnectionError;
use super::wire::Wire;

/// Flow-control windows, as hyper and tonic choose them: 5 MB for the connection, 2 MB for a stream.
const CONNECTION_WINDOW: u32 = 5 << 20;
const STREAM_WINDOW: u32 = 2 << 20;
/// A peer that complains about pings gets fewer, but never fewer than this (gRPC's longest keep-alive, A8).
const RAREST_PING: Duration = Duration::from_secs(2 * 60 * 60);

/// For so long a connection in the making counts among those that are made at a time; one that takes longer only waits.
const POLITE: Duration = Duration::from_secs(1);

/// TLS by the service's name, whatever address is dialled.
#[derive(Clone)]
pub(crate) struct Tls {
    pub(crate) config: Arc<ClientConfig>,
    pub(crate) name: ServerName<'static>,
}

impl fmt::Debug for Tls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tls").field("name", &self.name).finish_non_exhaustive()
    }
}

/// How connections are made and kept; shared by all endpoints of a channel.
#[derive(Debug)]
pub(crate) struct Dialler {
    pub(crate) tls: Option<Tls>,
    /// From the dial to the answer to the first PING.
    pub(crate) connect_timeout: Duration,
    /// How often to PING, and how long to wait for an answer; `None` is never.
    pub(crate) keep_alive: Option<(Duration, Duration)>,
    /// How many connections are made at a time.
    pub(crate) permits: Semaphore,
    /// The service to ask grpc.health.v1 about, if any.
    pub(crate) health: Option<String>,
    /// `:authority` of the health watch.
    pub(crate) authority: Option<String>,
}

/// The calls' side of a connection.
pub(crate) struct Link {
    sender: SendRequest<Bytes>,
    writes: Writes,
    peer: SocketAddr,
}

impl fmt::Debug for Link {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link").field("peer", &self.peer).finish_non_exhaustive()
    }
}

impl Link {
    /// A handle to open one stream with.
    pub(crate) fn sender(&self) -> SendRequest<Bytes> {
        self.sender.clone()
    }

    /// A reading of the bytes that left; the same reading later means that none did.
    pub(crate) fn writes(&self) -> u64 {
        self.writes.count()
    }

    pub(crate) fn peer(&self) -> SocketAddr {
        self.peer
    }
}

/// A new connection: the calls' side, the task's side, and how long the first PING took.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) link: Arc<Link>,
    pub(crate) session: Session,
    pub(crate) round_trip: Duration,
}

/// The task's side of a connection: it must be polled for anything to move. Dropping it closes the connection and fails its calls.
pub(crate) struct Session {
    wire: Wire,
    /// Tells when the peer takes no more streams.
    sender: SendRequest<Bytes>,
    pings: PingPong,
    keep_alive: Option<(Duration, Duration)>,
    timer: Pin<Box<Sleep>>,
    awaiting_pong: bool,
    peer: SocketAddr,
    /// No more streams; only those that are there are carried on.
    retired: bool,
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session")
            .field("peer", &self.peer)
            .field("retired", &self.retired)
            .finish_non_exhaustive()
    }
}

/// What became of a connection.
#[derive(Debug)]
pub(crate) enum Ended {
    /// It is closed, with every call on it.
    Gone(ConnectionError),
    /// The peer takes no more calls; those that are there go on as long as the session is polled. Whether that is because it found that
    /// we ping too often.
    Retired(ConnectionError, bool),
    /// As `Gone`, because the peer found that we ping too often.
    Annoyed(ConnectionError),
}

impl Dialler {
    /// Connects to one of the addresses, and waits for the first sign of life.
    ///
    /// # Errors
    /// When no address answers, the handshakes fail, or all of it takes too long. Waiting for a permit does not count.
    pub(crate) async fn open(
        &self,
        addresses: &[SocketAddr],
        keep_alive: Option<(Duration, Duration)>,
    ) -> Result<Opened, ConnectionError> {
        // The semaphore is never closed; without a permit we would only be less polite.
        let permit = self.permits.acquire().await.ok();
        let opening = async {
            let (socket, address) = dial(addresses).await?;
            let Some(tls) = &self.tls else {
                return handshake(socket, address, keep_alive).await;
            };
            let failed = |source| ConnectionError::Tls { address, source };
            let connector = TlsConnector::from(Arc::clone(&tls.config));
            let stream = connector.connect(tls.name.clone(), socket).await.map_err(failed)?;
            if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
                return Err(ConnectionError::NotHttp2 { address });
            }
            handshake(stream, address, keep_alive).await
        };
        let late = |_| ConnectionError::TooLate(self.connect_timeout);
        let mut opening = pin!(timeout(self.connect_timeout, opening));
        // Addresses that nobody answers at must not keep others from being tried.
        let answer = match timeout(POLITE, &mut opening).await {
            Ok(answer) => answer,
            Err(_) => {
                drop(permit);
                opening.await
            }
        };
        answer.map_err(late)?
    }
}

async fn handshake<T>(
    io: T,
    peer: SocketAddr,
    keep_alive: Option<(Duration, Duration)>,
) -> Result<Opened, ConnectionError>
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let failed = |source| ConnectionError::Http2 { address: peer, source };
    // Above TLS, where frames can be read.
    let io = Counted::new(io);
    let writes = io.writes();
    let (io, cork) = Corked::new(io);
    let (sender, mut connection) = h2::client::Builder::new()
        .initial_connection_window_size(CONNECTION_WINDOW)
        .initial_window_size(STREAM_WINDOW)
        .enable_push(false)
        .handshake::<_, Bytes>(io)
        .await
        .map_err(failed)?;
    let mut pings = connection.ping_pong().ok_or(ConnectionError::Closed { address: peer })?;
    let mut wire = Wire::new(connection, cork);
    let asked = Instant::now();
    tokio::select! {
        biased;
        end = poll_fn(|cx| wire.poll(cx, false)) => {
            end.map_err(failed)?;
            return Err(ConnectionError::Closed { address: peer });
        }
        pong = pings.ping(Ping::opaque()) => pong.map_err(failed)?,
    };
    let round_trip = asked.elapsed();
    let timer = Box::pin(sleep(keep_alive.map_or(RAREST_PING, |it| it.0)));
    let link = Arc::new(Link { sender: sender.clone(), writes, peer });
    let session =
        Session { wire, sender, pings, keep_alive, timer, awaiting_pong: false, peer, retired: false };
    Ok(Opened { link, session, round_trip })
}

impl Session {
    /// Moves the connection on. Ready when it is gone, and once when it is retired; after that it may be polled on.
    /// `company`: there is more than one call on it.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, company: bool) -> Poll<Ended> {
        let address = self.peer;
        if let Poll::Ready(end) = self.wire.poll(cx, company) {
            return Poll::Ready(match end {
                Ok(()) => Ended::Gone(ConnectionError::Closed { address }),
                Err(source) if source.reason() == Some(Reason::ENHANCE_YOUR_CALM) => {
                    Ended::Annoyed(ConnectionError::Http2 { address, source })
                }
                Err(source) => Ended::Gone(ConnectionError::Http2 { address, source }),
            });
        }
        if let Poll::Ready(silent) = self.poll_keep_alive(cx) {
            return Poll::Ready(Ended::Gone(silent));
        }
        if !self.retired
            && let Poll::Ready(Err(error)) = self.sender.poll_ready(cx)
        {
            self.retired = true;
            let annoyed = error.reason() == Some(Reason::ENHANCE_YOUR_CALM);
            return Poll::Ready(Ended::Retired(ConnectionError::GoingAway { address }, annoyed));
        }
        Poll::Pending
    }

    fn poll_keep_alive(&mut self, cx: &mut Context<'_>) -> Poll<ConnectionError> {
        let Some((interval, timeout)) = self.keep_alive else {
            return Poll::Pending;
        };
        if self.awaiting_pong && matches!(self.pings.poll_pong(cx), Poll::Ready(Ok(_))) {
            self.awaiting_pong = false;
            self.timer.as_mut().reset(Instant::now() + interval);
        }
        loop {
            ready!(self.timer.as_mut().poll(cx));
            if self.awaiting_pong {
                return Poll::Ready(ConnectionError::Silent { address: self.peer, timeout });
            }
            self.awaiting_pong = self.pings.send_ping(Ping::opaque()).is_ok();
            self.timer.as_mut().reset(Instant::now() + timeout);
            // Asks to be woken by the answer.
            let _ = self.pings.poll_pong(cx);
        }
    }
}

/// How often to ping a peer that complained: half as often as before.
pub(crate) fn calmer((interval, timeout): (Duration, Duration)) -> (Duration, Duration) {
    ((interval * 2).min(RAREST_PING), timeout)
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    fn dialler() -> Dialler {
        Dialler {
            tls: None,
            connect_timeout: Duration::from_secs(20),
            keep_alive: None,
            permits: Semaphore::new(1),
            health: None,
            authority: None,
        }
    }

    /// A peer on the other end of a pipe that answers until it is told to stop reading.
    async fn served(io: tokio::io::DuplexStream, mut stop: tokio::sync::oneshot::Receiver<()>) {
        let mut connection = h2::server::handshake(io).await.unwrap();
        let serving = poll_fn(|cx| connection.poll_closed(cx).map(|_| ()));
        tokio::select! {
            () = serving => {}
            _ = &mut stop => std::future::pending().await,
        }
    }

    /// A pod that is gone answers nothing, not even with a reset: only a ping tells.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_falls_silent_is_given_up_after_an_unanswered_ping() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (stop, stopped) = tokio::sync::oneshot::channel();
        let server = tokio::spawn(served(theirs, stopped));
        let address = "127.0.0.1:1".parse().unwrap();
        let keep_alive = Some((Duration::from_secs(30), Duration::from_secs(10)));
        let mut opened = handshake(ours, address, keep_alive).await.unwrap();
        let begin = Instant::now();
        let calm = poll_fn(|cx| opened.session.poll(cx, false));
        assert!(timeout(Duration::from_secs(95), calm).await.is_err(), "answered pings keep it alive");
        stop.send(()).unwrap();
        let end = poll_fn(|cx| opened.session.poll(cx, false)).await;
        assert!(matches!(end, Ended::Gone(ConnectionError::Silent { .. })), "{end:?}");
        assert!(begin.elapsed() <= Duration::from_secs(95 + 30 + 10 + 1), "{:?}", begin.elapsed());
        server.abort();
    }

    /// What makes such a call safe to send elsewhere, whatever it is.
    #[tokio::test]
    async fn a_call_that_is_queued_on_a_connection_that_is_dead_already_leaves_no_byte() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (_stop, stopped) = tokio::sync::oneshot::channel();
        let server = tokio::spawn(served(theirs, stopped));
        let address = "127.0.0.1:1".parse().unwrap();
        let mut opened = handshake(ours, address, None).await.unwrap();
        // What the handshake left to say is said.
        assert!(
            timeout(Duration::from_millis(1), poll_fn(|cx| opened.session.poll(cx, false))).await.is_err()
        );
        server.abort();
        let _ = server.await;
        let before = opened.link.writes();
        let request = http::Request::post("http://a/b").body(()).unwrap();
        let (answer, _) = opened.link.sender().send_request(request, true).unwrap();
        let end = poll_fn(|cx| opened.session.poll(cx, false)).await;
        assert!(matches!(end, Ended::Gone(_)), "{end:?}");
        assert!(answer.await.is_err());
        assert_eq!(opened.link.writes(), before);
    }

    /// The kernel accepts on behalf of a process that hangs; nothing but an answer shows that somebody is there.
    #[tokio::test]
    async fn a_listener_that_never_answers_is_no_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hasty = Dialler { connect_timeout: Duration::from_millis(50), ..dialler() };
        let error = hasty.open(&[listener.local_addr().unwrap()], None).await.unwrap_err();
        assert!(matches!(error, ConnectionError::TooLate(_)), "{error:?}");
    }

    /// Half of the pods of a service are gone, and their addresses answer nothing: the others are connected to all the same.
    #[tokio::test]
    async fn silent_addresses_do_not_keep_others_from_being_tried() {
        let listen = || TcpListener::bind("127.0.0.1:0");
        let (silent, alive) = (listen().await.unwrap(), listen().await.unwrap());
        let (hole, well) = (silent.local_addr().unwrap(), alive.local_addr().unwrap());
        let server = tokio::spawn(async move {
            let (socket, _) = alive.accept().await.unwrap();
            let mut connection = h2::server::handshake(socket).await.unwrap();
            let _ = poll_fn(|cx| connection.poll_closed(cx)).await;
        });
        let patient = Arc::new(Dialler { connect_timeout: Duration::from_secs(3_600), ..dialler() });
        let waiting = tokio::spawn({
            let dialler = Arc::clone(&patient);
            async move { dialler.open(&[hole], None).await.map(drop) }
        });
        while patient.permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        patient.open(&[well], None).await.unwrap();
        waiting.abort();
        server.abort();
    }

    #[test]
    fn a_peer_that_complains_is_pinged_half_as_often() {
        let second = Duration::from_secs(1);
        assert_eq!(calmer((30 * second, 10 * second)), (60 * second, 10 * second));
        assert_eq!(calmer((RAREST_PING, second)), (RAREST_PING, second));
    }
}
