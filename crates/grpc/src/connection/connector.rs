//! Opens connections: from the addresses of an endpoint through TCP, TLS and HTTP/2 to a first
//! PING.
//!
//! A connection counts as open when the peer has answered a PING: TCP alone also "connects" to a
//! listener that never accepts.

use std::fmt;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use h2::Ping;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Semaphore;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;

use super::driver::ConnectionDriver;
use super::error::ConnectionError;
use super::features::Parts;
use super::happy_eyeballs::{connect, dial};
use super::keep_alive::{KeepAlive, KeepAliveState, PingComplaints};
use super::session::{Link, Session};
use super::stream_tracker::{CountingSocket, StreamTracker};
use super::write_coalescer::WriteCoalescer;

/// The largest flow-control window of HTTP/2 (RFC 9113, section 6.9.1).
pub(crate) const LARGEST_WINDOW: u32 = (1 << 31) - 1;
/// The number of reset streams that are remembered, so that late frames of the peer on them are
/// ignored rather than answered.
const REMEMBERED_RESETS: usize = 4_096;
/// The time for which a connection attempt holds its permit; slower attempts continue without one.
const PERMIT_TIMEOUT: Duration = Duration::from_secs(1);

/// The TLS settings: certificates are verified for the service's name, whatever the dialled
/// address.
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

/// The limits that a connection advertises to its peer.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Limits {
    /// The flow-control window of a stream: the number of bytes that may be in transit before they
    /// are read.
    pub(crate) stream_window: u32,
    /// The same for all streams of a connection together.
    pub(crate) connection_window: u32,
    /// The maximum size of the headers of a response, and of its trailers.
    pub(crate) header_bytes: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // The value that hyper and tonic use.
            stream_window: 2 << 20,
            // Streams whose data is not read must not block other streams: each stream is bounded
            // by its own window. grpc-go has the same effect by returning connection window before
            // the caller reads (grpc v1.85.0 `internal/transport/http2_client.go`, `handleData`).
            connection_window: LARGEST_WINDOW,
            header_bytes: 64 << 10,
        }
    }
}

/// The settings for opening and keeping connections; shared by all endpoints of a channel.
#[derive(Debug)]
pub(crate) struct Connector {
    pub(crate) tls: Option<Tls>,
    /// The timeout from dialling to the response to the first PING.
    pub(crate) connect_timeout: Duration,
    /// `None` disables both pings and TCP keep-alive.
    pub(crate) keep_alive: Option<KeepAlive>,
    pub(crate) complaints: PingComplaints,
    pub(crate) limits: Limits,
    /// Limits the number of concurrent connection attempts.
    pub(crate) permits: Semaphore,
    /// The service to query with `grpc.health.v1`, if any.
    pub(crate) health: Option<String>,
    /// The `:authority` of the health watch.
    pub(crate) authority: Option<String>,
    pub(crate) parts: Parts,
    /// Pipes in place of sockets, for tests with paused time: the paused clock would run ahead of
    /// the kernel.
    #[cfg(test)]
    pub(crate) pipes: Option<TestPipes>,
}

/// Creates the other end of a pipe for each connection.
#[cfg(test)]
#[derive(Clone)]
pub(crate) struct TestPipes(pub(crate) Arc<dyn Fn(SocketAddr) -> tokio::io::DuplexStream + Send + Sync>);

#[cfg(test)]
impl fmt::Debug for TestPipes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TestPipes").finish_non_exhaustive()
    }
}

/// A new connection: the handle for calls, the driver, and the round trip time of the first PING.
#[derive(Debug)]
pub(crate) struct NewConnection {
    pub(crate) link: Arc<Link>,
    pub(crate) session: Session,
    pub(crate) round_trip: Duration,
}

