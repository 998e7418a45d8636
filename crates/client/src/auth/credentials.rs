//! The credentials of one client: the chosen authentication method, and its use for requests.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use http::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use tokio::sync::watch;

use super::basic::basic;
use super::error::AuthError;
use super::exec::{Plugin, PluginOptions, record_ttl};
use super::fetch::{HttpFetch, TokenStore};
use super::oidc::Oidc;
use super::plaintext;
use super::renew::{Held, Renewing};
use super::token::{TokenFile, bearer};
use super::write_back::KubeconfigTokens;
use crate::config::{AuthProvider, AuthSettings, Config, Identity};

/// The credentials of a client. Clones share one state: one token cache, one plugin process at a
/// time. Other credentials with the same `exec` section, or the same login at an `oidc` provider,
/// share that part of it.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::auth::Credentials;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut config = Config::new("https://10.0.0.1:6443".parse()?);
/// config.auth.token = Some("secret".into());
/// let credentials = Credentials::new(&config, None)?;
///
/// let mut headers = http::HeaderMap::new();
/// let ticket = credentials.authorize(&mut headers).await?;
/// assert_eq!(headers["authorization"], "Bearer secret");
/// credentials.rejected(ticket); // if the server answers 401
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Credentials {
    inner: Arc<Inner>,
}

struct Inner {
    method: AuthMethod,
    identity: watch::Sender<Option<Identity>>,
}

/// The authentication method, by header. At most one, by rule KC-8.
enum AuthMethod {
    Anonymous,
    Fixed(HeaderValue),
    TokenFile(Renewing<TokenFile>),
    Oidc(Arc<Renewing<Oidc>>),
    Plugin(Arc<Renewing<Plugin>>),
}

/// The program's options for credentials, in addition to the settings.
///
/// ```
/// use std::time::Duration;
///
/// use dogwatch_client::auth::AuthOptions;
/// use dogwatch_client::{Client, Config};
///
/// let mut options = AuthOptions::default();
/// options.plugin_time_limit = Some(Duration::from_secs(10));
/// options.stdin_unavailable = true;
/// let config = Config::new("https://10.0.0.1:6443".parse()?);
/// let client = Client::builder(config).auth_options(options).build()?;
/// # let _ = client;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct AuthOptions {
    /// The HTTP client that the `oidc` provider uses for its issuer. Without it, an expired
    /// id-token is an error.
    pub http: Option<Arc<dyn HttpFetch>>,
    /// The store for refreshed tokens of the `oidc` provider. Without it, they are written back to
    /// the kubeconfig that the provider was read from, if it was read from one.
    pub tokens: Option<Arc<dyn TokenStore>>,
    /// The time limit of a credential plugin that is not interactive. Defaults to 60 s.
    pub plugin_time_limit: Option<Duration>,
    /// Set when the program reads standard input itself, so that no plugin may.
    pub stdin_unavailable: bool,
    /// True if `http` was set by the client, not by the program.
    pub(crate) is_default_http: bool,
}

/// The credentials that a request carried; pass it to [`Credentials::rejected`] if the server
/// answers 401.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::auth::Credentials;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let credentials = Credentials::new(&Config::new("https://10.0.0.1:6443".parse()?), None)?;
/// let mut headers = http::HeaderMap::new();
/// let ticket = credentials.authorize(&mut headers).await?;
/// assert!(headers.is_empty()); // anonymous
/// credentials.rejected(ticket); // there is nothing to renew
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Ticket {
    /// `None` if the request carries no credentials, or some that cannot be renewed here.
    used: Option<Held>,
}

impl Credentials {
    /// Chooses the method by rule KC-8: token (and token file), basic, `oidc` provider, plugin; or
    /// none.
    ///
    /// Nothing is read, run or sent yet. Rejects settings that contradict each other, name an
    /// unknown provider, or would send credentials in clear text (rule KC-7).
    pub fn new(config: &Config, http: Option<Arc<dyn HttpFetch>>) -> Result<Self, AuthError> {
        Self::with_options(config, AuthOptions { http, ..AuthOptions::default() })
    }

    /// Like [`Credentials::new`], with all options.
    pub fn with_options(config: &Config, options: AuthOptions) -> Result<Self, AuthError> {
        let method = choose(config, options)?;
        if !matches!(method, AuthMethod::Anonymous) {
            plaintext::check(config)?;
        }
        let identity = match &method {
            AuthMethod::Plugin(renewing) => renewing.source().identity().clone(),
            _ => watch::Sender::new(None),
        };
        Ok(Self { inner: Arc::new(Inner { method, identity }) })
    }

    /// Adds `Authorization`, unless the request already has one. May first read a file, run a
    /// plugin or refresh a token; while one caller does, the others wait only if there is no usable
    /// credential in the meantime.
    ///
    /// Dropping the future leaves a plugin or refresh running for the next caller; dropping the
    /// last clone ends it.
    pub async fn authorize(&self, headers: &mut HeaderMap) -> Result<Ticket, AuthError> {
        if headers.contains_key(AUTHORIZATION) {
            return Ok(Ticket { used: None });
        }
        let held = match &self.inner.method {
            AuthMethod::Anonymous => return Ok(Ticket { used: None }),
            AuthMethod::Fixed(header) => {
                headers.insert(AUTHORIZATION, header.clone());
                return Ok(Ticket { used: None });
            }
            AuthMethod::TokenFile(renewing) => renewing.get().await?,
            AuthMethod::Oidc(renewing) => renewing.get().await?,
            AuthMethod::Plugin(renewing) => {
                let held = renewing.get().await?;
                record_ttl(&held.issued.lifetime);
                held
            }
        };
        if let Some(header) = &held.issued.header {
            headers.insert(AUTHORIZATION, header.clone());
        }
        Ok(Ticket { used: Some(held) })
    }

