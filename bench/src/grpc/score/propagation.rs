//! The delay between the change of a slice and its effect on calls: a pod is added and removed
//! again, and serves all the time.

use anyhow::Result;
use tokio::time::{Duration, Instant, sleep};

use super::scenario::Scenario;
use crate::grpc::caller_process::Balancing;
use crate::grpc::goals::median;
use crate::grpc::pods::Pods;

const PODS: usize = 5;
/// The resolution is one millisecond.
const RATE: u32 = 1_000;
const REST: Duration = Duration::from_millis(500);
/// The time after which a change counts as not effective.
const TIMEOUT: Duration = Duration::from_secs(3);

/// The median delay after writing a slice, in milliseconds. `None` if the change has no effect.
#[derive(Clone, Copy, Debug)]
pub(super) struct PropagationDelay {
    /// Until the first call on a pod that was added.
    pub(super) first: Option<f64>,
    /// Until the last call on a pod that was removed.
    pub(super) last: Option<f64>,
}

pub(super) async fn measure(scenario: &Scenario<'_>) -> Result<PropagationDelay> {
    let (service, pods) = (scenario.service("visit"), Pods::start(PODS as u8 + 1)?);
    let added = &pods.all()[PODS];
    scenario.publish(&service, &pods, 0..PODS, None).await?;
    let mut caller = scenario.caller(&service, Balancing::RoundRobin).await?;
    caller.begin(RATE).await?;
    sleep(REST).await;
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for _ in 0..scenario.settings.propagation_rounds {
        added.reset_times();
        let written = Instant::now();
        scenario.publish(&service, &pods, 0..PODS + 1, None).await?;
        while added.first().is_none() && written.elapsed() < TIMEOUT {
            sleep(Duration::from_millis(1)).await;
        }
        let moment = added.first();
        first.extend(moment.map(|it| it.saturating_duration_since(written)));
        sleep(REST / 5).await;
        let written = Instant::now();
        scenario.publish(&service, &pods, 0..PODS, None).await?;
        sleep(REST).await;
        // A pod whose last call is this recent is still being called.
        let moment = added.last().filter(|it| it.elapsed() > REST / 5);
        last.extend(moment.map(|it| it.saturating_duration_since(written)));
    }
    caller.end().await?;
    let all = |it: Vec<Duration>| {
        let shown = it.len() == scenario.settings.propagation_rounds;
        median(it.iter().map(|it| it.as_secs_f64() * 1e3)).filter(|_| shown)
    };
    Ok(PropagationDelay { first: all(first), last: all(last) })
}
