//! Controllers on a whole cluster: what they make of deletions.

use std::time::Duration;

use dogwatch_apiserver::cluster::Propagation;
use dogwatch_apiserver::controllers::Controllers;
use serde_json::{Value, json};

use crate::test_cluster::{Running, named, owner};

const MAPS: (&str, &str) = ("v1", "ConfigMap");
const NAMESPACES: (&str, &str) = ("v1", "Namespace");
const PODS: (&str, &str) = ("v1", "Pod");
const EVENTS: (&str, &str) = ("v1", "Event");
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
const WIDGETS: (&str, &str) = ("example.com/v1", "Widget");

async fn running() -> Running {
    Running::with(Controllers::default()).await
}

/// Those that tests have made.
fn maps(it: &Running) -> Vec<Value> {
    it.all(MAPS).into_iter().filter(|it| !is_of_the_system(it)).collect()
}

fn is_of_the_system(object: &Value) -> bool {
    object["metadata"]["namespace"] == "kube-system"
}

fn map(namespace: &str, name: &str, owners: &[Value]) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": name, "namespace": namespace, "ownerReferences": owners } })
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
}

fn pod(namespace: &str, name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Pod", "metadata": { "name": name, "namespace": namespace },
        "spec": { "containers": [{ "name": "c", "image": "i" }], "terminationGracePeriodSeconds": 30 } })
}

