//! The server of the kubelet's API for all simulated nodes: `kubectl logs`, `exec`, `attach` and
//! `port-forward` reach it through the API server, and metrics-server reads its usage.
//!
//! It listens on a free port of 127.0.0.1 with a certificate of its own. No container runs: logs
//! are derived from the status of pods, and a few built-in commands answer `exec`. Each connection
//! is one task, with at most one session; all end with the simulator.

mod rejection;
mod container;
mod log_lines;
mod log_options;
mod followers;
mod log_stream;
mod container_view;
mod console;
mod shell_syntax;
mod shell;
mod remote_command;
mod web_socket;
mod spdy;
mod spdy_command;
mod port_forward;
mod usage;
mod routes;

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_controller::BoxError;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use parking_lot::Mutex;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OnceCell, watch};
use tokio::task::JoinSet;
use tokio_rustls::TlsAcceptor;

use crate::caches::Caches;
use crate::environment::Environment;
use crate::supervise::Startup;
use followers::FollowerHandler;
use routes::{Routes, Session};

/// The name of the component.
pub(crate) const NAME: &str = "kubelet-server";

/// The number of connections, and so of sessions, at one time. Others wait to be accepted.
const MOST_CONNECTIONS: usize = 256;

/// The time for a TLS handshake, for the head of a request, and between two requests.
const HANDSHAKE: Duration = Duration::from_secs(10);
const REQUEST_HEAD: Duration = Duration::from_secs(60);
/// The size of the head of a request.
const LARGEST_HEAD: usize = 512 * 1024;

/// The duration of a connection (`StreamIdleTimeout` in k8s.io/cri-streaming v0.36.4
/// pkg/streaming/server.go, where only idle ones end).
const LONGEST_CONNECTION: Duration = Duration::from_secs(4 * 60 * 60);

/// The time until another connection is accepted after an error, such as too many open files.
const ACCEPT_RETRY: Duration = Duration::from_millis(100);

/// The server of the kubelet's API.
#[derive(Debug)]
pub(crate) struct KubeletServer {
    routes: Routes,
}

/// The listening socket and the certificate of the server. They stay the same if the server is
/// restarted, since nodes name the port.
pub(crate) struct Endpoint {
    listener: TcpListener,
    tls: TlsAcceptor,
}

impl Endpoint {
    async fn bind() -> Result<Self, BoxError> {
        let names = ["localhost", "127.0.0.1", "::1"].map(str::to_owned);
        let made = rcgen::generate_simple_self_signed(names)?;
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let mut config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(vec![made.cert.der().clone()], key)?;
        // Connections are upgraded, which HTTP/2 does in another way.
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        Ok(Self { listener, tls: TlsAcceptor::from(Arc::new(config)) })
    }
}

impl KubeletServer {
    pub(crate) fn new(caches: &Caches, environment: &Arc<Environment>) -> Self {
        let routes = Routes {
            pods: caches.pods.get(),
            nodes: caches.nodes.get(),
            followers: Arc::default(),
            environment: Arc::clone(environment),
        };
        Self { routes }
    }

    /// Serves requests, on a port that `port` publishes. Returns only if it cannot begin.
    pub(crate) async fn run(
        self,
        endpoint: &OnceCell<Endpoint>,
        port: &watch::Sender<Option<u16>>,
        startup: Startup,
    ) -> Result<(), BoxError> {
        let endpoint = endpoint.get_or_try_init(Endpoint::bind).await?;
        // Published before the pods are known: nodes are registered first.
        port.send_replace(Some(endpoint.listener.local_addr()?.port()));
        let pods = &self.routes.pods.informer;
        let handler = FollowerHandler(Arc::clone(&self.routes.followers));
        let handler = pods.add_handler(handler)?.scoped();
        pods.start();
        handler.synced().await?;
        startup.complete();
        let (routes, mut connections) = (Arc::new(self.routes), JoinSet::new());
        loop {
            let accepted = tokio::select! {
                biased;
                Some(ended) = connections.join_next() => {
                    if let Err(error) = ended {
                        tracing::error!(%error, "a connection of the kubelet server failed");
                    }
                    continue;
                }
                accepted = endpoint.listener.accept(), if connections.len() < MOST_CONNECTIONS => accepted,
            };
            match accepted {
                Ok((socket, _)) => {
                    let serving = serve(socket, endpoint.tls.clone(), Arc::clone(&routes));
                    connections.spawn(async move {
                        let _ = tokio::time::timeout(LONGEST_CONNECTION, serving).await;
                    });
                }
                Err(error) => {
                    tracing::warn!(%error, "the kubelet server cannot accept a connection");
                    tokio::time::sleep(ACCEPT_RETRY).await;
                }
            }
        }
    }
}

/// Serves one connection until it ends.
async fn serve(socket: TcpStream, tls: TlsAcceptor, routes: Arc<Routes>) {
    // Sessions send many small messages.
    let _ = socket.set_nodelay(true);
    let Ok(Ok(stream)) = tokio::time::timeout(HANDSHAKE, tls.accept(socket)).await else { return };
    let next: Arc<Mutex<Option<Session>>> = Arc::default();
    let service = service_fn(|request| {
        let (response, session) = routes.respond(request);
        *next.lock() = session;
        std::future::ready(Ok::<_, Infallible>(response))
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(REQUEST_HEAD)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .with_upgrades();
    if let Err(error) = connection.await {
        tracing::debug!(%error, "a connection of the kubelet server ended early");
    }
    let session = next.lock().take();
    if let Some(session) = session {
        session.await;
    }
}
