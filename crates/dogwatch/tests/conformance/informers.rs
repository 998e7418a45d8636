//! Informers: the cache follows the server, resumes after cuts, replays to late handlers, is
//! indexed, and survives the removal of its kind.

use std::time::Duration;

use dogwatch::api::{DeleteParams, ListParams, Patch, PatchParams, WriteParams};
use dogwatch::informer::NotFound;
use dogwatch::informer::{Change, Changes, Deleted, HandlerOptions, HealthState, Index, Overflow};
use dogwatch::k8s_openapi::api::core::v1::ConfigMap;
use dogwatch::{Api, Client, Object, ObjectKey, SharedInformer, Store};
use futures_util::StreamExt;
use serde_json::json;

use crate::custom_resources::{ship, ships};
use crate::fixtures::{config_map, labelled, labels, names};
use crate::proxy::CuttableProxy;
use crate::support::{TestNamespace, client, config, until, within};

/// A namespace, a handle on its config maps that bypasses any proxy, and an informer of those
/// labelled `set=this`.
struct Fixture {
    space: TestNamespace,
    api: Api<ConfigMap>,
    informer: SharedInformer<ConfigMap>,
}

/// Returns an informer of the config maps labelled `set=this`. The server may create others in the
/// namespace.
fn informer(client: &Client, space: &TestNamespace) -> SharedInformer<ConfigMap> {
    SharedInformer::builder(space.api::<ConfigMap>(client)).labels(labels("set=this")).build()
}

impl Fixture {
    async fn new() -> Self {
        Self::through(client()).await
    }

    /// Creates the fixture with an informer that reads through this client.
    async fn through(reading: Client) -> Self {
        let client = client();
        let space = TestNamespace::new(&client).await;
        let informer = informer(&reading, &space);
        Self { api: space.api(&client), informer, space }
    }

    async fn synced(&self) {
        self.informer.start();
        within("the sync", self.informer.synced()).await.expect("the informer runs until it is stopped");
    }

    /// Waits until the store has reached the version of this object.
    async fn reached(&self, written: &impl Object) {
        let version = written.version();
        let reached = within("the store reaching the version", self.informer.wait_until(&version)).await;
        reached.expect("the informer runs");
    }

    fn key(&self, name: &str) -> ObjectKey {
        ObjectKey::namespaced(&self.space.name, name)
    }
}

async fn create(api: &Api<ConfigMap>, name: &str) -> ConfigMap {
    api.create(&WriteParams::default(), &config_map(name, json!({ "set": "this" }))).await.expect("created")
}

async fn patch(api: &Api<ConfigMap>, name: &str, value: &str) -> ConfigMap {
    let patch = json!({ "data": { "key": value } });
    api.patch(name, &PatchParams::default(), Patch::Merge(&patch)).await.expect("patched")
}

fn stored<T: Object>(store: &Store<T>) -> Vec<String> {
    names(store.snapshot().iter().map(|it| &**it))
}

/// Returns the next change as a short text: `!a` added by the initial list, `+a` added, `a`
/// updated, `-a` deleted, whether observed or not.
async fn next<T: Object>(changes: &mut Changes<T>) -> String {
    let change = within("the next change", changes.next()).await.expect("the informer runs");
    let name = change.object().header().name.to_owned();
    match change {
        Change::Added { initial: true, .. } => format!("!{name}"),
        Change::Added { .. } => format!("+{name}"),
        Change::Deleted(_) => format!("-{name}"),
        _ => name,
    }
}

#[tokio::test]
async fn informers_sync_and_follow() {
    let it = Fixture::new().await;
    create(&it.api, "a").await;
    create(&it.api, "b").await;
    let mut changes = it.informer.changes().expect("the informer runs");
    it.synced().await;
    assert_eq!(stored(&it.informer.store()), ["a", "b"]);
    assert_eq!([next(&mut changes).await, next(&mut changes).await], ["!a", "!b"]);

    let made = create(&it.api, "c").await;
    it.reached(&made).await;
    assert_eq!(it.informer.store().get(&it.key("c")).as_deref(), Some(&made));
    assert_eq!(next(&mut changes).await, "+c");

    let changed = patch(&it.api, "a", "changed").await;
    it.reached(&changed).await;
    assert_eq!(it.informer.store().get(&it.key("a")).as_deref(), Some(&changed));
    let change = within("the update", changes.next()).await.expect("the informer runs");
    let Change::Updated { old, new } = change else { panic!("not an update: {change:?}") };
    assert_eq!((old.data.as_ref().map(|it| it["key"].as_str()), &*new), (Some("value"), &changed));

    it.api.delete("b", &DeleteParams::default()).await.expect("deleted");
    let change = within("the deletion", changes.next()).await.expect("the informer runs");
    let Change::Deleted(Deleted::Seen(last)) = change else { panic!("not a deletion: {change:?}") };
    assert_eq!(last.metadata.name.as_deref(), Some("b"));
    assert_eq!(stored(&it.informer.store()), ["a", "c"]);
    assert!(it.informer.health().is_ok(), "{}", it.informer.health());

    within("the stop", it.informer.stop()).await;
    assert!(within("the end", changes.next()).await.is_none());
    assert_eq!(stored(&it.informer.store()), ["a", "c"], "a stopped informer's store stays readable");
}