fn definition(plural: &str, kind: &str) -> Value {
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.example.com") },
        "spec": { "group": "example.com", "scope": "Namespaced", "names": { "plural": plural, "kind": kind },
            "versions": [{ "name": "v1", "served": true, "storage": true,
                "schema": { "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } } }] } })
}

fn widget(namespace: &str, name: &str) -> Value {
    json!({ "apiVersion": "example.com/v1", "kind": "Widget", "metadata": { "name": name, "namespace": namespace } })
}

fn finalized(mut object: Value) -> Value {
    object["metadata"]["finalizers"] = json!(["example.com/hold"]);
    object
}

fn condition<'a>(object: &'a Value, kind: &str) -> &'a Value {
    let conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.into_iter().find(|it| it["type"] == kind).unwrap_or(&Value::Null)
}

fn release(object: &mut Value) {
    object["metadata"]["finalizers"] = json!([]);
}

#[tokio::test(start_paused = true)]
async fn a_namespace_goes_with_all_it_holds_custom_objects_too() {
    let it = running().await;
    it.add(namespace("a")).await;
    it.add(namespace("b")).await;
    it.add(definition("widgets", "Widget")).await;
    for object in [map("a", "m", &[]), pod("a", "p"), widget("a", "w"), map("b", "m", &[]), widget("b", "w")]
    {
        it.add(object).await;
    }
    it.delete(NAMESPACES, "a", None).await;
    it.gone(NAMESPACES, "a").await;
    assert_eq!(maps(&it).iter().map(named).collect::<Vec<_>>(), ["b/m"]);
    assert_eq!(it.all(WIDGETS).iter().map(named).collect::<Vec<_>>(), ["b/w"]);
    assert!(it.all(PODS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_waits_for_finalizers_and_says_which() {
    let it = running().await;
    it.add(namespace("a")).await;
    it.add(finalized(map("a", "m", &[]))).await;
    it.delete(NAMESPACES, "a", None).await;
    let told = |it: &Value| condition(it, "NamespaceFinalizersRemaining")["status"] == "True";
    let waiting = it.until_one(NAMESPACES, "a", told).await;
    assert_eq!(
        condition(&waiting, "NamespaceFinalizersRemaining")["message"],
        "Some content in the namespace has finalizers remaining: example.com/hold in 1 resource instances"
    );
    assert_eq!(
        condition(&waiting, "NamespaceContentRemaining")["message"],
        "Some resources are remaining: configmaps. has 1 resource instances"
    );
    assert_eq!(condition(&waiting, "NamespaceDeletionContentFailure")["status"], "False");
    let revision = it.cluster.store().revision();
    it.pass(Duration::from_secs(600)).await;
    assert_eq!(it.cluster.store().revision(), revision, "waiting writes nothing");
    it.change(MAPS, "a/m", "", release).await;
    it.gone(NAMESPACES, "a").await;
}

#[tokio::test(start_paused = true)]
async fn pods_go_first_and_have_their_time_to_end() {
    let it = running().await;
    it.add(namespace("a")).await;
    let mut assigned = pod("a", "p");
    assigned["spec"]["nodeName"] = "n".into();
    it.add(assigned).await;
    it.add(map("a", "m", &[])).await;
    it.delete(NAMESPACES, "a", None).await;
    let leaving = it.until_one(PODS, "a/p", |it| !it["metadata"]["deletionTimestamp"].is_null()).await;
    assert_eq!(leaving["metadata"]["deletionGracePeriodSeconds"], 30);
    it.pass(Duration::from_secs(10)).await;
    assert!(it.get(MAPS, "a/m").is_some(), "nothing else goes while there are pods");
    let waiting = it.get(NAMESPACES, "a").unwrap();
    assert_eq!(condition(&waiting, "NamespaceDeletionContentFailure")["status"], "False");
    it.pass(Duration::from_secs(30)).await;
    let late = it.get(NAMESPACES, "a").unwrap();
    assert_eq!(
        condition(&late, "NamespaceDeletionContentFailure")["message"],
        "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: a for gvr: \
         /v1, Resource=pods"
    );
    let (kind, key) = (it.kind("v1", "Pod"), "a/p".parse().unwrap());
    let options = dogwatch_apiserver::cluster::DeleteOptions { grace: Some(0), ..Default::default() };
    let place = dogwatch_apiserver::cluster::Place::of(&kind, &key);
    it.cluster
        .delete(&place, &options, &dogwatch_apiserver::cluster::Writer::server("kubelet"))
        .await
        .expect("deleted");
    it.gone(NAMESPACES, "a").await;
    assert!(it.get(MAPS, "a/m").is_none());
}

/// The suite of controller-runtime deletes a namespace, reads it and writes it back without its finalizer, as there are no
/// controllers where it usually runs. A controller that is faster than a client can ask fails it.
#[tokio::test(start_paused = true)]
async fn a_namespace_is_left_alone_for_a_moment_so_that_a_client_may_finalize_it() {
    let it = running().await;
    it.add(namespace("a")).await;
    it.add(map("a", "m", &[])).await;
    it.delete(NAMESPACES, "a", None).await;
    it.pass(Duration::from_millis(900)).await;
    let left_alone = it.get(NAMESPACES, "a").expect("it is still there");
    assert_eq!(left_alone["status"], json!({ "phase": "Terminating" }));
    assert_eq!(left_alone["spec"]["finalizers"], json!(["kubernetes"]));
    it.change(NAMESPACES, "a", "finalize", |it| it["spec"]["finalizers"] = json!([])).await;
    assert!(it.get(NAMESPACES, "a").is_none(), "whoever finalizes it need not wait");
    it.add(namespace("a")).await;
    it.pass(Duration::from_secs(60)).await;
    it.delete(NAMESPACES, "a", None).await;
    it.pass(Duration::from_millis(900)).await;
    assert!(it.get(NAMESPACES, "a").is_some(), "the next of its name is left alone as long");
}

/// Two things are in the way: a webhook that does not answer, and a finalizer. What the webhook was asked about used to stay
/// until something happened to the object with the finalizer.
#[tokio::test(start_paused = true)]
async fn what_a_webhook_kept_from_being_deleted_is_tried_again() {
    let it = running().await;
    it.add(namespace("a")).await;
    it.add(map("a", "m", &[])).await;
    it.add(finalized(
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "namespace": "a" } }),
    ))
    .await;
    let hooks = ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration");
    it.add(json!({ "apiVersion": hooks.0, "kind": hooks.1, "metadata": { "name": "c" }, "webhooks": [{
        "name": "h.example.com", "admissionReviewVersions": ["v1"], "sideEffects": "None",
        "clientConfig": { "url": "https://127.0.0.1:1/" },
        "rules": [{ "operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"] }] }] }))
        .await;
    it.delete(NAMESPACES, "a", None).await;
    let failed = |it: &Value| condition(it, "NamespaceDeletionContentFailure")["status"] == "True";
    it.until_one(NAMESPACES, "a", failed).await;
    it.delete(hooks, "c", None).await;
    it.gone(MAPS, "a/m").await;
    assert!(it.get(("v1", "Secret"), "a/s").is_some());
    let fine = |it: &Value| condition(it, "NamespaceDeletionContentFailure")["status"] == "False";
    it.until_one(NAMESPACES, "a", fine).await;
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_does_not_answer_holds_up_no_other_namespace() {
    let it = running().await;
    // It takes connections, and never says a word.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}/", silent.local_addr().unwrap());
    it.add(namespace("a")).await;
    it.add(namespace("b")).await;
    for index in 0..100 {
        it.add(map("a", &format!("m-{index}"), &[])).await;
    }
    it.add(map("b", "m", &[])).await;
    it.add(json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "c" }, "webhooks": [{ "name": "h.example.com", "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "timeoutSeconds": 30, "clientConfig": { "url": url },
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": "a" } },
            "rules": [{ "operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["v1"],
                "resources": ["configmaps"] }] }] }))
        .await;
    it.delete(NAMESPACES, "a", None).await;
    it.delete(NAMESPACES, "b", None).await;
    let begun = tokio::time::Instant::now();
    it.gone(NAMESPACES, "b").await;
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
    assert!(it.get(NAMESPACES, "a").is_some());
}

