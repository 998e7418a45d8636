//! Act 3: the server forgets its history while the watch is down. The informer lists again, and
//! finds two deletions that no event reported.

use std::collections::BTreeSet;

use super::cut_connection::disconnected;
use crate::demo::scene::Scene;
use crate::demo::stage::{Stage, counted, listed};
use crate::demo::tap::PodEvent;
use crate::demo::waiting::{until, until_some};
use crate::demo::workload::{self, REPLICAS, STEP, WEB};

pub(super) const TITLE: &str = "The history expires";
pub(super) const ABOUT: &str =
    "A server keeps old changes for minutes. After a longer outage, they are lost for good.";

/// Plays the act. Returns its outcome.
pub(super) async fn play(scene: &mut Scene, stage: &Stage) -> anyhow::Result<String> {
    stage.does("The connections are cut again, and each new one too.").await;
    let relists = scene.pods.health().relists;
    let outage = scene.cut_connections();
    disconnected(scene).await?;
    let last = scene.pods.last_sync_version();
    stage.finds(format!("The last version that the informer received is {last}.")).await;

    let before = workload::replicas(scene)?;
    // Down to the usual number; a user may have scaled it to less.
    let fewer = if before > REPLICAS { REPLICAS } else { before.saturating_sub(STEP) };
    stage.does(format!("Meanwhile {WEB} is scaled from {before} to {}.", counted(fewer, "pod"))).await;
    workload::scale(scene, fewer).await?;
    workload::settled(scene).await?;
    workload::newest_event(scene).await?;
    let (refused, oldest) = (scene.tap.expired_at(), scene.server.compact_history());
    scene.expired = unavailable(scene, last.as_str().parse()?);
    stage.does(format!("The server forgets its history: no watch can start before {oldest}.")).await;
    stage.does("The network works again.").await;
    drop(outage);

    // A user may have let the history expire before, too.
    let refused_again = || scene.tap.expired_at().filter(|it| Some(it) != refused.as_ref());
    let expired = until_some("the informer is refused with 410", refused_again).await?;
    stage.finds(format!("The informer asked for the changes after {expired}: 410, they are gone.")).await;
    until("the informer lists again", || scene.pods.health().relists > relists).await?;
    workload::cached(scene).await?;
    until("the informer reports the deletions", || reports_all_deletions(scene)).await?;
    let (cached, version) = (scene.pods.store().len(), scene.pods.last_sync_version());
    let missed = scene.deletions.missed();
    stage.finds(format!("It listed again: {} at version {version}.", counted(cached, "pod"))).await;
    stage
        .finds(format!(
            "It compared the list with its cache: {} that no event reported,",
            counted(missed.len(), "deletion")
        ))
        .await;
    stage.finds(format!("{}.", listed(missed.iter().map(String::as_str)))).await;
    until("the naive client that watches again is connected", || scene.watch_again.tap.is_connected())
        .await?;
    let known = scene.watch_again.tap.pods().len();
    stage
        .finds(format!(
            "The client that watches again still knows {}: no later event corrects that.",
            counted(known, "pod")
        ))
        .await;
    Ok(format!("410, listed again, {} that no event reported", counted(missed.len(), "deletion")))
}

/// Returns the events after a version that no client can receive any more: a list has only the last
/// state of each existing pod.
fn unavailable(scene: &Scene, last: u64) -> BTreeSet<PodEvent> {
    let reference = &scene.reference.tap;
    let listed: BTreeSet<u64> = reference.pods().into_values().collect();
    let mut events = reference.events_after(last);
    events.retain(|it| !listed.contains(&it.version));
    events
}

/// Returns true if a deletion is reported for each pod that the informer has received and that is
/// gone.
fn reports_all_deletions(scene: &Scene) -> bool {
    let (reported, reference) = (scene.deletions.all(), scene.reference.tap.events());
    let received: BTreeSet<String> = scene.tap.events().into_iter().map(|it| it.uid).collect();
    let mut deleted = reference.iter().filter(|it| it.is_deletion && received.contains(&it.uid));
    deleted.all(|it| reported.contains_key(&it.uid))
}
