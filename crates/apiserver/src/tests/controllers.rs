//! Controllers on a whole cluster: garbage collection, namespaces, definitions, events, history.

use std::time::Duration;

use crate::cluster::Propagation;
use crate::controllers::Controllers;
use serde_json::{Value, json};

use crate::tests::test_cluster::{TestCluster, key_of, owner};

const MAPS: (&str, &str) = ("v1", "ConfigMap");
const NAMESPACES: (&str, &str) = ("v1", "Namespace");
const PODS: (&str, &str) = ("v1", "Pod");
const EVENTS: (&str, &str) = ("v1", "Event");
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
const WIDGETS: (&str, &str) = ("example.com/v1", "Widget");

async fn start() -> TestCluster {
    TestCluster::with(Controllers::default()).await
}

/// Returns the config maps that the test created.
fn maps(it: &TestCluster) -> Vec<Value> {
    it.all(MAPS).into_iter().filter(|it| !is_system_object(it)).collect()
}

fn is_system_object(object: &Value) -> bool {
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
async fn a_namespace_is_deleted_with_all_its_objects_including_custom_ones() {
    let it = start().await;
    it.add(namespace("a")).await;
    it.add(namespace("b")).await;
    it.add(definition("widgets", "Widget")).await;
    for object in [map("a", "m", &[]), pod("a", "p"), widget("a", "w"), map("b", "m", &[]), widget("b", "w")]
    {
        it.add(object).await;
    }
    it.delete(NAMESPACES, "a", None).await;
    it.until_gone(NAMESPACES, "a").await;
    assert_eq!(maps(&it).iter().map(key_of).collect::<Vec<_>>(), ["b/m"]);
    assert_eq!(it.all(WIDGETS).iter().map(key_of).collect::<Vec<_>>(), ["b/w"]);
    assert!(it.all(PODS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_namespace_waits_for_finalizers_and_reports_them() {
    let it = start().await;
    it.add(namespace("a")).await;
    it.add(finalized(map("a", "m", &[]))).await;
    it.delete(NAMESPACES, "a", None).await;
    let reported = |it: &Value| condition(it, "NamespaceFinalizersRemaining")["status"] == "True";
    let waiting = it.until_one(NAMESPACES, "a", reported).await;
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
    it.advance(Duration::from_secs(600)).await;
    assert_eq!(it.cluster.store().revision(), revision, "waiting writes nothing");
    it.change(MAPS, "a/m", "", release).await;
    it.until_gone(NAMESPACES, "a").await;
}

/// The order is that of k8s.io/kubernetes v1.36.4
/// pkg/controller/namespace/deletion/namespaced_resources_deleter.go.
#[tokio::test(start_paused = true)]
async fn pods_are_deleted_first_with_their_grace_period() {
    let it = start().await;
    it.add(namespace("a")).await;
    let mut assigned = pod("a", "p");
    assigned["spec"]["nodeName"] = "n".into();
    it.add(assigned).await;
    it.add(map("a", "m", &[])).await;
    it.delete(NAMESPACES, "a", None).await;
    let leaving = it.until_one(PODS, "a/p", |it| !it["metadata"]["deletionTimestamp"].is_null()).await;
    assert_eq!(leaving["metadata"]["deletionGracePeriodSeconds"], 30);
    it.advance(Duration::from_secs(10)).await;
    assert!(it.get(MAPS, "a/m").is_some(), "nothing else is deleted while there are pods");
    let waiting = it.get(NAMESPACES, "a").unwrap();
    assert_eq!(condition(&waiting, "NamespaceDeletionContentFailure")["status"], "False");
    it.advance(Duration::from_secs(30)).await;
    let late = it.get(NAMESPACES, "a").unwrap();
    assert_eq!(
        condition(&late, "NamespaceDeletionContentFailure")["message"],
        "Failed to delete all resource types, 1 remaining: unexpected items still remain in namespace: a for gvr: \
         /v1, Resource=pods"
    );
    let (kind, key) = (it.kind("v1", "Pod"), "a/p".parse().unwrap());
    let options = crate::cluster::DeleteOptions { grace: Some(0), ..Default::default() };
    let place = crate::cluster::ObjectRef::of(&kind, &key);
    it.cluster.delete(&place, &options, &crate::cluster::Writer::server("kubelet")).await.expect("deleted");
    it.until_gone(NAMESPACES, "a").await;
    assert!(it.get(MAPS, "a/m").is_none());
}

/// The test suite of controller-runtime deletes a namespace, reads it and writes it back without
/// its finalizer, because there are no controllers in its usual environment. A controller that is
/// faster than the client would break it.
#[tokio::test(start_paused = true)]
async fn a_client_has_a_moment_to_finalize_a_namespace_itself() {
    let it = start().await;
    it.add(namespace("a")).await;
    it.add(map("a", "m", &[])).await;
    it.delete(NAMESPACES, "a", None).await;
    it.advance(Duration::from_millis(900)).await;
    let left_alone = it.get(NAMESPACES, "a").expect("the namespace still exists");
    assert_eq!(left_alone["status"], json!({ "phase": "Terminating" }));
    assert_eq!(left_alone["spec"]["finalizers"], json!(["kubernetes"]));
    it.change(NAMESPACES, "a", "finalize", |it| it["spec"]["finalizers"] = json!([])).await;
    assert!(it.get(NAMESPACES, "a").is_none(), "finalizing it deletes it immediately");
    it.add(namespace("a")).await;
    it.advance(Duration::from_secs(60)).await;
    it.delete(NAMESPACES, "a", None).await;
    it.advance(Duration::from_millis(900)).await;
    assert!(it.get(NAMESPACES, "a").is_some(), "a new namespace of that name gets the same delay");
}

/// Regression test: a webhook that does not respond and a finalizer block the namespace. The object
/// that the webhook blocked used to stay until the object with the finalizer changed.
#[tokio::test(start_paused = true)]
async fn a_deletion_that_a_webhook_blocked_is_retried() {
    let it = start().await;
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
    it.until_gone(MAPS, "a/m").await;
    assert!(it.get(("v1", "Secret"), "a/s").is_some());
    let fine = |it: &Value| condition(it, "NamespaceDeletionContentFailure")["status"] == "False";
    it.until_one(NAMESPACES, "a", fine).await;
}

/// Returns the configuration of a webhook that never responds. It is called for an operation on a
/// resource, given as group and plural, of a namespace, and on all cluster-scoped ones.
fn silent_webhook(
    listener: &std::net::TcpListener,
    operation: &str,
    resource: (&str, &str),
    namespace: &str,
) -> Value {
    // The kernel accepts connections, and nothing reads from them.
    let url = format!("https://{}/", listener.local_addr().unwrap());
    json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "c" }, "webhooks": [{ "name": "h.example.com", "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "timeoutSeconds": 30, "clientConfig": { "url": url },
            "namespaceSelector": { "matchLabels": { "kubernetes.io/metadata.name": namespace } },
            "rules": [{ "operations": [operation], "apiGroups": [resource.0], "apiVersions": ["v1"],
                "resources": [resource.1] }] }] })
}

#[tokio::test(start_paused = true)]
async fn a_webhook_that_does_not_respond_does_not_block_other_namespaces() {
    let it = start().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    it.add(namespace("a")).await;
    it.add(namespace("b")).await;
    for index in 0..100 {
        it.add(map("a", &format!("m-{index}"), &[])).await;
    }
    it.add(map("b", "m", &[])).await;
    it.add(silent_webhook(&listener, "DELETE", ("", "configmaps"), "a")).await;
    it.delete(NAMESPACES, "a", None).await;
    it.delete(NAMESPACES, "b", None).await;
    let begun = tokio::time::Instant::now();
    it.until_gone(NAMESPACES, "b").await;
    assert!(begun.elapsed() < Duration::from_secs(120), "{:?}", begun.elapsed());
    assert!(it.get(NAMESPACES, "a").is_some());
}

/// Regression test: the collector waited for one write at a time, so that each of the objects of a
/// namespace whose webhook does not respond delayed all others by its timeout.
#[tokio::test(start_paused = true)]
async fn a_webhook_that_does_not_respond_does_not_block_garbage_collection_elsewhere() {
    let it = start().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let secret = |namespace: &str| json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "owner", "namespace": namespace } });
    let mut owners = Vec::new();
    for name in ["a", "b"] {
        it.add(namespace(name)).await;
        owners.push(it.add(secret(name)).await);
    }
    for index in 0..100 {
        it.add(map("a", &format!("m-{index}"), &[owner(&owners[0], false)])).await;
    }
    for index in 0..10 {
        it.add(map("b", &format!("m-{index}"), &[owner(&owners[1], false)])).await;
    }
    it.add(silent_webhook(&listener, "DELETE", ("", "configmaps"), "a")).await;
    it.delete(("v1", "Secret"), "a/owner", None).await;
    it.advance(Duration::from_secs(1)).await;
    it.delete(("v1", "Secret"), "b/owner", None).await;
    let begun = tokio::time::Instant::now();
    it.until(MAPS, |all| !all.iter().any(|it| it["metadata"]["namespace"] == "b")).await;
    assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
    assert_eq!(maps(&it).len(), 100, "the webhook has allowed nothing");
    it.delete(("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"), "c", None).await;
    it.until(MAPS, |all| all.iter().all(is_system_object)).await;
}

