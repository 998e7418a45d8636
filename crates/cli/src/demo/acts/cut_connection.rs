//! Act 2: the connection is cut, changes are made meanwhile, and the informer resumes.

use crate::demo::scene::Scene;
use crate::demo::stage::{Stage, counted};
use crate::demo::waiting::until;
use crate::demo::workload::{self, STEP, WEB};

pub(super) const TITLE: &str = "The connection is cut";
pub(super) const ABOUT: &str =
    "A watch can continue after the last version that arrived, if the client keeps it.";

/// Plays the act. Returns its outcome.
pub(super) async fn play(scene: &mut Scene, stage: &Stage) -> anyhow::Result<String> {
    stage.does("Every watch of the pods is cut, and so is each new one.").await;
    let relists = scene.pods.health().relists;
    let (outage, watches) = (scene.cut_connections(), scene.watch_again.tap.watches());
    disconnected(scene).await?;
    let (last, shown) = (scene.pods.last_sync_version(), scene.last_version());
    stage.finds(format!("The informer noticed. The last version that it received is {shown}.")).await;

    let before = workload::replicas(scene)?;
    let more = before.saturating_add(STEP);
    stage.does(format!("Meanwhile {WEB} is scaled from {before} to {}.", counted(more, "pod"))).await;
    workload::scale(scene, more).await?;
    let replicas = workload::settled(scene).await?;
    workload::newest_event(scene).await?;
    until("a client tries to reconnect", || outage.fired() > 0).await?;
    let (cached, attempts) = (scene.pods.store().len(), usize::try_from(outage.fired())?);
    let ready = counted(replicas, "ready pod");
    stage.finds(format!("The server has {ready}, the cache still shows {cached}.")).await;
    stage.finds(format!("{} to reconnect failed.", counted(attempts, "attempt"))).await;

    stage.does("The network works again.").await;
    drop(outage);
    workload::cached(scene).await?;
    let lists = usize::try_from(scene.pods.health().relists.saturating_sub(relists))?;
    let outcome = report(scene, stage, last.as_str().parse()?, lists).await;
    until("the naive client that watches again is connected", || {
        let tap = &scene.watch_again.tap;
        tap.watches() > watches && workload::are_known(scene, &tap.pods())
    })
    .await?;
    let known = counted(scene.watch_once.tap.pods().len(), "pod");
    stage.finds(format!("\"Watch once\" has ended: it shows {known} from now on, whatever happens.")).await;
    Ok(outcome)
}

/// Prints where the informer resumed, and what it received. Returns the outcome of the act.
async fn report(scene: &Scene, stage: &Stage, cut_at: u64, lists: usize) -> String {
    let meanwhile = scene.reference.tap.events_after(cut_at);
    let lost = meanwhile.difference(&scene.tap.events()).count();
    let (resumed, now) = (scene.versions.shown(&scene.tap.resumed_at()), scene.last_version());
    let changes = counted(meanwhile.len(), "change");
    let lists = if lists == 0 { "no new list".to_owned() } else { counted(lists, "new list") };
    stage.finds(format!("The informer resumed after version {resumed}, and is at version {now} now.")).await;
    stage.finds(format!("{changes} happened meanwhile: {lost} lost. It needed {lists}.")).await;
    format!("resumed after version {resumed}; {changes} meanwhile, {lost} lost")
}

/// Waits until every client has noticed that its watch is gone.
pub(super) async fn disconnected(scene: &Scene) -> anyhow::Result<()> {
    let taps = [&scene.tap, &scene.watch_once.tap, &scene.watch_again.tap];
    until("all clients are disconnected", || !taps.iter().any(|it| it.is_connected())).await
}
