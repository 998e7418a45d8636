//! A builder of requests in chained calls (rules RQ-1 to RQ-4).
//!
//! The first error is kept: later calls change nothing, and sending returns it without using the
//! network. Handles such as [`crate::Api`] are built on this; use it directly for paths that no
//! handle covers.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use dogwatch_core::{InvalidPath, ResourcePath, ResourceType};
use http::header::{ACCEPT, ACCEPT_ENCODING, AUTHORIZATION, CONTENT_TYPE, COOKIE, PROXY_AUTHORIZATION};
use http::{HeaderMap, HeaderName, HeaderValue, Method};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::body::ResponseBody;
use crate::client::{Client, Prepared};
use crate::config::Impersonation;
use crate::error::{Error, InvalidRequest};
use crate::exchange::retry::Mode;
use crate::response::Response;
use crate::template::template;

pub(crate) const JSON: &str = "application/json";
/// The default `Accept` header: JSON preferred, anything else accepted.
const ACCEPT_JSON: &str = "application/json, */*";

/// The error for a request that has both a path and parts of a resource.
const PARTS_OF_RESOURCES: &str =
    "a namespace, object or subresource belongs to a resource, not to a path: include it in the path";

/// A request under construction, created by [`Client::request`] and its siblings.
///
/// Dropping the future of a request that is being sent cancels it; the server may still carry it
/// out.
///
/// `Debug` shows the method, the target and the names of the headers; header values and the body
/// may be secret.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let request = client.get().path(&["api", "v1", "nodes"]).param("limit", "5");
/// assert_eq!(request.target()?, "/api/v1/nodes?limit=5");
///
/// let version: serde_json::Value = client.get().path(&["version"]).send().await?;
/// assert_eq!(version["minor"], "36");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a request does nothing until it is sent"]
pub struct Request {
    client: Client,
    method: Method,
    target: Target,
    /// The segments appended to the target.
    suffix: Vec<String>,
    query: Vec<(String, String)>,
    headers: HeaderMap,
    body: Bytes,
    timeout: Option<Duration>,
    max_retries: Option<u32>,
    impersonate: Option<Impersonation>,
    /// Resource and name, for messages.
    resource: String,
    name: String,
    /// The first error.
    error: Option<InvalidRequest>,
}

#[derive(Clone, Debug)]
enum Target {
    /// The parts given before the resource.
    Unset(Vec<PathPart>),
    Resource(ResourcePath),
    Absolute(String),
}

/// A segment of a path below the resource, in the caller's order.
#[derive(Clone, Debug)]
enum PathPart {
    Namespace(String),
    Name(String),
    Subresource(String),
}

impl PathPart {
    fn add_to(&self, path: ResourcePath) -> ResourcePath {
        match self {
            Self::Namespace(namespace) => path.namespace(namespace),
            Self::Name(name) => path.name(name),
            Self::Subresource(subresource) => path.subresource(subresource),
        }
    }
}

impl Client {
    /// Starts a request with any method.
    pub fn request(&self, method: Method) -> Request {
        let headers = HeaderMap::from_iter([(ACCEPT, HeaderValue::from_static(ACCEPT_JSON))]);
        Request {
            client: self.clone(),
            method,
            target: Target::Unset(Vec::new()),
            suffix: Vec::new(),
            query: Vec::new(),
            headers,
            body: Bytes::new(),
            timeout: None,
            max_retries: None,
            impersonate: self.impersonation(),
            resource: String::new(),
            name: String::new(),
            error: None,
        }
    }

    /// Starts a GET.
    pub fn get(&self) -> Request {
        self.request(Method::GET)
    }

    /// Starts a POST.
    pub fn post(&self) -> Request {
        self.request(Method::POST)
    }

    /// Starts a PUT.
    pub fn put(&self) -> Request {
        self.request(Method::PUT)
    }

    /// Starts a DELETE.
    pub fn delete(&self) -> Request {
        self.request(Method::DELETE)
    }

    /// Starts a PATCH with this content type.
    pub fn patch(&self, content_type: &'static str) -> Request {
        self.request(Method::PATCH).header(CONTENT_TYPE, content_type)
    }
}