#[tokio::test(start_paused = true)]
async fn an_owner_waits_for_the_webhooks_of_its_dependents() {
    for (operation, propagation, finalizer) in
        [("DELETE", Propagation::Foreground, "foregroundDeletion"), ("UPDATE", Propagation::Orphan, "orphan")]
    {
        let it = start().await;
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let secret = ("v1", "Secret");
        let a = json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "a", "namespace": "default" } });
        let a = it.add(a).await;
        for index in 0..10 {
            it.add(map("default", &format!("m-{index}"), &[owner(&a, true)])).await;
        }
        it.add(silent_webhook(&listener, operation, ("", "configmaps"), "default")).await;
        it.delete(secret, "default/a", Some(propagation)).await;
        it.advance(Duration::from_secs(100)).await;
        let waiting = it.get(secret, "default/a").expect("it waits");
        assert_eq!(waiting["metadata"]["finalizers"], json!([finalizer]));
        assert_eq!(maps(&it).len(), 10);
        it.delete(("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"), "c", None).await;
        it.until_gone(secret, "default/a").await;
        it.advance(Duration::from_secs(100)).await;
        let left = maps(&it);
        assert_eq!(left.len(), if finalizer == "orphan" { 10 } else { 0 }, "{propagation:?}");
        assert!(left.iter().all(|it| it["metadata"].get("ownerReferences").is_none()), "{left:#?}");
    }
}

