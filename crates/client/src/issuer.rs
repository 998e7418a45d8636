//! The HTTP client that the `oidc` provider uses for its issuer: a separate transport, without the
//! cluster's credentials or roots.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use http::{Request, Response};
use tokio::sync::watch;
use tower::ServiceExt;
use url::Url;

use crate::auth::HttpFetch;
use crate::body::{BoxError, RequestBody, ResponseBody};
use crate::config::{Config, Pem};
use crate::transport::{Transport, TransportOptions};

/// Returns a function that sends each request over a new connection: tokens are refreshed about
/// once an hour.
pub(crate) fn fetch(options: TransportOptions) -> Arc<dyn HttpFetch> {
    let send = move |roots: Option<Pem>, request: Request<RequestBody>| -> BoxFuture<'static, Result<_, _>> {
        Box::pin(send(options.clone(), roots, request))
    };
    Arc::new(send)
}

async fn send(
    options: TransportOptions,
    roots: Option<Pem>,
    request: Request<RequestBody>,
) -> Result<Response<ResponseBody>, BoxError> {
    let mut config = Config::new(Url::parse(&request.uri().to_string())?);
    config.tls.ca = roots;
    let no_certificate = watch::channel(None).1;
    let transport = Transport::with_options(&config, no_certificate, options)?;
    Ok(transport.oneshot(request).await?)
}
