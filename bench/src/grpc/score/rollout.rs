//! A rolling restart under a constant load: each pod is replaced by a new one, and no call should
//! fail.

use anyhow::Result;
use tokio::time::{Duration, sleep};

use super::scene::Scene;
use crate::grpc::asking::Choice;
use crate::grpc::caller::outcome::Outcome;
use crate::grpc::pods::Pods;

const PODS: usize = 10;
const RATE: u32 = 500;
/// The pause before the first pod is replaced, and after the last one.
const REST: Duration = Duration::from_millis(500);

/// The order in which a pod is marked as terminating in its slice and shuts down. Both orders
/// happen in a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    ToldFirst,
    ToldLate,
}

/// Runs a rolling restart. Returns the outcome of the calls meanwhile.
pub(super) async fn roll(scene: &Scene<'_>, order: Order) -> Result<Outcome> {
    let service = scene.service(&format!("roll-{order:?}"));
    let mut pods = Pods::start(2 * PODS as u8)?;
    scene.tell(&service, &pods, 0..PODS, None).await?;
    let mut caller = scene.caller(&service, Choice::Turns).await?;
    caller.begin(RATE).await?;
    sleep(REST).await;
    for old in 0..PODS {
        let (new, step) = (old + 1 + PODS, scene.effort.step);
        scene.tell(&service, &pods, old..new, None).await?;
        sleep(step).await;
        if order == Order::ToldLate {
            pods.one(old).terminate();
            sleep(step).await;
        }
        scene.tell(&service, &pods, old + 1..new, Some(old)).await?;
        sleep(step).await;
        if order == Order::ToldFirst {
            pods.one(old).terminate();
            sleep(step).await;
        }
        scene.tell(&service, &pods, old + 1..new, None).await?;
    }
    sleep(REST).await;
    caller.end().await
}
