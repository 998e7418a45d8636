//! The client: a stack of layers over a transport, and the loop that attempts one request until it
//! succeeds or fails for good.
//!
//! ```text
//! Request ─► attempts (limit, retry, warnings, metrics) ─► impersonation ─► user agent ─► credentials
//!                                                        ─► your layers ─► gzip ─► transport
//! ```

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::{Extensions, HeaderMap, Method, StatusCode, Uri};
use http_body_util::{BodyExt, Full};
use tokio::time::Instant;
use tower::util::BoxCloneSyncService;
use tower::{Layer, Service, ServiceExt};
use tracing::Instrument;
use url::Url;

use crate::auth::{AuthLayer, AuthOptions, Credentials, ImpersonateLayer, UserAgentLayer};
use crate::body::{BoxError, RequestBody, ResponseBody};
use crate::config::{Config, ConfigError, Environment, Impersonation, Overrides};
use crate::distance::is_distant;
use crate::error::{Error, InvalidRequest};
use crate::exchange::error_response::{self, RequestInfo};
use crate::exchange::limiter::Limiter;
use crate::exchange::request_metrics::RequestMetrics;
use crate::exchange::retry::{self, Mode, Outcome, Policy};
use crate::exchange::{DEFAULT_MAX_RETRIES, LogWarnings, ServerBackoff, WarningHandler, warning};
use crate::issuer;
use crate::transport::{Transport, TransportErrorKind, TransportOptions};

/// The default limit on the bytes of one response that is read whole. Far above any object (a
/// server stores no more than a few MiB), and enough for the table of a large collection.
const MAX_RESPONSE_BYTES: usize = 256 << 20;
/// The number of bytes of an error response that are read.
const MAX_ERROR_BODY_BYTES: usize = 1 << 20;
/// The time limit for reading the body of an error response.
const ERROR_BODY_TIMEOUT: Duration = Duration::from_secs(5);
/// The number of bytes of a response that are read, to reuse the connection, before the request is
/// retried (rule RQ-10). `maxBodySlurpSize` in client-go v0.36.4 `rest/with_retry.go`.
const MAX_DRAINED_BYTES: usize = 2048;

/// The stack of layers that a client sends its requests through.
///
/// ```
/// use dogwatch_client::HttpService;
///
/// /// Wraps every service in a layer of the program.
/// fn instrumented(inner: HttpService) -> HttpService {
///     inner
/// }
/// # let _ = instrumented;
/// ```
pub type HttpService =
    BoxCloneSyncService<http::Request<RequestBody>, http::Response<ResponseBody>, BoxError>;

/// A service that carries HTTP requests: a client is built over one, and a layer produces one.
///
/// Implemented for every tower service that meets the bounds.
///
/// ```
/// use dogwatch_client::{BoxError, Client, HttpStack, RequestBody, ResponseBody, boxed};
/// use http::{Request, Response};
///
/// /// A service that a test runs against, instead of a server.
/// fn healthy() -> impl HttpStack {
///     tower::service_fn(|_: Request<RequestBody>| async {
///         Ok::<Response<ResponseBody>, BoxError>(Response::new(boxed(RequestBody::from("ok"))))
///     })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::from_service("http://localhost".parse()?, "default", healthy());
/// assert_eq!(client.get().path(&["healthz"]).bytes().await?, "ok");
/// # Ok(())
/// # }
/// ```
pub trait HttpStack:
    Service<
        http::Request<RequestBody>,
        Response = http::Response<ResponseBody>,
        Error: Into<BoxError>,
        Future: Send + 'static,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> HttpStack for S where
    S: Service<
            http::Request<RequestBody>,
            Response = http::Response<ResponseBody>,
            Error: Into<BoxError>,
            Future: Send + 'static,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// A client of one API server. Cheap to clone; all clones share connections, credentials and
