//! The layer that adds credentials to requests, and renews them once after a 401.

use std::mem;
use std::task::{Context, Poll};

use futures_core::future::BoxFuture;
use http::{Request, Response, StatusCode};
use tower::ServiceExt;
use tower_layer::Layer;
use tower_service::Service;

use super::credentials::{Credentials, Ticket};
use crate::body::{BoxError, RequestBody, ResponseBody};

/// A layer that adds [`Credentials`] to every request.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::auth::{AuthLayer, Credentials};
///
/// let config = Config::new("https://10.0.0.1:6443".parse()?);
/// let layer = AuthLayer::new(Credentials::new(&config, None)?);
/// # let _ = layer;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Debug)]
pub struct AuthLayer {
    credentials: Credentials,
}

/// A service that adds credentials to its requests.
///
/// A request that already has an `Authorization` header is passed on unchanged. If any other is
/// answered with 401, the credentials are renewed, and if the renewal yields different ones, the
/// request is sent a second time, whatever its method: a server that answers 401 has not executed
/// it. The second response is final. If there are no newer credentials, or the renewal fails, the
/// caller gets the 401.
///
/// ```
/// use dogwatch_client::auth::{AuthLayer, Credentials};
/// use dogwatch_client::{BoxError, Config, RequestBody, ResponseBody, boxed};
/// use http::{Request, Response};
/// use tower::{Layer, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = tower::service_fn(|it: Request<RequestBody>| async move {
///     assert_eq!(it.headers()["authorization"], "Bearer secret");
///     Ok::<Response<ResponseBody>, BoxError>(Response::new(boxed(RequestBody::default())))
/// });
/// let mut config = Config::new("https://10.0.0.1:6443".parse()?);
/// config.auth.token = Some("secret".into());
/// let service = AuthLayer::new(Credentials::new(&config, None)?).layer(server);
/// let response = service.oneshot(Request::new(RequestBody::default())).await;
/// assert!(response.is_ok_and(|it| it.status().is_success()));
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug)]
pub struct AuthService<S> {
    inner: S,
    credentials: Credentials,
}

impl AuthLayer {
    /// Creates a layer with these credentials, which are shared with all their clones.
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
        // Call the instance that was polled ready; its clone need not be ready.
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

/// Returns true for a path whose responses come from a program behind the API server: its 401 says
/// nothing about these credentials, and a write must not be sent to it twice.
fn is_proxied(path: &str) -> bool {
    // `…/services/<name>/proxy/…`. An object, a namespace or a custom subresource may be called
    // `proxy` too.
    let segments: Vec<&str> = path.split('/').collect();
    segments.windows(3).any(|it| matches!(it, ["pods" | "services" | "nodes", _, "proxy"]))
}

/// Adds newer credentials to a request; `None` if there are none.
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
            tracing::warn!(error, "the server rejected the credentials and renewing them failed");
            None
        }
    }
}
