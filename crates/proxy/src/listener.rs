//! The endpoint: accepts connections, performs the TLS handshake, and passes requests to a handler.
//!
//! Connections, the size of headers, the time to send them and the time without requests are
//! limited, so that clients that do nothing cannot take the place of others.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_client::ResponseBody;
use http::{Request, Response};
use hyper::body::Incoming;
use hyper::rt::Executor;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::conn::auto;
use socket2::{SockRef, TcpKeepalive};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::client_certificate::ClientCertificate;
use crate::forward::Peer;
use crate::in_flight::InFlight;
use crate::tls::Tls;

/// The time for the TLS handshake.
const HANDSHAKE: Duration = Duration::from_secs(10);

/// The time without a request in flight after which a connection is closed, also before the first
/// request, and the time for headers to arrive over HTTP/1.1. It is longer than clients keep idle
/// connections, so that clients close them first.
const IDLE: Duration = Duration::from_secs(120);

/// The interval of HTTP/2 pings on a silent connection, and the time to answer one.
const PING: (Duration, Duration) = (Duration::from_secs(30), Duration::from_secs(20));

/// The TCP keep-alive interval: connections of clients that have vanished end, also while a watch
/// over HTTP/1.1 has nothing to send.
const KEEP_ALIVE: Duration = Duration::from_secs(60);

/// The maximum size of all headers of a request, and of HTTP/1.1's buffer in each direction.
const MAX_HEADERS: u32 = 128 * 1024;

/// The maximum number of concurrent requests on one connection. Each watch is one.
const MAX_STREAMS: u32 = 2_000;

/// The number of bytes that a client may send ahead of upstream, on one stream and on a connection.
const STREAM_WINDOW: u32 = 256 * 1024;
const CONNECTION_WINDOW: u32 = 4 * 1024 * 1024;

/// The number of bytes of one HTTP/2 response that wait for the client.
const SEND_BUFFER: usize = 64 * 1024;

/// The grace period of requests in flight when the proxy stops.
pub(crate) const GRACE: Duration = Duration::from_millis(500);

/// The pause after an error of `accept`, such as running out of file descriptors.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// Answers requests. The future is dropped when the client disconnects.
pub(crate) trait Handler: Send + Sync + 'static {
    /// Answers one request of a peer.
    fn respond(
        &self,
        request: Request<Incoming>,
        peer: &Peer,
    ) -> impl Future<Output = Response<ResponseBody>> + Send;
}

/// The part of a listener that all its connections share.
pub(crate) struct Endpoint<H> {
    pub(crate) handler: H,
    pub(crate) tls: Option<Arc<Tls>>,
    pub(crate) connections: Arc<Semaphore>,
    pub(crate) tasks: TaskTracker,
    /// No new requests; those in flight may finish.
    pub(crate) graceful: CancellationToken,
    /// Every task ends immediately.
    pub(crate) immediate: CancellationToken,
}

