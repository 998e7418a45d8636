//! Act 6: a handler is slow while many changes are made. They are merged for it, and none of the
//! deletions is.

use std::collections::BTreeMap;
use std::sync::Arc;

use dogwatch::api::{DeleteParams, Patch, PatchParams, ResourceVersion, WriteParams};
use dogwatch::informer::{Change, Changes, EventHandler, HandlerOptions, Overflow, Selection};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, Object, SharedInformer};
use futures_util::StreamExt;
use parking_lot::Mutex;
use serde_json::json;
use tokio::time::Instant;

use crate::demo::connect::{FIELD_MANAGER, NAMESPACE};
use crate::demo::decoded_size::decoded_size;
use crate::demo::scene::Scene;
use crate::demo::stage::{Stage, counted, took};
use crate::demo::tap::version_of;
use crate::demo::waiting::{until, within};

pub(super) const TITLE: &str = "A handler is slow";
pub(super) const ABOUT: &str =
    "Each handler has a backlog of its own, in which updates of one object are merged.";

/// The number of updates of one object.
const UPDATES: usize = 200;
/// The objects that are created and deleted while the handler is busy.
const SHORT_LIVED: [&str; 2] = ["draft-1", "draft-2"];
const COUNTER: &str = "counter";

/// The changes that a handler received, and what it knows by them.
#[derive(Clone, Debug, Default)]
struct Received {
    changes: usize,
    deletions: usize,
    /// The versions of the existing objects, by name.
    objects: BTreeMap<String, u64>,
}

/// A handler that is fast: it receives every change.
#[derive(Clone, Default)]
struct FastHandler(Arc<Mutex<Received>>);

/// Plays the act. Returns its outcome.
pub(super) async fn play(scene: &mut Scene, stage: &Stage) -> anyhow::Result<String> {
    let maps = scene.informers.get_with::<ConfigMap>(Selection::default(), |it| it.measure(decoded_size));
    let api = Api::<ConfigMap>::namespaced(scene.client.clone(), NAMESPACE);
    let fast = FastHandler::default();
    let every_change = HandlerOptions::default().name("fast").overflow(Overflow::Grow);
    let _fast = maps.add_handler_with(fast.clone(), every_change)?.scoped();
    let mut backlog = maps.changes_with(HandlerOptions::default().name("slow"))?;
    scene.informers.start();
    within("the informer lists the config maps", maps.synced()).await??;

    stage.does(format!("ConfigMap {COUNTER} is created. The slow handler is busy with it.")).await;
    create(&api, COUNTER).await?;
    let mut slow = Received::default();
    let first = within("the slow handler receives the first change", backlog.next()).await?;
    slow.apply(&first.ok_or_else(|| anyhow::anyhow!("the informer ended"))?);

    stage
        .does(format!(
            "Meanwhile {COUNTER} is updated {UPDATES} times; {} are created and deleted.",
            counted(SHORT_LIVED.len(), "other ConfigMap")
        ))
        .await;
    let began = Instant::now();
    let last = change_all(&api).await?;
    within("the cache shows the last change", maps.wait_until(&last)).await??;
    until("the fast handler has received the last change", || fast.0.lock().objects == stored(&maps)).await?;
    let all = fast.0.lock().clone();
    stage
        .finds(format!(
            "A fast handler received all {} in {}.",
            counted(all.changes, "change"),
            took(began.elapsed())
        ))
        .await;

    stage.does("The slow handler is done with its first change, and continues.").await;
    within("the slow handler catches up", catch_up(&mut slow, &mut backlog, &all)).await?;
    Ok(report(stage, &slow, &all, slow.objects == stored(&maps)).await)
}

/// Prints what the slow handler received. Returns the outcome of the act.
async fn report(stage: &Stage, slow: &Received, all: &Received, is_equal: bool) -> String {
    let (changes, deletions) = (counted(all.changes, "change"), counted(all.deletions, "deletion"));
    let equal = if is_equal { "equals" } else { "differs from" };
    stage
        .finds(format!(
            "It received {} instead of {}. Its last state {equal} the cache.",
            counted(slow.changes, "change"),
            all.changes
        ))
        .await;
    stage.finds(format!("It received {} of {deletions}: deletions are never merged.", slow.deletions)).await;
    format!("{changes}, {} after merging; {} of {deletions} delivered", slow.changes, slow.deletions)
}

/// Makes all the changes. Returns the version of the last one.
async fn change_all(api: &Api<ConfigMap>) -> anyhow::Result<ResourceVersion> {
    let params = PatchParams::default().manager(FIELD_MANAGER);
    for name in SHORT_LIVED {
        create(api, name).await?;
    }
    let mut last = ResourceVersion::UNSET;
    for count in 1..=UPDATES {
        if count == UPDATES / 2 {
            for name in SHORT_LIVED {
                api.delete(name, &DeleteParams::default()).await?;
            }
        }
        let update = json!({ "data": { "count": count.to_string() } });
        last = api.patch(COUNTER, &params, Patch::Merge(&update)).await?.version();
    }
    Ok(last)
}

async fn create(api: &Api<ConfigMap>, name: &str) -> anyhow::Result<()> {
    let mut map = ConfigMap::default();
    map.metadata.name = Some(name.to_owned());
    api.create(&WriteParams::default(), &map).await?;
    Ok(())
}

/// Reads the backlog until the handler knows as much as one that received every change.
async fn catch_up(slow: &mut Received, backlog: &mut Changes<ConfigMap>, all: &Received) {
    // A user may change an object meanwhile, so that its version is later.
    let knows = |slow: &Received| all.objects.iter().all(|(name, it)| slow.objects.get(name) >= Some(it));
    while !knows(slow) || slow.deletions < all.deletions {
        let Some(change) = backlog.next().await else { return };
        slow.apply(&change);
    }
}

/// Returns the versions of the cached objects, by name.
fn stored(maps: &SharedInformer<ConfigMap>) -> BTreeMap<String, u64> {
    let maps = maps.store().snapshot();
    maps.iter().map(|it| (it.header().name.to_owned(), version_of(&**it))).collect()
}

impl Received {
    fn apply(&mut self, change: &Change<ConfigMap>) {
        let object = change.object();
        let name = object.header().name.to_owned();
        self.changes += 1;
        if matches!(change, Change::Deleted(_)) {
            self.deletions += 1;
            self.objects.remove(&name);
        } else {
            self.objects.insert(name, version_of(&**object));
        }
    }
}

impl EventHandler<ConfigMap> for FastHandler {
    fn on_change(&mut self, change: &Change<ConfigMap>) {
        self.0.lock().apply(change);
    }
}
