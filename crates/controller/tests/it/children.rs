//! Changes of the children of an object while the controller's watch is interrupted: the controller
//! misses none of them.

use std::sync::Arc;

use dogwatch_apiserver::faults::Rule;
use dogwatch_client::Api;
use dogwatch_controller::{Action, BoxError, Context, Controller, Predicate, Reconciler, Watched};
use dogwatch_core::{DeleteParams, ObjectKey, WriteParams};
use dogwatch_informer::Lister;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use serde_json::json;

use crate::test_cluster::{
    Calls, HOUR, Recording, Running, SECOND, TestCluster, map, name, owned_map, settle,
};

/// Keeps a secret of the same name for each map.
struct KeepsASecret {
    maps: Lister<ConfigMap>,
    secrets: Lister<Secret>,
    api: Api<Secret>,
    calls: Calls,
}

impl Reconciler for KeepsASecret {
    type Error = BoxError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, BoxError> {
        self.calls.add(name(key));
        let Some(owner) = self.maps.get(key) else { return Ok(Action::Done) };
        if self.secrets.get(key).is_none() {
            let secret = child(key.name(), &owner);
            context.wrote(&self.api.create(&WriteParams::default(), &secret).await?);
        }
        Ok(Action::Done)
    }
}

fn child(name: &str, owner: &ConfigMap) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.metadata.owner_references = owned_map("x", owner).metadata.owner_references;
    secret
}

struct Family {
    cluster: TestCluster,
    api: Api<Secret>,
    running: Running,
    calls: Calls,
}

impl Family {
    async fn new(names: &[&str]) -> Self {
        let cluster = TestCluster::with(names).await;
        let (maps, secrets, calls) = (cluster.informer(), cluster.informers.get::<Secret>(), Calls::new());
        let api = Api::<Secret>::default_namespaced(cluster.client.clone());
        let reconciler = KeepsASecret {
            maps: maps.lister(),
            secrets: secrets.lister(),
            api: api.clone(),
            calls: calls.clone(),
        };
        let running = Running::new(Controller::of(&maps).owns(&secrets).build(reconciler));
        settle().await;
        Self { cluster, api, running, calls }
    }

    async fn has(&self, name: &str) -> bool {
        self.api.get_opt(name).await.expect("a response").is_some()
    }

    async fn delete(&self, name: &str) {
        self.api.delete(name, &DeleteParams::default()).await.expect("deleted");
    }

