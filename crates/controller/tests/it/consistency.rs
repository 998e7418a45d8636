//! The consistency guard: no reconcile from a cache that does not show the key's own writes.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use dogwatch_apiserver::faults::Rule;
use dogwatch_client::Api;
use dogwatch_controller::{
    Action, BoxError, Context, Controller, Owned, Predicate, Watched, create_or_update,
};
use dogwatch_core::{Header, ListParams, Meta, Object, ObjectKey, PatchParams, View, WriteParams};
use dogwatch_informer::{Lister, Selection, SharedInformer};
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;

use crate::test_cluster::{Calls, Running, SECOND, TestCluster, name, owned_map, settle};

/// Gives each map one secret with a server-generated name, so that the server accepts a second one.
struct OneSecretEach {
    maps: Lister<ConfigMap>,
    secrets: Lister<Secret>,
    api: Api<Secret>,
    /// Set when the writes are reported to the guard.
    reports: bool,
    calls: Calls,
}

impl dogwatch_controller::Reconciler for OneSecretEach {
    type Error = BoxError;

    async fn reconcile(&self, key: &ObjectKey, context: &Context) -> Result<Action, BoxError> {
        self.calls.add(name(key));
        let owner = self.maps.get(key).ok_or("not in the cache")?;
        let is_its =
            |it: &Arc<Secret>| it.metadata.owner_references.iter().flatten().any(|it| it.name == key.name());
        if !self.secrets.list(&dogwatch_core::LabelSelector::everything()).iter().any(is_its) {
            let mut secret = Secret::default();
            secret.metadata.generate_name = Some("its-".to_owned());
            secret.metadata.owner_references = owned_map("x", &owner).metadata.owner_references;
            let written = self.api.create(&WriteParams::default(), &secret).await?;
            if self.reports {
                context.wrote(&written);
            }
        }
        Ok(Action::RequeueAfter(SECOND))
    }
}

fn start(cluster: &TestCluster, reports: bool) -> (Running, Calls) {
    let (maps, secrets, calls) = (cluster.informer(), cluster.informers.get::<Secret>(), Calls::new());
    let reconciler = OneSecretEach {
        maps: maps.lister(),
        secrets: secrets.lister(),
        api: Api::default_namespaced(cluster.client.clone()),
        reports,
        calls: calls.clone(),
    };
    (Running::new(Controller::of(&maps).owns(&secrets).build(reconciler)), calls)
}

async fn secrets(cluster: &TestCluster) -> usize {
    let api = Api::<Secret>::default_namespaced(cluster.client.clone());
    api.list(&ListParams::default()).await.expect("listed").items.len()
}

#[tokio::test(start_paused = true)]
async fn a_key_is_not_reconciled_from_a_cache_older_than_its_own_writes() {
    for (reports, expected) in [(false, 2), (true, 1)] {
        let cluster = TestCluster::with(&["a"]).await;
        let (informer, secrets_informer) = (cluster.informer(), cluster.informers.get::<Secret>());
        cluster.informers.start();
        informer.synced().await.expect("synced");
        secrets_informer.synced().await.expect("synced");
        // From here on the cache stands still, and reconciles are triggered by time alone.
        cluster.server.faults().pause();
        let (running, _) = start(&cluster, reports);
        tokio::time::sleep(SECOND + SECOND / 2).await;
        assert_eq!(secrets(&cluster).await, expected, "reported: {reports}");
        cluster.server.faults().resume();
        tokio::time::sleep(10 * SECOND).await;
        assert_eq!(secrets(&cluster).await, expected, "reported: {reports}");
        running.stop().await.expect("clean shutdown");
    }
}

/// A stalled cache does not block the workers for the keys that it is fresh enough for.
#[tokio::test(start_paused = true)]
async fn keys_that_wait_for_the_cache_do_not_block_the_workers() {
    let cluster = TestCluster::with(&["a"]).await;
    let (informer, children) = (cluster.informer(), cluster.informers.get::<Secret>());
    cluster.informers.start();
    informer.synced().await.expect("synced");
    children.synced().await.expect("synced");
    cluster.server.faults().rule(Rule::on("watch").resource("secrets").pause());
    let (running, calls) = start(&cluster, true);
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(calls.take(), ["a"], "the key waits");
    cluster.create(&crate::test_cluster::map("b")).await;
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(calls.take(), ["b"], "another key does not wait");
    cluster.server.faults().clear();
    tokio::time::sleep(20 * SECOND).await;
    let calls = calls.take();
    assert!(calls.iter().any(|it| it == "a") && calls.iter().any(|it| it == "b"), "{calls:?}");
    assert_eq!(secrets(&cluster).await, 2);
    running.stop().await.expect("clean shutdown");
}