/// limits.
///
/// The connections close when the last clone and the last stream made with one are dropped.
///
/// ```
/// use dogwatch_client::Api;
/// use k8s_openapi::api::core::v1::Pod;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let answer = r#"{"major": "1", "minor": "36"}"#;
/// # let stack = tower::service_fn(move |_: http::Request<_>| async move {
/// #     let response = http::Response::builder().status(200);
/// #     let body = dogwatch_client::boxed(dogwatch_client::RequestBody::from(answer));
/// #     response.header("content-type", "application/json").body(body)
/// # });
/// # let url = "http://localhost".parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", stack);
/// // With a client from `Client::from_env`, which finds the cluster as kubectl does:
/// let version: serde_json::Value = client.get().path(&["version"]).send().await?;
/// assert_eq!(version["minor"], "36");
/// let pods = Api::<Pod>::default_namespaced(client.clone());
/// assert_eq!(pods.namespace(), Some(client.default_namespace()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Client {
    inner: Arc<Inner>,
    /// The impersonated user of requests that set none; `None` means the one of the settings.
    acting_as: Option<Arc<Impersonation>>,
    warnings: Arc<dyn WarningHandler>,
}

/// An opaque value that distinguishes clients that exist at the same time; see
/// [`Client::identity`].
///
/// A later client may get the identity of one that was dropped.
///
/// ```
/// use dogwatch_client::config::Impersonation;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let answer = r#"{}"#;
/// # let stack = tower::service_fn(move |_: http::Request<_>| async move {
/// #     let response = http::Response::builder().status(200);
/// #     let body = dogwatch_client::boxed(dogwatch_client::RequestBody::from(answer));
/// #     response.header("content-type", "application/json").body(body)
/// # });
/// # let url = "http://localhost".parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", stack);
/// let impersonation = Impersonation { user: Some("jane".to_owned()), ..Impersonation::default() };
/// assert_eq!(client.identity(), client.clone().identity());
/// assert_ne!(client.identity(), client.acting_as(impersonation).identity());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientIdentity {
    inner: usize,
    acting_as: usize,
}

struct Inner {
    service: HttpService,
    /// The address of the server, without a trailing slash.
    server: Url,
    default_namespace: String,
    limiter: Option<Limiter>,
    timeout: Option<Duration>,
    max_retries: u32,
    max_response_bytes: usize,
    /// True if a watch that begins with the existing objects is compressed like a list.
    compresses_initial_events: bool,
    backoff: Option<ServerBackoff>,
    /// The number of failures in a row, for `backoff`.
    failures: AtomicU32,
    metrics_recorder: RequestMetrics,
}

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

/// A request that is ready to be sent, any number of times. It has no `Debug`: headers and body may
/// hold secrets.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) method: Method,
    /// Path and query, relative to the server's base path.
    pub(crate) target: String,
    /// The path with names replaced by placeholders.
    pub(crate) template: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) mode: Mode,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) impersonate: Option<Impersonation>,
    /// Resource and name, for messages.
    pub(crate) resource: String,
    pub(crate) name: String,
}

/// A successful response whose body has not been read.
pub(crate) struct OpenResponse {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The extensions, including the upgraded connection if the server switched protocols.
    pub(crate) extensions: Extensions,
    pub(crate) body: ResponseBody,
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
    /// impersonation, for [`Self::acting_as`] and [`Request::impersonate`](crate::Request::impersonate):
    /// a request must not run with more rights than its caller asked for.
    pub fn from_service(server: Url, default_namespace: impl Into<String>, service: impl HttpStack) -> Self {
        let config = Config { default_namespace: default_namespace.into(), ..Config::new(server) };
        let impersonate = ImpersonateLayer::new(&config.impersonate)
            .expect("new settings impersonate no user, which is always valid");
        Self::builder(config).over(boxed_service(impersonate.layer(boxed_service(service))), false)
    }

