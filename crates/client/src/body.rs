//! The body types of the client: whole request bodies, streamed response bodies.

use bytes::Bytes;
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full};

/// An error of a transport or a layer.
///
/// ```
/// use dogwatch_client::BoxError;
///
/// let error: BoxError = "the recorder is full".into();
/// assert_eq!(error.to_string(), "the recorder is full");
/// ```
pub type BoxError = Box<dyn std::error::Error + Send + Sync>;

/// The body of a request, in memory so that it can be sent again.
///
/// ```
/// use dogwatch_client::RequestBody;
///
/// let body = RequestBody::from(r#"{"metadata": {"name": "shop"}}"#);
/// let request = http::Request::post("/api/v1/namespaces").body(body)?;
/// # assert_eq!(request.method(), "POST");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub type RequestBody = Full<Bytes>;

/// The body of a response, streamed in chunks. Dropping it cancels the response.
///
/// ```
/// use dogwatch_client::{RequestBody, ResponseBody, boxed};
/// use http_body_util::BodyExt;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let body: ResponseBody = boxed(RequestBody::from("ok"));
/// assert_eq!(body.collect().await.expect("it is in memory").to_bytes(), "ok");
/// # Ok(())
/// # }
/// ```
pub type ResponseBody = UnsyncBoxBody<Bytes, BoxError>;

/// Boxes a transport's body.
///
/// ```
/// use dogwatch_client::{RequestBody, boxed};
///
/// let response = http::Response::new(boxed(RequestBody::from("ok"))); // for a test double
/// assert!(response.status().is_success());
/// ```
pub fn boxed<B>(body: B) -> ResponseBody
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    body.map_err(Into::into).boxed_unsync()
}
