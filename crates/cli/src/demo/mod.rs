//! `dogwatch demo`: a whole cluster in one process, and something going on in it.
//!
//! ```text
//! API server + simulators ◄─ workload (deploys, scales, rolls, breaks)
//!            └─► watches ─► narrator ─► one line for each thing that happens ─► summary
//! ```
//!
//! With a connection flag it looks at that server instead, and changes nothing there.

mod look;
mod workload;
mod narrator;

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use dogwatch::config::Overrides;
use dogwatch::{Client, Config};
use dogwatch_apiserver::ApiServer;
use tokio::time::Instant;

use crate::connection::Connection;
use crate::survey;
use narrator::Narrator;

/// Runs an API server, a simulated cluster and a workload in this process, and tells what happens. Needs no cluster.
///
/// Look around meanwhile: kubectl --server URL get pods --all-namespaces --watch
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
    let began = Instant::now();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port));
    let server = ApiServer::builder()
        .bind(address)
        .simulators(true)
        .start()
        .await
        .context("cannot start the API server of the demo; --port chooses another port")?;
    let mut narrator = Narrator::new(io::stdout(), began);
    narrator.say(&format!(
        "an API server of our own answers on {} after {:.1?}",
        server.url(),
        began.elapsed()
    ))?;
    narrator
        .say(&format!("look around: kubectl --server {} get pods --all-namespaces --watch", server.url()))?;

    let client = client_of(&server)?;
    let survey = survey::take(&client, None).await?;
    let resources = survey.resources.len();
    narrator.say(&format!(
        "it serves {resources} resources in {} groups, as {}",
        survey.groups.len(),
        survey.version
    ))?;

    let end = async {
        match options.seconds {
            Some(seconds) => tokio::time::sleep(Duration::from_secs(seconds)).await,
            None => std::future::pending().await,
        }
    };
    let outcome = tokio::select! {
        failed = workload::run(client.clone()) => failed.context("the workload of the demo failed"),
        failed = narrator.follow(&client) => failed.context("the watches of the demo failed"),
        () = end => Ok(()),
        _ = tokio::signal::ctrl_c() => Ok(()),
    };
    narrator.summary(server.cluster().store().revision())?;
    server.stop().await;
    outcome.map(|()| ExitCode::SUCCESS)
}

fn client_of(server: &ApiServer) -> anyhow::Result<Client> {
    let config = Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default())?;
    Ok(Client::new(config)?)
}
