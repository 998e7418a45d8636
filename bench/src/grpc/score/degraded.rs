//! One of several pods is degraded: dead although its slice says that it is ready, or slow.

use std::net::SocketAddr;

use anyhow::Result;
use tokio::net::TcpStream;
use tokio::time::{Duration, sleep};

use super::scenario::Scenario;
use crate::grpc::caller::outcome::Outcome;
use crate::grpc::caller_process::Balancing;
use crate::grpc::pods::Pods;

pub(super) const PODS: usize = 5;
/// The delay of the slow pod's responses.
pub(super) const DELAY: Duration = Duration::from_millis(100);
const RATE: u32 = 500;

/// Returns the outcome of calls while one pod refuses connections.
pub(super) async fn dead(scenario: &Scenario<'_>) -> Result<Outcome> {
    let (service, mut pods) = (scenario.service("dead"), Pods::start(PODS as u8)?);
    let address = SocketAddr::from((pods.all()[0].address, pods.port));
    pods.pod_mut(0).terminate();
    while TcpStream::connect(address).await.is_ok() {
        sleep(Duration::from_millis(1)).await;
    }
    scenario.publish(&service, &pods, 0..PODS, None).await?;
    scenario.caller(&service, Balancing::RoundRobin).await?.steady(RATE, scenario.settings.steady).await
}

/// Returns the outcome of calls while one pod is slow, after a warm-up in which the caller can
/// measure that.
pub(super) async fn slow(scenario: &Scenario<'_>, balancing: Balancing) -> Result<Outcome> {
    let service = scenario.service(&format!("slow-{balancing:?}"));
    let pods = Pods::start(PODS as u8)?;
    pods.all()[0].delay(DELAY);
    scenario.publish(&service, &pods, 0..PODS, None).await?;
    let mut caller = scenario.caller(&service, balancing).await?;
    caller.steady(RATE, scenario.settings.steady / 4).await?;
    caller.steady(RATE, scenario.settings.steady).await
}
