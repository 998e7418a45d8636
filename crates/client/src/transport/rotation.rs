//! The switch to new connections when a certificate has changed.

use parking_lot::Mutex;
use std::fmt;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use arc_swap::ArcSwap;
use http::Request;
use http::Response;
use tokio::sync::watch;
use tower_service::Service;

use super::connector::Connector;
use super::error::TransportError;
use super::generation::Generation;
use super::options::TransportOptions;
use super::proxy::ProxyRules;
use crate::body::{OutgoingBody, ResponseBody};
use crate::config::{Config, HttpVersion, Identity};
use crate::tls::CertificateReloader;

/// The future of a response.
pub(super) type ResponseFuture =
    Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, TransportError>> + Send + 'static>>;

/// A service that sends each request over the current connections. Clones share everything.
#[derive(Clone)]
pub(super) struct RotatingTransport {
    state: Arc<RotationState>,
}

struct RotationState {
    /// `None` if the server's URL is `http`.
    reloader: Option<Arc<CertificateReloader>>,
    proxies: Arc<ProxyRules>,
    only_http1: bool,
    options: Arc<TransportOptions>,
    current: ArcSwap<Generation>,
    /// Locked while a generation is created, so that one change creates one. Never held across an
    /// await.
    replacing: Mutex<()>,
}

impl RotatingTransport {
    pub(super) fn new(
        config: &Config,
        plugin_identity: watch::Receiver<Option<Identity>>,
        options: TransportOptions,
    ) -> Result<Self, TransportError> {
        let reloader = if config.server.scheme() == "https" {
            Some(Arc::new(CertificateReloader::new(
                &config.tls,
                plugin_identity,
                options.reload_intervals(),
            )?))
        } else {
            None
        };
        let proxies = Arc::new(ProxyRules::new(config.proxy_url.as_ref(), options.proxy.clone())?);
        if let Ok(server) = config.server.as_str().parse() {
            proxies.check_for(&server)?;
        }
        let only_http1 = config.http == HttpVersion::Http1 || options.disable_http2;
        let options = Arc::new(options);
        let first = generation(reloader.as_ref(), &proxies, only_http1, &options)?;
        let current = ArcSwap::from_pointee(first);
        let replacing = Mutex::new(());
        Ok(Self {
            state: Arc::new(RotationState { reloader, proxies, only_http1, options, current, replacing }),
        })
    }
}

impl RotationState {
    /// Returns the connections for the current certificates, creating them if the certificates
    /// changed.
    async fn generation(&self) -> Result<Arc<Generation>, TransportError> {
        let Some(reloader) = &self.reloader else { return Ok(self.current.load_full()) };
        reloader.before_request().await;
        let current = self.current.load_full();
        if current.version == reloader.version() {
            return Ok(current);
        }
        let _replacing = self.replacing.lock();
        let current = self.current.load_full();
        if current.version == reloader.version() {
            return Ok(current);
        }
        let next = Arc::new(generation(Some(reloader), &self.proxies, self.only_http1, &self.options)?);
        tracing::debug!(version = next.version, "certificates changed: opening new connections");
        self.current.store(Arc::clone(&next));
        Ok(next)
    }
}

fn generation(
    reloader: Option<&Arc<CertificateReloader>>,
    proxies: &Arc<ProxyRules>,
    only_http1: bool,
    options: &Arc<TransportOptions>,
) -> Result<Generation, TransportError> {
    // The version is read first: a change after this line leads to another generation.
    let version = reloader.map_or(0, |reloader| reloader.version());
    let connector = Connector::new(reloader.cloned(), Arc::clone(proxies), options)?;
    Ok(Generation::new(version, connector, only_http1, Arc::clone(options)))
}

impl Service<Request<OutgoingBody>> for RotatingTransport {
    type Response = Response<ResponseBody>;
    type Error = TransportError;
    type Future = ResponseFuture;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), TransportError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<OutgoingBody>) -> ResponseFuture {
        let state = Arc::clone(&self.state);
        Box::pin(async move {
            let generation = state.generation().await?;
            generation.send(request).await
        })
    }
}

impl fmt::Debug for RotatingTransport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RotatingTransport").finish_non_exhaustive()
    }
}
