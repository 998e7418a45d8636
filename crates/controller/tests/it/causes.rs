//! The causes of a reconcile, from the event to the context, and their metric.

use std::collections::BTreeMap;
use std::time::Duration;

use dogwatch_client::Api;
use dogwatch_controller::sharding::ShardMember;
use dogwatch_controller::{Action, BoxError, Cause, Context, Controller, ObjectEvent};
use dogwatch_core::{DeleteParams, ObjectKey, WriteParams};
use dogwatch_informer::SharedInformer;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use metrics_util::debugging::{DebugValue, DebuggingRecorder};
use tokio::sync::oneshot;

use crate::test_cluster::{Calls, Running, SECOND, TestCluster, map, name, owned_map, settle};

/// Returns a reconciler that records the causes of its calls, as `name: causes`.
fn recording(calls: Calls) -> impl Fn(ObjectKey, Context) -> std::future::Ready<Result<Action, BoxError>> {
    move |key, context| {
        calls.add(format!("{}: {}", name(&key), context.causes()));
        std::future::ready(Ok(Action::Done))
    }
}

fn secret(name: &str, owner: &ConfigMap) -> Secret {
    let mut secret = Secret::default();
    secret.metadata.name = Some(name.to_owned());
    secret.metadata.owner_references = owned_map("x", owner).metadata.owner_references;
    secret
}

