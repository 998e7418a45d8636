//! One request to a backend over HTTP/1.1, on a connection of its own.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::combinators::UnsyncBoxBody;
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use tokio_util::task::AbortOnDropHandle;

use super::stream::Stream;

/// The maximum size of the head of a response, and of the bytes that are read ahead of the client.
const MAX_HEAD: usize = 128 * 1024;

/// The body of a request to a backend.
pub(crate) type RequestBody = UnsyncBoxBody<Bytes, Box<dyn std::error::Error + Send + Sync>>;

/// A request to a backend. Its URI is a path with a query.
pub(crate) struct BackendRequest {
    pub(crate) request: Request<RequestBody>,
    /// The time until the head of the response.
    pub(crate) limit: Duration,
}

/// The reason why there is no response, as Go words it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Failure {
    /// There is no connection: no byte of the request was sent.
    Unconnected(String),
    /// The backend may have received the request.
    Unanswered(String),
}

/// The body of a response. Dropping it closes the connection.
pub(crate) struct ReplyBody {
    body: Incoming,
    /// The task that reads and writes. It ends with the connection, or when this is dropped.
    _driver: AbortOnDropHandle<()>,
}

impl Failure {
    /// Returns the reason.
    pub(crate) fn reason(&self) -> &str {
        match self {
            Self::Unconnected(reason) | Self::Unanswered(reason) => reason,
        }
    }
}

/// Sends a request over a connected stream and returns the response when its head has arrived.
///
/// # Errors
/// The reason why there is no response.
///
/// # Cancel safety
/// Dropping the future closes the connection.
pub(super) async fn send(
    stream: Box<dyn Stream>,
    request: BackendRequest,
) -> Result<Response<ReplyBody>, Failure> {
    let handshake = http1::Builder::new().max_buf_size(MAX_HEAD).handshake(TokioIo::new(stream));
    let (mut sender, connection) = handshake.await.map_err(|error| Failure::Unanswered(described(&error)))?;
    let driver = AbortOnDropHandle::new(tokio::spawn(async move {
        if let Err(error) = connection.with_upgrades().await {
            tracing::debug!(%error, "a connection to a backend ended early");
        }
    }));
    let answered = tokio::time::timeout(request.limit, sender.send_request(request.request)).await;
    match answered {
        Ok(Ok(response)) => Ok(response.map(|body| ReplyBody { body, _driver: driver })),
        Ok(Err(error)) => Err(Failure::Unanswered(described(&error))),
        Err(_) => Err(Failure::Unanswered("net/http: timeout awaiting response headers".to_owned())),
    }
}

fn described(error: &hyper::Error) -> String {
    if error.is_incomplete_message() || error.is_closed() {
        return "EOF".to_owned();
    }
    match std::error::Error::source(error) {
        Some(cause) => format!("{error}: {cause}"),
        None => error.to_string(),
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = hyper::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, hyper::Error>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
