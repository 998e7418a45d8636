//! The handler of requests.

use bytes::{Buf, Bytes};
use http::{Request, Response};
use http_body_util::combinators::UnsyncBoxBody;

use crate::auth::PeerIdentity;
use crate::http::{Cut, ResponseBody, Service};

/// Any error of a lower layer.
pub(crate) type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request, as it arrives.
pub(crate) type RequestBody = UnsyncBoxBody<Bytes, BoxError>;

/// Answers requests. The future is dropped when the client disconnects or the server stops.
pub(crate) trait Handler: Send + Sync + 'static {
    /// The body of a response. An error in the middle of it cuts the connection; over HTTP/2, the
    /// stream.
    type Body: http_body::Body<Data: Buf + Send, Error: Into<BoxError>> + Send + 'static;

    /// Answers one request. `peer` is the identity in the client certificate of the connection, if
    /// it has one.
    ///
    /// # Errors
    ///
    /// [`Cut`] ends the connection without a response; over HTTP/2 it resets the stream.
    fn respond(
        &self,
        request: Request<RequestBody>,
        peer: Option<&PeerIdentity>,
    ) -> impl Future<Output = Result<Response<Self::Body>, Cut>> + Send;
}

impl Handler for Service {
    type Body = ResponseBody;

    async fn respond(
        &self,
        request: Request<RequestBody>,
        peer: Option<&PeerIdentity>,
    ) -> Result<Response<ResponseBody>, Cut> {
        Service::respond(self, request, peer).await
    }
}