#[tokio::test(start_paused = true)]
async fn the_event_of_an_object_is_the_cause() {
    let cluster = TestCluster::with(&["a"]).await;
    let calls = Calls::new();
    let informer =
        SharedInformer::builder(cluster.maps.clone()).name("watched").resync_every(3600 * SECOND).build();
    let controller = Controller::of(&informer).build({
        let recorded = recording(calls.clone());
        move |key: ObjectKey, context: Context| {
            let Some(Cause::Object(cause)) = context.causes().first() else { panic!("{context:?}") };
            assert_eq!((cause.kind().kind.as_str(), cause.informer()), ("ConfigMap", "watched"));
            assert_eq!(cause.key(), &key);
            recorded(key, context)
        }
    });
    let running = Running::new(controller);
    settle().await;
    assert_eq!(calls.take(), ["a: configmap default/a in the initial list"]);
    cluster.create(&map("b")).await;
    settle().await;
    assert_eq!(calls.take(), ["b: configmap default/b added"]);
    cluster.put("a", "1").await;
    settle().await;
    assert_eq!(calls.take(), ["a: configmap default/a changed"]);
    cluster.delete("b").await;
    settle().await;
    assert_eq!(calls.take(), ["b: configmap default/b deleted"]);
    tokio::time::sleep(3600 * SECOND).await;
    assert_eq!(calls.take(), ["a: configmap default/a resynced"]);
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn a_change_of_owner_is_the_cause_for_both_owners_and_counts_once_for_each() {
    let cluster = TestCluster::with(&["a", "b"]).await;
    let secrets = Api::<Secret>::default_namespaced(cluster.client.clone());
    let (a, b) = (cluster.put("a", "1").await, cluster.put("b", "1").await);
    let (calls, maps, children) = (Calls::new(), cluster.informer(), cluster.informers.get::<Secret>());
    let running = Running::new(Controller::of(&maps).owns(&children).build(recording(calls.clone())));
    settle().await;
    calls.take();
    let write = WriteParams::default();
    let mut child = secrets.create(&write, &secret("child", &a)).await.expect("created");
    settle().await;
    assert_eq!(calls.take(), ["a: secret default/child added"]);
    child.metadata.labels = Some([("x".to_owned(), "y".to_owned())].into());
    let mut child = secrets.replace("child", &write, &child).await.expect("replaced");
    settle().await;
    assert_eq!(calls.take(), ["a: secret default/child changed"], "it maps to the same owner twice");
    child.metadata.owner_references = secret("child", &b).metadata.owner_references;
    secrets.replace("child", &write, &child).await.expect("replaced");
    settle().await;
    assert_eq!(calls.take(), ["a: secret default/child changed", "b: secret default/child changed"]);
    secrets.delete("child", &DeleteParams::default()).await.expect("deleted");
    settle().await;
    assert_eq!(calls.take(), ["b: secret default/child deleted"]);
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn the_outcome_of_the_last_reconcile_is_the_cause_of_the_next() {
    let cluster = TestCluster::with(&["a"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let recorded = calls.clone();
    let controller =
        Controller::of(&maps).reconcile_timeout(SECOND).build(move |_: ObjectKey, context: Context| {
            let recorded = recorded.clone();
            async move {
                recorded.add(context.causes());
                match context.attempt() {
                    0 if context.causes().first().is_some_and(|it| it.label() == "requeue_after") => {
                        Ok(Action::Done)
                    }
                    0 => Err(BoxError::from("connection refused")),
                    1 => Err("\u{e9}".repeat(500).into()),
                    2 => panic!("on purpose"),
                    3 => std::future::pending().await,
                    _ => Ok(Action::RequeueAfter(60 * SECOND)),
                }
            }
        });
    let running = Running::new(controller);
    tokio::time::sleep(120 * SECOND).await;
    assert_eq!(
        calls.take(),
        [
            "configmap default/a in the initial list".to_owned(),
            "retry after: connection refused".to_owned(),
            format!("retry after: {}", "\u{e9}".repeat(128)),
            "retry after a panic: on purpose".to_owned(),
            "retry after a timeout of 1s".to_owned(),
            "requeued by the reconciler after 60s".to_owned(),
        ]
    );
    running.stop().await.expect("clean shutdown");
}

/// The first reconcile takes a second, during which its key is queued again and again.
#[tokio::test(start_paused = true)]
async fn causes_during_a_reconcile_belong_to_the_next_one() {
    let cluster = TestCluster::with(&["a"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let (sender, mut receiver) = tokio::sync::mpsc::unbounded_channel();
    let stream = futures_util::stream::poll_fn(move |cx| receiver.poll_recv(cx));
    let recorded = calls.clone();
    let controller =
        Controller::of(&maps).reconcile_on(stream).build(move |_: ObjectKey, context: Context| {
            recorded.add(context.causes());
            async move {
                tokio::time::sleep(SECOND).await;
                match context.causes().first() {
                    Some(Cause::Object(it)) if it.event() == ObjectEvent::InitialList => {
                        Err(BoxError::from("busy"))
                    }
                    _ => Ok(Action::Done),
                }
            }
        });
    let running = Running::new(controller);
    tokio::time::sleep(SECOND / 2).await;
    for _ in 0..3 {
        sender.send(ObjectKey::namespaced("default", "a")).expect("it is read");
    }
    cluster.put("a", "1").await;
    tokio::time::sleep(10 * SECOND).await;
    // The stream comes first, and the retry of the reconcile is merged behind what waits already.
    assert_eq!(
        calls.take(),
        [
            "configmap default/a in the initial list",
            "yielded by a stream, and 4 more; last: retry after: busy",
        ]
    );
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn a_key_that_waits_for_its_own_writes_keeps_its_causes() {
    let cluster = TestCluster::with(&["a"]).await;
    let (calls, maps, children) = (Calls::new(), cluster.informer(), cluster.informers.get::<Secret>());
    let (owner, secrets) = (cluster.put("a", "1").await, Api::default_namespaced(cluster.client.clone()));
    cluster.informers.start();
    maps.synced().await.expect("synced");
    children.synced().await.expect("synced");
    // From here on the cache stands still.
    cluster.server.faults().pause();
    let recorded = calls.clone();
    let controller = Controller::of(&maps).owns(&children).build(move |_: ObjectKey, context: Context| {
        recorded.add(context.causes());
        let (child, secrets) = (secret("child", &owner), secrets.clone());
        let is_first = context.causes().first().is_some_and(|it| it.label() == "initial_list");
        async move {
            if !is_first {
                return Ok(Action::Done);
            }
            context.wrote(&secrets.create(&WriteParams::default(), &child).await?);
            Ok::<_, BoxError>(Action::RequeueAfter(SECOND))
        }
    });
    let running = Running::new(controller);
    tokio::time::sleep(2 * SECOND).await;
    assert_eq!(calls.take(), ["configmap default/a in the initial list"], "it waits");
    cluster.server.faults().resume();
    tokio::time::sleep(10 * SECOND).await;
    let all = calls.take();
    assert!(all[0].starts_with("requeued by the reconciler after 1s, and "), "{all:?}");
    let last = ["secret default/child added", "waited for informer secrets to show its own writes"];
    assert!(last.iter().any(|it| all[0].ends_with(&format!("; last: {it}"))), "{all:?}");
    running.stop().await.expect("clean shutdown");
}

/// No member owns the key when its object is listed.
#[tokio::test(start_paused = true)]
async fn a_change_of_ownership_is_a_cause_behind_those_that_waited_for_it() {
    let cluster = TestCluster::with(&["a"]).await;
    let (calls, maps) = (Calls::new(), cluster.informer());
    let member = ShardMember::builder(cluster.client.clone(), "group").build().expect("valid settings");
    let running = Running::new(Controller::of(&maps).sharded(&member).build(recording(calls.clone())));
    settle().await;
    cluster.put("a", "1").await;
    settle().await;
    assert_eq!(calls.take(), [] as [&str; 0]);
    let (stop, stopped) = oneshot::channel::<()>();
    let task = tokio::spawn(async move { member.run_until(async { drop(stopped.await) }).await });
    tokio::time::sleep(60 * SECOND).await;
    let first = calls.take().into_iter().next();
    let expected = "a: configmap default/a in the initial list, and 2 more; last: ownership changed";
    assert_eq!(first.as_deref(), Some(expected));
    drop(stop);
    task.await.expect("no panic");
    running.stop().await.expect("clean shutdown");
}

#[tokio::test(start_paused = true)]
async fn reconciles_are_counted_by_their_first_and_their_last_cause() {
    let cluster = TestCluster::with(&["a", "b"]).await;
    let recorder = DebuggingRecorder::new();
    let snapshotter = recorder.snapshotter();
    let builder = Controller::of(&cluster.informer()).named("tested");
    let controller = metrics::with_local_recorder(&recorder, || {
        builder.build(|key: ObjectKey, context: Context| async move {
            tokio::time::sleep(SECOND).await;
            match (key.name(), context.attempt()) {
                ("a", 0) => Err(BoxError::from("busy")),
                _ => Ok(Action::Done),
            }
        })
    });
    let running = Running::new(controller);
    tokio::time::sleep(SECOND / 2).await;
    for value in ["1", "2", "3"] {
        cluster.put("a", value).await;
    }
    tokio::time::sleep(Duration::from_secs(10)).await;
    running.stop().await.expect("clean shutdown");
    let mut counts = BTreeMap::new();
    for (key, _, _, value) in snapshotter.snapshot().into_vec() {
        let (key, DebugValue::Counter(value)) = (key.key(), value) else { continue };
        let label = key.labels().find(|it| it.key() == "cause").map(|it| it.value().to_owned());
        if key.name() == "controller_reconcile_causes_total" {
            assert!(key.labels().any(|it| (it.key(), it.value()) == ("controller", "tested")));
            counts.insert(label.expect("a label"), value);
        }
    }
    assert_eq!(counts.len(), 13, "all exist from the start: {counts:?}");
    counts.retain(|_, it| *it > 0);
    let expected = [("changed", 1), ("initial_list", 2), ("retry", 1)];
    assert_eq!(counts, expected.map(|(label, count)| (label.to_owned(), count)).into());
}