#[tokio::test(start_paused = true)]
async fn without_its_controller_a_namespace_stays() {
    let it = Running::with(Controllers::none()).await;
    it.add(namespace("a")).await;
    it.add(map("a", "m", &[])).await;
    it.delete(NAMESPACES, "a", None).await;
    it.pass(Duration::from_secs(600)).await;
    assert_eq!(it.get(NAMESPACES, "a").unwrap()["status"]["phase"], "Terminating");
    assert!(it.get(MAPS, "a/m").is_some());
}

#[tokio::test(start_paused = true)]
async fn dependents_follow_their_owner_generation_by_generation() {
    let it = running().await;
    let mut parent = it.add(map("default", "g0", &[])).await;
    for generation in 1..5 {
        parent = it.add(map("default", &format!("g{generation}"), &[owner(&parent, false)])).await;
    }
    it.delete(MAPS, "default/g0", Some(Propagation::Background)).await;
    it.gone(MAPS, "default/g4").await;
    assert!(maps(&it).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_object_with_several_owners_goes_with_the_last() {
    let it = running().await;
    let (a, b) = (it.add(map("default", "a", &[])).await, it.add(map("default", "b", &[])).await);
    it.add(map("default", "c", &[owner(&a, false), owner(&b, false)])).await;
    it.delete(MAPS, "default/a", None).await;
    let one_left = |it: &Value| it["metadata"]["ownerReferences"].as_array().is_some_and(|it| it.len() == 1);
    let kept = it.until_one(MAPS, "default/c", one_left).await;
    assert_eq!(kept["metadata"]["ownerReferences"][0]["name"], "b");
    it.delete(MAPS, "default/b", None).await;
    it.gone(MAPS, "default/c").await;
}

#[tokio::test(start_paused = true)]
async fn foreground_an_owner_goes_after_the_dependents_that_block_it() {
    let it = running().await;
    let a = it.add(map("default", "a", &[])).await;
    it.add(finalized(map("default", "blocking", &[owner(&a, true)]))).await;
    it.add(finalized(map("default", "other", &[owner(&a, false)]))).await;
    it.delete(MAPS, "default/a", Some(Propagation::Foreground)).await;
    it.until_one(MAPS, "default/blocking", |it| !it["metadata"]["deletionTimestamp"].is_null()).await;
    it.pass(Duration::from_secs(60)).await;
    let waiting = it.get(MAPS, "default/a").expect("it waits");
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    it.change(MAPS, "default/blocking", "", release).await;
    it.gone(MAPS, "default/a").await;
    let other = it.get(MAPS, "default/other").expect("held by its own finalizer");
    assert!(!other["metadata"]["deletionTimestamp"].is_null(), "but it goes too");
}

#[tokio::test(start_paused = true)]
async fn foreground_a_chain_goes_from_its_end() {
    let it = running().await;
    let mut parent = it.add(map("default", "g0", &[])).await;
    for generation in 1..4 {
        parent = it.add(map("default", &format!("g{generation}"), &[owner(&parent, true)])).await;
    }
    let kind = it.kind("v1", "ConfigMap");
    let mut cursor = it.cluster.store().watch(&kind.collection, it.cluster.store().revision()).unwrap();
    it.delete(MAPS, "default/g0", Some(Propagation::Foreground)).await;
    it.gone(MAPS, "default/g0").await;
    let mut order = Vec::new();
    while let Some(change) = cursor.try_next().unwrap() {
        if change.after.is_none() {
            order.push(change.before.as_ref().unwrap().key().name().to_owned());
        }
    }
    assert_eq!(order, ["g3", "g2", "g1", "g0"]);
}

#[tokio::test(start_paused = true)]
async fn orphaned_dependents_stay_without_their_owner() {
    let it = running().await;
    let (a, b) = (it.add(map("default", "a", &[])).await, it.add(map("default", "b", &[])).await);
    for index in 0..5 {
        it.add(map("default", &format!("c{index}"), &[owner(&a, true), owner(&b, false)])).await;
    }
    it.add(map("default", "d", &[owner(&a, true)])).await;
    it.delete(MAPS, "default/a", Some(Propagation::Orphan)).await;
    it.gone(MAPS, "default/a").await;
    it.pass(Duration::from_secs(60)).await;
    for index in 0..5 {
        let owners =
            &it.get(MAPS, &format!("default/c{index}")).expect("it stays")["metadata"]["ownerReferences"];
        assert_eq!((owners.as_array().unwrap().len(), &owners[0]["name"]), (1, &json!("b")));
    }
    assert!(it.get(MAPS, "default/d").unwrap()["metadata"].get("ownerReferences").is_none());
}

#[tokio::test(start_paused = true)]
async fn a_circle_goes_when_one_of_it_is_deleted_in_the_foreground() {
    let it = running().await;
    let a = it.add(map("default", "a", &[])).await;
    let b = it.add(map("default", "b", &[owner(&a, true)])).await;
    let c = it.add(map("default", "c", &[owner(&b, true)])).await;
    it.change(MAPS, "default/a", "", |it| it["metadata"]["ownerReferences"] = json!([owner(&c, true)])).await;
    it.pass(Duration::from_secs(1)).await;
    assert_eq!(maps(&it).len(), 3, "they keep each other");
    it.delete(MAPS, "default/b", Some(Propagation::Foreground)).await;
    it.until(MAPS, |all| all.iter().all(is_of_the_system)).await;
}

#[tokio::test(start_paused = true)]
async fn what_names_an_owner_that_is_not_there_goes_at_once() {
    let it = running().await;
    let a = it.add(map("default", "a", &[])).await;
    let mut other = owner(&a, false);
    other["uid"] = "00000000-0000-4000-8000-000000000000".into();
    it.add(map("default", "same-name", &[other])).await;
    it.gone(MAPS, "default/same-name").await;
    assert!(it.get(MAPS, "default/a").is_some());
    assert!(it.all(EVENTS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_is_none_and_people_are_told() {
    let it = running().await;
    it.add(namespace("other")).await;
    let a = it.add(map("other", "a", &[])).await;
    it.add(map("default", "b", &[owner(&a, false)])).await;
    it.gone(MAPS, "default/b").await;
    let events = it.all(EVENTS);
    assert_eq!((events.len(), &events[0]["reason"]), (1, &json!("OwnerRefInvalidNamespace")));
    let uid = a["metadata"]["uid"].as_str().unwrap();
    assert_eq!(
        events[0]["message"],
        format!(
            "ownerRef [v1/ConfigMap, namespace: default, name: a, uid: {uid}] does not exist in namespace \"default\""
        )
    );
}

#[tokio::test(start_paused = true)]
async fn objects_of_the_cluster_may_own_those_in_namespaces_but_not_the_other_way_round() {
    let it = running().await;
    let class = |name: &str, owners: &[Value]| {
        json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5,
            "metadata": { "name": name, "ownerReferences": owners } })
    };
    let of_cluster = it.add(class("a", &[])).await;
    let in_namespace = it.add(map("default", "a", &[owner(&of_cluster, false)])).await;
    it.add(class("b", &[owner(&in_namespace, false)])).await;
    it.pass(Duration::from_secs(60)).await;
    assert!(it.get(MAPS, "default/a").is_some());
    it.delete(("scheduling.k8s.io/v1", "PriorityClass"), "a", None).await;
    it.gone(MAPS, "default/a").await;
    it.pass(Duration::from_secs(60)).await;
    assert!(it.get(("scheduling.k8s.io/v1", "PriorityClass"), "b").is_some(), "nobody can say, so it stays");
}

#[tokio::test(start_paused = true)]
async fn a_dependent_of_an_unknown_kind_waits_until_the_kind_is_known() {
    let it = running().await;
    let unknown = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "name": "w",
        "uid": "00000000-0000-4000-8000-000000000000" });
    it.add(map("default", "a", &[unknown])).await;
    it.pass(Duration::from_secs(60)).await;
    assert!(it.get(MAPS, "default/a").is_some());
    it.add(definition("widgets", "Widget")).await;
    it.gone(MAPS, "default/a").await;
}

#[tokio::test(start_paused = true)]
async fn custom_objects_own_and_are_owned() {
    let it = running().await;
    it.add(definition("widgets", "Widget")).await;
    let w = it.add(widget("default", "w")).await;
    let m = it.add(map("default", "m", &[owner(&w, false)])).await;
    let mut v = widget("default", "v");
    v["metadata"]["ownerReferences"] = json!([owner(&m, false)]);
    it.add(v).await;
    it.pass(Duration::from_secs(1)).await;
    assert_eq!((it.all(WIDGETS).len(), maps(&it).len()), (2, 1));
    it.delete(WIDGETS, "default/w", None).await;
    it.gone(WIDGETS, "default/v").await;
    assert!(maps(&it).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_takes_its_objects_along() {
    let it = running().await;
    it.add(namespace("a")).await;
    it.add(definition("widgets", "Widget")).await;
    it.add(widget("a", "w")).await;
    it.add(finalized(widget("default", "held"))).await;
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    it.gone(WIDGETS, "a/w").await;
    it.pass(Duration::from_secs(60)).await;
    let waiting =
        it.get(DEFINITIONS, "widgets.example.com").expect("it waits for the finalizer of an object");
    assert_eq!(condition(&waiting, "Terminating")["reason"], "InstanceDeletionInProgress");
    it.change(WIDGETS, "default/held", "", release).await;
    it.gone(DEFINITIONS, "widgets.example.com").await;
    assert!(it.cluster.catalog().kind_of("example.com/v1", "Widget").is_none());
    it.add(definition("widgets", "Widget")).await;
    assert!(it.all(WIDGETS).is_empty(), "nothing is left for its successor");
}

#[tokio::test(start_paused = true)]
async fn a_name_goes_to_the_next_definition_when_it_becomes_free() {
    let it = running().await;
    it.add(definition("widgets", "Widget")).await;
    it.add(definition("gadgets", "Widget")).await;
    let refused = |it: &Value| condition(it, "NamesAccepted")["reason"] == "ListKindConflict";
    it.until_one(DEFINITIONS, "gadgets.example.com", refused).await;
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    let accepted = |it: &Value| condition(it, "Established")["status"] == "True";
    it.until_one(DEFINITIONS, "gadgets.example.com", accepted).await;
}

#[tokio::test(start_paused = true)]
async fn names_are_accepted_by_the_controller_where_the_cluster_does_not_do_it_at_once() {
    let it = running().await;
    it.cluster.establish_definitions(false);
    it.add(definition("widgets", "Widget")).await;
    let accepted = |it: &Value| condition(it, "Established")["status"] == "True";
    it.until_one(DEFINITIONS, "widgets.example.com", accepted).await;
}

#[tokio::test(start_paused = true)]
async fn an_event_lives_an_hour_after_its_last_change() {
    let it = running().await;
    let event = |name: &str| {
        json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": name, "namespace": "default" },
            "involvedObject": { "namespace": "default" }, "reason": "Test", "count": 1 })
    };
    it.add(event("a")).await;
    it.add(event("b")).await;
    it.pass(Duration::from_secs(30 * 60)).await;
    it.change(EVENTS, "default/b", "", |it| it["count"] = 2.into()).await;
    it.pass(Duration::from_secs(29 * 60)).await;
    assert_eq!(it.all(EVENTS).len(), 2);
    it.pass(Duration::from_secs(2 * 60)).await;
    assert_eq!(it.all(EVENTS).iter().map(named).collect::<Vec<_>>(), ["default/b"]);
    it.pass(Duration::from_secs(30 * 60)).await;
    assert!(it.all(EVENTS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn controllers_take_up_what_happened_before_they_started() {
    let it = Running::with(Controllers::none()).await;
    it.add(namespace("a")).await;
    it.add(map("a", "m", &[])).await;
    let parent = it.add(map("default", "parent", &[])).await;
    it.add(map("default", "child", &[owner(&parent, false)])).await;
    it.delete(NAMESPACES, "a", None).await;
    it.delete(MAPS, "default/parent", None).await;
    let mut it = it;
    let cluster = std::sync::Arc::clone(&it.cluster);
    it.tasks.spawn(Controllers::default().run(cluster, std::future::pending()));
    it.gone(NAMESPACES, "a").await;
    it.gone(MAPS, "default/child").await;
}

#[tokio::test(start_paused = true)]
async fn controllers_stop_when_told_to() {
    let it = Running::with(Controllers::none()).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async move {
        let _ = stopped.await;
    };
    let cluster = std::sync::Arc::clone(&it.cluster);
    let running = tokio::spawn(Controllers::default().run(cluster, shutdown));
    it.add(namespace("a")).await;
    stop.send(()).unwrap();
    running.await.expect("it ended well");
    it.delete(NAMESPACES, "a", None).await;
    it.pass(Duration::from_secs(60)).await;
    assert!(it.get(NAMESPACES, "a").is_some());
}

#[tokio::test(start_paused = true)]
async fn history_is_trimmed_after_a_while() {
    let mut controllers = Controllers::none();
    controllers.history = Some(Duration::from_secs(300));
    let it = Running::with(controllers).await;
    let kind = it.kind("v1", "ConfigMap");
    it.add(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } })).await;
    let then = it.cluster.store().revision();
    it.change(("v1", "ConfigMap"), "default/a", "", |it| it["data"] = json!({ "k": "v" })).await;
    let last = it.cluster.store().revision();
    let kept = |it: &Running, version| {
        it.cluster.store().read(&kind.collection, |all, _| {
            (all.list_at(version, None).is_ok(), all.position_after(version).is_ok())
        })
    };
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(kept(&it, then), (true, true));
    it.add(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "n" } })).await;
    tokio::time::sleep(Duration::from_secs(602)).await;
    assert_eq!(kept(&it, then), (false, false));
    assert!(kept(&it, last).1, "nothing has changed in the collection since");
    let size = it.cluster.store().read(&kind.collection, |all, _| all.size());
    assert_eq!(size, 0, "what is old holds no memory");
}