/// A recreated object has the same name and another uid: the informer reports both halves, as the
/// watch does.
#[tokio::test]
async fn informers_report_a_recreation_as_a_deletion_and_an_addition() {
    let it = Fixture::new().await;
    let first = create(&it.api, "a").await;
    it.synced().await;
    let grow = HandlerOptions::default().overflow(Overflow::Grow);
    let mut changes = it.informer.changes_with(grow).expect("the informer runs");
    assert_eq!(next(&mut changes).await, "!a");
    it.api.delete("a", &DeleteParams::default()).await.expect("deleted");
    let second = create(&it.api, "a").await;
    assert_ne!(first.metadata.uid, second.metadata.uid);
    assert_eq!([next(&mut changes).await, next(&mut changes).await], ["-a", "+a"]);
    assert_eq!(it.informer.store().get(&it.key("a")).as_deref(), Some(&second));
}

/// A proxy between informer and server cuts every connection: changes made meanwhile are delivered
/// once, from the last version on.
#[tokio::test]
async fn informers_resume_from_the_last_version_when_the_connection_is_cut() {
    let proxy = CuttableProxy::to(&config()).await;
    let reading = Client::new(proxy.through(config())).expect("the config is valid");
    let it = Fixture::through(reading).await;
    create(&it.api, "a").await;
    create(&it.api, "b").await;
    let grow = HandlerOptions::default().overflow(Overflow::Grow);
    let mut changes = it.informer.changes_with(grow).expect("the informer runs");
    it.synced().await;
    assert_eq!([next(&mut changes).await, next(&mut changes).await], ["!a", "!b"]);

    for round in ["one", "two", "three"] {
        let connections = proxy.connections();
        proxy.cut();
        patch(&it.api, "a", round).await;
        it.api.delete("b", &DeleteParams::default()).await.expect("deleted");
        let made = create(&it.api, "b").await;
        it.reached(&made).await;
        let received = [next(&mut changes).await, next(&mut changes).await, next(&mut changes).await];
        assert_eq!(received, ["a", "-b", "+b"], "{round}");
        assert_eq!(it.informer.store().get(&it.key("b")).as_deref(), Some(&made));
        assert!(proxy.connections() > connections, "the informer reconnected");
    }
    assert_eq!(it.informer.health().relists, 0, "a cut watch is resumed without a new list");
}

/// A cut in the middle of the initial list only delays the sync.
#[tokio::test]
async fn informers_sync_through_cuts() {
    let proxy = CuttableProxy::to(&config()).await;
    let reading = Client::new(proxy.through(config())).expect("the config is valid");
    let it = Fixture::through(reading).await;
    for number in 0..20 {
        create(&it.api, &format!("m{number}")).await;
    }
    it.informer.start();
    let connects = async || (it.api.get("m0").await.is_ok() && proxy.connections() > 0).then_some(());
    until("the first connection", connects).await;
    proxy.cut();
    it.synced().await;
    assert_eq!(it.informer.store().len(), 20);
    proxy.cut();
    let made = create(&it.api, "after").await;
    it.reached(&made).await;
    assert_eq!(it.informer.store().len(), 21);
}

#[tokio::test]
async fn informers_replay_the_store_to_late_handlers_before_new_changes() {
    let it = Fixture::new().await;
    create(&it.api, "a").await;
    it.synced().await;
    let made = create(&it.api, "b").await;
    it.reached(&made).await;
    let mut late = Vec::new();
    for overflow in [Overflow::Coalesce, Overflow::Grow, Overflow::Block(1)] {
        let options = HandlerOptions::default().overflow(overflow);
        late.push(it.informer.changes_with(options).expect("the informer runs"));
    }
    for changes in &mut late {
        assert_eq!([next(changes).await, next(changes).await], ["!a", "!b"]);
    }
    create(&it.api, "c").await;
    for changes in &mut late {
        assert_eq!(next(changes).await, "+c");
        assert!(changes.registration().is_synced());
    }
    let removed = late.remove(0).registration();
    within("the shutdown of the handler", removed.shut_down()).await;
    patch(&it.api, "a", "changed").await;
    for changes in &mut late {
        assert_eq!(next(changes).await, "a");
    }
}

