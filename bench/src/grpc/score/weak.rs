//! One of several pods is degraded: dead although its slice says that it is ready, or slow.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::net::TcpStream;
use tokio::time::{Duration, sleep};

use super::scene::Scene;
use crate::grpc::asking::Choice;
use crate::grpc::caller::outcome::Outcome;
use crate::grpc::pods::Pods;

pub(super) const PODS: usize = 5;
/// The delay of the slow pod's responses.
pub(super) const DELAY: Duration = Duration::from_millis(100);
const RATE: u32 = 500;

/// Returns the outcome of calls while one pod refuses connections.
pub(super) async fn dead(scene: &Scene<'_>) -> Result<Outcome> {
    let (service, mut pods) = (scene.service("dead"), Pods::start(PODS as u8)?);
    let address = SocketAddr::from((pods.all()[0].address, pods.port));
    pods.one(0).terminate();
    while TcpStream::connect(address).await.is_ok() {
        sleep(Duration::from_millis(1)).await;
    }
    scene.tell(&service, &pods, 0..PODS, None).await?;
    scene.caller(&service, Choice::Turns).await?.steady(RATE, scene.effort.steady).await
}

/// Returns the outcome of calls while one pod is slow, after a warm-up in which the caller can
/// measure that.
pub(super) async fn slow(scene: &Scene<'_>, choice: Choice) -> Result<Outcome> {
    let service = scene.service(&format!("slow-{choice:?}"));
    let pods = Pods::start(PODS as u8)?;
    pods.all()[0].delay(DELAY);
    scene.tell(&service, &pods, 0..PODS, None).await?;
    let mut caller = scene.caller(&service, choice).await?;
    caller.steady(RATE, scene.effort.steady / 4).await?;
    caller.steady(RATE, scene.effort.steady).await
}
