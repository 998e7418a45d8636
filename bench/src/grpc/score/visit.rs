//! The delay between the change of a slice and its effect on calls: a pod is added and removed
//! again, and serves all the time.

use anyhow::Result;
use tokio::time::{Duration, Instant, sleep};

use super::scene::Scene;
use crate::grpc::asking::Choice;
use crate::grpc::goals::median;
use crate::grpc::pods::Pods;

const PODS: usize = 5;
/// The resolution is one millisecond.
const RATE: u32 = 1_000;
const REST: Duration = Duration::from_millis(500);
/// The time after which a change counts as not effective.
const PATIENCE: Duration = Duration::from_secs(3);

/// The median delay after writing a slice, in milliseconds. `None` if the change has no effect.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lag {
    /// Until the first call on a pod that was added.
    pub(super) first: Option<f64>,
    /// Until the last call on a pod that was removed.
    pub(super) last: Option<f64>,
}

pub(super) async fn lag(scene: &Scene<'_>) -> Result<Lag> {
    let (service, pods) = (scene.service("visit"), Pods::start(PODS as u8 + 1)?);
    let visitor = &pods.all()[PODS];
    scene.tell(&service, &pods, 0..PODS, None).await?;
    let mut caller = scene.caller(&service, Choice::Turns).await?;
    caller.begin(RATE).await?;
    sleep(REST).await;
    let (mut first, mut last) = (Vec::new(), Vec::new());
    for _ in 0..scene.effort.visits {
        visitor.forget();
        let written = Instant::now();
        scene.tell(&service, &pods, 0..PODS + 1, None).await?;
        while visitor.first().is_none() && written.elapsed() < PATIENCE {
            sleep(Duration::from_millis(1)).await;
        }
        let moment = visitor.first();
        first.extend(moment.map(|it| it.saturating_duration_since(written)));
        sleep(REST / 5).await;
        let written = Instant::now();
        scene.tell(&service, &pods, 0..PODS, None).await?;
        sleep(REST).await;
        // A pod whose last call is this recent is still being called.
        let moment = visitor.last().filter(|it| it.elapsed() > REST / 5);
        last.extend(moment.map(|it| it.saturating_duration_since(written)));
    }
    caller.end().await?;
    let all = |it: Vec<Duration>| {
        let shown = it.len() == scene.effort.visits;
        median(it.iter().map(|it| it.as_secs_f64() * 1e3)).filter(|_| shown)
    };
    Ok(Lag { first: all(first), last: all(last) })
}