#[tokio::test(start_paused = true)]
async fn without_its_controller_a_namespace_stays_terminating() {
    let it = TestCluster::with(Controllers::none()).await;
    it.add(namespace("a")).await;
    it.add(map("a", "m", &[])).await;
    it.delete(NAMESPACES, "a", None).await;
    it.advance(Duration::from_secs(600)).await;
    assert_eq!(it.get(NAMESPACES, "a").unwrap()["status"]["phase"], "Terminating");
    assert!(it.get(MAPS, "a/m").is_some());
}

#[tokio::test(start_paused = true)]
async fn dependents_are_deleted_after_their_owner_transitively() {
    let it = start().await;
    let mut parent = it.add(map("default", "g0", &[])).await;
    for generation in 1..5 {
        parent = it.add(map("default", &format!("g{generation}"), &[owner(&parent, false)])).await;
    }
    it.delete(MAPS, "default/g0", Some(Propagation::Background)).await;
    it.until_gone(MAPS, "default/g4").await;
    assert!(maps(&it).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_object_with_several_owners_is_deleted_with_the_last() {
    let it = start().await;
    let (a, b) = (it.add(map("default", "a", &[])).await, it.add(map("default", "b", &[])).await);
    it.add(map("default", "c", &[owner(&a, false), owner(&b, false)])).await;
    it.delete(MAPS, "default/a", None).await;
    let one_left = |it: &Value| it["metadata"]["ownerReferences"].as_array().is_some_and(|it| it.len() == 1);
    let kept = it.until_one(MAPS, "default/c", one_left).await;
    assert_eq!(kept["metadata"]["ownerReferences"][0]["name"], "b");
    it.delete(MAPS, "default/b", None).await;
    it.until_gone(MAPS, "default/c").await;
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_waits_for_blocking_dependents() {
    let it = start().await;
    let a = it.add(map("default", "a", &[])).await;
    it.add(finalized(map("default", "blocking", &[owner(&a, true)]))).await;
    it.add(finalized(map("default", "other", &[owner(&a, false)]))).await;
    it.delete(MAPS, "default/a", Some(Propagation::Foreground)).await;
    it.until_one(MAPS, "default/blocking", |it| !it["metadata"]["deletionTimestamp"].is_null()).await;
    it.advance(Duration::from_secs(60)).await;
    let waiting = it.get(MAPS, "default/a").expect("the owner waits");
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    it.change(MAPS, "default/blocking", "", release).await;
    it.until_gone(MAPS, "default/a").await;
    let other = it.get(MAPS, "default/other").expect("held by its own finalizer");
    assert!(!other["metadata"]["deletionTimestamp"].is_null(), "it is being deleted too");
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_of_a_chain_starts_at_its_end() {
    let it = start().await;
    let mut parent = it.add(map("default", "g0", &[])).await;
    for generation in 1..4 {
        parent = it.add(map("default", &format!("g{generation}"), &[owner(&parent, true)])).await;
    }
    let kind = it.kind("v1", "ConfigMap");
    let mut cursor = it.cluster.store().watch(&kind.collection, it.cluster.store().revision()).unwrap();
    it.delete(MAPS, "default/g0", Some(Propagation::Foreground)).await;
    it.until_gone(MAPS, "default/g0").await;
    let mut order = Vec::new();
    while let Some(change) = cursor.try_next().unwrap() {
        if change.after.is_none() {
            order.push(change.before.as_ref().unwrap().key().name().to_owned());
        }
    }
    assert_eq!(order, ["g3", "g2", "g1", "g0"]);
}

/// Regression test: the policy of the deletion of a namespace had no effect.
#[tokio::test(start_paused = true)]
async fn dependents_of_a_namespace_are_orphaned_or_deleted_first_if_the_deletion_says_so() {
    let it = start().await;
    for (name, policy) in [("a", Propagation::Orphan), ("b", Propagation::Foreground)] {
        let owned = owner(&it.add(namespace(name)).await, true);
        let held = finalized(map("default", name, &[owned]));
        it.add(held).await;
        it.delete(NAMESPACES, name, Some(policy)).await;
    }
    it.until_gone(NAMESPACES, "a").await;
    it.advance(Duration::from_secs(60)).await;
    let orphan = it.until_one(MAPS, "default/a", |_| true).await;
    assert_eq!(orphan["metadata"].get("ownerReferences"), None);
    assert_eq!(orphan["metadata"].get("deletionTimestamp"), None);
    let waiting = it.until_one(NAMESPACES, "b", |_| true).await;
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    it.change(MAPS, "default/b", "", release).await;
    it.until_gone(NAMESPACES, "b").await;
    it.until_gone(MAPS, "default/b").await;
}

#[tokio::test(start_paused = true)]
async fn orphaned_dependents_stay_and_lose_their_owner_reference() {
    let it = start().await;
    let (a, b) = (it.add(map("default", "a", &[])).await, it.add(map("default", "b", &[])).await);
    for index in 0..5 {
        it.add(map("default", &format!("c{index}"), &[owner(&a, true), owner(&b, false)])).await;
    }
    it.add(map("default", "d", &[owner(&a, true)])).await;
    it.delete(MAPS, "default/a", Some(Propagation::Orphan)).await;
    it.until_gone(MAPS, "default/a").await;
    it.advance(Duration::from_secs(60)).await;
    for index in 0..5 {
        let owners = &it.get(MAPS, &format!("default/c{index}")).expect("the dependent stays")["metadata"]["ownerReferences"];
        assert_eq!((owners.as_array().unwrap().len(), &owners[0]["name"]), (1, &json!("b")));
    }
    assert!(it.get(MAPS, "default/d").unwrap()["metadata"].get("ownerReferences").is_none());
}

#[tokio::test(start_paused = true)]
async fn an_ownership_cycle_is_deleted_with_a_foreground_deletion_of_one_member() {
    let it = start().await;
    let a = it.add(map("default", "a", &[])).await;
    let b = it.add(map("default", "b", &[owner(&a, true)])).await;
    let c = it.add(map("default", "c", &[owner(&b, true)])).await;
    it.change(MAPS, "default/a", "", |it| it["metadata"]["ownerReferences"] = json!([owner(&c, true)])).await;
    it.advance(Duration::from_secs(1)).await;
    assert_eq!(maps(&it).len(), 3, "each object keeps another one");
    it.delete(MAPS, "default/b", Some(Propagation::Foreground)).await;
    it.until(MAPS, |all| all.iter().all(is_system_object)).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_with_a_missing_owner_is_deleted_at_once() {
    let it = start().await;
    let a = it.add(map("default", "a", &[])).await;
    let mut other = owner(&a, false);
    other["uid"] = "00000000-0000-4000-8000-000000000000".into();
    it.add(map("default", "same-name", &[other])).await;
    it.until_gone(MAPS, "default/same-name").await;
    assert!(it.get(MAPS, "default/a").is_some());
    assert!(it.all(EVENTS).is_empty());
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_is_invalid_and_reported_by_an_event() {
    let it = start().await;
    it.add(namespace("other")).await;
    let a = it.add(map("other", "a", &[])).await;
    it.add(map("default", "b", &[owner(&a, false)])).await;
    it.until_gone(MAPS, "default/b").await;
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
async fn cluster_scoped_objects_can_own_namespaced_ones_but_not_vice_versa() {
    let it = start().await;
    let class = |name: &str, owners: &[Value]| {
        json!({ "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "value": 5,
            "metadata": { "name": name, "ownerReferences": owners } })
    };
    let cluster_scoped = it.add(class("a", &[])).await;
    let namespaced = it.add(map("default", "a", &[owner(&cluster_scoped, false)])).await;
    it.add(class("b", &[owner(&namespaced, false)])).await;
    it.advance(Duration::from_secs(60)).await;
    assert!(it.get(MAPS, "default/a").is_some());
    it.delete(("scheduling.k8s.io/v1", "PriorityClass"), "a", None).await;
    it.until_gone(MAPS, "default/a").await;
    it.advance(Duration::from_secs(60)).await;
    assert!(
        it.get(("scheduling.k8s.io/v1", "PriorityClass"), "b").is_some(),
        "its owner cannot be resolved, so it stays"
    );
}

#[tokio::test(start_paused = true)]
async fn a_dependent_of_an_unknown_kind_waits_until_the_kind_is_defined() {
    let it = start().await;
    let unknown = json!({ "apiVersion": "example.com/v1", "kind": "Widget", "name": "w",
        "uid": "00000000-0000-4000-8000-000000000000" });
    it.add(map("default", "a", &[unknown])).await;
    it.advance(Duration::from_secs(60)).await;
    assert!(it.get(MAPS, "default/a").is_some());
    it.add(definition("widgets", "Widget")).await;
    it.until_gone(MAPS, "default/a").await;
}

#[tokio::test(start_paused = true)]
async fn custom_objects_can_own_and_be_owned() {
    let it = start().await;
    it.add(definition("widgets", "Widget")).await;
    let w = it.add(widget("default", "w")).await;
    let m = it.add(map("default", "m", &[owner(&w, false)])).await;
    let mut v = widget("default", "v");
    v["metadata"]["ownerReferences"] = json!([owner(&m, false)]);
    it.add(v).await;
    it.advance(Duration::from_secs(1)).await;
    assert_eq!((it.all(WIDGETS).len(), maps(&it).len()), (2, 1));
    it.delete(WIDGETS, "default/w", None).await;
    it.until_gone(WIDGETS, "default/v").await;
    assert!(maps(&it).is_empty());
}

#[tokio::test(start_paused = true)]
async fn a_deleted_definition_deletes_its_objects() {
    let it = start().await;
    it.add(namespace("a")).await;
    it.add(definition("widgets", "Widget")).await;
    it.add(widget("a", "w")).await;
    it.add(finalized(widget("default", "held"))).await;
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    it.until_gone(WIDGETS, "a/w").await;
    it.advance(Duration::from_secs(60)).await;
    let waiting = it
        .get(DEFINITIONS, "widgets.example.com")
        .expect("the definition waits for the finalizer of an object");
    assert_eq!(condition(&waiting, "Terminating")["reason"], "InstanceDeletionInProgress");
    it.change(WIDGETS, "default/held", "", release).await;
    it.until_gone(DEFINITIONS, "widgets.example.com").await;
    assert!(it.cluster.catalog().kind_of("example.com/v1", "Widget").is_none());
    it.add(definition("widgets", "Widget")).await;
    assert!(it.all(WIDGETS).is_empty(), "a new definition of that name has no objects");
}

#[tokio::test(start_paused = true)]
async fn a_freed_name_is_given_to_the_next_definition() {
    let it = start().await;
    it.add(definition("widgets", "Widget")).await;
    it.add(definition("gadgets", "Widget")).await;
    let rejected = |it: &Value| condition(it, "NamesAccepted")["reason"] == "ListKindConflict";
    it.until_one(DEFINITIONS, "gadgets.example.com", rejected).await;
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    let accepted = |it: &Value| condition(it, "Established")["status"] == "True";
    it.until_one(DEFINITIONS, "gadgets.example.com", accepted).await;
}

#[tokio::test(start_paused = true)]
async fn the_controller_accepts_names_if_the_cluster_does_not() {
    let it = start().await;
    it.cluster.establish_definitions(false);
    it.add(definition("widgets", "Widget")).await;
    let accepted = |it: &Value| condition(it, "Established")["status"] == "True";
    it.until_one(DEFINITIONS, "widgets.example.com", accepted).await;
}

/// The hour is the default of `EventTTL` in k8s.io/kubernetes v1.36.4
/// pkg/controlplane/apiserver/options/options.go.
#[tokio::test(start_paused = true)]
async fn an_event_expires_an_hour_after_its_last_change() {
    let it = start().await;
    let event = |name: &str| {
        json!({ "apiVersion": "v1", "kind": "Event", "metadata": { "name": name, "namespace": "default" },
            "involvedObject": { "namespace": "default" }, "reason": "Test", "count": 1 })
    };
    it.add(event("a")).await;
    it.add(event("b")).await;
    it.advance(Duration::from_secs(30 * 60)).await;
    it.change(EVENTS, "default/b", "", |it| it["count"] = 2.into()).await;
    it.advance(Duration::from_secs(29 * 60)).await;
    assert_eq!(it.all(EVENTS).len(), 2);
    it.advance(Duration::from_secs(2 * 60)).await;
    assert_eq!(it.all(EVENTS).iter().map(key_of).collect::<Vec<_>>(), ["default/b"]);
    it.advance(Duration::from_secs(30 * 60)).await;
    assert!(it.all(EVENTS).is_empty());
}

/// An event whose deletion failed once used to stay for ever. In kube-apiserver the lease of etcd
/// removes it, which knows neither webhooks nor finalizers.
#[tokio::test(start_paused = true)]
async fn an_event_expires_in_spite_of_webhooks_and_finalizers() {
    let it = start().await;
    it.add(json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": { "name": "w" }, "webhooks": [{ "name": "w.example.com", "admissionReviewVersions": ["v1"],
            "sideEffects": "None", "clientConfig": { "service": { "namespace": "default", "name": "gone" } },
            "rules": [{ "operations": ["DELETE"], "apiGroups": [""], "apiVersions": ["*"], "resources": ["events"] }] }] }))
    .await;
    for (name, finalizers) in [("plain", json!([])), ("held", json!(["example.com/hold"]))] {
        it.add(json!({ "apiVersion": "v1", "kind": "Event",
            "metadata": { "name": name, "namespace": "default", "finalizers": finalizers },
            "involvedObject": { "namespace": "default" }, "reason": "Test", "count": 1 }))
            .await;
    }
    it.advance(Duration::from_secs(59 * 60)).await;
    assert_eq!(it.all(EVENTS).len(), 2);
    it.advance(Duration::from_secs(2 * 60)).await;
    assert_eq!(it.all(EVENTS), Vec::<Value>::new());
}

#[tokio::test(start_paused = true)]
async fn controllers_handle_changes_made_before_they_started() {
    let it = TestCluster::with(Controllers::none()).await;
    it.add(namespace("a")).await;
    it.add(map("a", "m", &[])).await;
    let parent = it.add(map("default", "parent", &[])).await;
    it.add(map("default", "child", &[owner(&parent, false)])).await;
    it.delete(NAMESPACES, "a", None).await;
    it.delete(MAPS, "default/parent", None).await;
    let mut it = it;
    let cluster = std::sync::Arc::clone(&it.cluster);
    it.tasks.spawn(Controllers::default().run(cluster, std::future::pending()));
    it.until_gone(NAMESPACES, "a").await;
    it.until_gone(MAPS, "default/child").await;
}

#[tokio::test(start_paused = true)]
async fn controllers_stop_on_shutdown() {
    let it = TestCluster::with(Controllers::none()).await;
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let shutdown = async move {
        let _ = stopped.await;
    };
    let cluster = std::sync::Arc::clone(&it.cluster);
    let controllers = tokio::spawn(Controllers::default().run(cluster, shutdown));
    it.add(namespace("a")).await;
    stop.send(()).unwrap();
    controllers.await.expect("no panic");
    it.delete(NAMESPACES, "a", None).await;
    it.advance(Duration::from_secs(60)).await;
    assert!(it.get(NAMESPACES, "a").is_some());
}

#[tokio::test(start_paused = true)]
async fn history_is_trimmed_after_its_retention_period() {
    let mut controllers = Controllers::none();
    controllers.history = Some(Duration::from_secs(300));
    let it = TestCluster::with(controllers).await;
    let kind = it.kind("v1", "ConfigMap");
    it.add(json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } })).await;
    let then = it.cluster.store().revision();
    it.change(("v1", "ConfigMap"), "default/a", "", |it| it["data"] = json!({ "k": "v" })).await;
    let last = it.cluster.store().revision();
    let kept = |it: &TestCluster, version| {
        it.cluster.store().read(&kind.collection, |all, _| {
            (all.list_at(version, None).is_ok(), all.position_after(version).is_ok())
        })
    };
    tokio::time::sleep(Duration::from_secs(299)).await;
    assert_eq!(kept(&it, then), (true, true));
    it.add(json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": "n" } })).await;
    tokio::time::sleep(Duration::from_secs(602)).await;
    assert_eq!(kept(&it, then), (false, false));
    assert!(kept(&it, last).1, "the collection has not changed since");
    let size = it.cluster.store().read(&kind.collection, |all, _| all.size());
    assert_eq!(size, 0, "trimmed history holds no memory");
}

/// The objects of a kind are deleted with its definition, and then the kind of the owner is not
/// served any more: it used to be unknown to the collector if the owner had existed.
#[tokio::test(start_paused = true)]
async fn dependents_of_custom_objects_are_deleted_with_the_definition() {
    let it = start().await;
    it.add(definition("widgets", "Widget")).await;
    let owning = it.add(widget("default", "w")).await;
    it.add(map("default", "m", &[owner(&owning, true)])).await;
    it.add(map("default", "free", &[])).await;
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    it.until_gone(DEFINITIONS, "widgets.example.com").await;
    it.until_gone(MAPS, "default/m").await;
    assert!(it.get(MAPS, "default/free").is_some());
    // Again, with a collector that follows the kind already.
    it.add(definition("widgets", "Widget")).await;
    let owning = it.add(widget("default", "w")).await;
    it.add(map("default", "m", &[owner(&owning, true)])).await;
    it.advance(Duration::from_secs(10)).await;
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    it.until_gone(MAPS, "default/m").await;
    // A reference that was written after the deletion may name an owner that does not exist yet.
    it.add(map("default", "early", &[owner(&owning, true)])).await;
    it.advance(Duration::from_secs(100)).await;
    assert!(it.get(MAPS, "default/early").is_some());
}

const INGRESSES: (&str, &str) = ("networking.k8s.io/v1", "Ingress");

/// Returns a definition with the group and the plural of a built-in resource.
fn overlapping(group: &str, plural: &str, kind: &str, versions: &[&str]) -> Value {
    let schema =
        json!({ "openAPIV3Schema": { "type": "object", "x-kubernetes-preserve-unknown-fields": true } });
    let versions: Vec<_> = versions
        .iter()
        .enumerate()
        .map(|(at, name)| json!({ "name": name, "served": true, "storage": at == 0, "schema": schema }))
        .collect();
    json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": { "name": format!("{plural}.{group}"),
            "annotations": { "api-approved.kubernetes.io": "unapproved, a test" } },
        "spec": { "group": group, "scope": "Namespaced", "names": { "plural": plural, "kind": kind },
            "versions": versions } })
}

