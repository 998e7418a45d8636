//! The caller, in a process of its own: it runs the commands on its standard input, and exits when
//! that is closed.
//!
//! The process has neither server nor slices nor pods, so that its resources are those of a
//! channel.

use std::time::Duration;

use anyhow::{Context, Result};
use dogwatch::{Client, Config};
use dogwatch_grpc::{ConnectionState, KubeChannel, Resolver, Target};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader};
use tokio::task::JoinHandle;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::{Status, Streaming};

use super::commands::{CallerCommand, EndpointState, StreamOutcome};
use super::echo::{self, Message};
use super::limit;
use super::load::SteadyLoad;
use super::resource_usage::ResourceUsage;

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
        let command = serde_json::from_str(&line).with_context(|| format!("invalid command {line}"))?;
        println!("{}", caller.run(command).await?);
    }
    Ok(())
}

#[derive(Default)]
struct Caller {
    channel: Option<KubeChannel>,
    load: Option<SteadyLoad>,
    stream: Option<JoinHandle<StreamOutcome>>,
}

fn line(answer: &impl Serialize) -> Result<String> {
    Ok(serde_json::to_string(answer)?)
}

impl Caller {
    /// Runs a command, and returns the response line.
    async fn run(&mut self, command: CallerCommand) -> Result<String> {
        match command {
            CallerCommand::ResourceUsage => line(&ResourceUsage::now()?),
            CallerCommand::Connect { url, service, endpoints } => {
                self.channel = Some(connect(&url, &service, endpoints).await?);
                line(&())
            }
            CallerCommand::Endpoints => line(&endpoint_states(self.channel()?)),
            CallerCommand::Begin { rate } => {
                self.load = Some(SteadyLoad::begin(self.client()?, rate));
                line(&())
            }
            CallerCommand::End => line(&self.load.take().context("there is no load to end")?.end().await?),
            CallerCommand::Stream { messages, milliseconds } => {
                let began = Instant::now();
                let every = Duration::from_millis(milliseconds);
                let mut stream = echo::many(self.client()?, messages, every).await?;
                let first = stream.message().await?.is_some();
                self.stream = Some(tokio::spawn(read(stream, u64::from(first), began)));
                line(&())
            }
            CallerCommand::EndStream => line(&self.stream.take().context("there is no stream")?.await?),
            CallerCommand::Drop => {
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

fn endpoint_states(channel: &KubeChannel) -> Vec<EndpointState> {
    let state = |it: dogwatch_grpc::EndpointStatus| EndpointState {
        id: it.endpoint.id.to_string(),
        peer: it.peer,
        ready: it.state == ConnectionState::Ready,
        in_flight: it.in_flight,
        failures: it.failures,
    };
    channel.endpoints().into_iter().map(state).collect()
}

/// Reads the rest of a stream.
async fn read(mut stream: Streaming<Message>, mut messages: u64, began: Instant) -> StreamOutcome {
    let why = loop {
        match stream.message().await {
            Ok(Some(message)) if message.number == messages => messages += 1,
            Ok(Some(message)) => break Some(format!("message {} is out of order", message.number)),
            Ok(None) => break None,
            Err(status) => break Some(Status::to_string(&status)),
        }
    };
    StreamOutcome { messages, seconds: began.elapsed().as_secs_f64(), why }
}
