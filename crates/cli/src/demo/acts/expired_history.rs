//! Act 3: the server forgets its history while the watch is down. The informer lists again, and
//! finds two deletions that no event reported.

use super::cut_connection::disconnected;
use crate::demo::scene::Scene;
use crate::demo::stage::{Stage, counted, listed};
use crate::demo::waiting::{until, until_some};
use crate::demo::workload::{self, IMAGE, MORE_REPLICAS, REPLICAS, WEB};

pub(super) const TITLE: &str = "The history expires";
pub(super) const ABOUT: &str =
    "A server keeps old changes for minutes only. After a longer outage, events are lost for good.";

/// Plays the act. Returns its outcome.
pub(super) async fn play(scene: &mut Scene, stage: &Stage) -> anyhow::Result<String> {
    stage.does("The connections are cut again, and so is each new one.").await;
    let relists = scene.pods.health().relists;
    let outage = scene.cut_connections();
    disconnected(scene).await?;
    let last = scene.pods.last_sync_version();
    stage.finds(format!("The last version that the informer received is {last}.")).await;

    let gone = usize::try_from(MORE_REPLICAS - REPLICAS)?;
    stage.does(format!("Meanwhile {WEB} is scaled down: {} are deleted.", counted(gone, "pod"))).await;
    let replicas = usize::try_from(REPLICAS)?;
    workload::scale(scene, REPLICAS).await?;
    workload::settled(scene, replicas, IMAGE).await?;
    workload::newest_event(scene).await?;
    let oldest = scene.server.compact_history();
    stage.does(format!("The server forgets its history: no watch can start before version {oldest}.")).await;
    stage.does("The network works again.").await;
    drop(outage);

    let expired = until_some("the informer is refused with 410", || scene.tap.expired_at()).await?;
    stage
        .finds(format!("The informer asked for the changes after version {expired}: 410, they are gone."))
        .await;
    until("the informer lists again", || scene.pods.health().relists > relists).await?;
    until("the informer reports the deletions", || scene.deletions.missed().len() >= gone).await?;
    let (cached, version) = (scene.pods.store().len(), scene.pods.last_sync_version());
    let missed = scene.deletions.missed();
    stage.finds(format!("It listed again: {} at version {version}.", counted(cached, "pod"))).await;
    stage
        .finds(format!(
            "It compared the list with its cache, and reports {} that no event did:",
            counted(missed.len(), "deletion")
        ))
        .await;
    stage.finds(format!("{}.", listed(missed.iter().map(String::as_str)))).await;
    until("the naive client that watches again is connected", || scene.watch_again.tap.is_connected())
        .await?;
    let known = scene.watch_again.tap.pods().len();
    stage
        .finds(format!(
            "The naive client that watches again still knows {}: a watch alone cannot correct that.",
            counted(known, "pod")
        ))
        .await;
    Ok(format!("410, listed again, {} that no event reported", counted(missed.len(), "deletion")))
}