impl Connector {
    /// Connects to one of the addresses, and waits for the first PING to be answered.
    ///
    /// # Errors
    /// Returns an error if no address answers, a handshake fails, or all of it takes longer than
    /// the timeout. Waiting for a permit does not count.
    pub(crate) async fn open(&self, addresses: &[SocketAddr]) -> Result<NewConnection, ConnectionError> {
        // The semaphore is never closed; even without a permit, there would only be more concurrent
        // attempts.
        let permit = self.permits.acquire().await.ok();
        let opening = dial(addresses, |address| self.connect(address));
        let late = |_| ConnectionError::TooLate(self.connect_timeout);
        let mut opening = pin!(timeout(self.connect_timeout, opening));
        // Addresses that do not answer must not keep others from being tried.
        let answer = match timeout(PERMIT_TIMEOUT, &mut opening).await {
            Ok(answer) => answer,
            Err(_) => {
                drop(permit);
                opening.await
            }
        };
        answer.map_err(late)?
    }

    async fn connect(&self, address: SocketAddr) -> Result<NewConnection, ConnectionError> {
        #[cfg(test)]
        if let Some(pipes) = &self.pipes {
            return self.handshake(self.tracked((pipes.0)(address)), address).await;
        }
        let socket = connect(address, self.keep_alive).await?;
        let Some(tls) = &self.tls else {
            return self.handshake(self.tracked(socket), address).await;
        };
        let failed = |source| ConnectionError::Tls { address, source };
        let connector = TlsConnector::from(Arc::clone(&tls.config));
        let socket = CountingSocket::new(socket);
        let written = socket.written();
        let stream = connector.connect(tls.name.clone(), socket).await.map_err(failed)?;
        if stream.get_ref().1.alpn_protocol() != Some(b"h2") {
            return Err(ConnectionError::NotHttp2 { address });
        }
        // Above TLS, where frames can be parsed.
        self.handshake(self.tracked(stream).above(written), address).await
    }

    fn tracked<T>(&self, io: T) -> StreamTracker<T> {
        StreamTracker::new(io, self.parts.tracker)
    }

    async fn handshake<T>(
        &self,
        io: StreamTracker<T>,
        peer: SocketAddr,
    ) -> Result<NewConnection, ConnectionError>
    where
        T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let failed = |source| ConnectionError::Http2 { address: peer, source };
        let (writes, reads, open) = (io.writes(), io.reads(), io.open_streams());
        let (io, control) = WriteCoalescer::new(io, self.parts.turns);
        let (sender, mut connection) = h2::client::Builder::new()
            .initial_connection_window_size(self.limits.connection_window)
            .initial_window_size(self.limits.stream_window)
            .max_header_list_size(self.limits.header_bytes)
            // Frames that cross the reset of a timed-out call are no attack. `h2` counts those for
            // streams it has forgotten over the life of a connection, and would end it with all its
            // calls at the 1,024th.
            .max_local_error_reset_streams(None)
            .max_concurrent_reset_streams(REMEMBERED_RESETS)
            .enable_push(false)
            .handshake::<_, Bytes>(io)
            .await
            .map_err(failed)?;
        let mut pings = connection.ping_pong().ok_or(ConnectionError::Closed { address: peer })?;
        let mut driver = ConnectionDriver::new(connection, control, self.parts.write_coalescing);
        let pinged = Instant::now();
        tokio::select! {
            biased;
            end = poll_fn(|cx| driver.poll(cx, false)) => {
                end.map_err(failed)?;
                return Err(ConnectionError::Closed { address: peer });
            }
            pong = pings.ping(Ping::opaque()) => pong.map_err(failed)?,
        };
        let now = Instant::now();
        // The health watch, if there is one, permanently occupies a stream.
        let reserved = usize::from(self.health.is_some());
        let link = Arc::new(Link::new(sender, writes, peer, reserved));
        // So far only the handshake has arrived.
        reads.take();
        let keep_alive = self.keep_alive.map(|it| KeepAliveState::new(it, self.complaints.count(), now));
        let session = Session::new(driver, Arc::clone(&link), (reads, open), pings, keep_alive);
        Ok(NewConnection { link, session, round_trip: now - pinged })
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::net::TcpListener;
    use tokio::sync::oneshot;

    use super::*;
    use crate::connection::session::Ended;

    fn connector() -> Connector {
        Connector {
            tls: None,
            connect_timeout: Duration::from_secs(20),
            keep_alive: None,
            complaints: PingComplaints::default(),
            limits: Limits::default(),
            permits: Semaphore::new(1),
            health: None,
            authority: None,
            parts: Parts::default(),
            pipes: None,
        }
    }

