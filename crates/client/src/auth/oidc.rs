//! The legacy `auth-provider` named `oidc`: an id-token, renewed with a refresh-token (rule AU-4).
//!
//! Reads the options of the kubeconfig, takes the token endpoint from the issuer's discovery
//! document, and exchanges the refresh-token for the next id-token. It uses an [`HttpFetch`] and
//! never verifies a signature: the API server does. The option `extra-scopes` is accepted and has
//! no effect, as in client-go: a refresh keeps the scopes of the login.

use parking_lot::{Mutex as StdMutex, MutexGuard};
use std::collections::VecDeque;
use std::path::PathBuf;
use std::sync::{Arc, Weak};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use futures_core::future::BoxFuture;
use http::{Request, StatusCode, header};
use http_body_util::{BodyExt, Collected, Full, Limited};
use jiff::SignedDuration;
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use sha2::{Digest, Sha256};
use tokio::sync::Mutex;
use url::Url;
use url::form_urlencoded::{Serializer, byte_serialize};

use super::error::{AuthError, OidcError};
use super::fetch::{HttpFetch, RefreshedTokens, TokenStore};
use super::issued::{Issued, Lifetime};
use super::jwt::{self, Expiry};
use super::plaintext::{address, may_carry_credentials};
use super::renew::{Renewing, Source};
use super::token::bearer;
use crate::body::{BoxError, RequestBody};
use crate::config::{AuthProvider, Pem};

/// The time before its expiry from which an id-token counts as expired, because clocks differ.
/// `expiryDelta` in client-go v0.36.4 `plugin/pkg/client/auth/oidc/oidc.go`.
const SKEW: SignedDuration = SignedDuration::from_secs(10);

/// The time limit of a refresh, including discovery.
const REFRESH_TIMEOUT: Duration = Duration::from_secs(30);

/// The maximum size of a response.
const RESPONSE_LIMIT: usize = 1 << 20;

/// The `oidc` provider of one user.
pub(super) struct Oidc {
    provider_state: Arc<ProviderState>,
}

/// The state of a refresh, which runs in its own task; see [`Source::renew`] below.
struct ProviderState {
    issuer: Url,
    client_id: String,
    client_secret: Option<SecretString>,
    roots: Option<Pem>,
    allow_plaintext: bool,
    http: Option<Arc<dyn HttpFetch>>,
    store: Option<Arc<dyn TokenStore>>,
    /// Locked for a whole refresh: two refreshes with the same refresh-token would look like theft
    /// to the provider.
    refresh_token: Mutex<Option<SecretString>>,
    lineage: StdMutex<Lineage>,
}

/// The refresh-tokens of one login.
#[derive(Default)]
struct Lineage {
    /// Digests, oldest first; the last is the current one.
    digests: VecDeque<[u8; 32]>,
    /// The digest of the token that is in the store, as far as known. It is never forgotten: while
    /// tokens cannot be written back, it is older than any number of refreshes, and must neither be
    /// taken for a newer one nor start a second provider for this login.
    stored: Option<[u8; 32]>,
}

/// The number of refresh-tokens that are remembered: a client made from settings that were read
/// some refreshes ago still finds the provider that used its token.
const LINEAGE: usize = 64;

/// The providers of this process. A refresh-token can be used once, so clients of the same login
/// share one provider; client-go shares them by cluster, issuer and client-id (`cacheKey` in
/// v0.36.4 `plugin/pkg/client/auth/oidc/oidc.go`).
static RUNNING: StdMutex<Vec<ActiveProvider>> = StdMutex::new(Vec::new());

struct ActiveProvider {
    provider_state: Arc<ProviderState>,
    renewing: Weak<Renewing<Oidc>>,
    /// True for the default HTTP client. Clients with their own HTTP client share a provider only
    /// if it is the same one.
    is_default_http: bool,
}

fn digest(token: &SecretString) -> [u8; 32] {
    Sha256::digest(token.expose_secret().as_bytes()).into()
}

#[derive(Deserialize)]
struct Discovery {
    token_endpoint: String,
    #[serde(default)]
    token_endpoint_auth_methods_supported: Vec<String>,
}

#[derive(Deserialize)]
struct Grant {
    id_token: Option<SecretText>,
    refresh_token: Option<SecretText>,
}

/// A string that is zeroed on drop.
#[derive(Deserialize)]
#[serde(from = "String")]
struct SecretText(SecretString);

impl From<String> for SecretText {
    fn from(text: String) -> Self {
        Self(SecretString::from(text))
    }
}

/// The place of the client secret in a request to the token endpoint.
#[derive(Clone, Copy)]
enum SecretIn {
    Header,
    Body,
}

