//! The credentials of one client: which way was chosen, and what a request gets.

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

/// The credentials of a client. Clones share one state: one token cache, one plugin process at a time. Others with the same
/// `exec` section, or the same login at an `oidc` provider, share that part of it.
#[derive(Clone)]
pub struct Credentials {
    inner: Arc<Inner>,
}

struct Inner {
    way: Way,
    identity: watch::Sender<Option<Identity>>,
}

/// How we say who we are, by header. At most one, by rule KC-8.
enum Way {
    Anonymous,
    Fixed(HeaderValue),
    TokenFile(Renewing<TokenFile>),
    Oidc(Arc<Renewing<Oidc>>),
    Plugin(Arc<Renewing<Plugin>>),
}

/// What the program around the client adds to its settings.
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct AuthOptions {
    /// How the `oidc` provider reaches its issuer. Without it, an expired id-token is an error.
    pub http: Option<Arc<dyn HttpFetch>>,
    /// Where the `oidc` provider keeps refreshed tokens. Without it, they are written back to the kubeconfig that the
    /// provider was read from, where it was read from one.
    pub tokens: Option<Arc<dyn TokenStore>>,
    /// The longest a credential plugin may run where it cannot ask questions. 60 s unless given.
    pub plugin_time_limit: Option<Duration>,
    /// The program reads standard input itself, so that no plugin may.
    pub stdin_unavailable: bool,
    /// `http` is the client's own, not the program's.
    pub(crate) is_default_http: bool,
}

/// Which credentials a request carried; hand it back if the server answers 401.
#[derive(Clone, Debug)]
#[must_use]
pub struct Ticket {
    /// None if the request carries credentials that are not ours to renew, or none.
    used: Option<Held>,
}

impl Credentials {
    /// Chooses the way by rule KC-8: token (and token file), basic, `oidc` provider, plugin; or none.
    ///
    /// Nothing is read, run or sent yet. Refuses settings that contradict each other, name a provider we do not know,
    /// or would send credentials in clear text (rule KC-7).
    pub fn new(config: &Config, http: Option<Arc<dyn HttpFetch>>) -> Result<Self, AuthError> {
        Self::with_options(config, AuthOptions { http, ..AuthOptions::default() })
    }

    /// Like [`Credentials::new`], with everything a program can add.
    pub fn with_options(config: &Config, options: AuthOptions) -> Result<Self, AuthError> {
        let way = choose(config, options)?;
        if !matches!(way, Way::Anonymous) {
            plaintext::check(config)?;
        }
        let identity = match &way {
            Way::Plugin(renewing) => renewing.source().identity().clone(),
            _ => watch::Sender::new(None),
        };
        Ok(Self { inner: Arc::new(Inner { way, identity }) })
    }

