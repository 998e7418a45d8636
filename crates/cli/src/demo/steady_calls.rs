//! After the story: a few gRPC calls a second, so that the live page has something to show.

use std::convert::Infallible;
use std::time::Duration;

use dogwatch::grpc::{KubeChannel, Resolver};
use dogwatch::informer::HandlerOptions;

use super::greeter::greet;
use super::pod_servers::{PodServers, TARGET};
use super::scene::Scene;
use super::stage::Stage;

/// The pause between two calls.
const PAUSE: Duration = Duration::from_millis(20);

/// Calls the pods of the Deployment until it is dropped. If that becomes impossible, because a user
/// has deleted the namespace for example, it prints the reason and makes no more calls.
pub(super) async fn run(scene: &Scene, stage: &Stage) -> Infallible {
    if let Err(error) = call_pods(scene).await {
        stage.finds(format!("The gRPC calls have ended: {error:#}.")).await;
    }
    std::future::pending().await
}

async fn call_pods(scene: &Scene) -> anyhow::Result<()> {
    let mut servers = PodServers::new(scene.client.clone(), scene.page.kill.clone()).await?;
    let mut pods = scene.pods.changes_with(HandlerOptions::default().name("gRPC servers"))?;
    let channel = Resolver::new(scene.client.clone()).channel(&TARGET.parse()?).build()?;
    scene.page.diagnostics.add_channel("greeter", &channel);
    tokio::select! {
        biased;
        ended = servers.follow(&mut pods) => ended,
        () = call(&channel) => Ok(()),
    }
}

/// Makes calls one after another. Failures are shown by the page.
async fn call(channel: &KubeChannel) {
    loop {
        let _ = greet(channel).await;
        tokio::time::sleep(PAUSE).await;
    }
}