impl<H: Handler> Endpoint<H> {
    /// Accepts connections until the proxy stops. At the limit, new ones wait in the backlog of the
    /// socket.
    pub(crate) async fn accept(self: Arc<Self>, listener: TcpListener) {
        loop {
            let accepting = async {
                let permit = Arc::clone(&self.connections).acquire_owned().await.ok()?;
                Some((permit, listener.accept().await))
            };
            let Some(Some((permit, accepted))) = self.graceful.run_until_cancelled(accepting).await else {
                return;
            };
            match accepted {
                Ok((stream, from)) => {
                    let this = Arc::clone(&self);
                    let serving = async move {
                        let _permit = permit;
                        this.serve_socket(stream, from).await;
                    };
                    let stop = self.immediate.clone();
                    self.tasks.spawn(async move {
                        let _ = stop.run_until_cancelled_owned(serving).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }

    async fn serve_socket(self: &Arc<Self>, stream: TcpStream, from: SocketAddr) {
        // Events are small and should leave at once. A socket without the option still works.
        let _ = stream.set_nodelay(true);
        let _ = SockRef::from(&stream).set_tcp_keepalive(&TcpKeepalive::new().with_time(KEEP_ALIVE));
        let address = Some(from.ip());
        let Some(tls) = &self.tls else {
            return self.serve(stream, Peer { address, certificate: None }).await;
        };
        match tokio::time::timeout(HANDSHAKE, tls.acceptor().accept(stream)).await {
            Ok(Ok(stream)) => {
                // The handshake fails for a certificate that is not verified.
                let chain = stream.get_ref().1.peer_certificates();
                // One that names no user authenticates none: the request may have a token.
                let certificate = chain.and_then(|it| ClientCertificate::new(it, tls)).map(Arc::new);
                self.serve(stream, Peer { address, certificate }).await;
            }
            Ok(Err(error)) => tracing::debug!(%from, %error, "TLS handshake failed"),
            Err(_) => tracing::debug!(%from, "TLS handshake took too long"),
        }
    }

    async fn serve(
        self: &Arc<Self>,
        stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
        peer: Peer,
    ) {
        let (this, peer) = (Arc::clone(self), Arc::new(peer));
        let requests = InFlight::default();
        let counted = requests.clone();
        let service = service_fn(move |request| {
            let (this, peer, in_flight) = (Arc::clone(&this), Arc::clone(&peer), counted.begin());
            // In a box: otherwise a watch would keep the room of its request for as long as it is
            // open.
            Box::pin(async move {
                let answer = this.handler.respond(request, &peer).await;
                Ok::<_, Infallible>(answer.map(|body| in_flight.until_end_of(body)))
            })
        });
        let builder = settings(Streams { tasks: self.tasks.clone(), stop: self.immediate.clone() });
        let mut connection = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
        // hyper has no limit for the first bytes, which decide between HTTP/1.1 and HTTP/2, nor for
        // an HTTP/2 connection that answers pings.
        let ended = tokio::select! {
            biased;
            ended = connection.as_mut() => Some(ended),
            () = self.graceful.cancelled() => None,
            () = requests.idle(IDLE) => None,
        };
        let ended = match ended {
            Some(ended) => ended,
            None => {
                connection.as_mut().graceful_shutdown();
                tokio::time::timeout(GRACE, connection).await.unwrap_or(Ok(()))
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended early");
        }
    }
}

/// Runs the streams of HTTP/2 connections in tasks that end with the proxy.
#[derive(Clone)]
struct Streams {
    tasks: TaskTracker,
    stop: CancellationToken,
}

impl<F> Executor<F> for Streams
where
    F: Future<Output: Send> + Send + 'static,
{
    fn execute(&self, stream: F) {
        let stop = self.stop.clone();
        self.tasks.spawn(async move {
            let _ = stop.run_until_cancelled_owned(stream).await;
        });
    }
}

/// Returns hyper's settings for the limits above.
fn settings(streams: Streams) -> auto::Builder<Streams> {
    let mut builder = auto::Builder::new(streams);
    builder.http1().timer(TokioTimer::new()).header_read_timeout(IDLE).max_buf_size(MAX_HEADERS as usize);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(MAX_STREAMS)
        .initial_stream_window_size(STREAM_WINDOW)
        .initial_connection_window_size(CONNECTION_WINDOW)
        .max_send_buf_size(SEND_BUFFER)
        .max_header_list_size(MAX_HEADERS)
        .keep_alive_interval(PING.0)
        .keep_alive_timeout(PING.1);
    builder
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use dogwatch_client::{BoxError, RequestBody, boxed};
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream};
    use tokio::time::{Instant, timeout};

    use super::*;

    /// The beginning of an HTTP/2 connection, with empty settings.
    const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0";

    /// Answers `/watch` with a body that sends nothing, and all else at once.
    struct Pages;

    impl Handler for Pages {
        async fn respond(&self, request: Request<Incoming>, _: &Peer) -> Response<ResponseBody> {
            let nothing = futures_util::stream::pending::<Result<Frame<Bytes>, BoxError>>();
            Response::new(match request.uri().path() {
                "/watch" => boxed(StreamBody::new(nothing)),
                _ => boxed(RequestBody::from("a page")),
            })
        }
    }

    fn endpoint() -> Arc<Endpoint<Pages>> {
        Arc::new(Endpoint {
            handler: Pages,
            tls: None,
            connections: Arc::new(Semaphore::new(1)),
            tasks: TaskTracker::new(),
            graceful: CancellationToken::new(),
            immediate: CancellationToken::new(),
        })
    }

    /// Sends bytes and then nothing. Returns the time until the connection is closed, if that
    /// happens within ten minutes.
    async fn time_open(sent: &[u8]) -> Option<Duration> {
        let (mut client, server) = tokio::io::duplex(64 * 1024);
        client.write_all(sent).await.unwrap();
        let (endpoint, begun) = (endpoint(), Instant::now());
        let serving = endpoint.serve(server, Peer::default());
        timeout(Duration::from_secs(600), serving).await.ok().map(|()| begun.elapsed())
    }

    /// Regression test: a client that sent nothing kept its connection forever, and so did one that
    /// sent the first bytes of a request.
    #[tokio::test(start_paused = true)]
    async fn a_connection_without_requests_is_closed() {
        for sent in [
            "",
            "P",
            "PRI * HTTP/2.0\r\n\r\n",
            "GET / HT",
            "GET / HTTP/1.1\r\nHost: local",
            "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        ] {
            let open = time_open(sent.as_bytes()).await;
            assert!(open.is_some_and(|it| it >= IDLE && it <= IDLE + GRACE), "{sent:?}: {open:?}");
        }
        // This one does not answer pings either.
        let open = time_open(PREFACE).await;
        assert!(open.is_some_and(|it| it <= PING.0 + PING.1 + GRACE), "{open:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_with_an_open_watch_stays_open() {
        let open = time_open(b"GET /watch HTTP/1.1\r\nHost: localhost\r\n\r\n").await;
        assert_eq!(open, None);
    }

    /// Answers the pings of a server, and nothing else.
    async fn answer_pings(mut client: DuplexStream) {
        let mut header = [0; 9];
        while client.read_exact(&mut header).await.is_ok() {
            let [a, b, c, kind, flags, ..] = header;
            let mut payload = vec![0; usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c)];
            client.read_exact(&mut payload).await.unwrap();
            if (kind, flags & 1) == (6, 0) {
                header[4] = 1;
                client.write_all(&header).await.unwrap();
                client.write_all(&payload).await.unwrap();
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_http2_connection_that_only_answers_pings_is_closed() {
        let (mut client, server) = tokio::io::duplex(64 * 1024);
        client.write_all(PREFACE).await.unwrap();
        let (endpoint, begun) = (endpoint(), Instant::now());
        let serving = async {
            endpoint.serve(server, Peer::default()).await;
            begun.elapsed()
        };
        let both = async { tokio::join!(serving, answer_pings(client)).0 };
        let open = timeout(Duration::from_secs(600), both).await.expect("it is closed");
        assert!(open >= IDLE && open <= IDLE + GRACE, "{open:?}");
    }
}
