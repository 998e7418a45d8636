//! Gzip: requested, and decompressed as it arrives (rule TR-6).
//!
//! Decoding is streaming and supports several members in a row: a server may compress each event of
//! a watch as its own member, and each must be yielded when its bytes have arrived, not at the end.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use async_compression::tokio::bufread::GzipDecoder;
use bytes::{Bytes, BytesMut};
use futures_core::Stream;
use http::header::{ACCEPT_ENCODING, CONTENT_ENCODING, CONTENT_LENGTH, HeaderValue};
use http::{Request, Response};
use http_body::{Body, Frame};
use tokio::io::AsyncBufRead;
use tokio_util::io::{StreamReader, poll_read_buf};
use tower_layer::Layer;
use tower_service::Service;

use super::error::{TransportError, TransportErrorKind};
use crate::body::{BoxError, ResponseBody, boxed};

/// The maximum number of decompressed bytes per frame; large enough that a list is not split into
/// tiny frames.
const FRAME: usize = 64 * 1024;

/// A layer that wraps a service in [`Gzip`].
///
/// ```
/// use dogwatch_client::transport::GzipLayer;
/// use dogwatch_client::{Client, Config};
///
/// let config = Config::new("http://localhost:8080".parse()?);
/// let client = Client::builder(config).layer(GzipLayer::new(true)).build()?;
/// # let _ = client;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug)]
pub struct GzipLayer {
    ask: bool,
}

impl GzipLayer {
    /// Creates the layer. With `ask`, `Accept-Encoding: gzip` is added to requests without that
    /// header. Gzip responses are decompressed in any case.
    pub fn new(ask: bool) -> Self {
        Self { ask }
    }
}

impl<S> Layer<S> for GzipLayer {
    type Service = Gzip<S>;

    fn layer(&self, inner: S) -> Gzip<S> {
        Gzip { inner, ask: self.ask }
    }
}

/// A service that requests gzip and decompresses gzip responses: `Content-Encoding` and
/// `Content-Length` are removed. Invalid gzip fails with [`TransportErrorKind::Other`], and a
/// truncated body with [`TransportErrorKind::Lost`].
///
/// ```
/// use dogwatch_client::transport::GzipLayer;
/// use dogwatch_client::{BoxError, RequestBody, boxed};
/// use http::{Request, Response};
/// use tower::{Layer, ServiceExt};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let server = tower::service_fn(|request: Request<()>| async move {
///     assert_eq!(request.headers()["accept-encoding"], "gzip");
///     Ok::<_, BoxError>(Response::new(boxed(RequestBody::from("not compressed"))))
/// });
/// let service = GzipLayer::new(true).layer(server);
/// assert!(service.oneshot(Request::new(())).await.is_ok());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Gzip<S> {
    inner: S,
    ask: bool,
}

impl<S, B> Service<Request<B>> for Gzip<S>
where
    S: Service<Request<B>, Response = Response<ResponseBody>>,
    S::Future: Send + 'static,
{
    type Response = Response<ResponseBody>;
    type Error = S::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Response<ResponseBody>, S::Error>> + Send>>;

    fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), S::Error>> {
        self.inner.poll_ready(cx)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        if self.ask {
            request.headers_mut().entry(ACCEPT_ENCODING).or_insert(HeaderValue::from_static("gzip"));
        }
        let answer = self.inner.call(request);
        Box::pin(async move { answer.await.map(decompress) })
    }
}

fn decompress(mut response: Response<ResponseBody>) -> Response<ResponseBody> {
    let gzipped = response
        .headers()
        .get(CONTENT_ENCODING)
        .is_some_and(|encoding| encoding.as_bytes().trim_ascii().eq_ignore_ascii_case(b"gzip"));
    if !gzipped {
        return response;
    }
    response.headers_mut().remove(CONTENT_ENCODING);
    response.headers_mut().remove(CONTENT_LENGTH);
    response.map(|body| boxed(DecompressedBody::new(body)))
}

/// A body that is decompressed while it is read.
struct DecompressedBody {
    decoder: GzipDecoder<StreamReader<CompressedStream, Bytes>>,
    buffer: BytesMut,
    /// True until the first read: an empty body (of HEAD, for example) is valid.
    unread: bool,
    ended: bool,
}

