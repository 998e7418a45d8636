//! The client of one API server: what its clones share, and what each of them adds.
//!
//! A [builder](super::builder) makes it, and [`super::attempts`] sends its requests.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU32;
use std::time::Duration;

use url::Url;

use super::stack::HttpService;
use crate::config::Impersonation;
use crate::exchange::limiter::Limiter;
use crate::exchange::metrics::RequestMetrics;
use crate::exchange::{ServerBackoff, WarningHandler};

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
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
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
    pub(super) inner: Arc<Inner>,
    /// The impersonated user of requests that set none; `None` means the one of the settings.
    pub(super) acting_as: Option<Arc<Impersonation>>,
    pub(super) warnings: Arc<dyn WarningHandler>,
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
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
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

/// The part of a client that its clones share.
pub(super) struct Inner {
    pub(super) service: HttpService,
    /// The address of the server, without a trailing slash.
    pub(super) server: Url,
    pub(super) default_namespace: String,
    pub(super) limiter: Option<Limiter>,
    pub(super) timeout: Option<Duration>,
    pub(super) max_retries: u32,
    pub(super) max_response_bytes: usize,
    /// True if a watch that begins with the existing objects is compressed like a list.
    pub(super) compresses_initial_events: bool,
    pub(super) backoff: Option<ServerBackoff>,
    /// The number of failures in a row, for `backoff`.
    pub(super) failures: AtomicU32,
    pub(super) metrics_recorder: RequestMetrics,
}

impl Client {
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
    /// over the connections of this crate, to a server on another machine. Any other stack may not
    /// be able to decompress a body of several gzip members.
    pub(crate) fn compresses_initial_events(&self) -> bool {
        self.inner.compresses_initial_events
    }

    /// Returns the address of the server.
    pub fn server(&self) -> &Url {
        &self.inner.server
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("server", &self.inner.server.as_str())
            .field("default_namespace", &self.inner.default_namespace)
            .finish_non_exhaustive()
    }
}
