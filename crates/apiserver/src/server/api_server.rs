//! The server: starting, reaching, forking and stopping it.

use std::fmt;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

use super::access::{Access, random_token};
use super::background::Background;
use super::builder::{ApiServerBuilder, ServerConfig};
use super::error::StartError;
use super::kubeconfig;
use crate::auth::{Anonymous, Authenticator, PeerIdentity};
use crate::authorization::AuthorizationMode;
use crate::cluster::Cluster;
use crate::faults::FaultInjector;
use crate::http::Service;
use crate::log::{RequestLog, Requests};
use crate::serving::{Certificates, Connector, InProcess, Serving};
use crate::user::User;
use futures_core::future::BoxFuture;
use jiff::Timestamp;
use secrecy::{ExposeSecret, SecretString};
use serde_json::Value;

/// The URL of a server without a socket. The domain `.invalid` never resolves (RFC 2606).
const IN_PROCESS: &str = "http://in-process.invalid";

/// A Kubernetes API server in this process.
///
/// Dropping it closes its port immediately and ends all its tasks.
///
/// ```
/// use dogwatch_apiserver::ApiServer;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = ApiServer::builder()
///     .yaml("{ apiVersion: v1, kind: ConfigMap, metadata: { name: settings }, data: { colour: red } }")
///     .start()
///     .await?;
/// println!("kubectl --server {} get configmaps", server.url());
///
/// // The fork has its own copy: writes to one are not visible in the other.
/// let fork = server.fork().await?;
/// assert_ne!(fork.url(), server.url());
/// # Ok(())
/// # }
/// ```
pub struct ApiServer {
    serving: Serving<Service>,
    background: Background,
    url: String,
    access: Arc<Access>,
    config: ServerConfig,
}

impl ApiServer {
    /// Starts a server on a free port of the loopback, without TLS, where every client is the
    /// administrator.
    ///
    /// # Errors
    ///
    /// Returns an error if no port is available.
    pub async fn start() -> Result<Self, StartError> {
        Self::builder().start().await
    }

    /// Starts a server without a socket. It is reachable through [`Self::connector`] and
    /// [`Self::service`], and a paused tokio clock stays exact.
    pub async fn in_process() -> Result<Self, StartError> {
        Self::builder().in_process().start().await
    }

    /// Returns a builder with the default configuration.
    pub fn builder() -> ApiServerBuilder {
        ApiServerBuilder::default()
    }

    /// Starts a server with a copy of all stored objects, independent of this one from then on.
    ///
    /// It is reached as this one is, on a port of its own if this one has a port, with the same
    /// credentials. Fault rules and the request log start empty. Forking takes next to no time,
    /// whatever the size of the cluster.
    ///
    /// # Errors
    ///
    /// Returns an error if no port is available.
    pub async fn fork(&self) -> Result<Self, StartError> {
        // In a box, as in `ApiServerBuilder::start`.
        self.forked().await
    }

