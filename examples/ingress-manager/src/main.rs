//! Runs the ingress manager until it is told to end.

use std::net::SocketAddr;

use anyhow::Context as _;
use clap::Parser;
use dogwatch::Client;
use dogwatch::controller::{Endpoints, LeaderElector, Manager};
use metrics_exporter_prometheus::PrometheusBuilder;
use tracing_subscriber::EnvFilter;

/// Gives every Service that is annotated `ingress/http` an Ingress.
///
/// Run as many as you like: one of them leads, and the others take over when it ends. The cluster is the one of your kubeconfig, or the one
/// this runs in.
#[derive(Debug, Parser)]
struct Options {
    /// The Lease that decides who leads.
    #[arg(long, value_name = "NAME", default_value = "ingress-manager")]
    lease: String,
    /// Where that Lease is. Without it: in the namespace of the kubeconfig or the pod.
    #[arg(long, value_name = "NAMESPACE")]
    lease_namespace: Option<String>,
    /// Where /healthz, /readyz and /metrics are answered.
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:8081")]
    bind: SocketAddr,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let options = Options::parse();
    let level = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(level).init();
    let metrics = PrometheusBuilder::new().install_recorder().context("cannot collect metrics")?;

    let client = Client::from_env().await?;
    let mut elector = LeaderElector::builder(client.clone(), options.lease);
    if let Some(namespace) = &options.lease_namespace {
        elector = elector.namespace(namespace);
    }
    let endpoints = Endpoints::bind(options.bind)
        .await
        .with_context(|| format!("cannot listen on {}; --bind chooses another address", options.bind))?;

    tracing::info!(address = %endpoints.local_addr()?, "answering /healthz, /readyz and /metrics");

    let manager = Manager::new(client.clone());
    let controller = ingress_manager::controller(&manager, client);
    let manager = manager.controller(controller).elect(elector.build()?);
    manager.serve(endpoints.metrics(move || metrics.render())).run().await?;
    Ok(())
}