    /// Waits until the controller has created the secret of a new map, and deletes it at once.
    async fn create_and_lose(&self, name: &str) {
        self.cluster.create(&map(name)).await;
        let mut attempts = 0;
        while !self.has(name).await {
            attempts += 1;
            assert!(attempts < 1_000_000, "the controller has not created {name}");
            tokio::task::yield_now().await;
        }
        self.delete(name).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_child_that_was_created_and_deleted_while_the_watch_was_paused_comes_back() {
    let family = Family::new(&[]).await;
    family.cluster.server.faults().rule(Rule::on("watch").resource("secrets").pause());
    family.create_and_lose("a").await;
    tokio::time::sleep(SECOND).await;
    assert!(!family.has("a").await);
    family.cluster.server.faults().clear();
    tokio::time::sleep(SECOND).await;
    assert!(family.has("a").await);
    family.running.stop().await.expect("clean shutdown");
}

/// Without any fault: both events come in one batch.
#[tokio::test(start_paused = true)]
async fn a_child_that_was_deleted_right_after_its_creation_comes_back() {
    let family = Family::new(&[]).await;
    for number in 0..20 {
        family.create_and_lose(&format!("m{number}")).await;
    }
    tokio::time::sleep(SECOND).await;
    for number in 0..20 {
        assert!(family.has(&format!("m{number}")).await, "m{number}");
    }
    family.running.stop().await.expect("clean shutdown");
}

/// The watch expires, and the next list shows neither the child nor its deletion: no event can
/// report it.
#[tokio::test(start_paused = true)]
async fn a_child_that_came_and_went_between_two_lists_comes_back() {
    let family = Family::new(&[]).await;
    let faults = family.cluster.server.faults();
    faults.rule(Rule::on("watch").resource("secrets").pause());
    family.create_and_lose("a").await;
    family.cluster.server.expire_history();
    faults.cut_watches();
    faults.clear();
    tokio::time::sleep(60 * SECOND).await;
    assert!(family.has("a").await);
    family.calls.take();
    tokio::time::sleep(HOUR).await;
    assert_eq!(family.calls.take(), [] as [&str; 0], "it is reconciled again once, and not for ever");
    family.running.stop().await.expect("clean shutdown");
}

/// Writes that stay visible in the cache do not bring a key back by themselves, whatever the
/// predicates reject.
#[tokio::test(start_paused = true)]
async fn a_reconciler_that_always_writes_does_not_trigger_itself() {
    let cluster = TestCluster::with(&["a"]).await;
    let (maps, api, calls) = (cluster.informer(), cluster.maps.clone(), Calls::new());
    let recorded = calls.clone();
    let never = Watched::new(&maps).when(Predicate::updated(|_: &ConfigMap, _| false));
    let controller = Controller::of(never).build(move |key: ObjectKey, context: Context| {
        let (api, calls) = (api.clone(), recorded.clone());
        async move {
            calls.add(name(&key));
            let now = format!("{:?}", calls.now());
            let patch = json!({ "data": { "value": now } });
            let patch = dogwatch_client::api::Patch::Merge(&patch);
            context.wrote(&api.patch(key.name(), &dogwatch_core::PatchParams::default(), patch).await?);
            Ok::<_, BoxError>(Action::Done)
        }
    });
    let running = Running::new(controller);
    tokio::time::sleep(HOUR).await;
    assert_eq!(calls.take(), ["a"]);
    running.stop().await.expect("clean shutdown");
}

/// As at every start on a busy cluster: the reconciler cleans up external state of missing objects.
#[tokio::test(start_paused = true)]
async fn an_object_that_is_deleted_during_the_first_list_is_reconciled() {
    let cluster = TestCluster::with(&["a", "b"]).await;
    let (maps, calls) = (cluster.informer(), Calls::new());
    cluster.server.faults().rule(Rule::on("watch").resource("configmaps").lag(SECOND));
    let running = Running::new(Controller::of(&maps).build(Recording(calls.clone())));
    // The stream of the initial objects has begun, and is in transit.
    tokio::time::sleep(SECOND / 2).await;
    cluster.delete("a").await;
    tokio::time::sleep(10 * SECOND).await;
    let mut names = calls.take_sorted();
    names.dedup();
    assert_eq!(names, ["a", "b"]);
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn an_object_that_stops_matching_and_is_deleted_at_once_is_reconciled() {
    let cluster = TestCluster::with(&[]).await;
    let mut labelled = map("a");
    labelled.metadata.labels = Some([("ours".to_owned(), "yes".to_owned())].into());
    cluster.create(&labelled).await;
    let (maps, calls) = (cluster.informer(), Calls::new());
    let ours = Predicate::matching(|it: &ConfigMap| {
        it.metadata.labels.iter().flatten().any(|(key, _)| key == "ours")
    });
    let running =
        Running::new(Controller::of(Watched::new(&maps).when(ours)).build(Recording(calls.clone())));
    settle().await;
    assert_eq!(calls.take(), ["a"]);
    cluster.server.faults().pause();
    cluster.patch("a", json!({ "metadata": { "labels": { "ours": null } } })).await;
    cluster.delete("a").await;
    cluster.server.faults().resume();
    settle().await;
    assert_eq!(calls.take(), ["a"]);
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn every_former_owner_of_a_child_is_reconciled_when_it_moves_quickly_and_is_deleted() {
    for goes in [false, true] {
        let cluster = TestCluster::with(&["a", "b", "c"]).await;
        let owners: Vec<Arc<ConfigMap>> =
            futures_util::future::join_all(["a", "b", "c"].map(|it| cluster.maps.get(it)))
                .await
                .into_iter()
                .map(|it| Arc::new(it.expect("there")))
                .collect();
        let (maps, secrets, calls) = (cluster.informer(), cluster.informers.get::<Secret>(), Calls::new());
        let api = Api::<Secret>::default_namespaced(cluster.client.clone());
        api.create(&WriteParams::default(), &child("child", &owners[0])).await.expect("created");
        let running = Running::new(Controller::of(&maps).owns(&secrets).build(Recording(calls.clone())));
        settle().await;
        assert_eq!(calls.take_sorted(), ["a", "b", "c"]);
        cluster.server.faults().pause();
        for owner in &owners[1..] {
            api.replace("child", &WriteParams::default(), &child("child", owner)).await.expect("replaced");
        }
        if goes {
            api.delete("child", &DeleteParams::default()).await.expect("deleted");
        }
        cluster.server.faults().resume();
        settle().await;
        assert_eq!(calls.take_sorted(), ["a", "b", "c"], "goes: {goes}");
        running.stop().await.expect("clean shutdown");
    }
}

/// A child that is replaced under its name is a different object: the owner of the first must be
/// reconciled.
#[tokio::test(start_paused = true)]
async fn a_child_that_is_recreated_for_another_owner_triggers_both_owners() {
    let cluster = TestCluster::with(&["a", "b"]).await;
    let (a, b) = (cluster.maps.get("a").await.expect("there"), cluster.maps.get("b").await.expect("there"));
    let (maps, secrets, calls) = (cluster.informer(), cluster.informers.get::<Secret>(), Calls::new());
    let api = Api::<Secret>::default_namespaced(cluster.client.clone());
    api.create(&WriteParams::default(), &child("child", &a)).await.expect("created");
    let running = Running::new(Controller::of(&maps).owns(&secrets).build(Recording(calls.clone())));
    settle().await;
    calls.take();
    cluster.server.faults().pause();
    api.delete("child", &DeleteParams::default()).await.expect("deleted");
    api.create(&WriteParams::default(), &child("child", &b)).await.expect("created");
    cluster.server.faults().resume();
    settle().await;
    assert_eq!(calls.take_sorted(), ["a", "b"]);
    running.stop().await.expect("clean shutdown");
}
