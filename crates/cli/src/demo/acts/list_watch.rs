//! Act 1: an informer lists, and then receives everything that follows from one new Deployment.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use dogwatch::informer::{Change, ScopedRegistration};
use dogwatch::k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use dogwatch::{Object, SharedInformer};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::demo::scene::Scene;
use crate::demo::stage::{Stage, counted, listed, took};
use crate::demo::tap::{Tap, version_of};
use crate::demo::waiting::{until, until_some, within};
use crate::demo::workload::{self, IMAGE, REPLICAS, WEB};

pub(super) const TITLE: &str = "List, then watch";
pub(super) const ABOUT: &str = "No polling: after one list, the server sends every change.";

/// The limit for the first lists.
const SYNC_LIMIT: Duration = Duration::from_secs(60);

/// The version of each object of a collection when it was first seen, by name.
#[derive(Clone, Default)]
struct FirstSeen(Arc<Mutex<BTreeMap<String, u64>>>);

/// Plays the act. Returns its outcome.
pub(super) async fn play(scene: &mut Scene, stage: &Stage) -> anyhow::Result<String> {
    let deployments = scene.informers.get::<Deployment>();
    let replica_sets = scene.informers.get::<ReplicaSet>();
    let (deployments_seen, replica_sets_seen) = (FirstSeen::default(), FirstSeen::default());
    let _recording = (deployments_seen.record(&deployments)?, replica_sets_seen.record(&replica_sets)?);
    list(scene, stage).await?;

    stage.does(format!("Deployment {WEB} is created, and scaled to {REPLICAS} pods.")).await;
    let began = Instant::now();
    workload::apply_image(scene, IMAGE).await?;
    workload::scale(scene, REPLICAS).await?;
    let replicas = workload::settled(scene).await?;
    workload::cached(scene).await?;
    let ready_after = took(began.elapsed());
    let (deployment, deployed_at) = deployments_seen.first("the informer receives the Deployment").await?;
    let (replica_set, replicated_at) =
        replica_sets_seen.first("the informer receives the ReplicaSet").await?;
    workload::newest_event(scene).await?;
    caught_up(scene).await?;

    let pods = scene.pods.store().snapshot();
    let events = scene.tap.events();
    let [deployed_at, replicated_at] = [deployed_at, replicated_at].map(|it| scene.versions.number(it));
    stage
        .finds(format!(
            "Deployment {deployment} (version {deployed_at}) led to ReplicaSet {replica_set} (version {replicated_at})."
        ))
        .await;
    let count = counted(pods.len(), "pod");
    let nodes: BTreeSet<&str> = pods.iter().filter_map(|it| workload::node_of(it)).collect();
    match events.first().map(|it| scene.versions.number(it.version)) {
        Some(first) if !nodes.is_empty() => {
            let nodes = listed(nodes);
            stage.finds(format!("It led to {count}, the first at version {first}, on {nodes}.")).await;
        }
        // A user has scaled it meanwhile.
        _ => stage.finds(format!("It led to {count}.")).await,
    }
    let (events, ready) = (counted(events.len(), "event"), counted(replicas, "ready pod"));
    stage.finds(format!("The watch sent {events}. After {ready_after} the cache had {ready}.")).await;
    Ok(format!("{} in the cache after {ready_after}, by {events}", counted(replicas, "ready pod")))
}

/// Starts the informers, and waits until all clients have listed the pods and watch them.
async fn list(scene: &Scene, stage: &Stage) -> anyhow::Result<()> {
    stage.does("An informer of the pods in namespace demo starts, and two clients without one:").await;
    stage.does("\"watch once\" ends with its watch, \"watch again\" opens another watch.").await;
    scene.informers.start();
    scene.pods.start();
    within("the informer lists the pods", scene.pods.synced()).await??;
    let others = within("the other informers are synced", scene.informers.wait_for_sync(SYNC_LIMIT)).await?;
    others.into_result()?;
    until("all clients watch", || {
        let taps = [&scene.tap, &scene.watch_once.tap, &scene.watch_again.tap, &scene.reference.tap];
        // Not "is connected": a user may cut the watches at once.
        taps.iter().all(|it| it.watches() > 0)
    })
    .await?;
    let (count, version) = (counted(scene.pods.store().len(), "pod"), scene.last_version());
    stage.finds(format!("The informer listed {count} at version {version}, and watches from there.")).await;
    Ok(())
}

/// Waits until the informer and both naive clients, as far as they are connected, have received
/// what the server sent so far.
async fn caught_up(scene: &Scene) -> anyhow::Result<()> {
    let taps = [&scene.tap, &scene.watch_once.tap, &scene.watch_again.tap];
    let is_done = |it: &Tap| !it.is_connected() || workload::are_known(scene, &it.pods());
    until("all clients have received all events", || taps.iter().all(|it| is_done(it))).await
}

impl FirstSeen {
    /// Records the objects of an informer until the result is dropped.
    fn record<K: Object>(&self, informer: &SharedInformer<K>) -> anyhow::Result<ScopedRegistration> {
        let seen = self.clone();
        let record = move |change: &Change<K>| {
            let object = change.object();
            let name = object.header().name.to_owned();
            seen.0.lock().entry(name).or_insert_with(|| version_of(&**object));
        };
        Ok(informer.on_change(record)?.scoped())
    }

    async fn first(&self, what: &str) -> anyhow::Result<(String, u64)> {
        let first = || self.0.lock().first_key_value().map(|(name, version)| (name.clone(), *version));
        until_some(what, first).await
    }
}