impl Oidc {
    /// Validates the options and starts with their id-token, if it has not expired.
    pub(super) fn follow(
        provider: &AuthProvider,
        allow_plaintext: bool,
        http: Option<Arc<dyn HttpFetch>>,
        is_default_http: bool,
        store: Option<Arc<dyn TokenStore>>,
    ) -> Result<Arc<Renewing<Self>>, AuthError> {
        let option =
            |name: &str| provider.config.get(name).map(String::as_str).filter(|value| !value.is_empty());
        let must = |name| option(name).ok_or_else(|| misconfigured(format!("needs the option {name}")));

        let issuer = Url::parse(must("idp-issuer-url")?)
            .map_err(|_| misconfigured("has an idp-issuer-url that is not an address"))?;
        if !allow_plaintext && !may_carry_credentials(&issuer) {
            return Err(AuthError::Plaintext { server: address(&issuer) });
        }
        let refresh_token = option("refresh-token").map(SecretString::from);
        let first = option("id-token").and_then(|token| issued(&SecretString::from(token)));
        if first.is_none() && refresh_token.is_none() {
            return Err(misconfigured("has neither a usable id-token nor a refresh-token: log in again"));
        }
        if option("extra-scopes").is_some() {
            tracing::debug!("the option extra-scopes of the oidc provider has no effect on a refresh");
        }
        let client_id = must("client-id")?;
        let mut running = RUNNING.lock();
        running.retain(|it| it.renewing.strong_count() > 0);
        let found = refresh_token.as_ref().and_then(|token| {
            let same_http_client = |it: &&ActiveProvider| match (&it.provider_state.http, &http) {
                _ if it.is_default_http && is_default_http => true,
                (Some(one), Some(other)) => Arc::ptr_eq(one, other),
                _ => false,
            };
            let mut logins = running.iter().filter(same_http_client);
            logins.find(|it| it.provider_state.descends_from(&issuer, client_id, token))?.renewing.upgrade()
        });
        if let Some(renewing) = found {
            return Ok(renewing);
        }
        let provider_state = ProviderState {
            issuer,
            client_id: client_id.to_owned(),
            client_secret: option("client-secret").map(SecretString::from),
            roots: roots(option("idp-certificate-authority-data"), option("idp-certificate-authority"))?,
            allow_plaintext,
            http,
            store,
            lineage: StdMutex::new(refresh_token.as_ref().map(Lineage::new).unwrap_or_default()),
            refresh_token: Mutex::new(refresh_token),
        };
        let provider_state = Arc::new(provider_state);
        let renewing = Arc::new(Renewing::new(Self { provider_state: Arc::clone(&provider_state) }, first));
        running.push(ActiveProvider { provider_state, renewing: Arc::downgrade(&renewing), is_default_http });
        Ok(renewing)
    }
}

impl Source for Oidc {
    const NAME: &'static str = "oidc provider";

    /// Without a refresh-token there is nothing better, and one 401 must not end a session.
    const KEEPS_REJECTED: bool = true;

    /// Refreshes in a separate task, which ends after [`REFRESH_TIMEOUT`] at the latest: a caller
    /// that is dropped midway must not lose the new refresh-token when the old one is already
    /// invalid.
    async fn renew(&self) -> Result<Issued, AuthError> {
        let provider_state = self.provider_state.clone();
        match tokio::spawn(async move { provider_state.refresh().await }).await {
            Ok(result) => Ok(result?),
            Err(join) => match join.try_into_panic() {
                Ok(panic) => std::panic::resume_unwind(panic),
                Err(cancelled) => {
                    Err(self.provider_state.unreachable(&self.provider_state.issuer, cancelled.into()).into())
                }
            },
        }
    }
}

impl Lineage {
    /// Starts with the token that was read from the settings.
    fn new(token: &SecretString) -> Self {
        let digest = digest(token);
        Self { digests: VecDeque::from([digest]), stored: Some(digest) }
    }

    fn contains(&self, token: &SecretString) -> bool {
        let digest = digest(token);
        self.stored == Some(digest) || self.digests.contains(&digest)
    }

    /// Adds the current token.
    fn push(&mut self, token: &SecretString) {
        let digest = digest(token);
        if self.digests.back() != Some(&digest) {
            self.digests.push_back(digest);
        }
        if self.digests.len() > LINEAGE {
            self.digests.pop_front();
        }
    }
}