/// Regression test: the custom resource got the collection of the built-in one, which was emptied
/// when the definition was created, and again when it was deleted.
#[tokio::test(start_paused = true)]
async fn a_definition_with_the_names_of_a_built_in_resource_leaves_its_objects_alone() {
    let it = start().await;
    let backend = json!({ "service": { "name": "s", "port": { "number": 80 } } });
    it.add(json!({ "apiVersion": INGRESSES.0, "kind": INGRESSES.1, "metadata": { "name": "a", "namespace": "default" },
        "spec": { "defaultBackend": backend } }))
        .await;
    let names = "ingresses.networking.k8s.io";
    it.add(overlapping("networking.k8s.io", "ingresses", "Ingress", &["v1", "v2"])).await;
    assert_eq!(condition(&it.get(DEFINITIONS, names).unwrap(), "Established")["status"], "True");
    assert!(it.get(INGRESSES, "default/a").is_some(), "the object stays");
    assert!(!it.kind(INGRESSES.0, INGRESSES.1).def.custom, "the built-in resource has precedence");
    let catalog = it.cluster.catalog();
    let listed =
        catalog.served().resources().iter().filter(|it| it.plural == "ingresses" && it.version == "v1");
    assert_eq!(listed.count(), 1);
    // Another version of the group is served by the definition, with objects of its own.
    let custom = ("networking.k8s.io/v2", "Ingress");
    assert!(it.all(custom).is_empty());
    let object = |name: &str| json!({ "apiVersion": custom.0, "kind": custom.1, "metadata": { "name": name, "namespace": "default" } });
    it.add(object("a")).await;
    it.add(finalized(object("held"))).await;
    assert_eq!((it.all(INGRESSES).len(), it.all(custom).len()), (1, 2));
    it.delete(DEFINITIONS, names, None).await;
    it.until_gone(custom, "default/a").await;
    it.advance(Duration::from_secs(60)).await;
    assert!(it.get(custom, "default/held").is_some(), "it waits for its finalizer");
    it.change(custom, "default/held", "", release).await;
    it.until_gone(DEFINITIONS, names).await;
    assert!(it.get(INGRESSES, "default/a").is_some(), "the object stays");
}

