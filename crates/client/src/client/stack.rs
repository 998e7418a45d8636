//! The stack of layers over a transport: one boxed service, whatever it consists of.

use tower::util::BoxCloneSyncService;
use tower::{Service, ServiceExt};

use crate::body::{BoxError, RequestBody, ResponseBody};

/// The stack of layers that a client sends its requests through.
///
/// ```
/// use dogwatch_client::HttpService;
///
/// /// Wraps every service in a layer of the program.
/// fn instrumented(inner: HttpService) -> HttpService {
///     inner
/// }
/// # let _ = instrumented;
/// ```
pub type HttpService =
    BoxCloneSyncService<http::Request<RequestBody>, http::Response<ResponseBody>, BoxError>;

/// A service that carries HTTP requests: a client is built over one, and a layer produces one.
///
/// Implemented for every tower service that meets the bounds.
///
/// ```
/// use dogwatch_client::{BoxError, Client, HttpStack, RequestBody, ResponseBody, boxed};
/// use http::{Request, Response};
///
/// /// A service that a test runs against, instead of a server.
/// fn healthy() -> impl HttpStack {
///     tower::service_fn(|_: Request<RequestBody>| async {
///         Ok::<Response<ResponseBody>, BoxError>(Response::new(boxed(RequestBody::from("ok"))))
///     })
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let client = Client::from_service("http://localhost".parse()?, "default", healthy());
/// assert_eq!(client.get().path(&["healthz"]).bytes().await?, "ok");
/// # Ok(())
/// # }
/// ```
pub trait HttpStack:
    Service<
        http::Request<RequestBody>,
        Response = http::Response<ResponseBody>,
        Error: Into<BoxError>,
        Future: Send + 'static,
    > + Clone
    + Send
    + Sync
    + 'static
{
}

impl<S> HttpStack for S where
    S: Service<
            http::Request<RequestBody>,
            Response = http::Response<ResponseBody>,
            Error: Into<BoxError>,
            Future: Send + 'static,
        > + Clone
        + Send
        + Sync
        + 'static
{
}

/// Boxes a service.
pub(super) fn boxed_service(service: impl HttpStack) -> HttpService {
    BoxCloneSyncService::new(service.map_err(Into::into))
}
