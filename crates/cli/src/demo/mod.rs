//! `dogwatch demo`: a whole cluster in one process, and something going on in it.
//!
//! ```text
//! API server + simulators ◄─ workload (deploys, scales, rolls, breaks)        each a Part, with a voice
//!      │     └─► shared informers ─► followers (tell what changed, count)     and a few words at the end
//!      ├─► two ingress managers, one of them leads ──► narrator ─► stdout
//!      └─► a gRPC channel that calls servers while they roll
//! ```
//!
//! With a connection flag it looks at that server instead, and changes nothing there.

mod look;
mod part;
mod narrator;
mod states;
mod teller;
mod workload;
mod followers;
mod managers;
mod greeter;
mod calls;

use std::io::{self, Stdout, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use dogwatch::config::Overrides;
use dogwatch::{Client, Config, InformerFactory};
use dogwatch_apiserver::ApiServer;
use futures_util::future::select_all;
use tokio::time::Instant;

use crate::advice::PortTaken;
use crate::connection::Connection;
use crate::{ending, survey};
use calls::Calls;
use followers::Followers;
use managers::Managers;
use narrator::Narrator;
use part::{Part, Stage, Voice};
use workload::Workload;

/// Run an API server and a simulated workload in this process, and print what happens.
///
/// It needs no cluster: it starts an API server with simulated nodes, deploys, scales and rolls a service on it, stops the leader of two
/// controllers, and calls gRPC servers while they are replaced. Look around meanwhile:
///
/// kubectl --server URL get pods --all-namespaces --watch
///
/// With --server, --kubeconfig or --context it lists what that server offers instead, and changes nothing there.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// End by itself after so many seconds, with a summary. Without it: until Ctrl-C.
    #[arg(long, value_name = "N")]
    seconds: Option<u64>,
    /// Listen on this port of 127.0.0.1. Without it: on a free one.
    #[arg(long, value_name = "P", default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// With a connection flag: count the objects of this namespace only.
    #[arg(short, long, value_name = "NAME")]
    namespace: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the demo until its time is up.
pub(crate) async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.connection.is_given() {
        let survey = survey::take(&options.connection.client()?, options.namespace.as_deref()).await?;
        io::stdout().write_all(look::text(&survey).as_bytes())?;
        return Ok(ExitCode::SUCCESS);
    }
    let ended = ending::end().context("cannot listen for signals")?;
    let began = Instant::now();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let server = ApiServer::builder().bind(address).simulators(true).start().await.map_err(PortTaken)?;
    let mut narrator = Narrator::new(io::stdout(), began);
    let client = client_of(&server)?;
    introduce(&mut narrator, &server, &client, began).await?;

    let (voice, mut said) = Voice::new();
    let informers = InformerFactory::new(client.clone());
    let stage = Stage { client, informers, voice };
    let length = options.seconds.map(Duration::from_secs);
    let mut parts: Vec<Box<dyn Part>> = vec![
        Box::new(Followers::new(&stage)?),
        Box::new(Workload::new(&stage)),
        Box::new(Managers::new(&stage, length)),
        Box::new(Calls::new(&stage)),
    ];
    stage.informers.start();
    let end = async {
        match length {
            Some(length) => tokio::time::sleep(length).await,
            None => std::future::pending().await,
        }
    };
    let outcome = tokio::select! {
        (failed, ..) = select_all(parts.iter_mut().map(|it| it.run())) => failed.context("a part of the demo failed"),
        told = narrator.listen(&mut said) => told.map_err(Into::into),
        () = end => Ok(()),
        () = ended => Ok(()),
    };
    let mut told = vec![("revision", server.cluster().store().revision().to_string())];
    told.extend(parts.iter().flat_map(|it| it.summary()));
    drop(parts);
    stage.informers.shut_down().await;
    server.stop().await;
    let summed = narrator.summary(told);
    outcome?;
    summed?;
    Ok(ExitCode::SUCCESS)
}

/// Says where we are.
async fn introduce(
    narrator: &mut Narrator<Stdout>,
    server: &ApiServer,
    client: &Client,
    began: Instant,
) -> anyhow::Result<()> {
    let url = server.url();
    narrator.say(&format!("an API server of our own answers on {url} after {:.1?}", began.elapsed()))?;
    narrator.say(&format!("look around: kubectl --server {url} get pods --all-namespaces --watch"))?;
    narrator.say(&format!("or with our own: dogwatch watch --server {url} pods --all-namespaces"))?;
    let survey = survey::take(client, None).await?;
    let (resources, groups) = (survey.resources.len(), survey.groups.len());
    Ok(narrator.say(&format!("it serves {resources} resources in {groups} groups, as {}", survey.version))?)
}

fn client_of(server: &ApiServer) -> anyhow::Result<Client> {
    let config = Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default())?;
    Ok(Client::new(config)?)
}