impl ProviderState {
    fn lineage(&self) -> MutexGuard<'_, Lineage> {
        self.lineage.lock()
    }

    /// Returns true if the token is this login's current or an earlier refresh-token.
    fn descends_from(&self, issuer: &Url, client_id: &str, token: &SecretString) -> bool {
        self.issuer == *issuer && self.client_id == client_id && self.lineage().contains(token)
    }

    async fn refresh(&self) -> Result<Issued, OidcError> {
        let mut refresh_token = self.refresh_token.lock().await;
        let mut old = refresh_token.clone().ok_or(OidcError::NoRefreshToken)?;
        if let Some(kept) = self.refreshed_elsewhere().await {
            old = kept.refresh_token;
            *refresh_token = Some(old.clone());
            self.lineage().push(&old);
            if let Some(issued) = issued(&kept.id_token).filter(Issued::is_fresh) {
                return Ok(issued);
            }
        }
        let grant = tokio::time::timeout(REFRESH_TIMEOUT, self.exchange(&old))
            .await
            .map_err(|elapsed| self.unreachable(&self.issuer, elapsed.into()))??;

        // Stored before anything else can fail: the old one may be invalid from here on.
        let next = grant.refresh_token.map_or(old, |SecretText(next)| next);
        *refresh_token = Some(next.clone());
        self.lineage().push(&next);
        let Some(SecretText(id_token)) = grant.id_token else {
            return Err(OidcError::Malformed("there is no id_token; log in with the scope openid"));
        };
        let issued = issued(&id_token).ok_or(OidcError::Malformed("the id_token is not a JWT"))?;
        if let Some(store) = &self.store {
            let stored = digest(&next);
            match store.store(RefreshedTokens { id_token, refresh_token: next }).await {
                Ok(()) => self.lineage().stored = Some(stored),
                Err(error) => {
                    let error: &dyn std::error::Error = &*error;
                    tracing::warn!(error, "cannot store the refreshed tokens");
                }
            }
        }
        Ok(issued)
    }

    /// Returns the stored tokens, if another program has refreshed the login since.
    async fn refreshed_elsewhere(&self) -> Option<RefreshedTokens> {
        let kept = self.store.as_ref()?.load().await?;
        let mut lineage = self.lineage();
        // An earlier token of this login is in the store if a later one could not be stored. It is
        // used up, and the provider may take its second use for theft and end the login.
        let is_known = lineage.contains(&kept.refresh_token);
        lineage.stored = Some(digest(&kept.refresh_token));
        (!is_known).then_some(kept)
    }

    async fn exchange(&self, refresh_token: &SecretString) -> Result<Grant, OidcError> {
        let document =
            format!("{}/.well-known/openid-configuration", self.issuer.as_str().trim_end_matches('/'));
        let document =
            Url::parse(&document).map_err(|_| OidcError::Malformed("the issuer has no discovery address"))?;
        let body = self.request(&document, Request::get(document.as_str()).body(Full::default())).await?;
        let discovery: Discovery = serde_json::from_slice(&body)
            .map_err(|_| OidcError::Malformed("the discovery document names no token_endpoint"))?;
        let endpoint = Url::parse(&discovery.token_endpoint)
            .map_err(|_| OidcError::Malformed("the token_endpoint is not an address"))?;
        if !self.allow_plaintext && !may_carry_credentials(&endpoint) {
            return Err(OidcError::Malformed("the token_endpoint is not an https address"));
        }

        let methods = &discovery.token_endpoint_auth_methods_supported;
        let header_works = methods.is_empty() || methods.iter().any(|method| method == "client_secret_basic");
        let first = if header_works { SecretIn::Header } else { SecretIn::Body };
        match (self.grant(&endpoint, refresh_token, first).await, first) {
            // Some providers support only one method and report that with different errors; the
            // refresh-token is not used up.
            (Err(OidcError::Refused { status: 400 | 401, code }), SecretIn::Header)
                if self.client_secret.is_some() && (code.is_empty() || code == "invalid_client") =>
            {
                self.grant(&endpoint, refresh_token, SecretIn::Body).await
            }
            (result, _) => result,
        }
    }

    async fn grant(
        &self,
        endpoint: &Url,
        refresh_token: &SecretString,
        secret_in: SecretIn,
    ) -> Result<Grant, OidcError> {
        let body = self.request(endpoint, self.grant_request(endpoint, refresh_token, secret_in)).await?;
        serde_json::from_slice(&body).map_err(|_| OidcError::Malformed("the token response is not JSON"))
    }

    fn grant_request(
        &self,
        endpoint: &Url,
        refresh_token: &SecretString,
        secret_in: SecretIn,
    ) -> http::Result<Request<RequestBody>> {
        let mut form = Serializer::new(String::new());
        form.append_pair("grant_type", "refresh_token");
        form.append_pair("refresh_token", refresh_token.expose_secret());
        let mut request = Request::post(endpoint.as_str())
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded");
        match (&self.client_secret, secret_in) {
            (Some(secret), SecretIn::Header) => {
                let escape = |text: &str| byte_serialize(text.as_bytes()).collect::<String>();
                let pair = format!("{}:{}", escape(&self.client_id), escape(secret.expose_secret()));
                request = request.header(header::AUTHORIZATION, format!("Basic {}", STANDARD.encode(pair)));
            }
            (secret, _) => {
                form.append_pair("client_id", &self.client_id);
                if let Some(secret) = secret {
                    form.append_pair("client_secret", secret.expose_secret());
                }
            }
        }
        request.body(Full::from(form.finish()))
    }

    /// Sends one request and reads its whole response, if it is a success.
    async fn request(
        &self,
        url: &Url,
        request: http::Result<Request<RequestBody>>,
    ) -> Result<Bytes, OidcError> {
        let Some(http) = &self.http else {
            return Err(OidcError::NoHttp { issuer: address(&self.issuer) });
        };
        let mut request = request
            .map_err(|_| OidcError::Malformed("an address has characters that are not valid in HTTP"))?;
        request.headers_mut().insert(header::ACCEPT, header::HeaderValue::from_static("application/json"));
        if let Some(secret) = request.headers_mut().get_mut(header::AUTHORIZATION) {
            secret.set_sensitive(true);
        }
        let response =
            http.fetch(self.roots.clone(), request).await.map_err(|source| self.unreachable(url, source))?;
        let status = response.status();
        // Boxed, because the compiler cannot prove that the future of `Limited` is `Send`.
        let reading: BoxFuture<'static, Result<Collected<Bytes>, BoxError>> =
            Box::pin(Limited::new(response.into_body(), RESPONSE_LIMIT).collect());
        let body = reading.await.map_err(|source| self.unreachable(url, source))?.to_bytes();
        if status == StatusCode::OK {
            return Ok(body);
        }
        Err(OidcError::Refused { status: status.as_u16(), code: error_code(&body) })
    }

    fn unreachable(&self, url: &Url, source: BoxError) -> OidcError {
        OidcError::Unreachable { url: address(url), source: source.into() }
    }
}

