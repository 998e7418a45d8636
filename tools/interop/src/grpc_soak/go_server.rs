//! A server with all of grpc-go's defaults, which ends connections of clients that ping more often than it permits: ours stay.
//!
//! The rules of such a server are also played by a test of the crate (crates/grpc/src/connection/enforcer.rs), in no time; here they are its own.

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

use super::promises::Promises;
use super::town::{Listed, SERVICE, Town};
use processes::go;

/// Longer than the server takes to begin and to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// `grpc.health.v1.HealthCheckRequest`.
#[derive(Clone, PartialEq, prost::Message)]
struct Asked {
    #[prost(string, tag = "1")]
    service: String,
}

/// `grpc.health.v1.HealthCheckResponse`.
#[derive(Clone, PartialEq, prost::Message)]
struct Health {
    #[prost(int32, tag = "1")]
    status: i32,
}

/// Keeps a quiet stream, an idle channel and an answer that is not read for that long, and judges what became of them. Says so where Go
/// is not installed.
///
/// # Errors
/// When the server does not build or start.
pub(super) async fn play(time: Duration, promises: &mut Promises) -> Result<()> {
    let Some(program) = go::build("grpc-go-server")? else {
        println!("Go is not installed: the scenario with a server of grpc-go is left out");
        return Ok(());
    };
    println!(
        "a server of grpc-go: a quiet stream, an idle channel and an answer that is not read, for {} s",
        time.as_secs()
    );
    let mut server = Server::start(&program)?;
    let port = server.answer("port").await?;
    let town = Town::start(u16::try_from(port)?).await?;
    let pod = Listed { id: "grpc-go".to_owned(), address: Ipv4Addr::LOCALHOST, terminating: false };
    town.write(0, [&pod]).await?;
    let resolver = Resolver::new(Client::new(Config::new(town.url().parse()?))?);
    let target: Target = format!("kubernetes:///{SERVICE}.default:grpc").parse()?;
    let (idle, busy) = (resolver.channel(&target).build()?, resolver.channel(&target).build()?);
    let slow = resolver.channel(&target).build()?;
    check(&idle).await.context("the first call")?;
    let mut stream = watch(&busy).await.context("the stream begins")?;
    stream.message().await.context("the health at first")?;
    // For the server this call is over: to it, the connection is as idle as the one without a call.
    let mut unread = stream_of(&slow, "/grpc.health.v1.Health/Check").await.context("the answer begins")?;
    let over = timeout(time, stream.message()).await;
    promises.add(over.is_err(), &format!("the stream is open ({over:?})"));
    let again = check(&idle).await;
    promises.add(again.is_ok(), &format!("the idle channel can call ({again:?})"));
    let late = unread.message().await;
    promises.add(matches!(late, Ok(Some(_))), &format!("the answer can still be read ({late:?})"));
    // Asked before the channels are dropped: those have a connection each.
    server.end();
    let connections = server.answer("connections").await?;
    promises.add(connections == 3, &format!("each channel has had one connection ({connections} in all)"));
    Ok(())
}

async fn check(channel: &KubeChannel) -> Result<Health> {
    let mut grpc = Grpc::new(channel.clone());
    let path = PathAndQuery::from_static("/grpc.health.v1.Health/Check");
    let answer =
        grpc.unary(Request::new(Asked::default()), path, ProstCodec::<Asked, Health>::default()).await;
    Ok(answer?.into_inner())
}

async fn watch(channel: &KubeChannel) -> Result<Streaming<Health>> {
    stream_of(channel, "/grpc.health.v1.Health/Watch").await
}

/// The answer of a method as a stream, of which nothing is read yet.
async fn stream_of(channel: &KubeChannel, method: &'static str) -> Result<Streaming<Health>> {
    let mut grpc = Grpc::new(channel.clone());
    let (path, codec) = (PathAndQuery::from_static(method), ProstCodec::<Asked, Health>::default());
    Ok(grpc.server_streaming(Request::new(Asked::default()), path, codec).await?.into_inner())
}

/// The process. Dropping it ends it.
struct Server {
    child: Child,
    output: Lines<BufReader<ChildStdout>>,
}

impl Server {
    fn start(program: &std::path::Path) -> Result<Self> {
        let mut command = Command::new(program);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = command.spawn().context("the server does not start")?;
        let output = BufReader::new(child.stdout.take().context("it has an output")?).lines();
        Ok(Self { child, output })
    }

    /// It ends with its input.
    fn end(&mut self) {
        drop(self.child.stdin.take());
    }

    /// The number of that name in its next line.
    async fn answer(&mut self, name: &str) -> Result<u64> {
        let line = timeout(PATIENCE, self.output.next_line()).await.context("the server says nothing")??;
        let line: Value = serde_json::from_str(&line.context("the server has ended")?)?;
        line[name].as_u64().with_context(|| format!("the server says {line}"))
    }
}
