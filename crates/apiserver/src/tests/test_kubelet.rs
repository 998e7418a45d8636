//! A kubelet for tests: HTTPS on the loopback, with logs, echoing tunnels, and a record of its
//! requests.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::auth::PeerIdentity;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;
use rustls::crypto::ring;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// The limit of a wait, for the slowest machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(30);

/// The bytes that end a tunnel from the side of the kubelet.
pub(crate) const BYE: &[u8] = b"bye";

type Body = UnsyncBoxBody<Bytes, std::convert::Infallible>;

/// A request as the kubelet received it.
#[derive(Clone, Debug)]
pub(crate) struct ReceivedRequest {
    pub(crate) method: String,
    pub(crate) target: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: String,
    /// The user in the client certificate.
    pub(crate) user: Option<String>,
}

/// A kubelet. Stops when it is dropped.
pub(crate) struct TestKubelet {
    pub(crate) address: SocketAddr,
    /// Its certificate, as PEM.
    pub(crate) certificate: String,
    /// A followed log has a second line for each permit.
    pub(crate) lines: Arc<Semaphore>,
    requests: watch::Sender<Vec<ReceivedRequest>>,
    /// The number of connections that have ended.
    ended: watch::Sender<usize>,
    task: JoinHandle<()>,
}

#[derive(Clone)]
struct Shared {
    lines: Arc<Semaphore>,
    requests: watch::Sender<Vec<ReceivedRequest>>,
}

impl TestKubelet {
    /// Starts a kubelet that requires no client certificate.
    pub(crate) async fn start() -> Self {
        Self::on(TcpListener::bind("127.0.0.1:0").await.unwrap(), None)
    }

    /// Starts a kubelet that requires a client certificate of this authority, if one is given.
    pub(crate) fn on(listener: TcpListener, authority: Option<&str>) -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .unwrap();
        let builder = match authority {
            None => builder.with_no_client_auth(),
            Some(authority) => {
                let mut roots = RootCertStore::empty();
                roots.add(CertificateDer::from_pem_slice(authority.as_bytes()).unwrap()).unwrap();
                let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                builder.with_client_cert_verifier(verifier.build().unwrap())
            }
        };
        let config = builder.with_single_cert(vec![made.cert.der().clone()], key).unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let address = listener.local_addr().unwrap();
        let shared = Shared { lines: Arc::new(Semaphore::new(0)), requests: watch::Sender::default() };
        let ended = watch::Sender::<usize>::default();
        let (lines, requests) = (Arc::clone(&shared.lines), shared.requests.clone());
        let count = ended.clone();
        let task = tokio::spawn(async move {
            let mut served = JoinSet::new();
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                let (acceptor, shared, count) = (acceptor.clone(), shared.clone(), count.clone());
                served.spawn(async move {
                    // A client that does not trust the certificate closes the connection here.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    let shown = stream.get_ref().1.peer_certificates().and_then(<[_]>::first);
                    let user = shown.and_then(|it| PeerIdentity::from_der(it)).map(|it| it.common_name);
                    let service = hyper::service::service_fn(|it| {
                        answer(it, shared.clone(), user.clone(), count.clone())
                    });
                    let http = hyper::server::conn::http1::Builder::new();
                    drop(http.serve_connection(TokioIo::new(stream), service).with_upgrades().await);
                    count.send_modify(|it| *it += 1);
                });
            }
        });
        Self { address, certificate: made.cert.pem(), lines, requests, ended, task }
    }

    /// Returns the requests so far.
    pub(crate) fn requests(&self) -> Vec<ReceivedRequest> {
        self.requests.borrow().clone()
    }

    /// Returns the last request.
    pub(crate) fn last_request(&self) -> ReceivedRequest {
        self.requests().pop().expect("the kubelet received a request")
    }

    /// Waits until this number of connections and tunnels has ended. A tunnel counts twice: when
    /// its connection switches protocols, and when it ends.
    pub(crate) async fn ended(&self, count: usize) {
        let mut ended = self.ended.subscribe();
        let waited = tokio::time::timeout(LIMIT, ended.wait_for(|it| *it >= count)).await;
        assert!(waited.is_ok(), "{} of {count} connections ended", *self.ended.borrow());
    }
}

impl Drop for TestKubelet {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn answer(
    mut request: Request<Incoming>,
    shared: Shared,
    user: Option<String>,
    ended: watch::Sender<usize>,
) -> Result<Response<Body>, std::convert::Infallible> {
    let switched = request.headers().contains_key(UPGRADE).then(|| hyper::upgrade::on(&mut request));
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map(|it| it.to_bytes()).unwrap_or_default();
    let path = parts.uri.path().to_owned();
    let target = parts.uri.path_and_query().map_or("", |it| it.as_str()).to_owned();
    let received = ReceivedRequest {
        method: parts.method.to_string(),
        target: target.clone(),
        headers: parts.headers.clone(),
        body: String::from_utf8_lossy(&body).into_owned(),
        user,
    };
    shared.requests.send_modify(|it| it.push(received));
    if path.ends_with("/waiting") {
        return Ok(whole(
            StatusCode::BAD_REQUEST,
            "container \"waiting\" in pod \"web\" is waiting to start",
        ));
    }
    if path.ends_with("/redirect") {
        let mut response = whole(StatusCode::FOUND, "");
        response.headers_mut().insert("location", HeaderValue::from_static("/elsewhere"));
        return Ok(response);
    }
    if let Some(switched) = switched {
        let protocol = parts.headers[UPGRADE].clone();
        tokio::spawn(async move {
            if let Ok(stream) = switched.await {
                echo(TokioIo::new(stream)).await;
            }
            ended.send_modify(|it| *it += 1);
        });
        let mut response = whole(StatusCode::SWITCHING_PROTOCOLS, "");
        response.headers_mut().insert(CONNECTION, HeaderValue::from_static("Upgrade"));
        response.headers_mut().insert(UPGRADE, protocol);
        response
            .headers_mut()
            .insert("x-stream-protocol-version", HeaderValue::from_static("v4.channel.k8s.io"));
        return Ok(response);
    }
    if path.starts_with("/containerLogs/") && target.contains("follow=true") {
        let lines = shared.lines;
        let first = stream::iter([Ok(Frame::data(Bytes::from("line 1\n")))]);
        let second = stream::once(async move {
            lines.acquire().await.unwrap().forget();
            Ok(Frame::data(Bytes::from("line 2\n")))
        });
        return Ok(Response::new(BodyExt::boxed_unsync(StreamBody::new(first.chain(second)))));
    }
    let mut response = whole(StatusCode::OK, &format!("{} {target}", parts.method));
    response.headers_mut().insert("access-control-allow-origin", HeaderValue::from_static("*"));
    Ok(response)
}

/// Returns what arrives, until the client ends the connection or sends [`BYE`].
async fn echo(mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin) {
    let mut buffer = vec![0; 4096];
    while let Ok(length @ 1..) = stream.read(&mut buffer).await {
        if buffer[..length].ends_with(BYE) || stream.write_all(&buffer[..length]).await.is_err() {
            break;
        }
    }
    let _ = stream.shutdown().await;
}

fn whole(code: StatusCode, text: &str) -> Response<Body> {
    let mut response = Response::new(Full::new(Bytes::from(text.to_owned())).boxed_unsync());
    *response.status_mut() = code;
    response
}