/// A reference in a version that is not served cannot be looked up, and the kind of the deleted
/// definition is not that of the owner.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_definition_named_like_a_built_in_kind_leaves_dependents_of_that_kind_alone() {
    let it = start().await;
    let backend = json!({ "service": { "name": "s", "port": { "number": 80 } } });
    let ingress = json!({ "apiVersion": INGRESSES.0, "kind": INGRESSES.1,
        "metadata": { "name": "a", "namespace": "default" }, "spec": { "defaultBackend": backend } });
    let mut reference = owner(&it.add(ingress).await, false);
    reference["apiVersion"] = json!("networking.k8s.io/v1beta1");
    it.add(json!({ "apiVersion": "v1", "kind": "ConfigMap",
        "metadata": { "name": "m", "namespace": "default", "ownerReferences": [reference] } }))
        .await;
    let names = "ingresses.networking.k8s.io";
    it.add(overlapping("networking.k8s.io", "ingresses", "Ingress", &["v2"])).await;
    it.advance(Duration::from_secs(60)).await;
    it.delete(DEFINITIONS, names, None).await;
    it.until_gone(DEFINITIONS, names).await;
    it.advance(Duration::from_secs(60)).await;
    assert!(it.get(("v1", "ConfigMap"), "default/m").is_some(), "its owner exists");
}

