//! The builder of clients: credentials, user agent and impersonation around the transport.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;

use tower::Layer;
use url::Url;

use super::client::{Client, Inner};
use super::stack::{HttpService, HttpStack, boxed_service};
use crate::auth::{AuthLayer, AuthOptions, Credentials, ImpersonateLayer, UserAgentLayer};
use crate::config::{Config, ConfigError, Environment, Overrides};
use crate::distance::is_distant;
use crate::error::Error;
use crate::exchange::limiter::Limiter;
use crate::exchange::metrics::RequestMetrics;
use crate::exchange::{DEFAULT_MAX_RETRIES, LogWarnings, ServerBackoff, WarningHandler};
use crate::issuer;
use crate::transport::{Transport, TransportOptions};

/// The default limit on the bytes of one response that is read whole. Far above any object (a
/// server stores no more than a few MiB), and enough for the table of a large collection.
const MAX_RESPONSE_BYTES: usize = 256 << 20;

/// A builder of [`Client`]s. Every setting has a default; see [`Client::new`].
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::{Client, Config, IgnoreWarnings, ServerBackoff};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let config = Config::new("https://10.0.0.1:6443".parse()?);
/// let client = Client::builder(config)
///     .max_retries(3)
///     .warnings(IgnoreWarnings)
///     .server_backoff(ServerBackoff::new(Duration::from_secs(1), Duration::from_secs(60)))
///     .build()?; // no connection is made yet
/// assert_eq!(client.server().port(), Some(6443));
/// # Ok(())
/// # }
/// ```
#[must_use]
pub struct ClientBuilder {
    config: Config,
    layers: Vec<Box<dyn FnOnce(HttpService) -> HttpService + Send>>,
    max_retries: u32,
    max_response_bytes: usize,
    warnings: Arc<dyn WarningHandler>,
    backoff: Option<ServerBackoff>,
    auth: AuthOptions,
    transport: Option<TransportOptions>,
}

impl Client {
    /// Creates a client from these settings: no rate limit unless the settings have one, 10
    /// retries, and server warnings logged.
    ///
    /// No connection is made and no plugin is started before the first request.
    ///
    /// # Errors
    /// Returns an error if a certificate, key or credential of the settings cannot be used; the
    /// message names it.
    pub fn new(config: Config) -> Result<Self, Error> {
        Self::builder(config).build()
    }

    /// Creates a client from the process's environment: its kubeconfig, or the service account of
    /// the pod it runs in (rule KC-5).
    ///
    /// # Errors
    /// Returns an error if neither is available; the message names the places that were searched.
    pub async fn from_env() -> Result<Self, Error> {
        let load = || Config::infer(&Environment::from_process(), &Overrides::default());
        let config =
            tokio::task::spawn_blocking(load).await.expect("loading a configuration does not panic")?;
        Self::new(config)
    }

    /// Returns a builder for these settings, to choose layers, retries and the handling of
    /// warnings.
    pub fn builder(config: Config) -> ClientBuilder {
        ClientBuilder {
            config,
            layers: Vec::new(),
            max_retries: DEFAULT_MAX_RETRIES,
            max_response_bytes: MAX_RESPONSE_BYTES,
            warnings: Arc::new(LogWarnings),
            backoff: ServerBackoff::from_vars(|name| std::env::var(name).ok()),
            auth: AuthOptions::default(),
            transport: None,
        }
    }

    /// Creates a client over any service that takes requests: a server in the same process, a
    /// recorder, a proxy.
    ///
    /// Requests carry absolute URIs below `server`. Of its own layers the client adds only
    /// impersonation, for [`Self::acting_as`] and
    /// [`Request::impersonate`](crate::Request::impersonate): a request must not run with more
    /// rights than its caller asked for.
    pub fn from_service(server: Url, default_namespace: impl Into<String>, service: impl HttpStack) -> Self {
        let config = Config { default_namespace: default_namespace.into(), ..Config::new(server) };
        let impersonate = ImpersonateLayer::new(&config.impersonate)
            .expect("new settings impersonate no user, which is always valid");
        Self::builder(config).over(boxed_service(impersonate.layer(boxed_service(service))), false)
    }
}

impl ClientBuilder {
    /// Adds a layer around the transport, below credentials and user agent. Later layers wrap
    /// earlier ones.
    pub fn layer<L>(mut self, layer: L) -> Self
    where
        L: Layer<HttpService, Service: HttpStack> + Send + 'static,
    {
        self.layers.push(Box::new(move |inner| boxed_service(layer.layer(inner))));
        self
    }