    /// Returns a client that impersonates a user, sharing connections, credentials and limits with
    /// this one.
    ///
    /// Every handle and request made from it impersonates that user; an empty [`Impersonation`]
    /// turns impersonation off.
    #[must_use]
    pub fn acting_as(&self, who: Impersonation) -> Self {
        Self { acting_as: Some(Arc::new(who)), ..self.clone() }
    }

    /// Returns a client with another handler of the server's warnings, sharing connections,
    /// credentials and limits with this one.
    ///
    /// ```
    /// use dogwatch_client::{Client, Config, IgnoreWarnings};
    ///
    /// let client = Client::new(Config::new("http://localhost:8080".parse()?))?;
    /// let quiet = client.with_warnings(IgnoreWarnings); // for a deprecated API, for example
    /// assert_eq!(quiet.identity(), client.identity());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn with_warnings(&self, handler: impl WarningHandler) -> Self {
        Self { warnings: Arc::new(handler), ..self.clone() }
    }

    /// Returns a value that identifies this client: equal for clones, different for a client with
    /// other connections or with another impersonated user.
    pub fn identity(&self) -> ClientIdentity {
        let acting_as = self.acting_as.as_ref().map_or(0, |it| Arc::as_ptr(it) as usize);
        ClientIdentity { inner: Arc::as_ptr(&self.inner) as usize, acting_as }
    }

    /// Returns the impersonated user of requests that set none.
    pub(crate) fn impersonation(&self) -> Option<Impersonation> {
        self.acting_as.as_deref().cloned()
    }

    /// Returns the namespace of requests that name none.
    pub fn default_namespace(&self) -> &str {
        &self.inner.default_namespace
    }

    /// Returns the time limit of a request, if the settings have one.
    pub(crate) fn timeout(&self) -> Option<Duration> {
        self.inner.timeout
    }

    /// Returns true if a watch that begins with the existing objects may be compressed like a list:
    /// over the connections of this crate, to a server on another machine. Any other stack may not be
    /// able to decompress a body of several gzip members.
    pub(crate) fn compresses_initial_events(&self) -> bool {
        self.inner.compresses_initial_events
    }

    /// Returns the address of the server.
    pub fn server(&self) -> &Url {
        &self.inner.server
    }

    /// Sends a request, with retries, until it succeeds or fails for good.
    ///
    /// The first attempt does not wait for the client-side rate limit: the caller does, with
    /// [`Self::throttle`], before the time limit of the request begins. Only a watch skips the rate
    /// limit: watches are long and few (rule RQ-5).
    ///
    /// The body of the response is not read. Dropping the future cancels the attempt in progress.
    pub(crate) async fn exchange(&self, request: &Prepared) -> Result<OpenResponse, Error> {
        self.attempts(request, &mut None).await
    }

    /// Like [`Self::exchange`], but reads the whole body. All of it happens within the request's
    /// time limit, which begins when the client-side rate limit has admitted the request.
    pub(crate) async fn exchange_and_read(
        &self,
        request: &Prepared,
    ) -> Result<(StatusCode, HeaderMap, Bytes), Error> {
        self.throttle(request).await;
        let mut previous = None;
        let read = async {
            let answer = self.attempts(request, &mut previous).await?;
            let body = self.read_whole(request, answer.body).await?;
            Ok((answer.code, answer.headers, body))
        };
        let Some(limit) = request.timeout else { return read.await };
        match tokio::time::timeout(limit, read).await {
            Ok(read) => read,
            Err(_) => Err(Error::TimedOut(limit).after(previous)),
        }
    }

    async fn read_whole(&self, request: &Prepared, body: ResponseBody) -> Result<Bytes, Error> {
        let limit = self.inner.max_response_bytes;
        let Some(body) = read_within(body, limit).await.map_err(|error| self.connection_error(error))? else {
            let request = format!("{} {}", request.method, request.template);
            let problem = format!(
                "it is longer than {limit} bytes; read it as a stream, or raise max_response_bytes of the client"
            );
            return Err(Error::Malformed { request, problem });
        };
        self.record_response_size(&request.method, body.len());
        Ok(body)
    }

    /// Records the size of a response that was read to its end.
    pub(crate) fn record_response_size(&self, method: &Method, bytes: usize) {
        self.inner.metrics_recorder.response_read(method, bytes);
    }

    /// Returns the stack that requests go through.
    pub(crate) fn service(&self) -> HttpService {
        self.inner.service.clone()
    }

    /// Converts an error of the stack, adding the server's address for messages.
    pub(crate) fn connection_error(&self, error: BoxError) -> Error {
        Error::from_stack(error, self.inner.server.as_str())
    }

    /// Attempts the request until one attempt is final. `previous` receives the error of an earlier
    /// attempt, for a caller that cuts this short.
    async fn attempts(
        &self,
        request: &Prepared,
        previous: &mut Option<Error>,
    ) -> Result<OpenResponse, Error> {
        let span = tracing::debug_span!("request", method = %request.method, path = request.template);
        self.attempts_in_span(request, previous).instrument(span).await
    }

    async fn attempts_in_span(
        &self,
        request: &Prepared,
        previous: &mut Option<Error>,
    ) -> Result<OpenResponse, Error> {
        let max_retries = request.max_retries.unwrap_or(self.inner.max_retries);
        let policy = Policy { method: &request.method, mode: request.mode, max_retries };
        for attempt in 0.. {
            if attempt > 0 {
                self.throttle(request).await;
            } else if let Some(backoff) = self.server_backoff() {
                tokio::time::sleep(backoff).await;
            }
            let (outcome, result) = self.attempt(request, &policy, attempt).await;
            let wait = policy.decide(attempt, outcome);
            match (result, wait) {
                (Ok(answer), _) => return Ok(answer),
                (Err(error), None) => return Err(error.after(previous.take())),
                (Err(error), Some(wait)) => {
                    let wait = wait.max(self.server_backoff().unwrap_or_default());
                    tracing::debug!(attempt, ?wait, %error, "sending the request again");
                    // A response that asks for a retry (`Retry-After`) is no failure: only a failed
                    // connection is kept for the final message.
                    if matches!(outcome, Outcome::Failed(_)) {
                        *previous = Some(error);
                    }
                    tokio::time::sleep(wait).await;
                }
            }
        }
        unreachable!("the number of attempts is limited by the policy")
    }

    /// Makes one attempt; returns its outcome for the retry policy and its result for the caller.
    async fn attempt(
        &self,
        request: &Prepared,
        policy: &Policy<'_>,
        attempt: u32,
    ) -> (Outcome, Result<OpenResponse, Error>) {
        let start = Instant::now();
        let sent = match self.http_request(request) {
            Ok(sent) => sent,
            Err(error) => return (Outcome::Failed(TransportErrorKind::Config), Err(error)),
        };
        let answered = self.inner.service.clone().oneshot(sent).await;
        let code = answered.as_ref().ok().map(http::Response::status);
        self.inner.metrics_recorder.attempt(
            &request.method,
            attempt,
            start.elapsed(),
            request.body.len(),
            code,
        );
        let response = match answered {
            Ok(response) => response,
            Err(error) => {
                let kind = TransportErrorKind::of(error.as_ref());
                return (Outcome::Failed(kind), Err(self.connection_error(error)));
            }
        };
        let (parts, body) = response.into_parts();
        warning::parse(&parts.headers).iter().for_each(|it| self.warnings.warn(it));
        let count = |failures| Some(ServerBackoff::count(failures, parts.status));
        let _ = self.inner.failures.fetch_update(Ordering::Relaxed, Ordering::Relaxed, count);
        let outcome =
            Outcome::Answered { code: parts.status, retry_after: retry::retry_after(&parts.headers) };
        if error_response::is_success(parts.status) {
            let (code, headers, extensions) = (parts.status, parts.headers, parts.extensions);
            return (outcome, Ok(OpenResponse { code, headers, extensions, body }));
        }
        let again = policy.decide(attempt, outcome).is_some();
        let limit = if again { MAX_DRAINED_BYTES } else { MAX_ERROR_BODY_BYTES };
        // An error response whose body breaks off is still an error response: the code says enough.
        let body =
            tokio::time::timeout(ERROR_BODY_TIMEOUT, read_up_to(body, limit)).await.unwrap_or_default();
        let info = RequestInfo { method: &request.method, resource: &request.resource, name: &request.name };
        (outcome, Err(error_response::to_status(info, parts.status, &parts.headers, &body).into()))
    }

    fn http_request(&self, request: &Prepared) -> Result<http::Request<RequestBody>, Error> {
        let server = &self.inner.server;
        let text = format!("{}{}", server.as_str().trim_end_matches('/'), request.target);
        let uri =
            Uri::try_from(text).map_err(|_| InvalidRequest::Address(path_of(&request.target).to_owned()))?;
        let mut sent = http::Request::new(Full::new(request.body.clone()));
        *sent.method_mut() = request.method.clone();
        *sent.uri_mut() = uri;
        *sent.headers_mut() = request.headers.clone();
        if let Some(impersonate) = &request.impersonate {
            sent.extensions_mut().insert(impersonate.clone());
        }
        Ok(sent)
    }

    /// Waits for the client-side rate limit.
    pub(crate) async fn throttle(&self, request: &Prepared) {
        let Some(limiter) = &self.inner.limiter else { return };
        let waited = limiter.wait().await;
        self.inner.metrics_recorder.throttled(&request.method, waited);
        if waited > Duration::from_secs(1) {
            tracing::info!(?waited, path = request.template, "request delayed by the client-side rate limit");
        }
    }

    fn server_backoff(&self) -> Option<Duration> {
        let failures = self.inner.failures.load(Ordering::Relaxed);
        self.inner.backoff.map(|it| it.delay(failures)).filter(|it| !it.is_zero())
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

/// Returns a target without its query, which may hold values that do not belong in a message.
fn path_of(target: &str) -> &str {
    target.split('?').next().unwrap_or_default()
}

/// Reads a whole body; returns `None` if it is longer than the limit, and leaves the rest unread.
async fn read_within(mut body: ResponseBody, limit: usize) -> Result<Option<Bytes>, BoxError> {
    let mut read = BytesMut::new();
    let mut first = Bytes::new();
    while let Some(frame) = body.frame().await {
        let chunk = frame?.into_data().unwrap_or_default();
        if chunk.len() > limit - read.len() - first.len() {
            return Ok(None);
        }
        // Most bodies are one chunk, which is passed on without a copy.
        if first.is_empty() && read.is_empty() {
            first = chunk;
            continue;
        }
        read.extend_from_slice(&std::mem::take(&mut first));
        read.extend_from_slice(&chunk);
    }
    Ok(Some(if read.is_empty() { first } else { read.freeze() }))
}

/// Reads the start of a body: up to the limit, or to where the connection breaks.
async fn read_up_to(mut body: ResponseBody, limit: usize) -> Vec<u8> {
    let mut read = Vec::new();
    while let Some(Ok(frame)) = body.frame().await {
        let chunk = frame.into_data().unwrap_or_default();
        let room = limit - read.len();
        read.extend_from_slice(&chunk[..chunk.len().min(room)]);
        if read.len() == limit {
            break;
        }
    }
    read
}

fn boxed_service(service: impl HttpStack) -> HttpService {
    BoxCloneSyncService::new(service.map_err(Into::into))
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.inner.server.as_str())
            .field("default_namespace", &self.inner.default_namespace)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for ClientBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ClientBuilder").field("config", &self.config).finish_non_exhaustive()
    }
}
