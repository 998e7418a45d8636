//! What the `oidc` provider asks of the program around it: a way to send a request, and a place to keep tokens.

use std::fmt;

use futures_core::future::BoxFuture;
use http::{Request, Response};
use secrecy::SecretString;

use crate::body::{BoxError, RequestBody, ResponseBody};
use crate::config::Pem;

/// Sends requests to an identity provider, outside the cluster and without its credentials.
///
/// A closure of the same shape is one too.
pub trait HttpFetch: Send + Sync + 'static {
    /// Sends one request to the absolute address it carries. `roots` are the only roots to trust; without them, the
    /// system's. Redirects are not followed: the request carries secrets meant for this address.
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

/// Keeps refreshed tokens for the next run of the program, for example in the kubeconfig they came from.
pub trait TokenStore: Send + Sync + 'static {
    /// Called once after each refresh, never for two refreshes at a time. A failure is logged; the tokens stay in use
    /// in this process.
    fn store(&self, tokens: RefreshedTokens) -> BoxFuture<'static, Result<(), BoxError>>;

    /// Returns the tokens as they are kept now, where that is known. Called before each refresh: another program may have
    /// refreshed the same login since, and a refresh-token that is used a second time looks like theft to the provider.
    ///
    /// Defaults to none; then the tokens of this process are used.
    fn load(&self) -> BoxFuture<'static, Option<RefreshedTokens>> {
        Box::pin(std::future::ready(None))
    }
}

/// The tokens after a refresh.
#[derive(Clone)]
#[non_exhaustive]
pub struct RefreshedTokens {
    /// The new `id-token`.
    pub id_token: SecretString,
    /// The `refresh-token` to use next; many providers make the old one void.
    pub refresh_token: SecretString,
}

impl fmt::Debug for RefreshedTokens {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RefreshedTokens([REDACTED])")
    }
}
