//! The body types of the client: whole request bodies, streamed response bodies.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// An error of a transport or a layer.
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request, in memory so that it can be sent again.
pub type RequestBody = Full<Bytes>;

/// The body of a response, streamed in chunks. Dropping it cancels the response.
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// Boxes a transport's body.
pub fn boxed<B>(body: B) -> ResponseBody
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}
