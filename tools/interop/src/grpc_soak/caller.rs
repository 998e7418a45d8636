//! The caller, in a process of its own: it runs the commands on its standard input, and exits when
//! that is closed.
//!
//! The process has neither server nor slices nor pods, so that its resources are those of a
//! channel.

use std::time::Duration;

use anyhow::{Context, Result};
use dogwatch::{Client, Config};
use dogwatch_grpc::{KubeChannel, Resolver, State, Target};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::{Status, Streaming};

use super::echo::{self, Message};
use super::held::Held;
use super::limit;
use super::load::Flow;
use super::wishes::{Standing, Streamed, Wish};

/// The number of open files: a connection to each of a thousand endpoints, new ones that overlap
/// with old ones, and a few others.
const FILES: u64 = 1_200;

/// Runs commands until standard input is closed.
///
/// # Errors
/// If a command is invalid in the current state.
pub(super) async fn serve() -> Result<()> {
    limit::at_least(FILES)?;
    let mut lines = BufReader::new(tokio::io::stdin()).lines();
    let mut caller = Caller::default();
    while let Some(line) = lines.next_line().await? {
        let wish = serde_json::from_str(&line).with_context(|| format!("invalid command {line}"))?;
        println!("{}", caller.perform(wish).await?);
    }
    Ok(())
}

#[derive(Default)]
struct Caller {
    channel: Option<KubeChannel>,
    flow: Option<Flow>,
    stream: Option<JoinHandle<Streamed>>,
}

fn line(answer: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(answer)?)
}

impl Caller {
    /// Runs a command, and returns the response line.
    async fn perform(&mut self, wish: Wish) -> Result<String> {
        match wish {
            Wish::Held => line(&Held::now()?),
            Wish::Connect { url, service, endpoints } => {
                self.channel = Some(connect(&url, &service, endpoints).await?);
                line(&())
            }
            Wish::Endpoints => line(&standings(self.channel()?)),
            Wish::Begin { rate } => {
                self.flow = Some(Flow::begin(self.client()?, rate));
                line(&())
            }
            Wish::End => line(&self.flow.take().context("there is no load to end")?.end().await?),
            Wish::Stream { messages, milliseconds } => {
                let began = Instant::now();
                let every = Duration::from_millis(milliseconds);
                let mut stream = echo::many(self.client()?, messages, every).await?;
                let first = stream.message().await?.is_some();
                self.stream = Some(tokio::spawn(read(stream, u64::from(first), began)));
                line(&())
            }
            Wish::Streamed => line(&self.stream.take().context("there is no stream")?.await?),
            Wish::Drop => {
                self.channel = None;
                line(&())
            }
        }
    }

    fn channel(&self) -> Result<&KubeChannel> {
        self.channel.as_ref().context("there is no channel")
    }

    fn client(&self) -> Result<Grpc<KubeChannel>> {
        Ok(Grpc::new(self.channel()?.clone()))
    }
}

/// Creates a channel with all defaults. Only the channel keeps its resolver alive.
async fn connect(url: &str, service: &str, endpoints: usize) -> Result<KubeChannel> {
    let resolver = Resolver::new(Client::new(Config::new(url.parse()?))?);
    let target: Target = format!("kubernetes:///{service}.default:grpc").parse()?;
    let channel = resolver.channel(&target).build()?;
    channel.connected(endpoints).await;
    Ok(channel)
}

fn standings(channel: &KubeChannel) -> Vec<Standing> {
    let standing = |it: dogwatch_grpc::EndpointStatus| Standing {
        id: it.endpoint.id.to_string(),
        peer: it.peer,
        ready: it.state == State::Ready,
        in_flight: it.in_flight,
        failures: it.failures,
    };
    channel.endpoints().into_iter().map(standing).collect()
}

/// Reads the rest of a stream.
async fn read(mut stream: Streaming<Message>, mut messages: u64, began: Instant) -> Streamed {
    let why = loop {
        match stream.message().await {
            Ok(Some(message)) if message.number == messages => messages += 1,
            Ok(Some(message)) => break Some(format!("message {} is out of order", message.number)),
            Ok(None) => break None,
            Err(status) => break Some(Status::to_string(&status)),
        }
    };
    Streamed { messages, seconds: began.elapsed().as_secs_f64(), why }
}
