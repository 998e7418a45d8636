//! A real HTTP server, HTTP/2 and HTTP/1.1, with or without TLS, that counts its connections and
//! can cut them.

use std::convert::Infallible;
use std::future::Future;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::{Request, Response};
use http_body::Frame;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Empty, Full, StreamBody};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, watch};
use tokio_rustls::TlsAcceptor;

use super::{Authority, Leaf, Running, listen, soon};

/// The body of a scripted response.
pub(crate) type Body = UnsyncBoxBody<Bytes, Infallible>;

type Answer = Pin<Box<dyn Future<Output = Response<Body>> + Send>>;
type Handler = Arc<dyn Fn(Request<Incoming>, Peer) -> Answer + Send + Sync>;

/// The client of a request.
#[derive(Clone, Debug)]
pub(crate) struct Peer {
    /// The number of the connection, from 1.
    pub(crate) connection: usize,
    /// The protocol negotiated by ALPN.
    pub(crate) alpn: Option<String>,
    /// The client certificate.
    pub(crate) certificate: Option<CertificateDer<'static>>,
}

/// The setup of a server. Plaintext and without limits by default.
#[derive(Default)]
pub(crate) struct ServerSetup {
    tls: Option<Leaf>,
    client_ca: Option<CertificateDer<'static>>,
    client_must: bool,
    alpn: Vec<Vec<u8>>,
    max_streams: Option<u32>,
}

/// A running server.
pub(crate) struct Server {
    address: SocketAddr,
    secure: bool,
    counts: watch::Receiver<Counts>,
    control: watch::Sender<Control>,
    _running: Running,
}

#[derive(Clone, Copy, Default, Debug)]
struct Counts {
    accepted: usize,
    open: usize,
}

/// Counters, so that a connection sees only events after it was opened.
#[derive(Clone, Copy, Default, PartialEq)]
struct Control {
    cuts: usize,
    shutdowns: usize,
}

impl ServerSetup {
    /// Uses TLS with this certificate; offers HTTP/2 and HTTP/1.1.
    pub(crate) fn tls(leaf: Leaf) -> Self {
        let alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
        Self { tls: Some(leaf), alpn, ..Self::default() }
    }

    /// Offers HTTP/1.1 only.
    pub(crate) fn http1_only(mut self) -> Self {
        self.alpn = vec![b"http/1.1".to_vec()];
        self
    }

    /// Requests client certificates of this authority; with `must`, clients without one are
    /// rejected.
    pub(crate) fn ask_for_certificates(mut self, authority: &Authority, must: bool) -> Self {
        use rustls::pki_types::pem::PemObject;
        let pem = authority.pem();
        self.client_ca = Some(CertificateDer::from_pem_slice(pem.as_bytes()).expect("our own PEM"));
        self.client_must = must;
        self
    }

    /// Grants this number of HTTP/2 streams per connection.
    pub(crate) fn max_streams(mut self, streams: u32) -> Self {
        self.max_streams = Some(streams);
        self
    }

    /// Starts the server; `handler` answers every request.
    pub(crate) async fn start<F, H>(self, handler: H) -> Server
    where
        F: Future<Output = Response<Body>> + Send + 'static,
        H: Fn(Request<Incoming>, Peer) -> F + Send + Sync + 'static,
    {
        let secure = self.tls.is_some();
        let acceptor = self.acceptor();
        let handler: Handler = Arc::new(move |request, peer| Box::pin(handler(request, peer)));
        let (counts, counted) = watch::channel(Counts::default());
        let (control, controlled) = watch::channel(Control::default());
        let counts = Arc::new(counts);
        let max_streams = self.max_streams;
        let (address, running) = listen(move |stream| {
            let (acceptor, handler) = (acceptor.clone(), Arc::clone(&handler));
            let (guard, mut control) = (OpenGuard::new(&counts), controlled.clone());
            control.mark_unchanged();
            async move {
                // Moved as a whole: the count ends with the connection.
                let guard = guard;
                let connection = guard.number;
                match acceptor {
                    None => {
                        let peer = Peer { connection, alpn: None, certificate: None };
                        serve(stream, peer, handler, control, max_streams).await;
                    }
                    Some(acceptor) => {
                        // The client reports a failed handshake.
                        let Ok(stream) = acceptor.accept(stream).await else { return };
                        let peer = peer_of(connection, stream.get_ref().1);
                        serve(stream, peer, handler, control, max_streams).await;
                    }
                }
            }
        })
        .await;
        Server { address, secure, counts: counted, control, _running: running }
    }

