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
    /// True to request responses without gzip compression.
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
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate chain.
    pub certificate: Pem,
    /// The private key.
    pub key: Pem,
}

/// PEM text, given directly or in a file that may change.
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
#[derive(Clone, Debug)]
pub struct BasicAuth {
    /// The user name.
    pub username: String,
    /// The password.
    pub password: SecretString,
}

/// An `auth-provider` section: a name and its options.
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
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second, on average.
    pub qps: f32,
    /// Requests in one burst.
    pub burst: u32,
}

/// The HTTP versions to use.
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
