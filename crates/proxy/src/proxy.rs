//! A running proxy: its endpoint, its tasks, and the way of a request through it.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::Ordering;

use dogwatch_client::discovery::ServedResource;
use dogwatch_client::{CachedDiscovery, Client, Config, RestMapper};
use http::header::HOST;
use http::uri::Authority;
use http::{Request, StatusCode};
use hyper::body::Incoming;
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::active_rules::ActiveRules;
use crate::answer::{self, Answer};
use crate::cached_reads::{CachedReads, CollectionName};
use crate::collection::{Collection, list_memory};
use crate::error::StartError;
use crate::forward::{Forwarder, Peer};
use crate::kubeconfig::kubeconfig;
use crate::listener::{Endpoint, GRACE, Handler};
use crate::options::ProxyOptions;
use crate::reviews::{ReviewTimes, Reviews};
use crate::ruled_requests::RuledRequests;
use crate::status_page::{RequestCounts, StatusPage};
use crate::tls::Tls;
use crate::upstream::Upstream;

/// The target of the request log.
const REQUESTS: &str = "dogwatch_proxy::requests";

/// The number of connections to the endpoint for operators.
const MAX_STATUS_CONNECTIONS: usize = 100;

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
    /// The address of the endpoint for operators.
    status_address: Option<SocketAddr>,
    tls: Option<Arc<Tls>>,
    tasks: TaskTracker,
    graceful: CancellationToken,
    immediate: CancellationToken,
}

/// The handler of all requests.
struct Requests {
    cache: Arc<CachedReads>,
    ruled: RuledRequests,
    forwarder: Forwarder,
    counts: Arc<RequestCounts>,
    /// Set if clients of this machine are served over HTTP.
    is_plain: bool,
}

