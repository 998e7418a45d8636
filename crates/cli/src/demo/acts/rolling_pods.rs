//! Act 5: all pods are replaced while gRPC calls go to them.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dogwatch::grpc::{KubeChannel, Resolver};
use dogwatch::informer::HandlerOptions;
use futures_util::{StreamExt as _, stream};
use parking_lot::Mutex;

use crate::demo::greeter::greet;
use crate::demo::pod_servers::{PodServers, TARGET};
use crate::demo::scene::Scene;
use crate::demo::stage::{Stage, counted, listed};
use crate::demo::waiting::until;
use crate::demo::workload::{self, NEW_IMAGE, WEB};

pub(super) const TITLE: &str = "Pods are replaced in use";
pub(super) const ABOUT: &str =
    "A gRPC channel follows a Service: new pods get calls, terminating pods get no more.";

/// The number of concurrent callers, and the pause of each between two calls.
const CALLERS: usize = 4;
const CALL_PAUSE: Duration = Duration::from_millis(2);

/// The outcomes of the calls.
#[derive(Debug, Default)]
struct Calls {
    /// The number of calls that each pod answered.
    answered: BTreeMap<String, usize>,
    failed: usize,
    last_failure: Option<String>,
}

/// Plays the act. Returns its outcome.
pub(super) async fn play(scene: &mut Scene, stage: &Stage) -> anyhow::Result<String> {
    let mut servers = PodServers::new(scene.client.clone(), scene.page.kill.clone()).await?;
    let mut pods = scene.pods.changes_with(HandlerOptions::default().name("gRPC servers"))?;
    let resolver = Resolver::new(scene.client.clone());
    let channel = resolver.channel(&TARGET.parse()?).build()?;
    scene.page.diagnostics.add_channel("greeter", &channel);
    let calls = Mutex::new(Calls::default());
    let outcome = tokio::select! {
        biased;
        ended = servers.follow(&mut pods) => ended.and_then(|()| anyhow::bail!("the informer ended")),
        outcome = roll(scene, stage, &channel, &calls) => outcome,
    };
    drop(pods);
    servers.stop().await?;
    outcome
}

/// Calls the servers while the pods are replaced.
async fn roll(
    scene: &Scene,
    stage: &Stage,
    channel: &KubeChannel,
    calls: &Mutex<Calls>,
) -> anyhow::Result<String> {
    stage.does(format!("Each pod of {WEB} gets a gRPC server, and {CALLERS} clients call {TARGET}.")).await;
    let knows_all = || endpoints(channel) == workload::ready_on_server(scene);
    until("the channel has an endpoint for each ready pod", knows_all).await?;
    let before = endpoints(channel);
    if before.is_empty() {
        stage.finds(format!("The channel found no endpoint: {WEB} has no ready pods.")).await;
    } else {
        stage.finds(format!("The channel found {}:", counted(before.len(), "endpoint"))).await;
        stage.finds(format!("{}.", listed(before.iter().map(String::as_str)))).await;
    }
    let calling = stream::iter(0..CALLERS).for_each_concurrent(None, |_| call(channel, calls));
    let replaced = async {
        // Not those of `before`: a user may have deleted one of them since.
        let all_called = || calls.lock().have_reached(&endpoints(channel));
        until("every endpoint is called", all_called).await?;
        stage.does(format!("{WEB} gets a new image: its pods are replaced, while the calls go on.")).await;
        workload::apply_image(scene, NEW_IMAGE).await?;
        workload::settled(scene).await?;
        until("the channel has exactly the new endpoints", knows_all).await?;
        until("every new endpoint is called", all_called).await?;
        anyhow::Ok(endpoints(channel))
    };
    let after = tokio::select! {
        biased;
        after = replaced => after?,
        () = calling => anyhow::bail!("the callers ended"),
    };
    let (new, gone) = (after.difference(&before), before.difference(&after));
    let outcome = format!("{}, {} gone", counted(new.clone().count(), "new endpoint"), gone.clone().count());
    stage.finds(format!("New endpoints: {}.", listed(new.map(String::as_str)))).await;
    stage.finds(format!("Gone endpoints: {}.", listed(gone.map(String::as_str)))).await;
    let Calls { failed, last_failure, answered } = std::mem::take(&mut *calls.lock());
    let total = answered.values().sum::<usize>() + failed;
    let why = last_failure.map(|it| format!("; the last error is: {it}")).unwrap_or_default();
    let calls = counted(total, "call");
    stage.finds(format!("Meanwhile the clients made {calls}: {failed} failed{why}.")).await;
    Ok(format!("{calls}, {failed} failed; {outcome}"))
}

/// Makes calls one after another.
async fn call(channel: &KubeChannel, calls: &Mutex<Calls>) {
    loop {
        let outcome = greet(channel).await;
        {
            let mut calls = calls.lock();
            match outcome {
                Ok(pod) => *calls.answered.entry(pod).or_default() += 1,
                Err(status) => {
                    calls.failed += 1;
                    calls.last_failure = Some(status.to_string());
                }
            }
        }
        tokio::time::sleep(CALL_PAUSE).await;
    }
}

/// Returns the pods to which the channel sends new calls.
fn endpoints(channel: &KubeChannel) -> BTreeSet<String> {
    let usable = channel.endpoints().into_iter().filter(|it| it.endpoint.usable);
    usable.filter_map(|it| it.endpoint.pod.as_deref().map(str::to_owned)).collect()
}

impl Calls {
    /// Returns true if each of these pods has answered a call.
    fn have_reached(&self, pods: &BTreeSet<String>) -> bool {
        pods.iter().all(|it| self.answered.contains_key(it))
    }
}
