//! Everything a client must know before its first request: the resolved settings.
//!
//! A kubeconfig or a pod's environment becomes a [`Config`]; nothing below this file reads either. Certificates and
//! tokens that live in files stay paths here, so that whoever uses them can read them again when they rotate.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use secrecy::SecretString;
use url::Url;

use super::exec::ExecConfig;
use super::redact;

/// The resolved settings of a client: which server, how to trust it, who we are.
#[derive(Clone)]
#[non_exhaustive]
pub struct Config {
    /// The address of the server, with the path prefix all requests share.
    pub server: Url,
    /// The namespace used where the caller names none.
    pub default_namespace: String,
    /// How the server proves who it is, and how we do by certificate.
    pub tls: TlsSettings,
    /// Who we are, by header.
    pub auth: AuthSettings,
    /// As whom we act.
    pub impersonate: Impersonation,
    /// The proxy of this cluster. `None` takes the proxy from the environment, if any.
    pub proxy_url: Option<Url>,
    /// Ask for plain bodies instead of gzip.
    pub disable_compression: bool,
    /// The `User-Agent` header; a default is made from the program's name.
    pub user_agent: Option<String>,
    /// Requests per second this client allows itself. `None` leaves fairness to the server.
    pub rate_limit: Option<RateLimit>,
    /// The longest a request may take, watches and log streams excepted. `None` waits for ever.
    pub timeout: Option<Duration>,
    /// Which HTTP the client speaks.
    pub http: HttpVersion,
    /// Send credentials in clear text to a server that is not on loopback. Off, and meant to stay off.
    pub allow_plaintext_credentials: bool,
    /// Which credential plugins may be started.
    pub plugin_policy: PluginPolicy,
}

/// How the server proves who it is, and how we prove it by certificate.
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct TlsSettings {
    /// The only roots trusted, when given; the system's otherwise. A file is read again when it changes.
    pub ca: Option<Pem>,
    /// Do not verify the server at all. Excludes `ca`.
    pub insecure_skip_verify: bool,
    /// The name the server's certificate must carry, where it is not the host of the URL.
    pub server_name: Option<String>,
    /// Our certificate and its key.
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

/// PEM text that is at hand, or in a file that may change.
#[derive(Clone)]
#[non_exhaustive]
pub enum Pem {
    /// The text itself; never changes.
    Data(SecretString),
    /// Where the text is; read again when it changes.
    File(PathBuf),
}

/// Who we are, by header. At most one way is used: token, then basic, then provider, then plugin (rule KC-8).
#[derive(Clone, Debug, Default)]
#[non_exhaustive]
pub struct AuthSettings {
    /// A bearer token. With `token_file` it is only the first value.
    pub token: Option<SecretString>,
    /// A file with a bearer token that is read again about once a minute.
    pub token_file: Option<PathBuf>,
    /// User and password.
    pub basic: Option<BasicAuth>,
    /// The legacy `auth-provider` section; only `oidc` is supported.
    pub provider: Option<AuthProvider>,
    /// A credential plugin.
    pub exec: Option<ExecConfig>,
}

/// User and password.
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
    /// Its options; some are secrets, so none is shown in `Debug`.
    pub config: BTreeMap<String, String>,
    /// The kubeconfig that the section was read from. Refreshed tokens are written back to it, as kubectl does.
    pub origin: Option<PathBuf>,
}

/// As whom we act. Nothing is sent unless `user` is set.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Impersonation {
    /// The user name to act as.
    pub user: Option<String>,
    /// The uid to act as.
    pub uid: Option<String>,
    /// The groups to act as a member of.
    pub groups: Vec<String>,
    /// Further attributes.
    pub extra: BTreeMap<String, Vec<String>>,
}

/// A token bucket: `qps` tokens a second, at most `burst` at once.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RateLimit {
    /// Requests per second over time.
    pub qps: f32,
    /// Requests at once.
    pub burst: u32,
}

/// Which HTTP the client speaks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum HttpVersion {
    /// HTTP/2 where the server offers it by ALPN, HTTP/1.1 otherwise.
    #[default]
    Auto,
    /// HTTP/1.1 only, as with `DISABLE_HTTP2` in the environment.
    Http1,
}

/// Which credential plugins may be started (rule AU-3).
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
    /// Settings for a server and nothing else: no credentials, the system's roots, namespace `default`.
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

    /// The same server without any way to log in.
    #[must_use]
    pub fn anonymous(mut self) -> Self {
        self.auth = AuthSettings::default();
        self.tls.identity = None;
        self.impersonate = Impersonation::default();
        self
    }
}

impl fmt::Debug for Config {
    /// Addresses may carry a password, which is left out.
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
