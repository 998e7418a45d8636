//! The connector: name resolution, TCP, the proxy if there is one, and TLS for `https`.
//!
//! Every step has its own time limit and its own kind of error. The pools call it; it keeps no
//! connections.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use http::Uri;
use http::uri::Scheme;
use hyper_util::client::legacy::connect::proxy::{SocksV5, Tunnel};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use rustls::ClientConfig;
use rustls::pki_types::ServerName;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio_rustls::TlsConnector;
use tower::ServiceExt;
use tower_service::Service;

use super::dns::TimedResolver;
use super::error::{TransportError, TransportErrorKind};
use super::options::TransportOptions;
use super::proxy::{Proxy, ProxyKind, ProxyRules, port_of};
use crate::body::BoxError;
use crate::tls::{Alpn, CertificateReloader, explain};

/// Any byte stream that connections are layered upon.
trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> Stream for T {}

type BoxStream = TokioIo<Box<dyn Stream>>;

/// A connector with one set of rules and certificates. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connector {
    shared: Arc<ConnectorInner>,
}

struct ConnectorInner {
    tcp: HttpConnector<TimedResolver>,
    proxies: Arc<ProxyRules>,
    /// `None` if the server's URL is `http`.
    tls: Option<Tls>,
    dial_timeout: Duration,
    handshake_timeout: Duration,
}

/// The TLS configurations made from one version of the certificates.
struct Tls {
    reloader: Arc<CertificateReloader>,
    either: Arc<ClientConfig>,
    http1: Arc<ClientConfig>,
    proxy: Option<Arc<ClientConfig>>,
}

/// An open connection to a server.
pub(super) struct ServerConnection {
    io: BoxStream,
    /// True if both sides negotiated HTTP/2.
    pub(super) is_http2: bool,
}

impl Connector {
    /// Creates a connector with TLS configurations from the current certificates.
    pub(super) fn new(
        reloader: Option<Arc<CertificateReloader>>,
        proxies: Arc<ProxyRules>,
        options: &TransportOptions,
    ) -> Result<Self, TransportError> {
        let mut tcp = HttpConnector::new_with_resolver(TimedResolver::new());
        tcp.enforce_http(false);
        tcp.set_nodelay(true);
        tcp.set_keepalive(Some(options.tcp_keepalive));
        tcp.set_keepalive_interval(Some(options.tcp_keepalive));
        // hyper divides this among the addresses of a name, so that an unresponsive first address
        // does not use up all the time.
        tcp.set_connect_timeout(Some(options.dial_timeout));
        let tls = match reloader {
            Some(reloader) => Some(Tls {
                either: Arc::new(reloader.client_config(Alpn::Http2OrHttp1)?),
                http1: Arc::new(reloader.client_config(Alpn::Http1)?),
                proxy: if proxies.may_use_tls() { Some(Arc::new(reloader.proxy_config()?)) } else { None },
                reloader,
            }),
            None => None,
        };
        let (dial_timeout, handshake_timeout) = (options.dial_timeout, options.handshake_timeout);
        Ok(Self { shared: Arc::new(ConnectorInner { tcp, proxies, tls, dial_timeout, handshake_timeout }) })
    }

    /// Returns true if the certificates may be replaced while the program runs.
    pub(super) fn may_rotate(&self) -> bool {
        self.shared.tls.as_ref().is_some_and(|it| it.reloader.may_rotate())
    }

    /// Opens a connection to the server of `target`. All errors are from before the request was
    /// sent.
    pub(super) async fn connect(
        &self,
        target: &Uri,
        offer: Alpn,
    ) -> Result<ServerConnection, TransportError> {
        let this = &*self.shared;
        let stream = match this.proxies.proxy_for(target) {
            Some(proxy) => this.dial_through_proxy(&proxy, target).await?,
            None => this.dial(target).await?,
        };
        if target.scheme() != Some(&Scheme::HTTPS) {
            return Ok(ServerConnection { io: stream, is_http2: false });
        }
        let tls = this.tls.as_ref().ok_or_else(|| {
            TransportError::new(
                TransportErrorKind::Config,
                "an https request on a transport made for an http server",
            )
        })?;
        this.tls_handshake(tls, stream, target, offer).await
    }
}

impl ConnectorInner {
    async fn dial(&self, target: &Uri) -> Result<BoxStream, TransportError> {
        let failed = |kind, error: BoxError| {
            TransportError::new(kind, format!("cannot connect to {}", name_of(target))).with_source(error)
        };
        match tokio::time::timeout(self.dial_timeout, self.tcp.clone().oneshot(target.clone())).await {
            Ok(Ok(tcp)) => Ok(boxed(tcp.into_inner())),
            Ok(Err(error)) => Err(failed(TransportErrorKind::of(&error), error.into())),
            Err(elapsed) => Err(failed(TransportErrorKind::Timeout, elapsed.into())),
        }
    }

    /// Opens a tunnel to `target` through a proxy. All errors count as the proxy's.
    async fn dial_through_proxy(&self, proxy: &Proxy, target: &Uri) -> Result<BoxStream, TransportError> {
        let failed = |message: String, error: BoxError| {
            TransportError::new(TransportErrorKind::Proxy, message).with_source(error)
        };
        let unreachable = |error| failed(format!("cannot reach the proxy {}", proxy.name()), error);
        let mut stream = self.dial(&proxy.address).await.map_err(|error| unreachable(error.into()))?;
        if proxy.address.scheme() == Some(&Scheme::HTTPS) {
            stream = self.proxy_tls_handshake(proxy, stream).await.map_err(unreachable)?;
        }
        let target = with_port(target)?;
        let tunnel = async {
            match proxy.kind {
                ProxyKind::Connect => connect_tunnel(proxy, stream, target.clone()).await,
                ProxyKind::Socks5 => socks_tunnel(proxy, stream, target.clone()).await,
            }
        };
        let refused = |error| {
            failed(format!("the proxy {} cannot connect to {}", proxy.name(), name_of(&target)), error)
        };
        match tokio::time::timeout(self.handshake_timeout, tunnel).await {
            Ok(opened) => opened.map_err(refused),
            Err(elapsed) => Err(refused(elapsed.into())),
        }
    }