    /// Adds `Authorization`, unless the request carries one already. May first read a file, run a plugin or refresh a
    /// token; while one caller does, the others wait only if there is nothing they could use meanwhile.
    ///
    /// Dropping the future leaves a plugin or refresh running for the next caller; dropping the last clone ends it.
    pub async fn authorize(&self, headers: &mut HeaderMap) -> Result<Ticket, AuthError> {
        if headers.contains_key(AUTHORIZATION) {
            return Ok(Ticket { used: None });
        }
        let held = match &self.inner.way {
            Way::Anonymous => return Ok(Ticket { used: None }),
            Way::Fixed(header) => {
                headers.insert(AUTHORIZATION, header.clone());
                return Ok(Ticket { used: None });
            }
            Way::TokenFile(renewing) => renewing.get().await?,
            Way::Oidc(renewing) => renewing.get().await?,
            Way::Plugin(renewing) => {
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

    /// The server answered 401 to the request that carried this ticket: forgets what it used, unless newer credentials
    /// are here already. The next [`Credentials::authorize`] renews them.
    pub fn rejected(&self, ticket: Ticket) {
        let Some(held) = &ticket.used else { return };
        match &self.inner.way {
            Way::Anonymous | Way::Fixed(_) => {}
            Way::TokenFile(renewing) => renewing.reject(held),
            Way::Oidc(renewing) => renewing.reject(held),
            Way::Plugin(renewing) => renewing.reject(held),
        }
    }

    /// The client certificate a plugin handed out, as it changes; none as long as there is none.
    ///
    /// It changes before the [`Credentials::authorize`] returns that brought it, so a transport that looks at it for
    /// each request never sends one over a connection made with the old certificate.
    pub fn identity(&self) -> watch::Receiver<Option<Identity>> {
        self.inner.identity.subscribe()
    }

    /// Whether a 401 may be answered with newer credentials.
    pub(super) fn renewable(&self) -> bool {
        !matches!(self.inner.way, Way::Anonymous | Way::Fixed(_))
    }
}

impl Ticket {
    /// Whether this carries credentials of ours that can be renewed.
    pub(super) fn renewable(&self) -> bool {
        self.used.is_some()
    }

    /// Whether the server would see a difference to an earlier one.
    pub(super) fn differs_from(&self, earlier: &Self) -> bool {
        match (&self.used, &earlier.used) {
            (Some(now), Some(then)) => now.differs_from(then),
            _ => false,
        }
    }
}

fn choose(config: &Config, options: AuthOptions) -> Result<Way, AuthError> {
    let wrong = |what: &str| AuthError::Misconfigured(what.to_owned());
    let AuthSettings { token, token_file, basic: user, provider, exec } = &config.auth;
    if (token.is_some() || token_file.is_some()) && user.is_some() {
        return Err(wrong("the user has both a token and a password: remove one"));
    }
    if provider.is_some() && exec.is_some() {
        return Err(wrong("the user has both an auth-provider and an exec section: remove one"));
    }
    let fixed = token
        .as_ref()
        .map(|token| {
            bearer(token).ok_or_else(|| wrong("the token has characters that a header cannot carry"))
        })
        .transpose()?;
    if let Some(path) = token_file {
        return Ok(Way::TokenFile(TokenFile::follow(path.clone(), fixed)));
    }
    if let Some(header) = fixed {
        return Ok(Way::Fixed(header));
    }
    if let Some(user) = user {
        return basic(user).map(Way::Fixed).ok_or_else(|| wrong("a user name cannot contain a colon"));
    }
    if let Some(provider) = provider {
        known(provider)?;
        let allow_plaintext = config.allow_plaintext_credentials;
        let write_back = || KubeconfigTokens::of(provider).map(|it| Arc::new(it) as Arc<dyn TokenStore>);
        let store = options.tokens.or_else(write_back);
        let oidc = Oidc::follow(provider, allow_plaintext, options.http, options.is_default_http, store)?;
        return Ok(Way::Oidc(oidc));
    }
    match exec {
        // Somebody who gives a certificate means to use it (rule AU-3).
        Some(exec) if config.tls.identity.is_none() => {
            let plugin = PluginOptions {
                time_limit: options.plugin_time_limit,
                stdin_unavailable: options.stdin_unavailable,
            };
            Ok(Way::Plugin(Plugin::follow(exec, &config.plugin_policy, plugin)?))
        }
        _ => Ok(Way::Anonymous),
    }
}

/// Refuses every provider but `oidc`, and says what to use instead (rule AU-4).
fn known(provider: &AuthProvider) -> Result<(), AuthError> {
    let instead = match provider.name.as_str() {
        "oidc" => return Ok(()),
        "gcp" => "was removed from Kubernetes clients: use the exec plugin gke-gcloud-auth-plugin",
        "azure" => "was removed from Kubernetes clients: use the exec plugin kubelogin",
        _ => "is not known: only oidc is, everything else is an exec plugin",
    };
    Err(AuthError::Misconfigured(format!("the auth-provider `{}` {instead}", provider.name)))
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut debug = f.debug_tuple("Credentials");
        match &self.inner.way {
            Way::Anonymous => debug.field(&"none"),
            Way::Fixed(_) => debug.field(&"[REDACTED]"),
            Way::TokenFile(renewing) => debug.field(renewing),
            Way::Oidc(renewing) => debug.field(renewing),
            Way::Plugin(renewing) => debug.field(renewing),
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
