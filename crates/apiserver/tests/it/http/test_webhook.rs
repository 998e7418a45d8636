//! A webhook for tests, which answers what it is told to and remembers what it was asked.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

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
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::{JoinHandle, JoinSet};
use tokio_rustls::TlsAcceptor;

/// What a webhook answers to a request: what goes beside its uid.
pub(super) type Answer = fn(&Value) -> Value;

/// A webhook on a port of the loopback, which shows a certificate of its own. Ends when it is dropped.
pub(super) struct Webhook {
    pub(super) url: String,
    pub(super) bundle: String,
    asked: Arc<Mutex<Vec<Value>>>,
    connections: Arc<AtomicUsize>,
    /// Told to close all connections; answers when that is done.
    cut: mpsc::Sender<oneshot::Sender<()>>,
    task: JoinHandle<()>,
}

impl Webhook {
    pub(super) async fn start(answer: Answer) -> Self {
        Self::gated(answer, Arc::new(Semaphore::new(Semaphore::MAX_PERMITS))).await
    }

    /// A webhook whose every answer takes a permit of this semaphore. What it is asked is remembered before.
    pub(super) async fn gated(answer: Answer, gate: Arc<Semaphore>) -> Self {
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
        let asked = Arc::new(Mutex::default());
        let connections = Arc::new(AtomicUsize::new(0));
        let (log, count) = (Arc::clone(&asked), Arc::clone(&connections));
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
                let (acceptor, log, gate) = (acceptor.clone(), Arc::clone(&log), Arc::clone(&gate));
                let count = Arc::clone(&count);
                served.spawn(async move {
                    // Who does not believe the certificate goes away here.
                    let Ok(stream) = acceptor.accept(stream).await else { return };
                    count.fetch_add(1, Ordering::Relaxed);
                    let service = hyper::service::service_fn(|request| reply(request, &log, &gate, answer));
                    let http = hyper::server::conn::http1::Builder::new();
                    drop(http.serve_connection(TokioIo::new(stream), service).await);
                });
            }
        });
        Self { url, bundle: STANDARD.encode(made.cert.pem()), asked, connections, cut, task }
    }

    /// Closes all connections that are open, as a restart does.
    pub(super) async fn cut_connections(&mut self) {
        let (done, cut) = oneshot::channel();
        self.cut.send(done).await.unwrap();
        cut.await.unwrap();
    }

    /// How many connections were made to it.
    pub(super) fn connections(&self) -> usize {
        self.connections.load(Ordering::Relaxed)
    }

    /// The requests of the reviews it was sent.
    pub(super) fn asked(&self) -> Vec<Value> {
        self.asked.lock().unwrap().clone()
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
    log: &Mutex<Vec<Value>>,
    gate: &Semaphore,
    answer: Answer,
) -> Result<Response<Full<Bytes>>, hyper::Error> {
    assert_eq!(request.uri().path(), "/hook");
    let body = request.into_body().collect().await?.to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    log.lock().unwrap().push(review["request"].clone());
    gate.acquire().await.unwrap().forget();
    let mut response = answer(&review["request"]);
    response["uid"] = review["request"]["uid"].clone();
    let answer = json!({ "apiVersion": review["apiVersion"], "kind": review["kind"], "response": response });
    Ok(Response::new(Full::new(answer.to_string().into())))
}
