//! The program's hooks for the `oidc` provider: an HTTP client, and a store for tokens.

use std::fmt;

use futures_core::future::BoxFuture;
use http::{Request, Response};
use secrecy::SecretString;

use crate::body::{BoxError, RequestBody, ResponseBody};
use crate::config::Pem;

/// An HTTP client for an identity provider, outside the cluster and without its credentials.
///
/// Implemented for closures of the same signature.
///
/// ```
/// use std::sync::Arc;
///
/// use dogwatch_client::auth::{AuthOptions, HttpFetch};
/// use dogwatch_client::config::Pem;
/// use dogwatch_client::{BoxError, RequestBody, ResponseBody};
/// use futures_util::FutureExt;
/// use futures_util::future::BoxFuture;
///
/// type Answer = BoxFuture<'static, Result<http::Response<ResponseBody>, BoxError>>;
/// let offline = |_: Option<Pem>, request: http::Request<RequestBody>| -> Answer {
///     async move { Err(format!("{} is not allowed", request.uri()).into()) }.boxed()
/// };
/// let mut options = AuthOptions::default();
/// options.http = Some(Arc::new(offline) as Arc<dyn HttpFetch>);
/// ```
pub trait HttpFetch: Send + Sync + 'static {
    /// Sends one request to its absolute URI. `roots` are the only trusted roots; `None` means the
    /// system's. Redirects must not be followed: the request carries secrets for this address only.
    fn fetch(
        &self,
        roots: Option<Pem>,
        request: Request<RequestBody>,
    ) -> BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>;
}

impl<F> HttpFetch for F
where
    F: Fn(Option<Pem>, Request<RequestBody>) -> BoxFuture<'static, Result<Response<ResponseBody>, BoxError>>
        + Send
        + Sync
        + 'static,
{
    fn fetch(
        &self,
        roots: Option<Pem>,
        request: Request<RequestBody>,
    ) -> BoxFuture<'static, Result<Response<ResponseBody>, BoxError>> {
        self(roots, request)
    }
}

/// A store that keeps refreshed tokens for the next run of the program, for example in the
/// kubeconfig they came from.
///
/// ```
/// use std::sync::{Arc, Mutex};
///
/// use dogwatch_client::BoxError;
/// use dogwatch_client::auth::{RefreshedTokens, TokenStore};
/// use futures_util::FutureExt;
/// use futures_util::future::{BoxFuture, ready};
///
/// #[derive(Clone, Default)]
/// struct InMemory(Arc<Mutex<Option<RefreshedTokens>>>);
///
/// impl TokenStore for InMemory {
///     fn store(&self, tokens: RefreshedTokens) -> BoxFuture<'static, Result<(), BoxError>> {
///         *self.0.lock().expect("not poisoned") = Some(tokens);
///         ready(Ok(())).boxed()
///     }
///     fn load(&self) -> BoxFuture<'static, Option<RefreshedTokens>> {
///         ready(self.0.lock().expect("not poisoned").clone()).boxed()
///     }
/// }
/// # let _ = InMemory::default();
/// ```
pub trait TokenStore: Send + Sync + 'static {
    /// Stores the tokens of one refresh. Calls never overlap. An error is logged; the tokens stay
    /// in use in this process.
    fn store(&self, tokens: RefreshedTokens) -> BoxFuture<'static, Result<(), BoxError>>;

    /// Returns the stored tokens, if there are any. Called before each refresh: another program may
    /// have refreshed the same login since, and a refresh-token that is used twice looks like theft
    /// to the provider.
    ///
    /// Defaults to `None`; then the tokens of this process are used.
    fn load(&self) -> BoxFuture<'static, Option<RefreshedTokens>> {
        Box::pin(std::future::ready(None))
    }
}

/// The tokens after a refresh.
///
/// ```
/// use dogwatch_client::auth::RefreshedTokens;
/// use secrecy::ExposeSecret;
///
/// fn lines(tokens: &RefreshedTokens) -> String {
///     format!("{}\n{}", tokens.id_token.expose_secret(), tokens.refresh_token.expose_secret())
/// }
/// # let _ = lines;
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct RefreshedTokens {
    /// The new `id-token`.
    pub id_token: SecretString,
    /// The `refresh-token` to use next; many providers invalidate the old one.
    pub refresh_token: SecretString,
}

impl fmt::Debug for RefreshedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RefreshedTokens([REDACTED])")
    }
}
