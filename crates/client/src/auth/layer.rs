//! Puts credentials on requests, and answers a 401 with newer ones, once.

use std::mem;
use std::task::{Context, Poll};

use futures_core::future::BoxFuture;
use http::{Request, Response, StatusCode};
use tower::ServiceExt;
use tower_layer::Layer;
use tower_service::Service;

use super::credentials::{Credentials, Ticket};
use crate::body::{BoxError, RequestBody, ResponseBody};

/// Makes every request carry [`Credentials`].
#[derive(Clone, Debug)]
pub struct AuthLayer {
    credentials: Credentials,
}

/// A service whose requests carry credentials.
///
/// A request that has an `Authorization` header already is passed on as it is. To any other that is answered with 401
/// the credentials are renewed, and if the renewal brought something new, the request is sent a second time, whatever
/// its verb: a server that says 401 has not carried it out. The second answer is final. If there is nothing newer, or
/// the renewal fails, the caller gets the 401.
#[derive(Clone, Debug)]
pub struct AuthService<S> {
    inner: S,
    credentials: Credentials,
}

impl AuthLayer {
    /// Uses these credentials, shared with every other holder of a clone.
    pub fn new(credentials: Credentials) -> Self {
        Self { credentials }
    }
}

impl<S> Layer<S> for AuthLayer {
    type Service = AuthService<S>;

    fn layer(&self, inner: S) -> Self::Service {
        AuthService { inner, credentials: self.credentials.clone() }
    }
}

impl<S> Service<Request<RequestBody>> for AuthService<S>
where
    S: Service<Request<RequestBody>, Response = Response<ResponseBody>, Error = BoxError>
        + Clone
        + Send
        + 'static,
    S::Future: Send,
{
    type Response = Response<ResponseBody>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Self::Response, BoxError>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<RequestBody>) -> Self::Future {
        // The service that was made ready is the one to call; its clone need not be ready.
        let clone = self.inner.clone();
        let mut inner = mem::replace(&mut self.inner, clone);
        let credentials = self.credentials.clone();
        Box::pin(async move {
            let renewable = credentials.renewable() && !is_proxied(request.uri().path());
            let again = renewable.then(|| request.clone());
            let ticket = credentials.authorize(request.headers_mut()).await?;
            let response = inner.call(request).await?;
            match again {
                Some(again) if response.status() == StatusCode::UNAUTHORIZED && ticket.renewable() => {
                    match renew(&credentials, ticket, again).await {
                        Some(again) => inner.ready().await?.call(again).await,
                        None => Ok(response),
                    }
                }
                _ => Ok(response),
            }
        })
    }
}

/// Returns true for a path whose answers are those of a program behind the API server: its 401 says nothing about our
/// credentials, and a write must not go to it twice.
fn is_proxied(path: &str) -> bool {
    // `…/services/<name>/proxy/…`. Anything else may be called `proxy`: an object, a namespace, a custom subresource.
    let segments: Vec<&str> = path.split('/').collect();
    segments.windows(3).any(|it| matches!(it, ["pods" | "services" | "nodes", _, "proxy"]))
}

/// Puts newer credentials on a request; none if there are none.
async fn renew(
    credentials: &Credentials,
    ticket: Ticket,
    mut again: Request<RequestBody>,
) -> Option<Request<RequestBody>> {
    credentials.rejected(ticket.clone());
    match credentials.authorize(again.headers_mut()).await {
        Ok(newer) => newer.differs_from(&ticket).then_some(again),
        Err(error) => {
            let error: &dyn std::error::Error = &error;
            tracing::warn!(error, "the server rejected the credentials and they cannot be renewed");
            None
        }
    }
}