#[tokio::test]
async fn informers_find_by_index_what_the_server_finds_by_label() {
    let it = Fixture::new().await;
    let tier = |name: &str, tier: &str| config_map(name, json!({ "set": "this", "tier": tier }));
    for (name, of) in [("a", "web"), ("b", "web"), ("c", "data")] {
        it.api.create(&WriteParams::default(), &tier(name, of)).await.expect("created");
    }
    let by_value = |it: &ConfigMap| it.data.as_ref().and_then(|it| it.get("key")).cloned();
    it.informer.add_index(Index::new("value", by_value)).expect("the name is free");
    it.synced().await;
    it.informer.add_index(Index::label("tier")).expect("the name is free");
    let found = |index: &str, value: &str| {
        let found = it.informer.store().by_index(index, value).expect("there is such an index");
        names(found.iter().map(|it| &**it))
    };
    assert_eq!(
        (found("tier", "web"), found("tier", "data")),
        (vec!["a".into(), "b".into()], vec!["c".into()])
    );
    assert_eq!(found("value", "value"), ["a", "b", "c"]);

    patch(&it.api, "a", "changed").await;
    let moved = json!({ "metadata": { "labels": { "tier": "data" } } });
    let moved = it.api.patch("b", &PatchParams::default(), Patch::Merge(&moved)).await.expect("patched");
    it.reached(&moved).await;
    assert_eq!(
        (found("tier", "web"), found("value", "value")),
        (vec!["a".into()], vec!["b".into(), "c".into()])
    );
    assert_eq!(found("value", "changed"), ["a"]);
    for selector in ["tier=data", "tier in (web,data)", "tier!=web"] {
        let listed = it.informer.lister().list(&labels(selector));
        let served = it.api.list(&labelled(&format!("set=this,{selector}"))).await;
        let served = served.expect("listed").items;
        assert_eq!(names(listed.iter().map(|it| &**it)), names(&served), "{selector}");
    }
}

/// A client without permission to list all namespaces can read several namespaces, each by itself,
/// into one cache.
#[tokio::test]
async fn an_informer_of_several_namespaces_is_one_cache() {
    let client = client();
    let (one, other, third) = (
        TestNamespace::new(&client).await,
        TestNamespace::new(&client).await,
        TestNamespace::new(&client).await,
    );
    let [ones, others, thirds] = [&one, &other, &third].map(|it| it.api::<ConfigMap>(&client));
    create(&ones, "a").await;
    create(&others, "b").await;
    let builder = SharedInformer::builder(ones.clone()).add_source(others.clone()).labels(labels("set=this"));
    let informer = builder.build();
    informer.start();
    within("the sync", informer.synced()).await.expect("the informer runs until it is stopped");
    assert_eq!(stored(&informer.store()), ["a", "b"]);

    let mut changes = informer.changes().expect("the informer runs");
    let mut initial = [next(&mut changes).await, next(&mut changes).await];
    initial.sort();
    assert_eq!(initial, ["!a", "!b"]);
    create(&thirds, "elsewhere").await;
    create(&others, "c").await;
    assert_eq!(next(&mut changes).await, "+c");
    ones.delete("a", &DeleteParams::default()).await.expect("deleted");
    assert_eq!(next(&mut changes).await, "-a");
    let by_namespace = informer
        .store()
        .by_index(dogwatch::informer::NAMESPACE_INDEX, &other.name)
        .expect("this index always exists");
    assert_eq!(names(by_namespace.iter().map(|it| &**it)), ["b", "c"]);
}

/// When the kind is removed with all its objects, the informer reports it and waits; when the kind
/// returns, so do the objects.
#[tokio::test]
async fn informers_follow_a_kind_that_is_removed_and_comes_back() {
    let client = client();
    let space = TestNamespace::new(&client).await;
    let (definition, api) = ships(&client, &space).await;
    let create = async |name: &str| {
        let ship = ship(&api, name, json!({ "masts": 2 }));
        api.create(&WriteParams::default(), &ship).await.expect("created");
    };
    create("a").await;
    // Short periods, so that the test need not wait long.
    let soon = Duration::from_millis(200);
    let informer = SharedInformer::builder(api.clone())
        .reflector(|it| it.not_found(NotFound::GoneAfter(soon)))
        .retry_not_served_after(soon)
        .build();
    let mut changes = informer.changes().expect("the informer runs");
    informer.start();
    assert_eq!(next(&mut changes).await, "!a");
    // Only an open watch delivers the deletions: an informer that finds the kind gone keeps its
    // objects.
    create("c").await;
    assert_eq!(next(&mut changes).await, "+c");

    definition.remove().await;
    let mut deleted = [next(&mut changes).await, next(&mut changes).await];
    deleted.sort();
    assert_eq!(deleted, ["-a", "-c"]);
    // Each request to the server also gives the informer's task a chance to run.
    let is_served = async || api.list(&ListParams::default()).await.is_ok();
    let gone =
        async || (!is_served().await && informer.health().state == HealthState::NotServed).then_some(());
    until("the health state Gone", gone).await;
    assert!(informer.store().is_empty());

    let (_definition, _) = ships(&client, &space).await;
    create("b").await;
    assert_eq!(next(&mut changes).await, "+b");
    assert_eq!(stored(&informer.store()), ["b"]);
    let healthy = async || (is_served().await && informer.health().is_ok()).then_some(());
    until("a healthy informer", healthy).await;
}