/// Gives the map `a` one secret in the busy namespace, once, with these labels, and records the
/// attempt of each call.
async fn write_once_over(
    cluster: &TestCluster,
    secrets: &SharedInformer<Secret>,
    labels: &[(&str, &str)],
) -> (Running, Calls) {
    let (maps, calls) = (cluster.informer(), Calls::new());
    let api = Api::<Secret>::default_namespaced(cluster.client.clone());
    let (recorded, written) = (calls.clone(), Arc::new(AtomicUsize::new(0)));
    let labels: std::collections::BTreeMap<_, _> =
        labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
    let controller =
        Controller::of(&maps).named("writer").owns(secrets).build(move |key: ObjectKey, context: Context| {
            let (api, calls, written, labels) =
                (api.clone(), recorded.clone(), written.clone(), labels.clone());
            async move {
                calls.add(format!("{} {}", name(&key), context.attempt()));
                if written.fetch_add(1, Ordering::Relaxed) == 0 {
                    let mut secret = Secret::default();
                    secret.metadata.name = Some("written".to_owned());
                    secret.metadata.labels = Some(labels);
                    context.wrote(&api.create(&WriteParams::default(), &secret).await?);
                    return Ok::<_, BoxError>(Action::RequeueAfter(SECOND / 10));
                }
                Ok(Action::Done)
            }
        });
    (Running::new(controller), calls)
}

