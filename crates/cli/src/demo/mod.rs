//! `dogwatch demo`: a whole cluster in one process, with activity in it.
//!
//! ```text
//! API server + simulator  ◄─ workload (deploys, scales, rolls out, deletes)    each a DemoTask that prints
//!      │     └─► shared informers ─► handlers (print and count changes)         lines and a summary
//!      ├─► two ingress managers, one of them leads ──► narrator ─► stdout
//!      └─► a gRPC channel that calls servers during a rollout
//! ```
//!
//! With a connection flag it prints the API of that server instead, and changes nothing there.

mod survey_table;
mod task;
mod narrator;
mod states;
mod change_printer;
mod workload;
mod informers;
mod managers;
mod greeter;
mod backend;
mod calls;

use std::io::{self, Write as _};
use std::net::{Ipv4Addr, SocketAddr};
use std::pin::pin;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::Context;
use dogwatch::config::Overrides;
use dogwatch::{Client, Config, InformerFactory};
use dogwatch_apiserver::ApiServer;
use dogwatch_simulator::Settings;
use futures_util::FutureExt;
use futures_util::future::{FusedFuture, select_all};
use tokio::time::Instant;

use crate::advice::PortTaken;
use crate::connection::Connection;
use crate::printer::Printer;
use crate::{signals, simulation, survey};
use calls::Calls;
use informers::Informers;
use managers::Managers;
use narrator::Narrator;
use task::{DemoContext, DemoTask, Output};
use workload::Workload;

/// The time for a reader to take the remaining output after a shutdown signal.
const SUMMARY_GRACE: Duration = Duration::from_secs(2);

/// Run an API server and a simulated workload in this process, and print what happens.
///
/// It needs no cluster: it starts an API server with simulated nodes, deploys, scales and rolls out
/// a service, stops the leader of two controllers, and calls gRPC servers while they are replaced.
/// Look around meanwhile:
///
/// kubectl --server URL get pods --all-namespaces --watch
///
/// With a connection flag, such as --server or --kubeconfig, it lists the resources of that server
/// instead, and changes nothing there.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Stop after this many seconds, with a summary. By default it runs until Ctrl-C.
    #[arg(long, value_name = "N", conflicts_with = "connection")]
    seconds: Option<u64>,
    /// Listen on this port of 127.0.0.1. By default on a free one.
    #[arg(long, value_name = "P", conflicts_with = "connection")]
    port: Option<u16>,
    /// With a connection flag: count only the objects of this namespace.
    #[arg(short, long, value_name = "NAME", requires = "connection")]
    namespace: Option<String>,
    #[command(flatten)]
    connection: Connection,
}

/// Runs the demo until its time is up.
pub(crate) async fn run(options: &Options) -> anyhow::Result<ExitCode> {
    if options.connection.is_given() {
        let namespace = options.namespace.as_deref().filter(|it| !it.is_empty());
        let survey = survey::take(&options.connection.client()?, namespace).await?;
        io::stdout().write_all(survey_table::text(&survey).as_bytes()).context("cannot write to stdout")?;
        return Ok(ExitCode::SUCCESS);
    }
    let mut ended = pin!(signals::shutdown().context("cannot listen for signals")?.fuse());
    let began = Instant::now();
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, options.port.unwrap_or_default()));
    let server = ApiServer::builder().bind(address).start().await.map_err(PortTaken)?;
    let manager = simulation::start_manager(&server, None)?;
    let simulator = simulation::start(&server, Settings::default(), None)?;
    let narrator = Narrator::new(began);
    let mut printer = Printer::start().context("cannot start a thread to print")?;
    let client = client_of(&server)?;
    for words in introduction(&server, &client, began).await? {
        printer.print(narrator.line(&words)).await?;
    }

    let (output, mut lines) = Output::new();
    let informers = InformerFactory::new(client.clone());
    let context = DemoContext { client, informers, output };
    let length = options.seconds.map(Duration::from_secs);
    let mut tasks: Vec<Box<dyn DemoTask>> = vec![
        Box::new(Informers::new(&context)?),
        Box::new(Workload::new(&context)),
        Box::new(Managers::new(&context, length)),
        Box::new(Calls::new(&context)),
    ];
    context.informers.start();
    let end = async {
        match length {
            Some(length) => tokio::time::sleep(length).await,
            None => std::future::pending().await,
        }
    };
    let outcome = tokio::select! {
        (failed, ..) = select_all(tasks.iter_mut().map(|it| it.run())) => failed.context("a task of the demo failed"),
        listened = narrator.listen(&mut lines, &mut printer) => listened,
        () = end => Ok(()),
        () = &mut ended => Ok(()),
    };
    let mut summary = vec![("revision", server.revision().to_string())];
    summary.extend(tasks.iter().flat_map(|it| it.summary()));
    drop(tasks);
    context.informers.shut_down().await;
    simulator.stop().await;
    manager.stop().await;
    server.stop().await;
    let summed = print_summary(printer, narrator.summary(summary), ended).await;
    outcome?;
    summed?;
    Ok(ExitCode::SUCCESS)
}

/// Prints the summary. If the reader does not take it, waits until a shutdown signal, and not much
/// longer.
async fn print_summary(
    mut printer: Printer,
    summary: String,
    ended: impl FusedFuture<Output = ()>,
) -> anyhow::Result<()> {
    let printed = async {
        printer.print(summary).await?;
        printer.finish().await
    };
    let given_up = async {
        if !ended.is_terminated() {
            ended.await;
        }
        tokio::time::sleep(SUMMARY_GRACE).await;
    };
    tokio::select! {
        printed = printed => printed,
        () = given_up => Ok(()),
    }
}

/// Returns the lines with the server's address and version.
async fn introduction(server: &ApiServer, client: &Client, began: Instant) -> anyhow::Result<[String; 4]> {
    let (url, after) = (server.url(), began.elapsed());
    let survey = survey::take(client, None).await?;
    let (resources, groups) = (survey.resources.len(), survey.groups.len());
    Ok([
        format!("API server ready at {url} after {after:.1?}"),
        format!("look around: kubectl --server {url} get pods --all-namespaces --watch"),
        format!("or with dogwatch: dogwatch watch --server {url} pods --all-namespaces"),
        format!("serving {resources} resources in {groups} API groups, version {}", survey.version),
    ])
}

fn client_of(server: &ApiServer) -> anyhow::Result<Client> {
    let config = Config::from_kubeconfig_str(&server.kubeconfig(), &Overrides::default())?;
    Ok(Client::new(config)?)
}
