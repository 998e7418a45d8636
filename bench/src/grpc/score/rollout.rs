//! A rolling restart under a constant load: each pod is replaced by a new one, and no call should
//! fail.

use anyhow::Result;
use tokio::time::{Duration, sleep};

use super::scenario::Scenario;
use crate::grpc::caller::outcome::Outcome;
use crate::grpc::caller_process::Balancing;
use crate::grpc::pods::Pods;

const PODS: usize = 10;
const RATE: u32 = 500;
/// The pause before the first pod is replaced, and after the last one.
const REST: Duration = Duration::from_millis(500);

/// The order in which a pod is marked as terminating in its slice and shuts down. Both orders
/// happen in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ShutdownOrder {
    SliceFirst,
    PodFirst,
}

/// Runs a rolling restart. Returns the outcome of the calls meanwhile.
pub(super) async fn run(scenario: &Scenario<'_>, order: ShutdownOrder) -> Result<Outcome> {
    let service = scenario.service(&format!("roll-{order:?}"));
    let mut pods = Pods::start(2 * PODS as u8)?;
    scenario.publish(&service, &pods, 0..PODS, None).await?;
    let mut caller = scenario.caller(&service, Balancing::RoundRobin).await?;
    caller.begin(RATE).await?;
    sleep(REST).await;
    for old in 0..PODS {
        let (new, step) = (old + 1 + PODS, scenario.settings.step);
        scenario.publish(&service, &pods, old..new, None).await?;
        sleep(step).await;
        if order == ShutdownOrder::PodFirst {
            pods.pod_mut(old).terminate();
            sleep(step).await;
        }
        scenario.publish(&service, &pods, old + 1..new, Some(old)).await?;
        sleep(step).await;
        if order == ShutdownOrder::SliceFirst {
            pods.pod_mut(old).terminate();
            sleep(step).await;
        }
        scenario.publish(&service, &pods, old + 1..new, None).await?;
    }
    sleep(REST).await;
    caller.end().await
}