    async fn proxy_tls_handshake(&self, proxy: &Proxy, stream: BoxStream) -> Result<BoxStream, BoxError> {
        let host = proxy.address.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
        let config = self.tls.as_ref().and_then(|tls| tls.proxy.clone());
        let config = config.ok_or("an https proxy needs an https server behind it")?;
        let connecting = TlsConnector::from(config).connect(ServerName::try_from(host)?, stream.into_inner());
        Ok(boxed(tokio::time::timeout(self.handshake_timeout, connecting).await??))
    }

    async fn tls_handshake(
        &self,
        tls: &Tls,
        stream: BoxStream,
        target: &Uri,
        offer: Alpn,
    ) -> Result<ServerConnection, TransportError> {
        let host = target.host().unwrap_or_default();
        let name = tls.reloader.server_name(host)?;
        tls.reloader.before_handshake().await;
        let config = match offer {
            Alpn::Http2OrHttp1 => &tls.either,
            Alpn::Http1 => &tls.http1,
        };
        let connecting = TlsConnector::from(Arc::clone(config)).connect(name, stream.into_inner());
        match tokio::time::timeout(self.handshake_timeout, connecting).await {
            Ok(Ok(stream)) => {
                let is_http2 = stream.get_ref().1.alpn_protocol() == Some(b"h2");
                Ok(ServerConnection { io: boxed(stream), is_http2 })
            }
            Ok(Err(error)) => Err(handshake_failed(&tls.reloader, host, error)),
            Err(elapsed) => {
                let message = format!("the TLS handshake with {} took too long", name_of(target));
                Err(TransportError::new(TransportErrorKind::Timeout, message).with_source(elapsed))
            }
        }
    }
}

fn handshake_failed(reloader: &CertificateReloader, host: &str, error: io::Error) -> TransportError {
    let found = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    match found {
        Some(found) => {
            let message = explain(found, host, &reloader.trust());
            TransportError::new(TransportErrorKind::Tls, message).with_source(found.clone())
        }
        None => {
            let message = format!("the connection to {host} broke during the TLS handshake");
            TransportError::new(TransportErrorKind::of(&error), message).with_source(error)
        }
    }
}

async fn connect_tunnel(proxy: &Proxy, stream: BoxStream, target: Uri) -> Result<BoxStream, BoxError> {
    let mut tunnel = Tunnel::new(proxy.address.clone(), OpenStream(Some(stream)));
    if let Some(auth) = &proxy.basic_auth {
        tunnel = tunnel.with_auth(auth.clone());
    }
    Ok(tunnel.call(target).await?)
}

async fn socks_tunnel(proxy: &Proxy, stream: BoxStream, target: Uri) -> Result<BoxStream, BoxError> {
    let mut socks = SocksV5::new(proxy.address.clone(), OpenStream(Some(stream)));
    if let Some((user, password)) = &proxy.user {
        socks = socks.with_auth(user.clone(), password.clone());
    }
    Ok(socks.call(target).await?)
}

/// A connector that returns an open stream. The tunnels of hyper-util want to dial themselves; this
/// keeps dial errors in this module.
struct OpenStream(Option<BoxStream>);

impl Service<Uri> for OpenStream {
    type Response = BoxStream;
    type Error = io::Error;
    type Future = std::future::Ready<io::Result<BoxStream>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _proxy: Uri) -> Self::Future {
        std::future::ready(self.0.take().ok_or_else(|| io::Error::other("a tunnel is opened once")))
    }
}

#[cfg(test)]
impl ServerConnection {
    /// Wraps the client's side of an HTTP/2 connection.
    pub(super) fn over(io: tokio::io::DuplexStream) -> Self {
        Self { io: boxed(io), is_http2: true }
    }
}

impl Connection for ServerConnection {
    fn connected(&self) -> Connected {
        let connected = Connected::new();
        if self.is_http2 { connected.negotiated_h2() } else { connected }
    }
}

impl hyper::rt::Read for ServerConnection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: hyper::rt::ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_read(cx, buf)
    }
}

impl hyper::rt::Write for ServerConnection {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.io).poll_write_vectored(cx, bufs)
    }
}

fn boxed(stream: impl Stream + 'static) -> BoxStream {
    TokioIo::new(Box::new(stream))
}

/// Returns host and port, for messages.
fn name_of(target: &Uri) -> String {
    format!("{}:{}", target.host().unwrap_or_default(), port_of(target))
}

/// Adds the port: the tunnels assume 443 for a URI without one.
fn with_port(target: &Uri) -> Result<Uri, TransportError> {
    let invalid = |error: http::Error| {
        TransportError::new(TransportErrorKind::Config, "the server's URL has no usable host")
            .with_source(error)
    };
    Uri::builder()
        .scheme(target.scheme_str().unwrap_or("https"))
        .authority(name_of(target))
        .path_and_query("/")
        .build()
        .map_err(invalid)
}