#[tokio::test(start_paused = true)]
async fn a_definition_named_like_the_resource_of_definitions_leaves_definitions_alone() {
    let it = start().await;
    it.add(definition("widgets", "Widget")).await;
    it.add(widget("default", "w")).await;
    let names = "customresourcedefinitions.apiextensions.k8s.io";
    it.add(overlapping(
        "apiextensions.k8s.io",
        "customresourcedefinitions",
        "CustomResourceDefinition",
        &["v1", "v2"],
    ))
    .await;
    assert_eq!(it.all(DEFINITIONS).len(), 2);
    it.delete(DEFINITIONS, names, None).await;
    it.until_gone(DEFINITIONS, names).await;
    assert!(it.get(DEFINITIONS, "widgets.example.com").is_some());
    assert!(it.get(WIDGETS, "default/w").is_some());
}

/// Regression test: the objects of a definition were deleted by requests that webhooks review. In
/// k8s.io/apiextensions-apiserver v0.36.4 pkg/controller/finalizer/crd_finalizer.go the storage
/// deletes them.
#[tokio::test(start_paused = true)]
async fn a_definition_is_deleted_although_the_webhook_of_its_objects_does_not_respond() {
    let it = start().await;
    it.add(definition("widgets", "Widget")).await;
    it.add(widget("default", "w")).await;
    for sort in ["Validating", "Mutating"] {
        it.add(json!({ "apiVersion": "admissionregistration.k8s.io/v1", "kind": format!("{sort}WebhookConfiguration"),
            "metadata": { "name": "c" }, "webhooks": [{ "name": "h.example.com", "admissionReviewVersions": ["v1"],
                "sideEffects": "None", "clientConfig": { "url": "https://127.0.0.1:1/" },
                "rules": [{ "operations": ["DELETE"], "apiGroups": ["example.com"], "apiVersions": ["*"],
                    "resources": ["widgets"] }] }] }))
            .await;
    }
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    it.until_gone(DEFINITIONS, "widgets.example.com").await;
}

