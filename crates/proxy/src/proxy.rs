//! A running proxy: its endpoint, its tasks, and the way of a request through it.

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use dogwatch_client::Config;
use http::header::HOST;
use http::uri::Authority;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::answer::{self, Answer};
use crate::error::StartError;
use crate::forward::{Forwarder, Peer};
use crate::kubeconfig::kubeconfig;
use crate::listener::{Endpoint, GRACE, Handler};
use crate::options::ProxyOptions;
use crate::tls::Tls;
use crate::upstream::Upstream;

/// The target of the request log.
const REQUESTS: &str = "dogwatch_proxy::requests";

/// A running proxy. Dropping it closes its port and ends all connections and tasks.
///
/// ```
/// use dogwatch_apiserver::ApiServer;
/// use dogwatch_client::{Client, Config};
/// use dogwatch_proxy::{Proxy, ProxyOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = ApiServer::builder().start().await?;
/// let mut options = ProxyOptions::default();
/// options.certificate = None; // HTTP, on the loopback
/// let proxy = Proxy::start(Config::new(server.url().parse()?), options).await?;
///
/// let client = Client::new(Config::new(proxy.url().parse()?))?;
/// let version: serde_json::Value = client.get().path(&["version"]).send().await?;
/// assert_eq!(version["minor"], "36");
/// proxy.stop().await;
/// # Ok(())
/// # }
/// ```
pub struct Proxy {
    address: SocketAddr,
    tls: Option<Arc<Tls>>,
    tasks: TaskTracker,
    graceful: CancellationToken,
    immediate: CancellationToken,
}

/// The handler of all requests.
struct Requests {
    forwarder: Forwarder,
    /// Set if clients of this machine are served over HTTP.
    is_plain: bool,
}

impl Proxy {
    /// Starts a proxy for the API server of `config`, whose credentials are the proxy's own.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound, or if a file or setting cannot be used.
    pub async fn start(config: Config, options: ProxyOptions) -> Result<Self, StartError> {
        let tls = match &options.certificate {
            Some(certificate) => {
                Some(Arc::new(Tls::new(certificate, options.bind.ip(), options.client_authority.clone())?))
            }
            None if options.client_authority.is_some() => {
                let message = "client certificates need TLS: remove the client authority, or serve HTTPS";
                return Err(StartError::Settings(message.to_owned()));
            }
            None if !options.bind.ip().is_loopback() => {
                return Err(StartError::Exposed { address: options.bind });
            }
            None => None,
        };
        let upstream = Upstream::new(&config, options.front_proxy.clone())?;
        let (tasks, graceful, immediate) =
            (TaskTracker::new(), CancellationToken::new(), CancellationToken::new());
        let listener = bind(options.bind).await?;
        let address =
            listener.local_addr().map_err(|source| StartError::Bind { address: options.bind, source })?;
        let forwarder = Forwarder::new(Arc::clone(&upstream), tasks.clone(), immediate.clone());
        let proxy = Self { address, tls, tasks, graceful, immediate };
        let endpoint = Endpoint {
            handler: Requests { forwarder, is_plain: proxy.tls.is_none() },
            tls: proxy.tls.clone(),
            connections: Arc::new(Semaphore::new(options.max_connections.clamp(1, Semaphore::MAX_PERMITS))),
            tasks: proxy.tasks.clone(),
            graceful: proxy.graceful.clone(),
            immediate: proxy.immediate.clone(),
        };
        proxy.spawn(Arc::new(endpoint).accept(listener));
        if let Some(tls) = proxy.tls.clone().filter(|it| it.has_files()) {
            proxy.spawn(tls.follow_files());
        }
        Ok(proxy)
    }

    /// Returns the address that the proxy listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the URL for clients on this machine.
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() {
                [127, 0, 0, 1].into()
            } else {
                std::net::Ipv6Addr::LOCALHOST.into()
            });
        }
        format!("{scheme}://{address}")
    }

    /// Returns a kubeconfig for clients of the proxy: its authority, and `server` as its address. It
    /// has no credentials; callers use their own.
    pub fn kubeconfig(&self, server: &str) -> String {
        kubeconfig(server, self.tls.as_ref().and_then(|it| it.authority()).as_deref())
    }

    /// Stops serving: no new connections are accepted, requests in flight get half a second, and the
    /// rest are cut. All tasks have ended when this returns.
    pub async fn stop(self) {
        self.graceful.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(GRACE, self.tasks.wait()).await;
        self.immediate.cancel();
        self.tasks.wait().await;
    }

    fn spawn(&self, task: impl Future<Output: Send> + Send + 'static) {
        let stop = self.immediate.clone();
        self.tasks.spawn(async move {
            let _ = stop.run_until_cancelled_owned(task).await;
        });
    }
}

/// The answer to a request for another host.
const FOREIGN_HOST: &str = "over HTTP the proxy answers only requests to localhost or a loopback address";

/// Returns true if a request is for this machine by name or address. A web page that rebinds a name of
/// its own to a loopback address sends that name.
fn names_this_machine<B>(request: &Request<B>) -> bool {
    let header = || request.headers().get(HOST).and_then(|it| it.to_str().ok()?.parse::<Authority>().ok());
    let Some(authority) = request.uri().authority().cloned().or_else(header) else { return false };
    let host = authority.host().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|source| StartError::Bind { address, source })
}

impl Handler for Requests {
    async fn respond(&self, request: Request<Incoming>, peer: &Peer) -> Answer {
        let started = Instant::now();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let answer = if self.is_plain && !names_this_machine(&request) {
            answer::error(StatusCode::FORBIDDEN, "Forbidden", FOREIGN_HOST)
        } else {
            self.forwarder.forward(request, peer).await
        };
        let (status, duration) = (answer.status().as_u16(), started.elapsed());
        tracing::debug!(target: REQUESTS, %method, path, status, ?duration, "request");
        answer
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.graceful.cancel();
        self.immediate.cancel();
        self.tasks.close();
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy").field("address", &self.address).finish_non_exhaustive()
    }
}
