//! The bodies that travel through the client: whole ones out, streamed ones in.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// What can go wrong below the client: whatever a transport or a layer reports.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request: held whole, so that it can be sent again.
pub type RequestBody = Full<Bytes>;

/// The body of a response: arrives chunk by chunk. Dropping it ends the response.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// Boxes any body of a transport.
pub fn boxed<B>(body: B) -> ResponseBody
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}
