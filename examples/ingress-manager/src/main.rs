//! Runs the ingress manager until it receives SIGINT or SIGTERM.

use std::net::SocketAddr;

use anyhow::Context as _;
use clap::Parser;
use dogwatch::Client;
use dogwatch::controller::{Endpoints, LeaderElector, Manager};
use metrics_exporter_prometheus::PrometheusBuilder;
use tracing_subscriber::EnvFilter;

/// Creates an Ingress for every Service that is annotated `ingress/http`.
///
/// Several instances can run at once: one leads, and the others take over when it ends. The cluster
/// is that of your kubeconfig, or the one the program runs in.
#[derive(Debug, Parser)]
struct Options {
    /// The name of the Lease for leader election.
    #[arg(long, value_name = "NAME", default_value = "ingress-manager")]
    lease: String,
    /// The namespace of the Lease. Defaults to the namespace of the kubeconfig or the pod.
    #[arg(long, value_name = "NAMESPACE")]
    lease_namespace: Option<String>,
    /// The address that serves /healthz, /readyz and /metrics.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    bind: SocketAddr,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let level = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(level).init();
    let metrics =
        PrometheusBuilder::new().install_recorder().context("cannot install the metrics recorder")?;

    let client = Client::from_env().await?;
    let mut elector = LeaderElector::builder(client.clone(), options.lease);
    if let Some(namespace) = &options.lease_namespace {
        elector = elector.namespace(namespace);
    }
    let endpoints = Endpoints::bind(options.bind)
        .await
        .with_context(|| format!("cannot listen on {}; choose another address with --bind", options.bind))?;

    tracing::info!(address = %endpoints.local_addr()?, "serving /healthz, /readyz and /metrics");

    let manager = Manager::new(client.clone());
    let controller = ingress_manager::controller(&manager, client);
    let manager = manager.controller(controller).leader_election(elector.build()?);
    manager.serve(endpoints.metrics(move || metrics.render())).run().await?;
    Ok(())
}
