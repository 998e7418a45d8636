//! A server whose responses are written header by header, including those that a correct server
//! never sends.

use std::convert::Infallible;
use std::future::{Future, Ready, ready};
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body::Frame;
use http_body_util::StreamBody;
use tonic::body::Body;
use tonic::server::NamedService;
use tower_service::Service;

use crate::pods::Pod;

/// Starts a pod that also has this service.
pub(crate) fn raw_pod() -> impl Future<Output = Pod> {
    Pod::with(|it| it, |it| it.add_service(RawServer))
}

#[derive(Debug, Clone)]
pub(crate) struct RawServer;

impl NamedService for RawServer {
    const NAME: &'static str = "test.Odd";
}

impl Service<Request<Body>> for RawServer {
    type Response = Response<Body>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Body>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<Body>) -> Self::Future {
        ready(Ok(answer(request.uri().path(), request.headers())))
    }
}

/// Starts a server that never ends a call, and that sends headers only for server streams. Unlike
/// tonic's, it does not enforce the deadlines of its callers, so that the client must.
pub(crate) async fn silent_server() -> std::net::SocketAddr {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            tokio::spawn(async move {
                let mut connection = h2::server::handshake(socket).await.unwrap();
                let (mut begun, mut silent) = (Vec::new(), Vec::new());
                while let Some(Ok((request, mut respond))) = connection.accept().await {
                    if request.uri().path() == "/test.Echo/Many" {
                        let mut head = Response::new(());
                        *head.headers_mut() = fields(&[("content-type", "application/grpc")]);
                        begun.push(respond.send_response(head, false).unwrap());
                    }
                    silent.push((request, respond));
                }
            });
        }
    });
    address
}

const OK: &[(&str, &str)] = &[("grpc-status", "0")];
const HELLO: &[u8] = b"\0\0\0\0\x05hello";

fn answer(path: &str, asked: &HeaderMap) -> Response<Body> {
    match path {
        "/test.Odd/Mirror" => mirror(asked),
        "/test.Odd/Refuse" => {
            let mut response = grpc(&[], None);
            *response.headers_mut() = mirrored(asked);
            let more = fields(&[
                ("content-type", "application/grpc"),
                ("grpc-status", "7"),
                ("grpc-message", "not y%C3%B4u, 100 %25"),
            ]);
            response.headers_mut().extend(more);
            response
        }
        "/test.Odd/Http503" => plain(StatusCode::SERVICE_UNAVAILABLE),
        "/test.Odd/Html" => plain(StatusCode::OK),
        "/test.Odd/Untold" => grpc(&[HELLO], None),
        "/test.Odd/Statusless" => grpc(&[HELLO], Some(&[("else", "where")])),
        "/test.Odd/Half" => grpc(&[HELLO, &HELLO[..7]], Some(OK)),
        "/test.Odd/HalfAndFailed" => grpc(&[&HELLO[..7]], Some(&[("grpc-status", "10")])),
        "/test.Odd/Compressed" => grpc(&[b"\x01\0\0\0\x05hello"], Some(OK)),
        "/test.Odd/Large" => grpc(&[b"\0\x7f\0\0\0"], Some(OK)),
        "/test.Odd/Cut" => grpc(&[&HELLO[..3], &HELLO[3..8], &HELLO[8..], HELLO], Some(OK)),
        "/test.Odd/Spoilt" => {
            let mut response = grpc(&[HELLO], Some(OK));
            response.headers_mut().insert("blob-bin", HeaderValue::from_static("!"));
            response
        }
        other => unreachable!("{other} is not a test case"),
    }
}

/// Returns the request's metadata twice: in the headers, and in the trailers.
fn mirror(asked: &HeaderMap) -> Response<Body> {
    let mut mirrored = mirrored(asked);
    if let Some(timeout) = asked.get("grpc-timeout") {
        mirrored.insert("x-seen-timeout", timeout.clone());
    }
    let mut trailers = mirrored.clone();
    trailers.extend(fields(OK));
    let frames = [Frame::data(Bytes::from_static(HELLO)), Frame::trailers(trailers)];
    let mut response = response(frames);
    response.headers_mut().extend(mirrored);
    response
}

fn mirrored(asked: &HeaderMap) -> HeaderMap {
    let ours = asked.iter().filter(|it| it.0.as_str().starts_with("x-"));
    ours.map(|(name, value)| (name.clone(), value.clone())).collect()
}

fn plain(status: StatusCode) -> Response<Body> {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response.headers_mut().insert("content-type", HeaderValue::from_static("text/html"));
    response
}

fn grpc(pieces: &[&'static [u8]], trailers: Option<&[(&'static str, &'static str)]>) -> Response<Body> {
    let data = pieces.iter().map(|it| Frame::data(Bytes::from_static(it)));
    response(data.chain(trailers.map(|it| Frame::trailers(fields(it)))))
}

fn response(frames: impl IntoIterator<Item = Frame<Bytes>>) -> Response<Body> {
    let frames: Vec<_> = frames.into_iter().map(Ok::<_, Infallible>).collect();
    let mut response = Response::new(Body::new(StreamBody::new(futures_util::stream::iter(frames))));
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

fn fields(all: &[(&'static str, &'static str)]) -> HeaderMap {
    let field = |(name, value): &(&'static str, &'static str)| {
        (http::HeaderName::from_static(name), HeaderValue::from_static(value))
    };
    all.iter().map(field).collect()
}
