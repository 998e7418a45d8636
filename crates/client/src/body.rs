//! The body types of the client: whole request bodies, streamed response bodies, and request bodies
//! that a proxy streams.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
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

/// The body of a request on its way to the server.
pub(crate) enum OutgoingBody {
    /// In memory: the request can be sent again.
    Whole(RequestBody),
    /// Streamed: the request is sent once.
    Streamed(ResponseBody),
}

impl OutgoingBody {
    /// Wraps a streamed body. One that is already at its end needs no stream.
    pub(crate) fn streamed(body: ResponseBody) -> Self {
        if body.is_end_stream() { Self::Whole(RequestBody::default()) } else { Self::Streamed(body) }
    }

    /// Returns a body of the same bytes, if they are in memory.
    pub(crate) fn shared(&self) -> Option<Self> {
        match self {
            Self::Whole(body) => Some(Self::Whole(body.clone())),
            Self::Streamed(_) => None,
        }
    }
}

impl Body for OutgoingBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        match self.get_mut() {
            Self::Whole(body) => Pin::new(body).poll_frame(context).map_err(|it| match it {}),
            Self::Streamed(body) => Pin::new(body).poll_frame(context),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Whole(body) => body.is_end_stream(),
            Self::Streamed(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Whole(body) => body.size_hint(),
            Self::Streamed(body) => body.size_hint(),
        }
    }
}
