//! How soon a change of a slice shows in the calls: a pod comes, and goes again, while it serves all the time.

use anyhow::Result;
use tokio::time::{Duration, Instant, sleep};

use super::scene::Scene;
use crate::grpc::asking::Choice;
use crate::grpc::goals::median;
use crate::grpc::pods::Pods;

const PODS: usize = 5;
/// Resolution is a millisecond.
const RATE: u32 = 1_000;
const REST: Duration = Duration::from_millis(500);
/// How long a change may take to show.
const PATIENCE: Duration = Duration::from_secs(3);

/// Milliseconds from the write of a slice, in the middle of several; `None` if it does not show.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lag {
    /// To the first call on a pod that is new in it.
    pub(super) first: Option<f64>,
    /// To the last call on a pod that is no longer in it.
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
        // One that was called a moment ago still is.
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