    /// Sets the maximum number of retries of a request. Defaults to 10.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = retries;
        self
    }

    /// Limits the decompressed size of one response that is read whole: a larger one is an
    /// [`Error::Malformed`].
    ///
    /// Lists and watches are limited per object instead, and
    /// [`Request::stream`](crate::Request::stream) is not limited. Defaults to 256 MiB.
    pub fn max_response_bytes(mut self, bytes: usize) -> Self {
        self.max_response_bytes = bytes;
        self
    }

    /// Sets the handler of the server's warnings. Defaults to [`LogWarnings`].
    pub fn warnings(mut self, handler: impl WarningHandler) -> Self {
        self.warnings = Arc::new(handler);
        self
    }

    /// Slows the client down while its server fails. Off by default, unless environment variables
    /// turn it on.
    pub fn server_backoff(mut self, backoff: ServerBackoff) -> Self {
        self.backoff = Some(backoff);
        self
    }

    /// Sets the options of the credentials: where refreshed tokens are stored, how long a plugin
    /// may run.
    pub fn auth_options(mut self, options: AuthOptions) -> Self {
        self.auth = options;
        self
    }

    /// Sets the timeouts and limits of connections. Defaults to client-go's values, as changed by
    /// environment variables.
    pub fn transport_options(mut self, options: TransportOptions) -> Self {
        self.transport = Some(options);
        self
    }

    /// Builds the client. No connection is made yet.
    ///
    /// # Errors
    /// Returns an error if a certificate, key or credential of the settings cannot be used; the
    /// message names it.
    pub fn build(mut self) -> Result<Client, Error> {
        check_server(&self.config.server)?;
        let transport_options = self
            .transport
            .take()
            .unwrap_or_else(|| TransportOptions::from_env(|name| std::env::var(name).ok()));
        let mut auth_options = std::mem::take(&mut self.auth);
        auth_options.is_default_http = auth_options.http.is_none();
        auth_options.http.get_or_insert_with(|| issuer::fetch(transport_options.clone()));
        let credentials =
            Credentials::with_options(&self.config, auth_options).map_err(Error::Credentials)?;
        let mut service =
            boxed_service(Transport::with_options(&self.config, credentials.identity(), transport_options)?);
        for layer in self.layers.drain(..) {
            service = layer(service);
        }
        let service = boxed_service(AuthLayer::new(credentials).layer(service));
        let user_agent =
            UserAgentLayer::new(self.config.user_agent.as_deref()).map_err(Error::Credentials)?;
        let impersonate = ImpersonateLayer::new(&self.config.impersonate).map_err(Error::Credentials)?;
        let service = boxed_service(impersonate.layer(boxed_service(user_agent.layer(service))));
        let compresses_initial_events = is_distant(&self.config);
        Ok(self.over(service, compresses_initial_events))
    }

    fn over(self, service: HttpService, compresses_initial_events: bool) -> Client {
        let host = &self.config.server[url::Position::BeforeHost..url::Position::AfterPort];
        let mut server = self.config.server.clone();
        // This address may be unchecked (`from_service`), and it appears in messages and logs:
        // remove everything that could be secret.
        let _ = server.set_password(None);
        let _ = server.set_username("");
        server.set_query(None);
        server.set_fragment(None);
        Client {
            acting_as: None,
            warnings: self.warnings,
            inner: Arc::new(Inner {
                metrics_recorder: RequestMetrics::new(host),
                service,
                server,
                default_namespace: self.config.default_namespace,
                limiter: self.config.rate_limit.and_then(Limiter::new),
                timeout: self.config.timeout,
                max_retries: self.max_retries,
                max_response_bytes: self.max_response_bytes,
                compresses_initial_events,
                backoff: self.backoff,
                failures: AtomicU32::new(0),
            }),
        }
    }
}

/// Rejects an address with parts that would leak into messages or would break the paths of
/// requests.
fn check_server(server: &Url) -> Result<(), Error> {
    let problem = if !server.username().is_empty() || server.password().is_some() {
        "may not contain a user or a password; use the credentials of the settings"
    } else if server.query().is_some() || server.fragment().is_some() {
        "may not contain a query or a fragment"
    } else {
        return Ok(());
    };
    Err(ConfigError::Server { problem }.into())
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}