    /// Serves the other end of a pipe until `stop` is signalled, then stops reading.
    async fn served(io: DuplexStream, mut stop: oneshot::Receiver<()>) {
        let mut connection = h2::server::handshake(io).await.unwrap();
        let serving = poll_fn(|cx| connection.poll_closed(cx).map(|_| ()));
        tokio::select! {
            () = serving => {}
            _ = &mut stop => std::future::pending().await,
        }
    }

    async fn open(connector: &Connector, io: DuplexStream) -> NewConnection {
        connector.handshake(connector.tracked(io), "127.0.0.1:1".parse().unwrap()).await.unwrap()
    }

    /// Returns the end of a connection, if it comes within this time.
    async fn end(opened: &mut NewConnection, limit: Duration) -> Option<Ended> {
        timeout(limit, poll_fn(|cx| opened.session.poll(cx, false))).await.ok()
    }

    /// Starts a call that stays open as long as the result is held and the connection is polled.
    fn call(opened: &NewConnection) -> h2::client::ResponseFuture {
        let request = http::Request::post("http://a/b").body(()).unwrap();
        opened.link.sender().send_request(request, true).unwrap().0
    }

    /// A vanished pod sends nothing, not even a reset: only a ping detects it.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_falls_silent_is_closed_after_an_unanswered_ping() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(served(theirs, stopped));
        let frequent = KeepAlive { ignore_ping_policy: true, ..KeepAlive::default() };
        let mut opened = open(&Connector { keep_alive: Some(frequent), ..connector() }, ours).await;
        let (begin, _call) = (Instant::now(), call(&opened));
        let ended_early = end(&mut opened, Duration::from_secs(95)).await;
        assert!(ended_early.is_none(), "the connection ended although pings were answered: {ended_early:?}");
        stop.send(()).unwrap();
        let ended = end(&mut opened, Duration::from_secs(3_600)).await.unwrap();
        assert!(matches!(ended.error, ConnectionError::Silent { .. }), "{ended:?}");
        assert!(begin.elapsed() <= Duration::from_secs(95 + 30 + 10 + 1), "{:?}", begin.elapsed());
        server.abort();
    }

    /// The first call after a long pause does not wait half a minute before its connection is
    /// checked.
    #[tokio::test(start_paused = true)]
    async fn a_peer_that_fell_silent_while_idle_is_detected_by_the_first_call() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (stop, stopped) = oneshot::channel();
        let server = tokio::spawn(served(theirs, stopped));
        let mut opened =
            open(&Connector { keep_alive: Some(KeepAlive::default()), ..connector() }, ours).await;
        stop.send(()).unwrap();
        let ended_early = end(&mut opened, Duration::from_secs(3 * 3_600)).await;
        assert!(ended_early.is_none(), "the connection ended without calls: {ended_early:?}");
        let _call = call(&opened);
        let ended = end(&mut opened, Duration::from_secs(11)).await.unwrap();
        assert!(matches!(ended.error, ConnectionError::Silent { .. }), "{ended:?}");
        server.abort();
    }

    /// Returns the end of a connection whose peer sends GOAWAY with this reason and debug data.
    async fn end_after_go_away(reason: u32, words: &[u8]) -> Ended {
        let (ours, mut theirs) = tokio::io::duplex(1 << 16);
        let (words, opening) = (words.to_vec(), connector());
        let server = tokio::spawn(async move {
            // Settings, and the response to the first ping.
            theirs.write_all(&[0, 0, 0, 4, 0, 0, 0, 0, 0]).await.unwrap();
            theirs.read_exact(&mut [0; 24]).await.unwrap();
            loop {
                let mut head = [0; 9];
                theirs.read_exact(&mut head).await.unwrap();
                let mut payload = vec![0; usize::from(head[1]) << 8 | usize::from(head[2])];
                theirs.read_exact(&mut payload).await.unwrap();
                if head[3] == 6 {
                    let pong = [&[0, 0, 8, 6, 1, 0, 0, 0, 0], &payload[..]].concat();
                    theirs.write_all(&pong).await.unwrap();
                    break;
                }
            }
            tokio::time::sleep(Duration::from_secs(1)).await;
            let mut goodbye = vec![0, 0, 8 + words.len() as u8, 7, 0, 0, 0, 0, 0, 0, 0, 0, 0];
            goodbye.extend(reason.to_be_bytes());
            goodbye.extend(words);
            theirs.write_all(&goodbye).await.unwrap();
        });
        let mut opened = open(&opening, ours).await;
        let ended = end(&mut opened, Duration::from_secs(10)).await.unwrap();
        server.await.unwrap();
        ended
    }

    /// Servers send ENHANCE_YOUR_CALM for other reasons too, such as too many resets, which say
    /// nothing about pings.
    #[tokio::test(start_paused = true)]
    async fn only_go_away_with_too_many_pings_slows_pings_down() {
        const CALM: u32 = 11;
        assert_eq!(end_after_go_away(CALM, b"too_many_pings").await.too_many_pings, Some(0));
        for (reason, words) in
            [(CALM, &b"too_many_resets"[..]), (CALM, b""), (0, b"too_many_pings"), (2, b"too_many_pings")]
        {
            let ended = end_after_go_away(reason, words).await;
            assert_eq!(ended.too_many_pings, None, "{reason} {words:?}");
        }
    }

    /// This makes the call safe to send elsewhere, whatever it does.
    #[tokio::test]
    async fn a_call_queued_on_a_dead_connection_sends_no_byte() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (_stop, stopped) = oneshot::channel();
        let server = tokio::spawn(served(theirs, stopped));
        let mut opened = open(&connector(), ours).await;
        // The rest of the handshake is sent.
        assert!(end(&mut opened, Duration::from_millis(1)).await.is_none());
        server.abort();
        let _ = server.await;
        let before = opened.link.write_mark();
        let answer = call(&opened);
        let ended = poll_fn(|cx| opened.session.poll(cx, false)).await;
        assert!(!ended.retired, "{ended:?}");
        assert!(answer.await.is_err());
        assert_eq!(opened.link.write_mark(), before);
    }

    /// The kernel accepts connections for a process that hangs; only a response shows that it is
    /// alive.
    #[tokio::test]
    async fn a_listener_that_never_answers_is_not_a_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hasty = Connector { connect_timeout: Duration::from_millis(50), ..connector() };
        let error = hasty.open(&[listener.local_addr().unwrap()]).await.unwrap_err();
        assert!(matches!(error, ConnectionError::TooLate(_)), "{error:?}");
    }

    /// Starts an HTTP/2 server at its own address.
    async fn http2_server() -> (SocketAddr, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let server = tokio::spawn(async move {
            let (socket, _) = listener.accept().await.unwrap();
            let mut connection = h2::server::handshake(socket).await.unwrap();
            let _ = poll_fn(|cx| connection.poll_closed(cx)).await;
        });
        (address, server)
    }

    /// An address that accepts is not yet a connection: one that then closes, or never answers,
    /// must not hide the other.
    #[tokio::test]
    async fn an_address_that_accepts_but_does_not_speak_http2_leads_to_the_next() {
        let listen = || TcpListener::bind("127.0.0.1:0");
        let (closing, silent) = (listen().await.unwrap(), listen().await.unwrap());
        let addresses = [closing.local_addr().unwrap(), silent.local_addr().unwrap()];
        let hanging_up = tokio::spawn(async move { while closing.accept().await.is_ok() {} });
        for first in addresses {
            let (alive, server) = http2_server().await;
            let opened = connector().open(&[first, alive]).await.unwrap();
            assert_eq!(opened.link.peer(), alive);
            server.abort();
        }
        hanging_up.abort();
    }

    /// Half of the pods of a service are gone, and their addresses do not answer: the others are
    /// connected all the same.
    #[tokio::test]
    async fn silent_addresses_do_not_keep_others_from_being_tried() {
        let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let hole = silent.local_addr().unwrap();
        let (alive, server) = http2_server().await;
        let patient = Arc::new(Connector { connect_timeout: Duration::from_secs(3_600), ..connector() });
        let waiting = tokio::spawn({
            let connector = Arc::clone(&patient);
            async move { connector.open(&[hole]).await.map(drop) }
        });
        while patient.permits.available_permits() > 0 {
            tokio::task::yield_now().await;
        }
        patient.open(&[alive]).await.unwrap();
        waiting.abort();
        server.abort();
    }
}
