//! A webhook server for tests, which responds as configured and records its requests.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use http::{Request, Response};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::rt::TokioIo;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// The limit of a wait for requests, for the slowest machine.
const LIMIT: Duration = Duration::from_secs(30);

/// A function that returns the response to a request, without its uid. Null closes the connection
/// without a response.
pub(super) type Responder = fn(&Value) -> Value;

/// A webhook on loopback with a self-signed certificate. Stops when it is dropped.
pub(super) struct Webhook {
    pub(super) url: String,
    pub(super) bundle: String,
    requests: watch::Sender<Vec<Value>>,
    connections: Arc<AtomicUsize>,
    /// Accepts requests to close all connections; the sender is notified when that is done.
    cut: mpsc::Sender<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Webhook {
    pub(super) async fn start(respond: Responder) -> Self {
        Self::gated(respond, Arc::new(Semaphore::new(Semaphore::MAX_PERMITS))).await
    }

    /// Starts a webhook that takes a permit of this semaphore for each response. Requests are
    /// recorded before that.
    pub(super) async fn gated(respond: Responder, gate: Arc<Semaphore>) -> Self {
        let made = rcgen::generate_simple_self_signed(["127.0.0.1".to_owned()]).unwrap();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).unwrap();
        let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)
            .unwrap();
        let acceptor = TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("https://{}//hook", listener.local_addr().unwrap());
        let requests = watch::Sender::<Vec<Value>>::default();
        let connections = Arc::new(AtomicUsize::new(0));
        let (log, count) = (requests.clone(), Arc::clone(&connections));
        let (cut, mut cuts) = mpsc::channel::<oneshot::Sender<()>>(1);
        let task = tokio::spawn(async move {
            let mut served = JoinSet::new();
            loop {
                let (stream, _) = tokio::select! {
                    accepted = listener.accept() => accepted.unwrap(),
                    Some(done) = cuts.recv() => {
                        served.shutdown().await;
                        let _ = done.send(());
                        continue;
                    }
                };
                let (acceptor, log, gate) = (acceptor.clone(), log.clone(), Arc::clone(&gate));
                let count = Arc::clone(&count);
                served.spawn(async move {
                    // A client that does not trust the certificate closes the connection here.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    count.fetch_add(1, Ordering::Relaxed);
                    let service = hyper::service::service_fn(|request| reply(request, &log, &gate, respond));
                    let http = hyper::server::conn::http1::Builder::new();
                    drop(http.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        Self { url, bundle: STANDARD.encode(made.cert.pem()), requests, connections, cut, task }
    }

    /// Closes all open connections, as a restart does.
    pub(super) async fn cut_connections(&mut self) {
        let (done, cut) = oneshot::channel();
        self.cut.send(done).await.unwrap();
        cut.await.unwrap();
    }

    /// Returns the number of connections accepted so far.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// Returns the requests of the reviews received so far.
    pub(super) fn requests(&self) -> Vec<Value> {
        self.requests.borrow().clone()
    }

    /// Waits until this number of reviews was received.
    ///
    /// # Panics
    /// Panics if that takes too long.
    pub(super) async fn received(&self, count: usize) {
        let mut requests = self.requests.subscribe();
        let received = tokio::time::timeout(LIMIT, requests.wait_for(|it| it.len() >= count)).await;
        assert!(received.is_ok(), "{} of {count} reviews were received", self.requests().len());
    }

    pub(super) fn client_config(&self) -> Value {
        json!({ "url": self.url, "caBundle": self.bundle })
    }
}

impl Drop for Webhook {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn reply(
    request: Request<Incoming>,
    log: &watch::Sender<Vec<Value>>,
    gate: &Semaphore,
    respond: Responder,
) -> Result<Response<Full<Bytes>>, Box<dyn std::error::Error + Send + Sync>> {
    assert_eq!(request.uri().path(), "/hook");
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    log.send_modify(|it| it.push(review["request"].clone()));
    gate.acquire().await.unwrap().forget();
    let mut response = respond(&review["request"]);
    if response.is_null() {
        return Err("no response".into());
    }
    response["uid"] = review["request"]["uid"].clone();
    let review = json!({ "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response });
    Ok(Response::new(Full::new(review.to_string().into())))
}