    pub(crate) fn acceptor(&self) -> Option<TlsAcceptor> {
        let leaf = self.tls.as_ref()?;
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .expect("ring speaks TLS");
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let mut roots = RootCertStore::empty();
                roots.add(ca.clone()).expect("our own root");
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if self.client_must { verifier } else { verifier.allow_unauthenticated() };
                builder.with_client_cert_verifier(verifier.build().expect("a root"))
            }
        };
        let mut config =
            builder.with_single_cert(vec![leaf.certificate_der()], leaf.key_der()).expect("our own pair");
        config.alpn_protocols.clone_from(&self.alpn);
        Some(TlsAcceptor::from(Arc::new(config)))
    }
}

impl Server {
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns its URL with the IP address.
    pub(crate) fn url(&self) -> String {
        format!("{}://{}", if self.secure { "https" } else { "http" }, self.address)
    }

    /// Returns the number of connections so far.
    pub(crate) fn accepted(&self) -> usize {
        self.counts.borrow().accepted
    }

    /// Returns the number of open connections.
    pub(crate) fn open(&self) -> usize {
        self.counts.borrow().open
    }

    /// Waits until exactly this many connections are open.
    pub(crate) async fn wait_for_open(&self, open: usize) {
        let mut counts = self.counts.clone();
        soon(counts.wait_for(|counts| counts.open == open)).await.expect("the server runs");
    }

    /// Closes all connections abruptly.
    pub(crate) fn cut(&self) {
        self.control.send_modify(|control| control.cuts += 1);
    }

    /// Shuts down all connections gracefully: GOAWAY, or `Connection: close`.
    pub(crate) fn shut_down_gracefully(&self) {
        self.control.send_modify(|control| control.shutdowns += 1);
    }
}

fn peer_of(connection: usize, tls: &rustls::ServerConnection) -> Peer {
    Peer {
        connection,
        alpn: tls.alpn_protocol().map(|name| String::from_utf8_lossy(name).into_owned()),
        certificate: tls.peer_certificates().and_then(|chain| chain.first()).cloned(),
    }
}

async fn serve<S>(
    stream: S,
    peer: Peer,
    handler: Handler,
    mut control: watch::Receiver<Control>,
    max_streams: Option<u32>,
) where
    S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let mut builder = auto::Builder::new(TokioExecutor::new());
    if let Some(max) = max_streams {
        builder.http2().max_concurrent_streams(max);
    }
    let service = service_fn(move |request| {
        let answer = handler(request, peer.clone());
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let mut serving = pin!(builder.serve_connection_with_upgrades(TokioIo::new(stream), service));
    let before = *control.borrow();
    loop {
        tokio::select! {
            _ = serving.as_mut() => return,
            changed = control.changed() => {
                if changed.is_err() || control.borrow().cuts != before.cuts {
                    return;
                }
                serving.as_mut().graceful_shutdown();
            }
        }
    }
}

/// A guard that counts a connection while it is open.
struct OpenGuard {
    number: usize,
    counts: Arc<watch::Sender<Counts>>,
}

impl OpenGuard {
    fn new(counts: &Arc<watch::Sender<Counts>>) -> Self {
        counts.send_modify(|counts| {
            counts.accepted += 1;
            counts.open += 1;
        });
        Self { number: counts.borrow().accepted, counts: Arc::clone(counts) }
    }
}

impl Drop for OpenGuard {
    fn drop(&mut self) {
        self.counts.send_modify(|counts| counts.open -= 1);
    }
}

/// A response with a text.
pub(crate) fn text(content: impl Into<Bytes>) -> Response<Body> {
    Response::new(Full::new(content.into()).boxed_unsync())
}

/// An empty response.
pub(crate) fn empty() -> Response<Body> {
    Response::new(Empty::new().boxed_unsync())
}

/// A response whose chunks a test sends; it ends when the sender is dropped.
pub(crate) fn streamed() -> (mpsc::UnboundedSender<Bytes>, Response<Body>) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let chunks = stream::poll_fn(move |cx| receiver.poll_recv(cx));
    (sender, Response::new(StreamBody::new(chunks.map(|chunk| Ok(Frame::data(chunk)))).boxed_unsync()))
}

/// An endless response, as fast as it is read.
pub(crate) fn endless() -> Response<Body> {
    let chunk = Bytes::from(vec![b'x'; 16 * 1024]);
    let chunks = stream::repeat(chunk).map(|chunk| Ok(Frame::data(chunk)));
    Response::new(StreamBody::new(chunks).boxed_unsync())
}