impl Proxy {
    /// Starts a proxy for the API server of `config`, whose credentials are the proxy's own.
    ///
    /// Requests are served from now on. The resources to cache are looked up first, so their API
    /// server has to answer; until a resource has been listed, its reads are passed on.
    ///
    /// # Errors
    /// Returns an error if the address cannot be bound, if a file or setting cannot be used, or if
    /// a resource to cache is not served.
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
        let upstream = Upstream::new(&config, options.front_proxy.clone(), &options.front_proxy_strips)?;
        let (cache, ruled) = caching(&Client::new(config)?, &options).await?;
        let listener = bind(options.bind).await?;
        let address =
            listener.local_addr().map_err(|source| StartError::Bind { address: options.bind, source })?;
        let (tasks, graceful, immediate) =
            (TaskTracker::new(), CancellationToken::new(), CancellationToken::new());
        let forwarder = Forwarder::new(Arc::clone(&upstream), tasks.clone(), immediate.clone());
        let mut proxy = Self { address, status_address: None, tls, tasks, graceful, immediate };
        let counts = Arc::new(RequestCounts::default());
        if let Some(address) = options.metrics_bind {
            let page = StatusPage { cache: Arc::clone(&cache), counts: Arc::clone(&counts) };
            proxy.serve_status(page, address).await?;
        }
        for (_, collection) in cache.collections() {
            proxy.spawn(Arc::clone(collection).run());
        }
        proxy.spawn(Arc::clone(&cache).follow_rules());
        let is_plain = proxy.tls.is_none();
        let endpoint = proxy.endpoint(
            Requests { cache, ruled, forwarder, counts, is_plain },
            proxy.tls.clone(),
            options.max_connections,
        );
        proxy.spawn(endpoint.accept(listener));
        if let Some(tls) = proxy.tls.clone().filter(|it| it.has_files()) {
            proxy.spawn(tls.follow_files());
        }
        Ok(proxy)
    }

    /// Returns the address that the proxy listens on.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the address of the endpoint for operators, if there is one.
    pub fn status_address(&self) -> Option<SocketAddr> {
        self.status_address
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

    /// Returns a kubeconfig for clients of the proxy: its authority, and `server` as its address.
    /// It has no credentials; callers use their own.
    pub fn kubeconfig(&self, server: &str) -> String {
        kubeconfig(server, self.tls.as_ref().and_then(|it| it.authority()).as_deref())
    }

    /// Stops serving: no new connections are accepted, requests in flight get half a second, and
    /// the rest are cut. All tasks have ended when this returns.
    pub async fn stop(self) {
        self.graceful.cancel();
        self.tasks.close();
        let _ = tokio::time::timeout(GRACE, self.tasks.wait()).await;
        self.immediate.cancel();
        self.tasks.wait().await;
    }

    async fn serve_status(&mut self, page: StatusPage, address: SocketAddr) -> Result<(), StartError> {
        let listener = bind(address).await?;
        let bound = listener.local_addr().map_err(|source| StartError::Bind { address, source })?;
        self.status_address = Some(bound);
        self.spawn(self.endpoint(page, None, MAX_STATUS_CONNECTIONS).accept(listener));
        Ok(())
    }

    fn endpoint<H: Handler>(
        &self,
        handler: H,
        tls: Option<Arc<Tls>>,
        max_connections: usize,
    ) -> Arc<Endpoint<H>> {
        Arc::new(Endpoint {
            handler,
            tls,
            connections: Arc::new(Semaphore::new(max_connections.clamp(1, Semaphore::MAX_PERMITS))),
            tasks: self.tasks.clone(),
            graceful: self.graceful.clone(),
            immediate: self.immediate.clone(),
        })
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

/// Returns true if a request is for this machine by name or address. A web page that rebinds a name
/// of its own to a loopback address sends that name.
fn names_this_machine<B>(request: &Request<B>) -> bool {
    let header = || request.headers().get(HOST).and_then(|it| it.to_str().ok()?.parse::<Authority>().ok());
    let Some(authority) = request.uri().authority().cloned().or_else(header) else { return false };
    let host = authority.host().trim_matches(['[', ']']);
    host.eq_ignore_ascii_case("localhost") || host.parse::<IpAddr>().is_ok_and(|it| it.is_loopback())
}

/// Returns what answers from memory, and what changes the other requests for the same resources.
async fn caching(
    client: &Client,
    options: &ProxyOptions,
) -> Result<(Arc<CachedReads>, RuledRequests), StartError> {
    let collections = collections(client, &options.resources).await?;
    let names = collections.keys().map(|(group, _, name)| (group.clone(), name.clone())).collect();
    let rules = Arc::new(ActiveRules::new(options.rules.clone(), names)?);
    let impersonates = options.client_authority.is_some() && options.front_proxy.is_none();
    let times = ReviewTimes { requests: options.review_ttl, watches: options.watch_review_ttl };
    let reviews = Arc::new(Reviews::new(client.clone(), times, impersonates));
    if !collections.is_empty()
        && let Err(error) = reviews.check_permission().await
    {
        tracing::warn!(%error, "reads are not answered from memory while callers cannot be reviewed");
    }
    let cached = collections.keys().cloned().collect();
    let ruled = RuledRequests::new(client.clone(), Arc::clone(&reviews), Arc::clone(&rules), cached);
    Ok((Arc::new(CachedReads::new(collections, reviews, rules)), ruled))
}

/// Returns a collection for each resource to cache.
async fn collections(
    client: &Client,
    words: &[String],
) -> Result<HashMap<CollectionName, Arc<Collection>>, StartError> {
    let mapper = RestMapper::new(CachedDiscovery::new(client.clone()));
    let (mut collections, memory) = (HashMap::new(), list_memory());
    for word in words {
        let failed = |reason: String| StartError::Resource { resource: word.clone(), reason };
        let found = mapper.resolve(word).await;
        let found = found.map_err(|error| failed(dogwatch_core::ErrorChain(&error).to_string()))?;
        let served: &ServedResource = &found.resource;
        if !served.supports_all(&["list", "watch"]) {
            return Err(failed("it cannot be listed and watched".to_owned()));
        }
        let of = &served.resource;
        let name = (of.gvk.group.to_string(), of.gvk.version.to_string(), of.plural.to_string());
        collections.entry(name).or_insert_with(|| Collection::new(client, served, &memory));
    }
    Ok(collections)
}

async fn bind(address: SocketAddr) -> Result<TcpListener, StartError> {
    TcpListener::bind(address).await.map_err(|source| StartError::Bind { address, source })
}

impl Handler for Requests {
    async fn respond(&self, request: Request<Incoming>, peer: &Peer) -> Answer {
        let started = Instant::now();
        let (method, path) = (request.method().clone(), request.uri().path().to_owned());
        let mut from_memory = false;
        let answer = if self.is_plain && !names_this_machine(&request) {
            answer::error(StatusCode::FORBIDDEN, "Forbidden", FOREIGN_HOST)
        } else if peer.certificate.as_ref().is_some_and(|it| !it.is_valid()) {
            // As kube-apiserver, which verifies the certificate with each request.
            answer::unauthorized()
        } else {
            let (parts, body) = request.into_parts();
            match self.cache.respond(&parts, peer).await {
                Some(answer) => {
                    from_memory = true;
                    answer
                }
                None => {
                    self.counts.forwarded.fetch_add(1, Ordering::Relaxed);
                    self.ruled.forward(Request::from_parts(parts, body), peer, &self.forwarder).await
                }
            }
        };
        let (status, duration) = (answer.status().as_u16(), started.elapsed());
        tracing::debug!(target: REQUESTS, %method, path, status, from_memory, ?duration, "request");
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
