//! The server that the benchmark calls: a unary echo on many addresses, in a process of its own.

use std::convert::Infallible;
use std::future::Future;
use std::io::{BufRead, BufReader, Read};
use std::net::SocketAddr;
use std::pin::Pin;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::task::{Context, Poll};

use anyhow::{Context as _, Result};
use http::uri::PathAndQuery;
use tonic::body::Body;
use tonic::server::NamedService;
use tonic::{Request, Response, Status};
use tonic_prost::ProstCodec;
use tower_service::Service;

/// What is sent and comes back.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Echo {
    #[prost(bytes = "bytes", tag = "1")]
    pub(super) payload: prost::bytes::Bytes,
}

pub(super) fn path() -> PathAndQuery {
    PathAndQuery::from_static("/bench.Echo/Call")
}

pub(super) fn codec() -> ProstCodec<Echo, Echo> {
    ProstCodec::default()
}

#[derive(Debug, Clone)]
struct EchoServer;

impl NamedService for EchoServer {
    const NAME: &'static str = "bench.Echo";
}

impl Service<http::Request<Body>> for EchoServer {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Infallible>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        Box::pin(async move {
            let echo = |it: Request<Echo>| async move { Ok::<_, Status>(Response::new(it.into_inner())) };
            let service = tower::service_fn(echo);
            Ok(tonic::server::Grpc::new(codec()).unary(service, request).await)
        })
    }
}

/// Serves on so many addresses, prints them, and ends with its input.
pub(super) fn serve(count: usize) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    for _ in 0..count {
        let incoming = runtime.block_on(async {
            let loopback = SocketAddr::from(([127, 0, 0, 1], 0));
            tonic::transport::server::TcpIncoming::bind(loopback).map(|it| it.with_nodelay(Some(true)))
        });
        let incoming = incoming.map_err(|it| anyhow::anyhow!("cannot listen: {it}"))?;
        println!("{}", incoming.local_addr()?);
        let server = tonic::transport::Server::builder().add_service(EchoServer);
        runtime.spawn(server.serve_with_incoming(incoming));
    }
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(())
}

/// The other process; dropping it ends it.
pub(super) struct Servers {
    pub(super) addresses: Vec<SocketAddr>,
    child: Child,
    input: Option<ChildStdin>,
}

impl Servers {
    pub(super) fn start(count: usize) -> Result<Self> {
        let mut child = Command::new(std::env::current_exe()?)
            .args(["bench", "grpc", "serve", &count.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start the servers")?;
        let output = child.stdout.take().context("the servers have an output")?;
        let lines = BufReader::new(output).lines().take(count);
        let address = |it: std::io::Result<String>| Ok(it?.parse()?);
        let addresses = lines.map(address).collect::<Result<_>>()?;
        let input = child.stdin.take();
        Ok(Self { addresses, child, input })
    }
}

impl Drop for Servers {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