/// Adds an object of a custom kind with an owner, and stops serving the kind.
async fn unserved_dependent(it: &TestCluster, owner: Value) {
    it.add(definition("widgets", "Widget")).await;
    let mut dependent = widget("default", "w");
    dependent["metadata"]["ownerReferences"] = json!([owner]);
    it.add(dependent).await;
    it.advance(Duration::from_secs(1)).await;
    serve_widgets(it, false).await;
}

async fn serve_widgets(it: &TestCluster, served: bool) {
    let serve = |it: &mut Value| it["spec"]["versions"][0]["served"] = served.into();
    it.change(DEFINITIONS, "widgets.example.com", "", serve).await;
    it.advance(Duration::from_secs(1)).await;
}

/// Regression test: the finalizer of the owner was removed while the dependent could not be
/// changed. When its kind was served again, it had an owner that did not exist, and was deleted.
#[tokio::test(start_paused = true)]
async fn an_owner_waits_until_dependents_of_a_kind_that_is_not_served_can_be_orphaned() {
    let it = start().await;
    let a = it.add(map("default", "a", &[])).await;
    unserved_dependent(&it, owner(&a, false)).await;
    it.delete(MAPS, "default/a", Some(Propagation::Orphan)).await;
    it.advance(Duration::from_secs(60)).await;
    let waiting = it.get(MAPS, "default/a").expect("its dependent still refers to it");
    assert_eq!(waiting["metadata"]["finalizers"], json!(["orphan"]));
    serve_widgets(&it, true).await;
    it.until_gone(MAPS, "default/a").await;
    it.advance(Duration::from_secs(60)).await;
    let kept = it.get(WIDGETS, "default/w").expect("it was orphaned");
    assert!(kept["metadata"].get("ownerReferences").is_none(), "{kept:#}");
}

