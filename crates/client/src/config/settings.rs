//! The resolved settings of a client.
//!
//! A kubeconfig or a pod's environment becomes a [`Config`]; no layer below this module reads
//! either. Certificates and tokens in files stay paths here, so that they can be read again when
//! they rotate.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use super::exec::ExecConfig;
use super::redact;

/// The resolved settings of a client: the server, the way to verify it, and the credentials.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::Config;
///
/// let mut config = Config::new("https://10.0.0.1:6443".parse()?);
/// config.auth.token = Some("secret".into());
/// config.timeout = Some(Duration::from_secs(30));
/// assert_eq!(config.default_namespace, "default");
/// assert!(!format!("{config:?}").contains("secret"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// The address of the server, including the path prefix of all requests.
    pub server: Url,
    /// The namespace of requests that name none.
    pub default_namespace: String,
    /// The verification of the server, and the client certificate.
    pub tls: TlsSettings,
    /// The credentials that are sent as headers.
    pub auth: AuthSettings,
    /// The user to impersonate.
    pub impersonate: Impersonation,
    /// The proxy for this cluster. `None` takes the proxy from the environment, if any.
    pub proxy_url: Option<Url>,
    /// True to request responses without gzip compression. Off by default. Watches are requested
    /// without it, except those that begin with the existing objects, of a server on another
    /// machine.
    pub disable_compression: bool,
    /// The `User-Agent` header. Defaults to a value made from the program's name.
    pub user_agent: Option<String>,
    /// The client-side rate limit. `None` leaves fairness to the server.
    pub rate_limit: Option<RateLimit>,
    /// The time limit of a request, except watches and log streams. `None` means no limit.
    pub timeout: Option<Duration>,
    /// The HTTP versions to use.
    pub http: HttpVersion,
    /// True to send credentials in clear text to a server that is not on loopback. Off by default,
    /// and best left off.
    pub allow_plaintext_credentials: bool,
    /// The credential plugins that may be started.
    pub plugin_policy: PluginPolicy,
}

/// The verification of the server, and the client certificate.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::config::Pem;
///
/// let mut config = Config::new("https://10.0.0.1:6443".parse()?);
/// config.tls.ca = Some(Pem::File("/etc/kubernetes/pki/ca.crt".into()));
/// config.tls.server_name = Some("kubernetes.default.svc".to_owned());
/// assert!(!config.tls.insecure_skip_verify);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TlsSettings {
    /// The trusted roots. Defaults to the system's roots. A file is read again when it changes.
    pub ca: Option<Pem>,
    /// True to not verify the server at all. Excludes `ca`.
    pub insecure_skip_verify: bool,
    /// The name expected in the server's certificate, if it is not the host of the URL.
    pub server_name: Option<String>,
    /// The client certificate and its key.
    pub identity: Option<Identity>,
}

/// A client certificate with its key.
///
/// ```
/// use dogwatch_client::config::{Identity, Pem};
///
/// let certificate = Pem::File("/etc/my-program/client.crt".into());
/// let identity = Identity { certificate, key: Pem::File("/etc/my-program/client.key".into()) };
/// assert!(matches!(identity.key, Pem::File(_)));
/// ```
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate chain.
    pub certificate: Pem,
    /// The private key.
    pub key: Pem,
}

/// PEM text, given directly or in a file that may change.
///
/// ```
/// use dogwatch_client::config::Pem;
///
/// let file = Pem::File("/etc/kubernetes/pki/ca.crt".into()); // read again when it changes
/// let text = Pem::Data("-----BEGIN PRIVATE KEY-----".into());
/// assert!(!format!("{text:?}").contains("BEGIN"));
/// # let _ = file;
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub enum Pem {
    /// The text itself, which never changes.
    Data(SecretString),
    /// The path of a file, which is read again when it changes.
    File(PathBuf),
}

/// The credentials that are sent as headers. At most one is used: token, then basic, then provider,
/// then plugin (rule KC-8).
///
/// ```
/// use dogwatch_client::config::AuthSettings;
///
/// let mut auth = AuthSettings::default(); // anonymous
/// auth.token_file = Some("/var/run/secrets/token".into());
/// assert!(auth.token.is_none() && auth.exec.is_none());
/// ```
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AuthSettings {
    /// A bearer token. If `token_file` is set too, this is only the first value.
    pub token: Option<SecretString>,
    /// A file with a bearer token, read again about once a minute.
    pub token_file: Option<PathBuf>,
    /// A user name and a password.
    pub basic: Option<BasicAuth>,
    /// The legacy `auth-provider` section; only `oidc` is supported.
    pub provider: Option<AuthProvider>,
    /// A credential plugin.
    pub exec: Option<ExecConfig>,
}

/// A user name and a password.
///
/// ```
/// use dogwatch_client::config::BasicAuth;
///
/// let basic = BasicAuth { username: "jane".to_owned(), password: "secret".into() };
/// assert!(!format!("{basic:?}").contains("secret"));
/// ```
#[derive(Clone, Debug)]
pub struct BasicAuth {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: SecretString,
}

