//! Runs the operator until it receives SIGINT or SIGTERM.

use dogwatch::{Client, Manager};

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().init();
    let client = Client::from_env().await?;
    website::install(&client).await?;
    let manager = Manager::new(client.clone());
    let controller = website::controller(&manager, client)?;
    manager.controller(controller).run().await?;
    Ok(())
}