#[tokio::test(start_paused = true)]
async fn an_owner_does_not_wait_for_dependents_whose_definition_was_deleted() {
    for propagation in [Propagation::Orphan, Propagation::Foreground] {
        let it = start().await;
        let a = it.add(map("default", "a", &[])).await;
        unserved_dependent(&it, owner(&a, true)).await;
        it.delete(MAPS, "default/a", Some(propagation)).await;
        it.advance(Duration::from_secs(60)).await;
        assert!(it.get(MAPS, "default/a").is_some(), "{propagation:?}: it waits for its dependent");
        it.delete(DEFINITIONS, "widgets.example.com", None).await;
        it.until_gone(MAPS, "default/a").await;
    }
}

/// Removes a definition at once, with its objects, before any controller is notified.
async fn remove_definition(it: &TestCluster, name: &str) {
    it.delete(DEFINITIONS, name, None).await;
    it.change(DEFINITIONS, name, "", release).await;
    assert!(it.get(DEFINITIONS, name).is_none());
}

/// Regression test: the collector saw the dependent before the deletion of the former definition,
/// and recorded its owner, an object of the new definition, as deleted.
#[tokio::test(start_paused = true)]
async fn an_owner_of_a_definition_that_replaced_a_deleted_one_keeps_its_dependents() {
    let it = start().await;
    it.add(definition("widgets", "Widget")).await;
    it.advance(Duration::from_secs(1)).await;
    remove_definition(&it, "widgets.example.com").await;
    it.add(definition("widgets", "Widget")).await;
    let w = it.add(widget("default", "w")).await;
    it.add(map("default", "d", &[owner(&w, false)])).await;
    it.advance(Duration::from_secs(1)).await;
    serve_widgets(&it, false).await;
    it.add(definition("gadgets", "Gadget")).await;
    it.advance(Duration::from_secs(60)).await;
    assert!(it.get(MAPS, "default/d").is_some(), "its owner exists");
    serve_widgets(&it, true).await;
    assert!(it.get(WIDGETS, "default/w").is_some());
    it.delete(WIDGETS, "default/w", None).await;
    it.until_gone(MAPS, "default/d").await;
}

/// Regression test: the condition `Terminating` was reset before the finalizer was removed. In
/// between, objects could be created, and were then removed with the definition.
#[tokio::test(start_paused = true)]
async fn nothing_is_created_while_a_webhook_reviews_the_end_of_a_definition() {
    let it = start().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    it.add(definition("widgets", "Widget")).await;
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    it.add(silent_webhook(&listener, "UPDATE", ("apiextensions.k8s.io", "customresourcedefinitions"), "a"))
        .await;
    let authenticator = crate::auth::Authenticator::new().anonymous(crate::auth::Anonymous::Admin);
    let service = crate::http::Service::new(std::sync::Arc::clone(&it.cluster), authenticator);
    for _ in 0..10 {
        it.advance(Duration::from_secs(10)).await;
        let request = http::Request::post("/apis/example.com/v1/namespaces/default/widgets")
            .header("content-type", "application/json")
            .body(http_body_util::Full::new(bytes::Bytes::from(widget("default", "w").to_string())));
        let response = service.respond(request.unwrap(), None).await.expect("not cut");
        assert_eq!(response.status(), 403);
    }
    it.delete(("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"), "c", None).await;
    it.until_gone(DEFINITIONS, "widgets.example.com").await;
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_another_finalizer_holds_reports_that_its_objects_are_gone() {
    let it = start().await;
    it.add(finalized(definition("widgets", "Widget"))).await;
    it.add(widget("default", "w")).await;
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    let emptied = |it: &Value| condition(it, "Terminating")["reason"] == "InstanceDeletionCompleted";
    let held = it.until_one(DEFINITIONS, "widgets.example.com", emptied).await;
    assert_eq!(held["metadata"]["finalizers"], json!(["example.com/hold"]));
    it.change(DEFINITIONS, "widgets.example.com", "", release).await;
    it.until_gone(DEFINITIONS, "widgets.example.com").await;
}