    /// Reports that the server answered 401 to the request with this ticket: its credentials are
    /// discarded, unless newer ones are available already. The next [`Credentials::authorize`]
    /// renews them.
    pub fn rejected(&self, ticket: Ticket) {
        let Some(held) = &ticket.used else { return };
        match &self.inner.method {
            AuthMethod::Anonymous | AuthMethod::Fixed(_) => {}
            AuthMethod::TokenFile(renewing) => renewing.reject(held),
            AuthMethod::Oidc(renewing) => renewing.reject(held),
            AuthMethod::Plugin(renewing) => renewing.reject(held),
        }
    }

    /// Returns the channel of a plugin's client certificate; `None` in it while there is none.
    ///
    /// The value changes before the [`Credentials::authorize`] that obtained it returns, so a
    /// transport that reads it for each request never uses a connection made with the old
    /// certificate. It is tokio's receiver because a transport needs the newest value only, without
    /// waiting, and must see that it has changed.
    pub fn identity(&self) -> watch::Receiver<Option<Identity>> {
        self.inner.identity.subscribe()
    }

    /// Returns true if the credentials can be renewed after a 401.
    pub(super) fn renewable(&self) -> bool {
        !matches!(self.inner.method, AuthMethod::Anonymous | AuthMethod::Fixed(_))
    }
}

impl Ticket {
    /// Returns true if the request carried credentials that can be renewed.
    pub(super) fn renewable(&self) -> bool {
        self.used.is_some()
    }

    /// Returns true if the credentials differ from those of an earlier ticket.
    pub(super) fn differs_from(&self, earlier: &Self) -> bool {
        match (&self.used, &earlier.used) {
            (Some(now), Some(then)) => now.differs_from(then),
            _ => false,
        }
    }
}

fn choose(config: &Config, options: AuthOptions) -> Result<AuthMethod, AuthError> {
    let misconfigured = |what: &str| AuthError::Misconfigured(what.to_owned());
    let AuthSettings { token, token_file, basic: user, provider, exec } = &config.auth;
    if (token.is_some() || token_file.is_some()) && user.is_some() {
        return Err(misconfigured("the user has both a token and a password: remove one"));
    }
    if provider.is_some() && exec.is_some() {
        return Err(misconfigured("the user has both an auth-provider and an exec section: remove one"));
    }
    let fixed = token
        .as_ref()
        .map(|token| {
            bearer(token)
                .ok_or_else(|| misconfigured("the token has characters that are not valid in a header"))
        })
        .transpose()?;
    if let Some(path) = token_file {
        return Ok(AuthMethod::TokenFile(TokenFile::follow(path.clone(), fixed)));
    }
    if let Some(header) = fixed {
        return Ok(AuthMethod::Fixed(header));
    }
    if let Some(user) = user {
        return basic(user)
            .map(AuthMethod::Fixed)
            .ok_or_else(|| misconfigured("a user name cannot contain a colon"));
    }
    if let Some(provider) = provider {
        known(provider)?;
        let allow_plaintext = config.allow_plaintext_credentials;
        let write_back = || KubeconfigTokens::of(provider).map(|it| Arc::new(it) as Arc<dyn TokenStore>);
        let store = options.tokens.or_else(write_back);
        let oidc = Oidc::follow(provider, allow_plaintext, options.http, options.is_default_http, store)?;
        return Ok(AuthMethod::Oidc(oidc));
    }
    match exec {
        // An explicit client certificate takes precedence over the plugin (rule AU-3).
        Some(exec) if config.tls.identity.is_none() => {
            let plugin = PluginOptions {
                time_limit: options.plugin_time_limit,
                stdin_unavailable: options.stdin_unavailable,
            };
            Ok(AuthMethod::Plugin(Plugin::follow(exec, &config.plugin_policy, plugin)?))
        }
        _ => Ok(AuthMethod::Anonymous),
    }
}

/// Rejects every provider but `oidc`, and names the replacement (rule AU-4).
fn known(provider: &AuthProvider) -> Result<(), AuthError> {
    let instead = match provider.name.as_str() {
        "oidc" => return Ok(()),
        "gcp" => "was removed from Kubernetes clients: use the exec plugin gke-gcloud-auth-plugin",
        "azure" => "was removed from Kubernetes clients: use the exec plugin kubelogin",
        _ => "is not supported: use oidc or an exec plugin",
    };
    Err(AuthError::Misconfigured(format!("the auth-provider `{}` {instead}", provider.name)))
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_tuple("Credentials");
        match &self.inner.method {
            AuthMethod::Anonymous => debug.field(&"none"),
            AuthMethod::Fixed(_) => debug.field(&"[REDACTED]"),
            AuthMethod::TokenFile(renewing) => debug.field(renewing),
            AuthMethod::Oidc(renewing) => debug.field(renewing),
            AuthMethod::Plugin(renewing) => debug.field(renewing),
        };
        debug.finish()
    }
}

impl fmt::Debug for AuthOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthOptions")
            .field("http", &self.http.is_some())
            .field("tokens", &self.tokens.is_some())
            .field("plugin_time_limit", &self.plugin_time_limit)
            .field("stdin_unavailable", &self.stdin_unavailable)
            .finish()
    }
}
