//! The sources of a controller: owners, mappings, predicates, keys of other types.

use dogwatch_controller::{Action, BoxError, Controller, Predicate, Watched};
use dogwatch_core::ObjectKey;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::OwnerReference;
use serde_json::json;

use crate::test_cluster::{Calls, Recording, Running, TestCluster, map, owned_map, settle};

fn secret(name: &str, owner: Option<&ConfigMap>) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.metadata.owner_references = owner.and_then(|it| owned_map("x", it).metadata.owner_references);
    secret
}

#[tokio::test(start_paused = true)]
async fn an_owner_is_reconciled_when_its_child_changes() {
    let cluster = TestCluster::with(&["a", "b", "c"]).await;
    let secrets = dogwatch_client::Api::<Secret>::default_namespaced(cluster.client.clone());
    let (a, b) = (cluster.put("a", "1").await, cluster.put("b", "1").await);
    let (calls, maps, children) = (Calls::new(), cluster.informer(), cluster.informers.get::<Secret>());
    let running = Running::new(Controller::of(&maps).owns(&children).build(Recording(calls.clone())));
    settle().await;
    assert_eq!(calls.take().len(), 3);

    let write = dogwatch_core::WriteParams::default();
    let child = secrets.create(&write, &secret("child", Some(&a))).await.expect("created");
    settle().await;
    assert_eq!(calls.take(), ["a"]);
    secrets.create(&write, &secret("other", None)).await.expect("created");
    settle().await;
    assert_eq!(calls.take(), [] as [&str; 0], "it has no owner");

    let mut moved = child.clone();
    moved.metadata.owner_references = secret("child", Some(&b)).metadata.owner_references;
    let moved = secrets.replace("child", &write, &moved).await.expect("replaced");
    settle().await;
    assert_eq!(calls.take(), ["a", "b"], "the old owner and the new one");

    let mut shared = moved.clone();
    let reference = |owner: &ConfigMap, controller| OwnerReference {
        controller,
        ..owned_map("x", owner).metadata.owner_references.unwrap().remove(0)
    };
    shared.metadata.owner_references = Some(vec![reference(&a, None), reference(&b, Some(true))]);
    secrets.replace("child", &write, &shared).await.expect("replaced");
    settle().await;
    assert_eq!(calls.take(), ["b"], "only the controller counts");

    secrets.delete("child", &dogwatch_core::DeleteParams::default()).await.expect("deleted");
    settle().await;
    assert_eq!(calls.take(), ["b"]);
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
#[should_panic(expected = "only a controller created with `Controller::of` has objects that own others")]
async fn a_keyed_controller_cannot_own_objects() {
    let cluster = TestCluster::with(&[]).await;
    let _ = Controller::with_keys::<ObjectKey>("x").owns(&cluster.informer());
}

#[tokio::test(start_paused = true)]
async fn a_mapping_is_also_called_with_the_old_state() {
    let cluster = TestCluster::with(&["a", "b", "c"]).await;
    let (calls, maps, children) = (Calls::new(), cluster.informer(), cluster.informers.get::<Secret>());
    let mut used = secret("used", None);
    used.metadata.labels = Some([("used-by".to_owned(), "a".to_owned())].into());
    let secrets = dogwatch_client::Api::<Secret>::default_namespaced(cluster.client.clone());
    let write = dogwatch_core::WriteParams::default();
    let used = secrets.create(&write, &used).await.expect("created");
    let by_label = |secret: &Secret| {
        let users = secret.metadata.labels.clone().unwrap_or_default();
        users.into_values().map(|it| ObjectKey::namespaced("default", &it)).collect::<Vec<_>>()
    };
    let running =
        Running::new(Controller::of(&maps).watches(&children, by_label).build(Recording(calls.clone())));
    settle().await;
    assert_eq!(calls.take_sorted(), ["a", "b", "c"], "once each, whichever source triggers them");
    let mut moved = used;
    moved.metadata.labels = Some([("used-by".to_owned(), "c".to_owned())].into());
    secrets.replace("used", &write, &moved).await.expect("replaced");
    settle().await;
    assert_eq!(calls.take(), ["a", "c"]);
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn changes_that_a_predicate_rejects_are_not_reconciled() {
    let cluster = TestCluster::with(&["a"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let watched = Watched::new(&maps)
        .when(Predicate::labels_changed().or(Predicate::annotations_changed()))
        .when(Predicate::matching(|it: &ConfigMap| it.metadata.name.as_deref() != Some("ignored")));
    let running = Running::new(Controller::of(watched).build(Recording(calls.clone())));
    settle().await;
    assert_eq!(calls.take(), ["a"]);
    cluster.put("a", "1").await;
    cluster.create(&map("ignored")).await;
    settle().await;
    assert_eq!(calls.take(), [] as [&str; 0]);
    cluster.patch("a", json!({ "metadata": { "labels": { "x": "y" } } })).await;
    settle().await;
    cluster.patch("a", json!({ "metadata": { "annotations": { "x": "y" } } })).await;
    settle().await;
    cluster.delete("a").await;
    settle().await;
    assert_eq!(calls.take(), ["a", "a", "a"]);
    running.stop().await.expect("clean shutdown");
}

/// Many objects, one key: all changes of a namespace are one unit of work.
#[tokio::test(start_paused = true)]
async fn keys_may_be_of_any_type() {
    #[derive(Clone, Debug, PartialEq, Eq, Hash)]
    enum Task {
        Namespace(String),
        Everything,
    }
    let cluster = TestCluster::with(&["a", "b", "c"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let recorded = calls.clone();
    let controller = Controller::with_keys("namespaces")
        .watches(&maps, |it| [Task::Everything, Task::Namespace(it.metadata.namespace.clone().unwrap())])
        .build(move |key: Task, _| {
            recorded.add(format!("{key:?}"));
            std::future::ready(Ok::<_, BoxError>(Action::Done))
        });
    assert_eq!(controller.name(), "namespaces");
    let running = Running::new(controller);
    settle().await;
    assert_eq!(calls.take(), ["Everything", "Namespace(\"default\")"]);
    running.stop().await.expect("clean shutdown");
}

/// A mapping is user code. One that panics loses the change it was called with, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_mapping_that_panics_loses_one_change() {
    let cluster = TestCluster::with(&["a", "bad", "c"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let own = |it: &ConfigMap| {
        let name = it.metadata.name.clone().unwrap();
        assert!(name != "bad", "cannot map");
        [ObjectKey::namespaced("default", &name)]
    };
    let running =
        Running::new(Controller::with_keys("x").watches(&maps, own).build(Recording(calls.clone())));
    settle().await;
    assert_eq!(calls.take(), ["a", "c"]);
    running.stop().await.expect("clean shutdown");
}

/// Events outside of the cluster have no informer.
#[tokio::test(start_paused = true)]
async fn keys_of_a_stream_are_reconciled_too() {
    let cluster = TestCluster::with(&["a"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let stream = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
    let running = Running::new(Controller::of(&maps).reconcile_on(stream).build(Recording(calls.clone())));
    settle().await;
    assert_eq!(calls.take(), ["a"]);
    for name in ["x", "a", "x"] {
        sender.send(ObjectKey::namespaced("default", name)).expect("it is read");
    }
    settle().await;
    assert_eq!(calls.take(), ["x", "a"], "once each");
    drop(sender);
    cluster.put("a", "1").await;
    settle().await;
    assert_eq!(calls.take(), ["a"], "the end of the stream is not an error");
    running.stop().await.expect("clean shutdown");
}