impl Request {
    /// Sets the collection. Namespace, object and subresource may be set before or after it.
    pub fn resource(mut self, resource: &ResourceType) -> Self {
        if self.error.is_some() {
            return self;
        }
        match &self.target {
            Target::Unset(parts) => {
                self.resource = resource.plural.to_string();
                let path = parts.iter().fold(ResourcePath::of(resource), |path, part| part.add_to(path));
                self.target = Target::Resource(path);
                self
            }
            _ => self.fail(InvalidRequest::Object("the resource or path of a request is set once")),
        }
    }

    /// Sets the path, relative to the server's base path; the parts are joined by `/`. A single
    /// part keeps its trailing slash.
    ///
    /// A path that contains `..`, a query or a fragment is rejected; [`Self::param`] adds a query.
    pub fn path(mut self, parts: &[&str]) -> Self {
        if self.error.is_some() {
            return self;
        }
        if let Some(part) = parts.iter().find(|it| !is_plain_path(it)) {
            return self.fail(InvalidRequest::Address((*part).to_owned()));
        }
        match &self.target {
            Target::Unset(parts) if parts.is_empty() => {}
            Target::Unset(_) => return self.fail(InvalidRequest::Object(PARTS_OF_RESOURCES)),
            _ => return self.fail(InvalidRequest::Object("the resource or path of a request is set once")),
        }
        let joined: Vec<_> =
            parts.iter().map(|it| it.trim_matches('/')).filter(|it| !it.is_empty()).collect();
        let mut path = format!("/{}", joined.join("/"));
        if let [only] = parts
            && only.ends_with('/')
            && path.len() > 1
        {
            path.push('/');
        }
        self.target = Target::Absolute(path);
        self
    }

    /// Sets path and query from a string, relative to the server's base path; parameters set before
    /// are removed.
    ///
    /// The URI of another server, or a path that leads above the base path, is rejected.
    pub fn uri(mut self, uri: &str) -> Self {
        let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
        // A colon in the first segment makes it a scheme; in later ones it is part of a name, as in
        // `system:node`.
        let has_scheme = path.split('/').next().is_some_and(|it| it.contains(':'));
        if !is_plain_path(path) || path.contains("//") || has_scheme || uri.contains('#') {
            return self.fail(InvalidRequest::Address(uri.to_owned()));
        }
        self.query.clear();
        let pairs = url::form_urlencoded::parse(query.as_bytes());
        self.path(&[path]).params(pairs.map(|(key, value)| (key, value.into_owned())))
    }

    /// Sets the namespace. Empty means all namespaces, and is rejected for a single object.
    pub fn namespace(self, namespace: &str) -> Self {
        self.with(PathPart::Namespace(namespace.to_owned()))
    }

    /// Sets the name of the object.
    pub fn name(self, name: &str) -> Self {
        let mut this = self.with(PathPart::Name(name.to_owned()));
        this.name = name.to_owned();
        this
    }

    /// Sets the subresource of the object, for example `status`.
    pub fn subresource(self, subresource: &str) -> Self {
        self.with(PathPart::Subresource(subresource.to_owned()))
    }

    /// Appends segments to the path, whatever the order of the calls. A segment that would change
    /// the meaning of the path is rejected.
    pub fn suffix(mut self, segments: &[&str]) -> Self {
        for segment in segments.iter().flat_map(|it| it.trim_matches('/').split('/')) {
            if matches!(segment, "" | "." | "..") || segment.contains(['%', '?', '#']) {
                return self.fail(InvalidRequest::Address(segment.to_owned()));
            }
            self.suffix.push(segment.to_owned());
        }
        self
    }

    /// Adds a query parameter. Existing parameters of the same name are kept.
    pub fn param(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        if self.error.is_none() {
            self.query.push((key.into(), value.into()));
        }
        self
    }

    /// Adds query parameters.
    pub fn params<K: Into<String>>(self, pairs: impl IntoIterator<Item = (K, String)>) -> Self {
        pairs.into_iter().fold(self, |this, (key, value)| this.param(key, value))
    }

