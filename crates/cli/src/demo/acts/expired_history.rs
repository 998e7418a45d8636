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
    "A server keeps old changes for a few minutes only. After a longer outage, they are gone.";

/// Plays the act. Returns its outcome.
pub(super) async fn play(scene: &mut Scene, stage: &Stage) -> anyhow::Result<String> {
    stage.does("The connections are cut again, and each new one too.").await;
    let relists = scene.pods.health().relists;
    let outage = scene.cut_connections();
    disconnected(scene).await?;
    let (last, shown) = (scene.pods.last_sync_version(), scene.last_version());
    stage.finds(format!("The last version that the informer received is {shown}.")).await;

    let before = workload::replicas(scene)?;
    let wanted = wanted_after(before);
    stage.does(format!("Meanwhile {WEB} is scaled from {before} to {}.", counted(wanted, "pod"))).await;
    workload::scale(scene, wanted).await?;
    workload::settled(scene).await?;
    workload::newest_event(scene).await?;
    let (refused, oldest) = (scene.tap.expired_at(), scene.server.compact_history());
    scene.expired = unavailable(scene, last.as_str().parse()?);
    let oldest = scene.versions.number(oldest);
    stage
        .does(format!("The server drops its history: no watch can resume at a version before {oldest}."))
        .await;
    stage.does("The network works again.").await;
    drop(outage);

    // A user may have let the history expire before, too.
    let refused_again = || scene.tap.expired_at().filter(|it| Some(it) != refused.as_ref());
    let expired = until_some("the informer is refused with 410", refused_again).await?;
    let expired = scene.versions.shown(&expired);
    stage.finds(format!("The informer tried to resume after version {expired}, and got 410 Gone.")).await;
    until("the informer lists again", || scene.pods.health().relists > relists).await?;
    workload::cached(scene).await?;
    until("the informer reports the deletions", || reports_all_deletions(scene)).await?;
    let (cached, version) = (counted(scene.pods.store().len(), "pod"), scene.last_version());
    let missed = scene.deletions.missed();
    let deletions = counted(missed.len(), "deletion");
    stage.finds(format!("It listed again: {cached} at version {version}.")).await;
    let end = if missed.is_empty() { "." } else { ":" };
    stage
        .finds(format!("It compared the list with its cache: {deletions} that no event reported{end}"))
        .await;
    if !missed.is_empty() {
        stage.finds(format!("{}.", listed(missed.iter().map(String::as_str)))).await;
    }
    until("the naive client that watches again is connected", || scene.watch_again.tap.is_connected())
        .await?;
    stage.finds(known_again(scene)).await;
    Ok(format!("410 Gone, listed again; {deletions} that no event reported"))
}

/// Returns the number of pods to scale to: less, down to the usual number, so that pods are deleted
/// while the watch is down. A user may have scaled to less before.
fn wanted_after(before: usize) -> usize {
    match before {
        0 => STEP,
        before if before > REPLICAS => REPLICAS,
        before => before.saturating_sub(STEP),
    }
}

/// Returns a sentence on what the client without versions shows after the outage.
fn known_again(scene: &Scene) -> String {
    let (known, existing) = (scene.watch_again.tap.pods(), scene.reference.tap.pods());
    let gone = known.keys().filter(|it| !existing.contains_key(*it)).count();
    let shown = counted(known.len(), "pod");
    match gone {
        0 => format!("\"Watch again\" shows {shown}, all of which exist."),
        gone => format!("\"Watch again\" shows {shown}, {gone} of them gone: no later event corrects that."),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_deployment_is_scaled_to_another_number_whatever_a_user_has_chosen() {
        let wanted = [0, 1, 2, 3, 4, 5, 9].map(wanted_after);
        assert_eq!(wanted, [2, 0, 0, 1, 3, 3, 3]);
    }
}