impl DecompressedBody {
    fn new(body: ResponseBody) -> Self {
        let mut decoder = GzipDecoder::new(StreamReader::new(CompressedStream(body)));
        decoder.multiple_members(true);
        Self { decoder, buffer: BytesMut::new(), unread: true, ended: false }
    }
}

impl Body for DecompressedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        if this.ended {
            return Poll::Ready(None);
        }
        if this.unread {
            let packed = ready!(Pin::new(this.decoder.get_mut()).poll_fill_buf(cx)).map(<[u8]>::is_empty);
            this.unread = false;
            match packed {
                Ok(false) => {}
                Ok(true) => {
                    this.ended = true;
                    return Poll::Ready(None);
                }
                Err(error) => return Poll::Ready(Some(Err(this.fail(error)))),
            }
        }
        this.buffer.reserve(FRAME);
        match ready!(poll_read_buf(Pin::new(&mut this.decoder), cx, &mut this.buffer)) {
            Ok(0) => {
                this.ended = true;
                Poll::Ready(None)
            }
            Ok(_) => Poll::Ready(Some(Ok(Frame::data(this.buffer.split().freeze())))),
            Err(error) => Poll::Ready(Some(Err(this.fail(error)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }
}

impl DecompressedBody {
    /// Ends the body and converts the error.
    fn fail(&mut self, error: io::Error) -> BoxError {
        self.ended = true;
        // An error of the compressed body is passed on unchanged.
        match error.downcast::<InnerBodyError>() {
            Ok(InnerBodyError(error)) => error,
            Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                TransportError::new(TransportErrorKind::Lost, "the gzip data of the response ends too early")
                    .found_in_response(error)
                    .into()
            }
            Err(error) => {
                TransportError::new(TransportErrorKind::Other, "the gzip data of the response is corrupt")
                    .found_in_response(error)
                    .into()
            }
        }
    }
}

/// The data of a body, as the stream that a decoder reads.
struct CompressedStream(ResponseBody);

/// A wrapper that carries an error of the compressed body through the decoder.
#[derive(Debug, thiserror::Error)]
#[error("the compressed body failed")]
struct InnerBodyError(#[source] BoxError);

impl Stream for CompressedStream {
    type Item = io::Result<Bytes>;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
        loop {
            match ready!(Pin::new(&mut self.0).poll_frame(cx)) {
                // Trailers are dropped: no caller reads them.
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) if !data.is_empty() => return Poll::Ready(Some(Ok(data))),
                    _ => {}
                },
                Some(Err(error)) => return Poll::Ready(Some(Err(io::Error::other(InnerBodyError(error))))),
                None => return Poll::Ready(None),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use async_compression::tokio::write::GzipEncoder;
    use futures_util::FutureExt;
    use http_body_util::{BodyExt, Full, StreamBody};
    use proptest::prelude::*;
    use tokio::io::AsyncWriteExt;
    use tokio::sync::mpsc;

    use super::*;

    async fn member(text: &[u8]) -> Vec<u8> {
        let mut encoder = GzipEncoder::new(Vec::new());
        encoder.write_all(text).await.unwrap();
        encoder.shutdown().await.unwrap();
        encoder.into_inner()
    }

    /// Returns a body of the given chunks that stays open while the sender lives.
    fn body(encoding: &str) -> (mpsc::UnboundedSender<Result<Vec<u8>, BoxError>>, Response<ResponseBody>) {
        let (sender, mut receiver) = mpsc::unbounded_channel::<Result<Vec<u8>, BoxError>>();
        let stream = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
        let frames =
            futures_util::StreamExt::map(stream, |chunk| chunk.map(|it| Frame::data(Bytes::from(it))));
        let response = Response::builder()
            .header(CONTENT_ENCODING, encoding)
            .header(CONTENT_LENGTH, "1")
            .body(boxed(StreamBody::new(frames)))
            .unwrap();
        (sender, decompress(response))
    }

    async fn next(response: &mut Response<ResponseBody>) -> Bytes {
        response.body_mut().frame().await.unwrap().unwrap().into_data().unwrap()
    }

    /// Kubernetes 1.37 compresses a watch event by event; a decoder that waits for the next member,
    /// or supports only one, delivers events late or never.
    #[tokio::test]
    async fn tr_6_each_member_is_decompressed_when_its_bytes_have_arrived() {
        let (sender, mut response) = body("gzip");
        assert!(!response.headers().contains_key(CONTENT_ENCODING));
        assert!(!response.headers().contains_key(CONTENT_LENGTH));
        for text in [&b"one\n"[..], b"two\n", b"three\n"] {
            let packed = member(text).await;
            let (head, rest) = packed.split_at(10);
            sender.send(Ok(head.to_vec())).unwrap();
            assert!(
                response.body_mut().frame().now_or_never().is_none(),
                "the head of a member contains no text"
            );
            sender.send(Ok(rest.to_vec())).unwrap();
            assert_eq!(next(&mut response).await, text);
        }
        drop(sender);
        assert!(response.body_mut().frame().await.is_none());
    }

    #[tokio::test]
    async fn other_encodings_are_unchanged_and_an_empty_body_is_valid() {
        let (sender, mut response) = body("identity");
        sender.send(Ok(b"plain".to_vec())).unwrap();
        assert_eq!(next(&mut response).await, &b"plain"[..]);
        assert!(response.headers().contains_key(CONTENT_LENGTH));

        let (sender, mut response) = body("gzip");
        drop(sender);
        assert!(response.body_mut().frame().await.is_none());
    }

    #[tokio::test]
    async fn corrupt_and_truncated_gzip_are_distinct_errors_that_end_the_body() {
        let packed = member(&[7; 4096]).await;
        let mut flipped = packed.clone();
        let last = flipped.len() - 6;
        flipped[last] ^= 0xff;
        let cases = [
            (b"this is no gzip at all".to_vec(), TransportErrorKind::Other, "corrupt"),
            (flipped, TransportErrorKind::Other, "corrupt"),
            (packed[..packed.len() - 3].to_vec(), TransportErrorKind::Lost, "too early"),
        ];
        for (bytes, kind, words) in cases {
            let (sender, response) = body("gzip");
            sender.send(Ok(bytes)).unwrap();
            drop(sender);
            let mut body = response.into_body();
            let error = loop {
                match body.frame().await.expect("an error before the end") {
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };
            assert_eq!(TransportErrorKind::of(&*error), kind);
            assert!(error.to_string().contains(words), "{error}");
            assert!(body.frame().await.is_none());
        }
    }

    #[tokio::test]
    async fn an_error_of_the_connection_keeps_its_kind() {
        let (sender, mut response) = body("gzip");
        sender.send(Ok(member(b"one").await)).unwrap();
        assert_eq!(next(&mut response).await, &b"one"[..]);
        let lost = TransportError::in_body(io::Error::from(io::ErrorKind::ConnectionReset));
        sender.send(Err(lost.into())).unwrap();
        let error = response.body_mut().frame().await.unwrap().unwrap_err();
        assert!(error.downcast_ref::<TransportError>().unwrap().is_lost());
    }

    #[tokio::test]
    async fn tr_6_gzip_is_requested_unless_disabled_or_overridden() {
        for (ask, set, expected) in
            [(true, None, Some("gzip")), (false, None, None), (true, Some("identity"), Some("identity"))]
        {
            let echo = tower::service_fn(|request: Request<()>| async move {
                let asked = request.headers().get(ACCEPT_ENCODING).cloned();
                let mut response = Response::new(boxed(Full::<Bytes>::default()));
                if let Some(asked) = asked {
                    response.headers_mut().insert("asked", asked);
                }
                Ok::<_, BoxError>(response)
            });
            let mut request = Request::new(());
            if let Some(set) = set {
                request.headers_mut().insert(ACCEPT_ENCODING, HeaderValue::from_static(set));
            }
            let response = GzipLayer::new(ask).layer(echo).call(request).await.unwrap();
            assert_eq!(response.headers().get("asked").map(|it| it.to_str().unwrap()), expected);
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        /// The text does not depend on how the members are split into chunks.
        #[test]
        fn members_split_in_any_way_give_the_same_text(
            texts in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..200), 1..5),
            size in 1_usize..50,
        ) {
            let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
            let decompressed = runtime.block_on(async {
                let mut packed = Vec::new();
                for text in &texts {
                    packed.extend(member(text).await);
                }
                let (sender, response) = body("gzip");
                for chunk in packed.chunks(size) {
                    sender.send(Ok(chunk.to_vec())).unwrap();
                }
                drop(sender);
                response.into_body().collect().await.unwrap().to_bytes()
            });
            prop_assert_eq!(&decompressed[..], &texts.concat()[..]);
        }
    }
}