    /// Adds the query parameters, or records the error.
    pub(crate) fn checked_params<E: Into<InvalidRequest>>(
        self,
        pairs: Result<Vec<(&'static str, String)>, E>,
    ) -> Self {
        match pairs {
            Ok(pairs) => self.params(pairs),
            Err(error) => self.fail(error.into()),
        }
    }

    /// Sets a header, replacing its previous value.
    pub fn header(mut self, name: HeaderName, value: &str) -> Self {
        if self.error.is_some() {
            return self;
        }
        match HeaderValue::from_str(value) {
            Ok(mut value) => {
                // Layers do not print a sensitive value, and HTTP/2 does not put it into its header
                // table.
                value.set_sensitive(matches!(name, AUTHORIZATION | PROXY_AUTHORIZATION | COOKIE));
                self.headers.insert(name, value);
                self
            }
            Err(_) => self.fail(InvalidRequest::Header(name.to_string())),
        }
    }

    /// Sets the `Accept` header.
    pub fn accept(self, accept: &str) -> Self {
        self.header(ACCEPT, accept)
    }

    /// Sets the body and its content type.
    pub fn body(mut self, content_type: &str, body: impl Into<Bytes>) -> Self {
        if self.error.is_none() {
            self.body = body.into();
        }
        self.header(CONTENT_TYPE, content_type)
    }

    /// Sets the body to a value as JSON. A content type that is already set is kept.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Self {
        match serde_json::to_vec(value) {
            Ok(body) => {
                let content_type =
                    self.headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or(JSON).to_owned();
                self.body(&content_type, body)
            }
            Err(error) => self.fail(InvalidRequest::Body(error.to_string())),
        }
    }