/// Returns the OAuth error code of a response: only a short word, so that nothing else is ever
/// quoted.
fn error_code(body: &[u8]) -> String {
    #[derive(Deserialize)]
    struct ErrorResponse {
        error: String,
    }
    serde_json::from_slice(body)
        .ok()
        .map(|ErrorResponse { error }| error)
        .filter(|code| code.len() <= 40 && code.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'_'))
        .unwrap_or_default()
}

/// Returns the credential of an id-token; `None` if it is not a JWT.
fn issued(id_token: &SecretString) -> Option<Issued> {
    let lifetime = match jwt::expiry(id_token.expose_secret())? {
        Expiry::At(expires) => {
            Lifetime::Until { renew_from: expires.checked_sub(SKEW).unwrap_or(expires), expires }
        }
        Expiry::Unstated => Lifetime::UntilRejected,
    };
    Some(Issued { header: Some(bearer(id_token)?), identity: None, lifetime })
}

/// Returns the provider's own roots. Inline data takes precedence over the file, as in client-go.
fn roots(data: Option<&str>, file: Option<&str>) -> Result<Option<Pem>, AuthError> {
    let Some(data) = data else { return Ok(file.map(|path| Pem::File(PathBuf::from(path)))) };
    let text = STANDARD.decode(data).ok().and_then(|bytes| String::from_utf8(bytes).ok());
    let text =
        text.ok_or_else(|| misconfigured("has an idp-certificate-authority-data that is not base64 of PEM"))?;
    Ok(Some(Pem::Data(SecretString::from(text))))
}

fn misconfigured(what: impl std::fmt::Display) -> AuthError {
    AuthError::Misconfigured(format!("the auth-provider oidc {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_short_word_counts_as_an_error_code() {
        assert_eq!(
            error_code(br#"{"error":"invalid_grant","error_description":"token abc"}"#),
            "invalid_grant"
        );
        assert_eq!(error_code(br#"{"error":"The token eyJhbGciOi is bad"}"#), "");
        assert_eq!(error_code(b"<html>"), "");
    }

    #[test]
    fn inline_roots_win_over_a_file() {
        let Ok(Some(Pem::Data(text))) = roots(Some("Q0E="), Some("/ca.crt")) else { panic!("expected data") };
        assert_eq!(text.expose_secret(), "CA");
        assert!(matches!(roots(None, Some("/ca.crt")), Ok(Some(Pem::File(_)))));
        assert!(matches!(roots(None, None), Ok(None)));
        assert!(matches!(roots(Some("not base64!"), None), Err(AuthError::Misconfigured(_))));
    }
}
