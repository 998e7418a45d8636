//! Runs the operator until SIGINT or SIGTERM; with the argument `crd`, prints the definition.

use anyhow::{Context, bail};
use dogwatch::Client;
use dogwatch::controller::Endpoints;
use dogwatch::kube_core::CustomResourceExt;
use metrics_exporter_prometheus::PrometheusBuilder;
use tracing_subscriber::EnvFilter;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    match std::env::args().nth(1).as_deref() {
        None => run().await?,
        Some("crd") => print!("{}", serde_saphyr::to_string(&__crate__::__Kind__::crd())?),
        Some(other) => bail!("unknown argument {other:?}: use `crd`, or none to run the operator"),
    }
    Ok(())
}

async fn run() -> anyhow::Result<()> {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    tracing_subscriber::fmt().with_env_filter(filter).init();
    let metrics = PrometheusBuilder::new().install_recorder()?;

    // /healthz, /readyz and /metrics.
    let address = std::env::var("BIND").unwrap_or_else(|_| "127.0.0.1:8081".to_owned());
    let endpoints = Endpoints::bind(&address).await;
    let endpoints = endpoints.with_context(|| format!("cannot listen on BIND={address}"))?;

    let client = Client::from_env().await?;
    let manager = __crate__::manager(client)?;
    manager.serve(endpoints.metrics(move || metrics.render())).run().await?;
    Ok(())
}