/// An `auth-provider` section: a name and its options.
///
/// ```
/// use std::collections::BTreeMap;
///
/// use dogwatch_client::config::AuthProvider;
///
/// let issuer = ("idp-issuer-url".to_owned(), "https://login.example.com".to_owned());
/// let config = BTreeMap::from([issuer]);
/// let provider = AuthProvider { name: "oidc".to_owned(), config, origin: None };
/// assert!(!format!("{provider:?}").contains("login.example.com"));
/// ```
#[derive(Clone)]
pub struct AuthProvider {
    /// The provider's name, for example `oidc`.
    pub name: String,
    /// The provider's options. Some are secrets, so `Debug` shows none.
    pub config: BTreeMap<String, String>,
    /// The kubeconfig that the section was read from. Refreshed tokens are written back to it, as
    /// kubectl does.
    pub origin: Option<PathBuf>,
}

/// The user to impersonate. Nothing is sent unless `user` is set.
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
/// let (user, groups) = (Some("jane".to_owned()), vec!["admins".to_owned()]);
/// let jane = Impersonation { user, groups, ..Impersonation::default() };
/// let client = client.acting_as(jane); // all of its requests
/// # client.get().path(&["version"]).bytes().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// The user name to impersonate.
    pub user: Option<String>,
    /// The uid to impersonate.
    pub uid: Option<String>,
    /// The groups of the impersonated user.
    pub groups: Vec<String>,
    /// Further attributes of the impersonated user.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A token bucket: `qps` tokens per second, at most `burst` at once.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::config::RateLimit;
///
/// let mut config = Config::new("https://10.0.0.1:6443".parse()?);
/// config.rate_limit = Some(RateLimit { qps: 5.0, burst: 10 }); // client-go's default
/// # assert!(config.rate_limit.is_some());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second, on average.
    pub qps: f32,
    /// Requests in one burst.
    pub burst: u32,
}

/// The HTTP versions to use.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::config::HttpVersion;
///
/// let mut config = Config::new("https://10.0.0.1:6443".parse()?);
/// assert_eq!(config.http, HttpVersion::Auto);
/// config.http = HttpVersion::Http1; // for a proxy that breaks HTTP/2
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpVersion {
    /// HTTP/2 if the server offers it by ALPN, HTTP/1.1 otherwise.
    #[default]
    Auto,
    /// HTTP/1.1 only, as with `DISABLE_HTTP2` in the environment.
    Http1,
}

/// The credential plugins that may be started (rule AU-3).
///
/// ```
/// use dogwatch_client::config::{Overrides, PluginPolicy};
///
/// let mut overrides = Overrides::default();
/// overrides.plugin_policy = PluginPolicy::Allowlist(vec!["cloud-token".to_owned()]);
/// assert_ne!(overrides.plugin_policy, PluginPolicy::AllowAll);
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum PluginPolicy {
    /// Any command of the kubeconfig.
    #[default]
    AllowAll,
    /// None.
    DenyAll,
    /// Only these commands: a name, or an absolute path.
    Allowlist(Vec<String>),
}

impl Config {
    /// Creates settings for a server: no credentials, the system's roots, namespace `default`.
    pub fn new(server: Url) -> Self {
        Self {
            server,
            default_namespace: "default".to_owned(),
            tls: TlsSettings::default(),
            auth: AuthSettings::default(),
            impersonate: Impersonation::default(),
            proxy_url: None,
            disable_compression: false,
            user_agent: None,
            rate_limit: None,
            timeout: None,
            http: HttpVersion::Auto,
            allow_plaintext_credentials: false,
            plugin_policy: PluginPolicy::AllowAll,
        }
    }

    /// Removes all credentials and impersonation.
    #[must_use]
    pub fn anonymous(mut self) -> Self {
        self.auth = AuthSettings::default();
        self.tls.identity = None;
        self.impersonate = Impersonation::default();
        self
    }
}

impl fmt::Debug for Config {
    /// Hides passwords in addresses.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("server", &redact::url(&self.server))
            .field("default_namespace", &self.default_namespace)
            .field("tls", &self.tls)
            .field("auth", &self.auth)
            .field("impersonate", &self.impersonate)
            .field("proxy_url", &self.proxy_url.as_ref().map(redact::url))
            .field("disable_compression", &self.disable_compression)
            .field("user_agent", &self.user_agent)
            .field("rate_limit", &self.rate_limit)
            .field("timeout", &self.timeout)
            .field("http", &self.http)
            .field("allow_plaintext_credentials", &self.allow_plaintext_credentials)
            .field("plugin_policy", &self.plugin_policy)
            .finish()
    }
}

impl fmt::Debug for Pem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(_) => f.write_str("Data([REDACTED])"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl fmt::Debug for AuthProvider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthProvider").field("name", &self.name).finish_non_exhaustive()
    }
}
