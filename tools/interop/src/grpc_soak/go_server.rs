//! A server with grpc-go's defaults, which closes connections of clients that ping more often than
//! it permits: ours stay open.
//!
//! A test of the crate simulates the rules of such a server
//! (crates/grpc/src/connection/enforcing_server.rs) with a paused clock; here the real server
//! applies them.

use std::net::Ipv4Addr;
use std::process::Stdio;
use std::time::Duration;

use anyhow::{Context, Result};
use dogwatch::{Client, Config};
use dogwatch_grpc::{KubeChannel, Resolver, Target};
use http::uri::PathAndQuery;
use serde_json::Value;
use tokio::io::{AsyncBufReadExt, BufReader, Lines};
use tokio::process::{Child, ChildStdout, Command};
use tokio::time::timeout;
use tonic::client::Grpc;
use tonic::{Request, Streaming};
use tonic_prost::ProstCodec;

use super::checks::Checks;
use super::test_cluster::{SERVICE, SlicePod, TestCluster};
use processes::go;

/// The time within which the server has to start and to exit.
const TIMEOUT: Duration = Duration::from_secs(30);

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckRequest {
    #[prost(string, tag = "1")]
    service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct HealthCheckResponse {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// Keeps a quiet stream, an idle channel and an unread response open for `time`, and judges their
/// state. Skips the scenario if Go is not installed.
///
/// # Errors
/// If the server does not build or start.
pub(super) async fn run(time: Duration, checks: &mut Checks) -> Result<()> {
    let Some(program) = go::build("grpc-go-server")? else {
        println!("skipping the grpc-go server: Go is not installed");
        return Ok(());
    };
    println!(
        "grpc-go server: a quiet stream, an idle channel and an unread response, for {} s",
        time.as_secs()
    );
    let mut server = GoServer::start(&program)?;
    let port = server.read_number("port").await?;
    let cluster = TestCluster::start(u16::try_from(port)?).await?;
    let pod = SlicePod { id: "grpc-go".to_owned(), address: Ipv4Addr::LOCALHOST.into(), terminating: false };
    cluster.write(0, [&pod]).await?;
    let resolver = Resolver::new(Client::new(Config::new(cluster.url().parse()?))?);
    let target: Target = format!("kubernetes:///{SERVICE}.default:grpc").parse()?;
    let (idle, busy) = (resolver.channel(&target).build()?, resolver.channel(&target).build()?);
    let slow = resolver.channel(&target).build()?;
    check(&idle).await.context("the first call failed")?;
    let mut stream = watch(&busy).await.context("cannot start the stream")?;
    stream.message().await.context("cannot read the first health status")?;
    // The server has finished this call, so it regards the connection as idle, like the one without
    // a call.
    let mut unread =
        stream_of(&slow, "/grpc.health.v1.Health/Check").await.context("cannot start the response")?;
    let over = timeout(time, stream.message()).await;
    checks.add(over.is_err(), &format!("the stream is still open ({over:?})"));
    let again = check(&idle).await;
    checks.add(again.is_ok(), &format!("the idle channel can still call ({again:?})"));
    let late = unread.message().await;
    checks.add(matches!(late, Ok(Some(_))), &format!("the response can still be read ({late:?})"));
    // Stop the server before the channels are dropped: each of them has a connection.
    server.end();
    let connections = server.read_number("connections").await?;
    checks.add(connections == 3, &format!("each channel used a single connection ({connections} in total)"));
    Ok(())
}

async fn check(channel: &KubeChannel) -> Result<HealthCheckResponse> {
    let mut grpc = Grpc::new(channel.clone());
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    let answer = grpc
        .unary(
            Request::new(HealthCheckRequest::default()),
            path,
            ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default(),
        )
        .await;
    Ok(answer?.into_inner())
}

async fn watch(channel: &KubeChannel) -> Result<Streaming<HealthCheckResponse>> {
    stream_of(channel, "/grpc.health.v1.Health/Watch").await
}

/// Returns the response of a method as a stream of which nothing has been read yet.
async fn stream_of(channel: &KubeChannel, method: &'static str) -> Result<Streaming<HealthCheckResponse>> {
    let mut grpc = Grpc::new(channel.clone());
    let (path, codec) =
        (PathAndQuery::from_static(method), ProstCodec::<HealthCheckRequest, HealthCheckResponse>::default());
    Ok(grpc.server_streaming(Request::new(HealthCheckRequest::default()), path, codec).await?.into_inner())
}

/// The server process. Dropping it kills it.
struct GoServer {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl GoServer {
    fn start(program: &std::path::Path) -> Result<Self> {
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("cannot start the grpc-go server")?;
        let output = BufReader::new(child.stdout.take().context("standard output is not piped")?).lines();
        Ok(Self { child, output })
    }

    /// Closes the server's input, on which it exits.
    fn end(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Reads the field of that name from the next line of output.
    async fn read_number(&mut self, name: &str) -> Result<u64> {
        let line = timeout(TIMEOUT, self.output.next_line())
            .await
            .context("the grpc-go server printed nothing in time")??;
        let line: Value = serde_json::from_str(&line.context("the grpc-go server exited")?)?;
        line[name].as_u64().with_context(|| format!("unexpected line from the grpc-go server: {line}"))
    }
}