    fn forked(&self) -> BoxFuture<'static, Result<Self, StartError>> {
        let cluster = Arc::new(self.cluster().fork());
        let config = ServerConfig {
            bind: self.config.bind.map(|it| SocketAddr::new(it.ip(), 0)),
            ..self.config.clone()
        };
        Box::pin(Self::assemble(cluster, config, Arc::clone(&self.access)))
    }

    /// Serves a cluster that is set up.
    async fn assemble(
        cluster: Arc<Cluster>,
        config: ServerConfig,
        access: Arc<Access>,
    ) -> Result<Self, StartError> {
        let log = if config.log == 0 { RequestLog::default() } else { RequestLog::keeping(config.log) };
        let authenticator = Authenticator::new().anonymous(config.anonymous);
        let service =
            Service::new(Arc::clone(&cluster), authenticator).log(log).settings(config.settings.clone());
        let service = service.dialer(config.dialer.clone());
        let serving = match config.bind {
            None => Serving::in_process(service),
            Some(address) => Serving::bind(service, address, access.tls().cloned(), config.connection_parts)
                .await
                .map_err(|source| StartError::Listen { address, source })?,
        };
        let url = serving.address().map_or_else(|| IN_PROCESS.to_owned(), |it| access.url(it));
        let background = Background::start(&cluster, config.controllers);
        Ok(Self { serving, background, url, access, config })
    }

    /// Returns the URL, such as `http://127.0.0.1:34567`, without a trailing slash. Without a
    /// socket it is a name that does not resolve, for clients that require a URL.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// Returns a self-contained kubeconfig for this server. It contains secrets.
    ///
    /// Its current context is `token`; with TLS there is also a context `certificate`, which
    /// authenticates with a client certificate.
    pub fn kubeconfig(&self) -> String {
        kubeconfig::write(&self.url, &self.access)
    }

    /// Returns the administrator's token, if one is required.
    pub fn token(&self) -> Option<&SecretString> {
        self.access.token()
    }

    /// Returns the certificates of a server with TLS; they can issue more client certificates.
    pub fn certificates(&self) -> Option<&Certificates> {
        self.access.certificates()
    }

    /// Returns the clock of the server, by which it stamps objects. It can be read after the server
    /// has stopped.
    pub fn clock(&self) -> impl Fn() -> Timestamp + Send + Sync + 'static {
        let cluster = Arc::clone(self.cluster());
        move || cluster.source().now()
    }

    /// Returns the resource version of the newest change.
    pub fn revision(&self) -> u64 {
        self.cluster().store().revision()
    }

    /// Returns the objects of a resource at a resource version, as they are stored and in the order
    /// of their keys, without a request. `api_version` is one in which the resource is served, for
    /// example `apps/v1`. Returns `None` if it is not served, or if that version is no longer kept.
    pub fn objects_at(&self, api_version: &str, plural: &str, revision: u64) -> Option<Vec<Value>> {
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        let kind = self.cluster().catalog().kind(group, version, plural)?;
        self.cluster().store().read(&kind.collection, |history, _| {
            let objects = history.list_at(revision, None).ok()?;
            Some(objects.map(|it| it.to_value()).collect())
        })
    }

    /// Drops all history: a list or watch from an older version than the newest gets 410, and so
    /// does an open watch that has not sent everything yet. Returns the oldest version that is
    /// still available.
    pub fn compact_history(&self) -> u64 {
        self.faults().compact(self.cluster())
    }

    /// Makes every version that a client can know too old, and ends all watches: clients that
    /// resume get 410 and have to list again. Returns the oldest version that is still available.
    pub fn expire_history(&self) -> u64 {
        self.faults().expire(self.cluster())
    }

    /// Returns the cluster, to read and write objects without a request.
    pub(crate) fn cluster(&self) -> &Arc<Cluster> {
        self.serving.handler().cluster()
    }

    /// Returns the fault injector.
    pub fn faults(&self) -> &FaultInjector {
        self.serving.handler().faults()
    }

    /// Returns the logged requests.
    pub fn requests(&self) -> Requests {
        self.request_log().requests()
    }

    /// Returns the request log itself, to wait for requests or to clear it.
    pub fn request_log(&self) -> &RequestLog {
        self.serving.handler().requests()
    }

    /// Returns a connector that makes connections without a socket, for hyper's clients and others
    /// that speak HTTP over a stream.
    pub fn connector(&self) -> Connector {
        self.serving.connector()
    }

    /// Returns a tower service that takes requests without a connection, for `Client::from_service`
    /// of this project's client and `Client::new` of kube.
    pub fn service(&self) -> InProcess {
        self.serving.service()
    }

    /// Returns a tower service like [`Self::service`] for a component of the cluster that runs in
    /// this process, such as a controller manager. Its requests are those of the user
    /// `system:NAME`, without credentials. Fault rules do not apply to them, and the request log
    /// omits them: both are about the clients that use the cluster.
    pub fn component_service(&self, name: &str) -> InProcess {
        let identity = PeerIdentity::new(&format!("system:{name}"), &["system:masters"]);
        self.serving.service_of(self.serving.handler().for_component(), identity)
    }

    /// Adds a check to `/readyz`, for a component in this process that clients rely on, such as a
    /// simulator. It must return quickly. A check of the same name is replaced; forks start without
    /// it.
    pub fn ready_check(&self, name: impl Into<String>, is_ready: impl Fn() -> bool + Send + Sync + 'static) {
        self.cluster().background().add_check(name.into(), Box::new(is_ready));
    }

    /// Stops the server and returns when all its tasks have ended. Requests in flight get half a
    /// second to finish.
    pub async fn stop(self) {
        self.stopped().await;
    }

    fn stopped(self) -> BoxFuture<'static, ()> {
        Box::pin(async move {
            self.serving.stop().await;
            self.background.stop().await;
        })
    }
}

impl ApiServerBuilder {
    /// Starts the server. It accepts requests when this returns.
    ///
    /// # Errors
    ///
    /// Returns an error if the server cannot listen on the address, if the address would be exposed
    /// without credentials, or if an initial object is rejected.
    pub async fn start(self) -> Result<ApiServer, StartError> {
        self.starting().await
    }

    // A function returns the future in a box, since the body of an `async fn` is compiled in every
    // crate that awaits it: here, the whole server.
    fn starting(self) -> BoxFuture<'static, Result<ApiServer, StartError>> {
        Box::pin(self.start_here())
    }

    async fn start_here(mut self) -> Result<ApiServer, StartError> {
        let needs_credentials = self.tls || !self.tokens.is_empty();
        let by_default = match (needs_credentials, self.authorization) {
            (false, _) => Anonymous::Admin,
            (true, AuthorizationMode::AlwaysAllow) => Anonymous::Refused,
            (true, AuthorizationMode::Rbac) => Anonymous::Allowed,
        };
        self.config.anonymous = self.anonymous.unwrap_or(by_default);
        self.check_exposure()?;
        let has_admin = self.tokens.iter().any(|(_, user)| *user == User::admin());
        if self.tls && !has_admin {
            self.tokens.push((random_token(), User::admin()));
        }
        let address = self.config.bind.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |it| it.ip());
        let admin = self.tokens.iter().find(|(_, user)| *user == User::admin());
        let access = Access::new(
            admin.map(|(token, _)| token.clone()),
            self.tls.then_some(address),
            self.config.settings.advertised.clone(),
            &self.client_authorities,
            self.serving_certificate.as_ref(),
        )?;

        self.config.dialer = access.dialer(&self.backends)?;
        let cluster = self.cluster();
        cluster.definitions().accept_at_once(self.config.controllers.definitions);
        for (token, user) in &self.tokens {
            cluster.tokens().add_static(token.expose_secret(), user.clone());
        }
        cluster.bootstrap().await;
        if let Err(refusal) = cluster.publish_client_authority(access.client_authorities()).await {
            tracing::error!(%refusal, "cannot publish the authority of client certificates");
        }
        self.objects.create(&cluster).await?;
        ApiServer::assemble(Arc::new(cluster), self.config, Arc::new(access)).await
    }
}

/// Shows the URL and omits everything else.
impl fmt::Debug for ApiServer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ApiServer").field("url", &self.url).finish_non_exhaustive()
    }
}
