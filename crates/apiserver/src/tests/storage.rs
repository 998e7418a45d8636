//! Storage: versions across restarts, the size of history, and the cost of custom resource
//! definitions.

use std::sync::Arc;

use crate::ApiServer;
use crate::cluster::{Cluster, Writer};
use crate::controllers::Controllers;
use crate::registry::Kind;
use crate::store::{CollectionName, Draft, Expect, Store};
use dogwatch_core::ObjectKey;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::test_cluster::TestCluster;

const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");

fn definition(plural: &str, fields: &[&str]) -> Value {
    let text = |name: &&str| ((*name).to_owned(), json!({ "type": "string", "pattern": "^[\\w-]{1,253}$" }));
    let fields: serde_json::Map<_, _> = fields.iter().map(text).collect();
    json!({ "apiVersion": DEFINITIONS.0, "kind": DEFINITIONS.1,
        "metadata": { "name": format!("{plural}.zoo.example") },
        "spec": { "group": "zoo.example", "scope": "Namespaced",
            "names": { "plural": plural, "kind": format!("Kind{plural}") },
            "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                "type": "object", "properties": { "spec": { "type": "object", "properties": fields } } } } }] } })
}

fn object(plural: &str, name: &str, field: &str) -> Value {
    json!({ "apiVersion": "zoo.example/v1", "kind": format!("Kind{plural}"),
        "metadata": { "name": name, "namespace": "default" }, "spec": { field: "a" } })
}

fn kind(cluster: &Cluster, plural: &str) -> Arc<Kind> {
    cluster.catalog().kind("zoo.example", "v1", plural).expect("served")
}

/// Regression test: a client kept its last version while the server was restarted, resumed its
/// watch there, and never received an event, because versions began at 1 each time.
#[tokio::test]
async fn versions_increase_across_a_restart() {
    let before = ApiServer::in_process().await.unwrap();
    for at in 0..50 {
        let map =
            json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": format!("m{at}") } });
        before.cluster().add(map, &Writer::server("test")).await.unwrap();
    }
    let seen = before.cluster().store().revision();
    before.stop().await;
    let after = ApiServer::in_process().await.unwrap();
    let store = after.cluster().store();
    for collection in ["/configmaps", "/pods", "apps/deployments"] {
        assert!(
            store.watch(&collection.into(), seen).is_err(),
            "{collection}: history before the restart is unknown"
        );
        assert!(store.read(&collection.into(), |all, _| all.list_at(seen, None).is_err()), "{collection}");
    }
}

#[tokio::test]
async fn the_first_version_can_be_set_and_a_seed_determines_all_versions() {
    let newest = async |first: Option<u64>| {
        let server = ApiServer::builder().in_process().seed(1).controllers(Controllers::none());
        let server = first.into_iter().fold(server, |it, first| it.first_revision(first));
        server.start().await.unwrap().cluster().store().revision()
    };
    let plain = newest(None).await;
    assert!(plain < 100, "{plain}");
    assert_eq!(newest(None).await, plain);
    assert_eq!(newest(Some(5_000)).await, plain + 4_999);
    assert_eq!(newest(Some(0)).await, plain, "0 is not a version");
}

/// Regression test: each change of any definition compiled all of them twice. 60 definitions took
/// 45 seconds, and a label another 3.
#[tokio::test(start_paused = true)]
async fn each_definition_is_compiled_once() {
    let it = TestCluster::with(Controllers::default()).await;
    for at in 0..30 {
        it.add(definition(&format!("p{at}"), &["old"])).await;
    }
    assert_eq!(it.cluster.catalog().compiled(), 30);
    let label = |it: &mut Value| it["metadata"]["labels"] = json!({ "a": "b" });
    it.change(DEFINITIONS, "p7.zoo.example", "", label).await;
    assert_eq!(it.cluster.catalog().compiled(), 30, "labels need no compilation");
    let fork = it.cluster.fork();
    assert!(Arc::ptr_eq(&kind(&fork, "p7"), &kind(&it.cluster, "p7")));
    let field = |it: &mut Value| {
        it["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["more"] =
            json!({ "type": "string" });
    };
    it.change(DEFINITIONS, "p7.zoo.example", "", field).await;
    it.advance(std::time::Duration::from_secs(60)).await;
    assert_eq!((it.cluster.catalog().compiled(), fork.catalog().compiled()), (31, 30));
}

/// A name that one definition releases goes to the definition that waits for it.
#[tokio::test(start_paused = true)]
async fn a_definition_gets_a_name_that_another_releases() {
    let it = TestCluster::with(Controllers::default()).await;
    let mut second = definition("second", &["old"]);
    second["spec"]["names"]["kind"] = "Kindfirst".into();
    second["spec"]["names"]["listKind"] = "SecondList".into();
    it.add(definition("first", &["old"])).await;
    it.add(second).await;
    it.add(definition("third", &["old"])).await;
    let established = |of: &Value| {
        let all = of["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().any(|it| it["type"] == "Established" && it["status"] == "True")
    };
    let second = it.get(DEFINITIONS, "second.zoo.example").unwrap();
    assert!(!established(&second), "{second:#}");
    it.delete(DEFINITIONS, "first.zoo.example", None).await;
    it.until_one(DEFINITIONS, "second.zoo.example", established).await;
}

/// Regression test: after a change of a definition, every object of its kind was parsed, pruned and
/// encoded again for every list and every watcher.
#[tokio::test(start_paused = true)]
async fn only_objects_older_than_the_definition_are_converted_when_read() {
    let it = TestCluster::with(Controllers::none()).await;
    it.add(definition("cats", &["old"])).await;
    it.add(object("cats", "before", "old")).await;
    let field = |it: &mut Value| {
        let fields =
            &mut it["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["properties"]["spec"]["properties"];
        *fields = json!({ "new": { "type": "string" } });
    };
    it.change(DEFINITIONS, "cats.zoo.example", "", field).await;
    it.add(object("cats", "after", "new")).await;
    let kind = kind(&it.cluster, "cats");
    let stored = |name: &str| it.cluster.get(&kind, &ObjectKey::namespaced("default", name)).unwrap();
    assert!(!kind.shows_bytes_of(&stored("before")) && kind.shows_bytes_of(&stored("after")));
    assert_eq!(kind.show(&stored("before"))["spec"], json!({}), "unknown fields are pruned");
    assert_eq!(stored("after").to_value()["spec"], json!({ "new": "a" }));

    let touch = |it: &mut Value| it["metadata"]["labels"] = json!({ "a": "b" });
    it.change(("zoo.example/v1", "Kindcats"), "default/before", "", touch).await;
    assert!(kind.shows_bytes_of(&stored("before")), "the object was rewritten");
    it.change(DEFINITIONS, "cats.zoo.example", "", touch).await;
    let same = it.cluster.catalog().kind("zoo.example", "v1", "cats").unwrap();
    assert!(same.shows_bytes_of(&stored("after")), "labels of the definition do not matter");
}

/// Regression test: the objects and the history of a deleted definition stayed for ever, and a
/// definition that was created again showed watchers the deletions of its predecessor.
#[tokio::test(start_paused = true)]
async fn a_deleted_definition_leaves_no_objects_and_no_history() {
    let it = TestCluster::with(Controllers::default()).await;
    let collection: CollectionName = "zoo.example/dogs".into();
    let mut begun = Vec::new();
    for round in 0..3 {
        it.add(definition("dogs", &["old"])).await;
        begun.push(it.cluster.store().revision());
        for at in 0..5 {
            it.add(object("dogs", &format!("d{at}"), "old")).await;
        }
        let mut watching = it.cluster.store().watch(&collection, begun[round]).expect("kept");
        it.delete(DEFINITIONS, "dogs.zoo.example", None).await;
        it.until_gone(DEFINITIONS, "dogs.zoo.example").await;
        let mut seen = 0;
        while watching.next().await.is_ok() {
            seen += 1;
        }
        assert_eq!(seen, 10, "a watcher sees five objects created and deleted, and then the end");
        it.advance(std::time::Duration::from_secs(60)).await;
        let size = it.cluster.store().read(&collection, |all, _| all.size());
        assert_eq!(size, 0, "round {round}");
    }
    it.add(definition("dogs", &["old"])).await;
    for version in begun {
        assert!(
            it.cluster.store().watch(&collection, version).is_err(),
            "the version is from before the deletion"
        );
    }
    let names = it.cluster.store().collections();
    assert!(names.iter().filter(|it| it.starts_with("zoo.example/")).count() <= 1, "{names:?}");
}

/// Regression test: 300 versions of one object of 1 MB held 300 MB until the server ended.
#[test]
fn the_history_of_large_objects_is_bounded() {
    let (store, maps) = (Store::default(), CollectionName::from("/configmaps"));
    let key = ObjectKey::namespaced("default", "large");
    let large =
        json!({ "metadata": { "name": "large", "namespace": "default" }, "data": "x".repeat(1 << 20) });
    let draft = Draft::new(&large, Vec::new()).unwrap();
    let mut stalled = store.watch(&maps, store.revision()).unwrap();
    let mut version = store.commit(&maps, &key, Expect::Absent, Some(draft.clone())).unwrap().version();
    for _ in 0..150 {
        version = store.commit(&maps, &key, Expect::At(version), Some(draft.clone())).unwrap().version();
        assert!(store.read(&maps, |all, _| all.size()) <= 64 << 20);
    }
    assert!(stalled.try_next().is_err(), "a stalled watcher does not keep history");
    let oldest = store.read(&maps, |all, _| all.oldest());
    assert!(store.watch(&maps, oldest).is_ok() && version - oldest >= 10);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// For any writes, deletions, trims and watches: the size of history is bounded by the writes
    /// since the last trim, and a watcher sees the changes in order or gets an error if it missed
    /// some.
    #[test]
    fn history_stays_bounded(
        steps in proptest::collection::vec((0..6u8, 0..4u8, 1..20usize), 1..120),
    ) {
        let store = Store::default();
        let collection = |at: u8| CollectionName::from(format!("zoo.example/k{}", at % 3));
        let mut watchers = Vec::new();
        let (mut trimmed, mut since) = (store.revision(), Vec::new());
        for (what, name, size) in steps {
            let at = collection(name);
            match what {
                0..=2 => {
                    let object =
                        json!({ "metadata": { "name": format!("o{size}") }, "data": "x".repeat(size * 1000) });
                    let draft = Draft::new(&object, Vec::new()).unwrap();
                    let key = draft.key().clone();
                    let known = store.get(&at, &key).map_or(Expect::Absent, |it| Expect::At(it.version()));
                    let delete = what == 2 && known != Expect::Absent;
                    let stored = store.commit(&at, &key, known, (!delete).then_some(draft)).unwrap();
                    since.push((stored.version(), size * 1000 + 2000));
                }
                3 => store.begin(&at),
                4 => {
                    since.retain(|(version, _)| *version > trimmed);
                    store.trim(trimmed);
                    trimmed = store.revision();
                }
                _ => watchers.push((store.watch(&at, store.revision()).unwrap(), store.revision())),
            }
            // Each change counts its object before and after, and a deletion once more.
            let most: usize = since.iter().map(|(_, size)| size * 3 + 60_000).sum();
            let held: usize = store.collections().iter().map(|it| store.read(it, |all, _| all.size())).sum();
            prop_assert!(held <= most, "{} of {}", held, most);
        }
        for (mut watcher, mut version) in watchers {
            while let Ok(Some(change)) = watcher.try_next() {
                prop_assert!(change.version > version);
                version = change.version;
            }
        }
    }
}