    /// Sets the time limit of the whole exchange, which is also sent to the server. Defaults to the
    /// client's limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = Some(timeout);
        self
    }

    /// Sets the maximum number of retries. Defaults to the client's setting.
    pub fn max_retries(mut self, retries: u32) -> Self {
        self.max_retries = Some(retries);
        self
    }

    /// Impersonates a user, for this request only.
    pub fn impersonate(mut self, who: Impersonation) -> Self {
        self.impersonate = Some(who);
        self
    }

    /// Sends the request and decodes the response.
    ///
    /// # Errors
    /// Returns the first error of the builder, the server's error response, or a transport error.
    pub async fn send<T: DeserializeOwned>(self) -> Result<T, Error> {
        self.response().await?.json()
    }

    /// Sends the request and returns the body.
    ///
    /// # Errors
    /// See [`Self::send`].
    pub async fn bytes(self) -> Result<Bytes, Error> {
        Ok(self.response().await?.body)
    }

    /// Sends the request and returns code, headers and body.
    ///
    /// # Errors
    /// See [`Self::send`].
    pub async fn response(self) -> Result<Response, Error> {
        let prepared = self.prepare(Mode::Whole)?;
        let request = format!("{} {}", prepared.method, prepared.template);
        let (code, headers, body) = self.client.exchange_and_read(&prepared).await?;
        Ok(Response { code, headers, body, request })
    }

    /// Sends the request and returns the body as a stream. Dropping the body cancels the request.
    ///
    /// A limit set with [`Self::timeout`] holds until the response begins, and is sent to the
    /// server. The client's default limit does not apply, and the time to read the body is not
    /// limited.
    ///
    /// # Errors
    /// See [`Self::send`]; later errors come from the body.
    pub async fn stream(self) -> Result<ResponseBody, Error> {
        Ok(self.send_streamed().await?.1.into_body())
    }

    /// Sends the request like [`Self::stream`]; returns the name of the request for messages, and
    /// the response.
    pub(crate) async fn send_streamed(self) -> Result<(String, http::Response<ResponseBody>), Error> {
        let prepared = self.prepare(Mode::Stream)?;
        self.client.throttle(&prepared).await;
        let answer = self.client.exchange(&prepared);
        let answer = match prepared.timeout {
            None => answer.await?,
            Some(limit) => {
                tokio::time::timeout(limit, answer).await.unwrap_or(Err(Error::TimedOut(limit)))?
            }
        };
        let mut response = http::Response::new(answer.body);
        *response.status_mut() = answer.code;
        *response.headers_mut() = answer.headers;
        *response.extensions_mut() = answer.extensions;
        Ok((format!("{} {}", prepared.method, prepared.template), response))
    }

    /// Prepares a watch: like [`Self::stream`], with the retry rules of a watch. It is compressed
    /// only if it begins with the existing objects, which are as many as in a list, and then under
    /// the conditions of a list, unless the server is on this machine. An encoding set by the
    /// caller is kept.
    pub(crate) fn prepare_watch(self, with_initial_events: bool) -> Result<(Client, Prepared), Error> {
        let as_a_list = with_initial_events && self.client.compresses_initial_events();
        let this = match as_a_list || self.headers.contains_key(ACCEPT_ENCODING) {
            true => self,
            false => self.header(ACCEPT_ENCODING, "identity"),
        };
        Ok((this.client.clone(), this.prepare(Mode::Watch)?))
    }

    /// Prepares a list: like [`Self::stream`], with the values that an error message needs.
    pub(crate) fn prepare_list(self) -> Result<(Client, Prepared), Error> {
        Ok((self.client.clone(), self.prepare(Mode::Whole)?))
    }

    /// Returns the time limit of the exchange: the request's own, or the client's.
    pub(crate) fn time_limit(&self) -> Option<Duration> {
        self.timeout.or(self.client.timeout())
    }

    /// Returns path and query relative to the server's address.
    ///
    /// # Errors
    /// Returns the first error of the builder.
    pub fn target(&self) -> Result<String, InvalidRequest> {
        self.target_within(self.timeout)
    }

    /// Like [`Self::target`], with a time limit for the server as the parameter `timeout`.
    fn target_within(&self, timeout: Option<Duration>) -> Result<String, InvalidRequest> {
        if let Some(error) = &self.error {
            return Err(error.clone());
        }
        let mut target = match &self.target {
            Target::Unset(_) => return Err(InvalidRequest::NoTarget),
            Target::Absolute(path) => path.clone(),
            Target::Resource(path) if self.method == Method::POST => path.build_for_create()?,
            Target::Resource(path) => path.build()?,
        };
        for segment in &self.suffix {
            if !target.ends_with('/') {
                target.push('/');
            }
            target.push_str(segment);
        }
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        query.extend_pairs(&self.query);
        if let Some(timeout) = timeout.filter(|it| !it.is_zero()) {
            query.append_pair("timeout", &go_duration(timeout));
        }
        let query = query.finish();
        if !query.is_empty() {
            target.push('?');
            target.push_str(&query);
        }
        Ok(target)
    }

    fn prepare(&self, mode: Mode) -> Result<Prepared, Error> {
        // The client's default limit does not apply to a stream; a limit set on the request ends
        // when the response begins.
        let timeout = if mode == Mode::Whole { self.time_limit() } else { self.timeout };
        let target = self.target_within(timeout)?;
        let mut headers = self.headers.clone();
        if self.body.is_empty() {
            headers.remove(CONTENT_TYPE);
        }
        Ok(Prepared {
            method: self.method.clone(),
            template: template(target.split('?').next().unwrap_or_default()),
            target,
            headers,
            body: self.body.clone(),
            mode,
            timeout,
            max_retries: self.max_retries,
            impersonate: self.impersonate.clone(),
            resource: self.resource.clone(),
            name: self.name.clone(),
        })
    }

    fn with(mut self, part: PathPart) -> Self {
        if self.error.is_some() {
            return self;
        }
        self.target = match self.target {
            Target::Resource(path) => Target::Resource(part.add_to(path)),
            Target::Unset(mut parts) => {
                parts.push(part);
                Target::Unset(parts)
            }
            Target::Absolute(_) => return self.fail(InvalidRequest::Object(PARTS_OF_RESOURCES)),
        };
        self
    }

    pub(crate) fn fail(mut self, error: InvalidRequest) -> Self {
        // The path keeps its own first error, and that one came before this one.
        let earlier = match &self.target {
            Target::Resource(path) => path.build().err(),
            _ => None,
        };
        let earlier =
            earlier.filter(|it| matches!(it, InvalidPath::Segment { .. } | InvalidPath::SetTwice { .. }));
        self.error.get_or_insert(earlier.map_or(error, Into::into));
        self
    }
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("target", &self.target())
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("body_bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

/// Returns true for a path without `.` and `..` segments, query, fragment, backslash, whitespace or
/// control characters.
fn is_plain_path(path: &str) -> bool {
    let climbs = path.split('/').any(|it| matches!(it, "." | ".."));
    let odd = |it: char| matches!(it, '?' | '#' | '\\') || it.is_whitespace() || it.is_control();
    !climbs && !path.contains(odd)
}

/// Formats a duration as Go does, which is the syntax of the `timeout` parameter.
fn go_duration(duration: Duration) -> String {
    // The longest duration of Go is an `int64` of nanoseconds; the server rejects a longer one.
    let millis = duration.min(Duration::from_nanos(i64::MAX as u64)).as_millis();
    if millis.is_multiple_of(1000) { format!("{}s", millis / 1000) } else { format!("{millis}ms") }
}
