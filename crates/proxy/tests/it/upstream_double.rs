//! A server in place of kube-apiserver that shows what arrives: requests with their headers, and
//! bodies piece by piece.

use std::convert::Infallible;
use std::net::SocketAddr;

use bytes::Bytes;
use dogwatch_client::{BoxError, Config, ResponseBody, boxed};
use http::{HeaderMap, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

/// Serves a function of requests until the runtime of the test ends.
pub(crate) async fn serve<F, Fut>(answer: F) -> Config
where
    F: Fn(Request<Incoming>) -> Fut + Clone + Send + Sync + 'static,
    Fut: Future<Output = Response<ResponseBody>> + Send + 'static,
{
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let answer = answer.clone();
            tokio::spawn(async move {
                let service = service_fn(move |request| {
                    let answering = answer(request);
                    async move { Ok::<_, Infallible>(answering.await) }
                });
                let builder = auto::Builder::new(TokioExecutor::new());
                // A client may hang up at any time.
                let _ = builder.serve_connection_with_upgrades(TokioIo::new(stream), service).await;
            });
        }
    });
    config(address)
}

/// Serves requests whose headers the test receives; the answer is empty.
pub(crate) async fn recording() -> (Config, mpsc::UnboundedReceiver<HeaderMap>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    let config = serve(move |request: Request<Incoming>| {
        let _ = sender.send(request.headers().clone());
        std::future::ready(Response::new(text("{}")))
    });
    (config.await, receiver)
}

/// Returns a body of a text.
pub(crate) fn text(text: &str) -> ResponseBody {
    boxed(Full::new(Bytes::copy_from_slice(text.as_bytes())))
}

/// Returns a body that arrives as the test sends its pieces.
pub(crate) fn pieces() -> (mpsc::UnboundedSender<http_body::Frame<Bytes>>, ResponseBody) {
    let (sender, mut receiver) = mpsc::unbounded_channel();
    let frames = futures_util::stream::poll_fn(move |context| receiver.poll_recv(context));
    let frames = futures_util::StreamExt::map(frames, Ok::<_, BoxError>);
    (sender, http_body_util::StreamBody::new(frames).boxed_unsync())
}

/// Returns the settings for a server over HTTP.
pub(crate) fn config(address: SocketAddr) -> Config {
    Config::new(format!("http://{address}").parse().unwrap())
}

/// Opens a raw connection to a proxy over HTTP.
pub(crate) async fn connect(proxy: &dogwatch_proxy::Proxy) -> TcpStream {
    TcpStream::connect(proxy.address()).await.unwrap()
}