/// The quiet namespace receives nothing until a bookmark, a minute later.
#[tokio::test(start_paused = true)]
async fn a_quiet_namespace_does_not_delay_writes_to_another() {
    let cluster = TestCluster::with(&["a"]).await;
    let both = Api::<Secret>::all(cluster.client.clone());
    let secrets = SharedInformer::builder(both.clone().in_namespace("default"))
        .add_source(both.in_namespace("kube-system"))
        .build();
    let (running, calls) = write_once_over(&cluster, &secrets, &[]).await;
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(calls.take(), ["a 0", "a 0"]);
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn a_key_does_not_wait_for_objects_outside_the_selector_or_namespace_of_a_source() {
    let cluster = TestCluster::with(&["a"]).await;
    let all = Api::<Secret>::all(cluster.client.clone());
    let labelled =
        SharedInformer::builder(all.clone()).labels("app=web".parse().expect("a selector")).build();
    let elsewhere = SharedInformer::builder(all.in_namespace("kube-system")).build();
    for (secrets, labels) in [(&labelled, ("app", "other")), (&elsewhere, ("app", "web"))] {
        let (running, calls) = write_once_over(&cluster, secrets, &[labels]).await;
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(calls.take(), ["a 0", "a 0"]);
        running.stop().await.expect("clean shutdown");
        let api = Api::<Secret>::default_namespaced(cluster.client.clone());
        api.delete("written", &dogwatch_core::DeleteParams::default()).await.expect("deleted");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_for_objects_inside_the_selector_of_a_source() {
    let cluster = TestCluster::with(&["a"]).await;
    let labelled = SharedInformer::builder(Api::<Secret>::all(cluster.client.clone()))
        .labels("app=web".parse().expect("a selector"))
        .build();
    labelled.start();
    labelled.synced().await.expect("synced");
    cluster.server.faults().rule(Rule::on("watch").resource("secrets").pause());
    let (running, calls) = write_once_over(&cluster, &labelled, &[("app", "web")]).await;
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(calls.take(), ["a 0"], "the cache does not show it");
    cluster.server.faults().clear();
    settle().await;
    assert_eq!(calls.take(), ["a 0"], "the cache wakes it, and it does not count as a failure");
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn a_key_waits_for_a_cache_at_most_half_a_minute_and_blocks_no_worker() {
    let cluster = TestCluster::with(&["a"]).await;
    let secrets = cluster.informers.get::<Secret>();
    cluster.informers.start();
    secrets.synced().await.expect("synced");
    cluster.server.faults().rule(Rule::on("watch").resource("secrets").pause());
    let (running, calls) = write_once_over(&cluster, &secrets, &[]).await;
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(calls.take(), ["a 0"]);
    let begun = tokio::time::Instant::now();
    cluster.create(&crate::test_cluster::map("b")).await;
    settle().await;
    assert_eq!(calls.take(), ["b 0"], "the one worker is free");
    assert!(begun.elapsed() < SECOND / 10);
    tokio::time::sleep(24 * SECOND).await;
    assert_eq!(calls.take(), [] as [&str; 0]);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(calls.take(), ["a 0"], "the limit");
    running.stop().await.expect("clean shutdown");
}

/// A reconciler that writes its own object would see the old state at the next call.
#[tokio::test(start_paused = true)]
async fn a_reconciler_sees_its_own_writes() {
    let cluster = TestCluster::with(&["a"]).await;
    let (maps, api, calls) = (cluster.informer(), cluster.maps.clone(), Arc::new(AtomicUsize::new(0)));
    cluster.server.faults().rule(Rule::on("watch").lag(SECOND / 3));
    let (lister, count) = (maps.lister(), calls.clone());
    let controller = Controller::of(&maps).build(move |key: ObjectKey, context: Context| {
        let (lister, api, count) = (lister.clone(), api.clone(), count.clone());
        async move {
            let mut map = ConfigMap::clone(&*lister.get(&key).ok_or("not in the cache")?);
            let number: usize = crate::test_cluster::value(&map).parse().unwrap_or(0);
            if number == 5 {
                return Ok(Action::Done);
            }
            assert_eq!(number, count.fetch_add(1, Ordering::Relaxed), "each state is seen once");
            map.data = Some([("value".to_owned(), (number + 1).to_string())].into());
            context.wrote(&api.replace(key.name(), &WriteParams::default(), &map).await?);
            Ok::<_, BoxError>(Action::RequeueAfter(SECOND / 100))
        }
    });
    let running = Running::new(controller);
    tokio::time::sleep(20 * SECOND).await;
    assert_eq!(calls.load(Ordering::Relaxed), 5);
    running.stop().await.expect("clean shutdown");
}

/// The number of calls that counts as endless; the reconciler then stops writing.
const ENDLESS: usize = 50;

/// Many controllers apply the desired state at each call, whether or not it differs. The written
/// object may map only to other keys.
#[tokio::test(start_paused = true)]
async fn a_reconciler_that_always_applies_an_object_of_another_key_does_not_loop() {
    let cluster = TestCluster::with(&["a"]).await;
    let (maps, api, calls) = (cluster.informer(), cluster.maps.clone(), Arc::new(AtomicUsize::new(0)));
    let count = calls.clone();
    let own = Predicate::<ConfigMap>::matching(|it| it.metadata.name.as_deref() == Some("a"));
    let controller = Controller::of(Watched::new(&maps).when(own)).owns(&maps).build(
        move |_: ObjectKey, context: Context| {
            let (api, count) = (api.clone(), count.clone());
            async move {
                if count.fetch_add(1, Ordering::Relaxed) < ENDLESS {
                    let shared = |_| crate::test_cluster::map("shared");
                    let written = create_or_update(&api, "shared", shared).await?.into_inner();
                    context.wrote(&written);
                    let stamp = count.load(Ordering::Relaxed).to_string();
                    let patch = serde_json::json!({ "data": { "value": stamp } });
                    let patch = dogwatch_client::api::Patch::Merge(&patch);
                    context.wrote(&api.patch("shared", &PatchParams::default(), patch).await?);
                }
                Ok::<_, BoxError>(Action::Done)
            }
        },
    );
    let running = Running::new(controller);
    tokio::time::sleep(10 * SECOND).await;
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls <= 3, "{calls} calls for one object");
    running.stop().await.expect("clean shutdown");
}

/// A secret whose data must exist, which the server does not require.
#[derive(serde::Deserialize)]
struct SecretWithData {
    metadata: Meta,
    #[serde(rename = "data")]
    _data: std::collections::BTreeMap<String, String>,
}

impl Object for SecretWithData {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

impl View for SecretWithData {
    type Of = Secret;
}

impl Owned for SecretWithData {
    fn owner_references(&self) -> &[OwnerReference] {
        &[]
    }
}

/// The cache reaches the version of such an object and never shows it. The key came back at once,
/// each time that the reconciler reported what it found.
#[tokio::test(start_paused = true)]
async fn a_reconciler_that_reports_an_object_which_cannot_be_decoded_does_not_loop() {
    let cluster = TestCluster::with(&["a"]).await;
    let (maps, secrets) = (cluster.informer(), cluster.informers.get::<SecretWithData>());
    let api = Api::<Secret>::default_namespaced(cluster.client.clone());
    let calls = Arc::new(AtomicUsize::new(0));
    let count = calls.clone();
    let controller = Controller::of(&maps).owns(&secrets).build(move |_: ObjectKey, context: Context| {
        let (api, count) = (api.clone(), count.clone());
        async move {
            if count.fetch_add(1, Ordering::Relaxed) < ENDLESS {
                let mut bare = Secret::default();
                bare.metadata.name = Some("bare".to_owned());
                context.wrote(&create_or_update(&api, "bare", |_| bare.clone()).await?.into_inner());
            }
            Ok::<_, BoxError>(Action::Done)
        }
    });
    let running = Running::new(controller);
    tokio::time::sleep(60 * SECOND).await;
    assert_eq!(secrets.health().undecodable, 1);
    let calls = calls.load(Ordering::Relaxed);
    assert!(calls <= 3, "{calls} calls for one object");
    running.stop().await.expect("clean shutdown");
}

/// The cache still holds the object as it was before the write that takes it out of the selector.
#[tokio::test(start_paused = true)]
async fn a_key_waits_until_the_cache_lacks_an_object_that_it_took_out_of_the_selector() {
    let cluster = TestCluster::with(&["a"]).await;
    let api = Api::<Secret>::default_namespaced(cluster.client.clone());
    let mut secret = Secret::default();
    secret.metadata.name = Some("worn".to_owned());
    secret.metadata.labels = Some([("pool".to_owned(), "free".to_owned())].into());
    api.create(&WriteParams::default(), &secret).await.expect("created");
    let selection = Selection::default().labels("pool=free".parse().expect("a selector"));
    let secrets = cluster.informers.get_with::<Secret>(selection, |it| it);
    let maps = cluster.informer();
    cluster.informers.start();
    maps.synced().await.expect("synced");
    secrets.synced().await.expect("synced");
    cluster.server.faults().rule(Rule::on("watch").resource("secrets").pause());
    let (calls, store) = (Calls::new(), secrets.store());
    let recorded = calls.clone();
    let controller = Controller::of(&maps).owns(&secrets).build(move |_: ObjectKey, context: Context| {
        let (api, calls, store) = (api.clone(), recorded.clone(), store.clone());
        async move {
            calls.add(store.len());
            if !store.is_empty() {
                let patch = serde_json::json!({ "metadata": { "labels": { "pool": "taken" } } });
                let patch = dogwatch_client::api::Patch::Merge(&patch);
                context.wrote(&api.patch("worn", &PatchParams::default(), patch).await?);
            }
            Ok::<_, BoxError>(Action::RequeueAfter(SECOND))
        }
    });
    let running = Running::new(controller);
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(calls.take(), ["1"], "the object was taken twice");
    cluster.server.faults().clear();
    tokio::time::sleep(20 * SECOND).await;
    let calls = calls.take();
    assert!(!calls.is_empty() && calls.iter().all(|it| it == "0"), "{calls:?}");
    running.stop().await.expect("clean shutdown");
}

/// A mapping function may panic; that loses the change it was called with, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_mapping_that_panics_blocks_no_other_key() {
    let cluster = TestCluster::with(&["a"]).await;
    let (maps, secrets, calls) = (cluster.informer(), cluster.informers.get::<Secret>(), Calls::new());
    cluster.server.faults().rule(Rule::on("watch").resource("secrets").lag(SECOND / 3));
    let api = Api::<Secret>::default_namespaced(cluster.client.clone());
    let recorded = calls.clone();
    let concerned = |it: &Secret| {
        let name = it.metadata.name.clone().unwrap_or_default();
        assert!(!name.starts_with("of-a"), "the mapping fails");
        Some(ObjectKey::namespaced("default", &name["of-".len()..]))
    };
    let controller =
        Controller::of(&maps).watches(&secrets, concerned).build(move |key: ObjectKey, context: Context| {
            let (api, calls) = (api.clone(), recorded.clone());
            async move {
                calls.add(name(&key));
                let mut secret = Secret::default();
                secret.metadata.name = Some(format!("of-{}", key.name()));
                match api.create(&WriteParams::default(), &secret).await {
                    Ok(written) => context.wrote(&written),
                    Err(error) if error.is_already_exists() => return Ok(Action::Done),
                    Err(error) => return Err(BoxError::from(error)),
                }
                Ok::<_, BoxError>(Action::RequeueAfter(SECOND / 10))
            }
        });
    let running = Running::new(controller);
    tokio::time::sleep(5 * SECOND).await;
    assert_eq!(calls.take(), ["a", "a"]);
    cluster.create(&crate::test_cluster::map("b")).await;
    tokio::time::sleep(5 * SECOND).await;
    let calls = calls.take();
    assert!(calls.len() >= 2 && calls.iter().all(|it| it == "b"), "{calls:?}");
    running.stop().await.expect("clean shutdown");
}

/// A stream of keys that panics would otherwise leave a controller that never receives its keys
/// again.
#[tokio::test(start_paused = true)]
async fn a_stream_of_keys_that_panics_stops_the_controller() {
    let cluster = TestCluster::with(&["a"]).await;
    let ended = futures_util::stream::empty();
    let keys = futures_util::stream::once(async {
        tokio::time::sleep(SECOND).await;
        panic!("the stream failed")
    });
    let controller = Controller::of(&cluster.informer())
        .reconcile_on(ended)
        .reconcile_on(keys)
        .build(crate::test_cluster::Recording(Calls::new()));
    let running = Running::new(controller);
    tokio::time::sleep(5 * SECOND).await;
    let error =
        tokio::time::timeout(SECOND, running.ended()).await.expect("it ends in time").expect_err("an error");
    assert!(error.to_string().contains("the stream failed"), "{error}");
}
