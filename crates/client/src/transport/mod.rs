//! The transport: from a host name to connection pools for HTTP/2 and HTTP/1.1.
//!
//! ```text
//! Transport ─ gzip ─ rotation ─► Generation ─┬─ Http2Pool per host ─┐
//!                       ▲                    └─ HTTP/1.1 pool ──────┴─ Connector ─ proxy ─ TCP ─ TLS
//!            tls::CertificateReloader
//! ```
//!
//! Takes requests with absolute URIs and returns responses with streamed bodies. It knows nothing
//! of Kubernetes: credentials, retries and rate limits are layers above. When a certificate
//! changes, a new generation takes new requests; those in flight on the old one finish there, and
//! its connections close after the last of them.

mod dns;
mod error;
mod proxy;
mod options;
mod connector;
mod body;
mod http1;
mod http2;
mod generation;
mod gzip;
mod rotation;

use std::fmt;
use std::task::{Context, Poll};

use http::{Request, Response};
use tokio::sync::watch;
use tower_layer::Layer;
use tower_service::Service;

pub use error::{TransportError, TransportErrorKind};
pub use gzip::{Gzip, GzipLayer};
pub use options::TransportOptions;
pub use proxy::ProxyEnvironment;
use rotation::{ResponseFuture, RotatingTransport};

use crate::body::{OutgoingBody, RequestBody, ResponseBody};
use crate::config::{Config, Identity};

/// The HTTP transport to a server.
///
/// Cheap to clone; clones share their connections. Requests must have absolute URIs. Over HTTP/2
/// many requests share a connection, and another is opened before the server's stream limit is
/// reached, so that no request waits behind watches. A request with an `Upgrade` header always uses
/// HTTP/1.1; take the upgraded stream with `hyper::upgrade::on`. Dropping the future of a request,
/// or the body of its response, cancels the request.
///
/// Errors of bodies are boxed [`TransportError`]s.
///
/// ```
/// use dogwatch_client::transport::{Transport, TransportOptions};
/// use dogwatch_client::{Config, RequestBody};
/// use tower::ServiceExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::new("http://127.0.0.1:1".parse()?);
/// let (_, no_plugin) = tokio::sync::watch::channel(None);
/// let transport = Transport::with_options(&config, no_plugin, TransportOptions::default())?;
/// let request = http::Request::get("http://127.0.0.1:1/version").body(RequestBody::default())?;
/// let error = transport.oneshot(request).await.expect_err("no server listens on port 1");
/// println!("{error}");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Transport {
    service: Gzip<RotatingTransport>,
    /// The transport below gzip, for requests that are passed on.
    rotation: RotatingTransport,
}

impl Transport {
    /// Creates a transport from the settings and this process's environment (`HTTPS_PROXY`,
    /// `DISABLE_HTTP2`, …; see [`TransportOptions::from_env`]). Reads certificates, opens no
    /// connection.
    ///
    /// `plugin_identity` holds the client certificate of a credential plugin; a certificate in the
    /// settings takes precedence. A change takes effect with the next request.
    pub fn new(
        config: &Config,
        plugin_identity: watch::Receiver<Option<Identity>>,
    ) -> Result<Self, TransportError> {
        let options = TransportOptions::from_env(|name| std::env::var(name).ok());
        Self::with_options(config, plugin_identity, options)
    }

    /// Creates a transport that does not read the environment.
    pub fn with_options(
        config: &Config,
        plugin_identity: watch::Receiver<Option<Identity>>,
        options: TransportOptions,
    ) -> Result<Self, TransportError> {
        let rotation = RotatingTransport::new(config, plugin_identity, options)?;
        metrics::counter!("rest_client_transport_create_calls_total").increment(1);
        let service = GzipLayer::new(!config.disable_compression).layer(rotation.clone());
        Ok(Self { service, rotation })
    }

    /// Passes a request on with a streamed body, and returns the response as the server sends it: a
    /// compressed body stays compressed, and trailers are passed on.
    ///
    /// The body is not in memory, so the request is sent once: if its connection is lost, the error
    /// says whether the server may have received it. Dropping the future, or the body of the
    /// response, cancels the request.
    ///
    /// # Errors
    /// Returns an error if no connection can be opened, or if it is lost before the response
    /// begins.
    ///
    /// ```
    /// use dogwatch_client::transport::{Transport, TransportOptions};
    /// use dogwatch_client::{Config, RequestBody, boxed};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let config = Config::new("http://127.0.0.1:1".parse()?);
    /// let (_, no_plugin) = tokio::sync::watch::channel(None);
    /// let transport = Transport::with_options(&config, no_plugin, TransportOptions::default())?;
    /// let body = boxed(RequestBody::from("a body that arrives in pieces"));
    /// let request = http::Request::post("http://127.0.0.1:1/upload").body(body)?;
    /// assert!(transport.forward(request).await.is_err()); // no server listens on port 1
    /// # Ok(())
    /// # }
    /// ```
    pub async fn forward(
        &self,
        request: Request<ResponseBody>,
    ) -> Result<Response<ResponseBody>, TransportError> {
        let mut rotation = self.rotation.clone();
        let sending = rotation.call(request.map(OutgoingBody::streamed));
        sending.await
    }
}

impl Service<Request<RequestBody>> for Transport {
    type Response = Response<ResponseBody>;
    type Error = TransportError;
    type Future = ResponseFuture;

    /// Always ready: waiting happens in the future.
    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<RequestBody>) -> ResponseFuture {
        self.service.call(request.map(OutgoingBody::Whole))
    }
}

impl fmt::Debug for Transport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Transport").finish_non_exhaustive()
    }
}
