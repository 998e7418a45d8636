//! A gRPC server of the demo, on a loopback address of its own.

use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use anyhow::Context as _;
use dogwatch::http;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::graceful::GracefulShutdown;
use tokio::net::TcpListener;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use tonic::body::Body;
use tower_service::Service as _;

use super::greeter::Greeter;

/// The pause after a connection could not be accepted.
const ACCEPT_PAUSE: Duration = Duration::from_millis(10);

/// One server, in an EndpointSlice of its own since it has a port of its own.
pub(super) struct Backend {
    pub(super) address: SocketAddr,
    stop: oneshot::Sender<()>,
    serving: JoinSet<()>,
}

impl Backend {
    /// Starts a server that greets with this name, on the loopback address with this number if the
    /// system has it.
    pub(super) async fn start(name: &str, number: u8) -> anyhow::Result<Self> {
        let listener = TcpListener::bind((Ipv4Addr::new(127, 0, 0, number.saturating_add(1)), 0)).await;
        // Some systems have only one loopback address.
        let listener = match listener {
            Ok(listener) => listener,
            Err(_) => {
                TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.context("cannot listen on the loopback")?
            }
        };
        let address = listener.local_addr()?;
        let (stop, stopped) = oneshot::channel();
        let mut serving = JoinSet::new();
        serving.spawn(serve(listener, Greeter(name.into()), stopped));
        Ok(Self { address, stop, serving })
    }

    /// Stops the server after it has finished its calls.
    pub(super) async fn end(mut self) -> anyhow::Result<()> {
        drop(self.stop);
        if let Some(ended) = self.serving.join_next().await {
            ended.context("a server of the demo panicked")?;
        }
        Ok(())
    }
}

/// Accepts connections until `stopped`, and returns when their calls are finished.
///
/// This is what tonic's own server does, which would add a web framework to the build.
async fn serve(listener: TcpListener, greeter: Greeter, mut stopped: oneshot::Receiver<()>) {
    let connections = GracefulShutdown::new();
    let mut tasks = JoinSet::new();
    loop {
        tokio::select! {
            biased;
            _ = &mut stopped => break,
            accepted = listener.accept() => {
                let Ok((stream, _)) = accepted else {
                    // Too many files are open, most likely; the client connects again.
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                };
                let greeter = greeter.clone();
                let service = service_fn(move |request: http::Request<Incoming>| {
                    greeter.clone().call(request.map(Body::new))
                });
                let http2 = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
                let connection = http2.serve_connection(TokioIo::new(stream), service);
                tasks.spawn(connections.watch(connection));
            }
            Some(_) = tasks.join_next() => {}
        }
    }
    drop(listener);
    connections.shutdown().await;
}
