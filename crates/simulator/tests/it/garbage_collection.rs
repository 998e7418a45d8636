//! Garbage collection: the dependents of deleted objects, foreground deletion, and orphaning.

use std::time::Duration;

use dogwatch_apiserver::faults::Rule;
use dogwatch_core::{DeleteParams, Propagation};
use dogwatch_simulator::ControllerManager;
use serde_json::{Value, json};

use crate::managed_cluster::{
    DEFINITIONS, EVENTS, MAPS, ManagedCluster, NAMESPACES, WIDGETS, definition, finalized, is_system_object,
    map, maps, namespace, overlapping, owner, release, silent_webhook, widget,
};
use crate::test_cluster::{Kind, TestServer};

const INGRESSES: Kind = ("networking.k8s.io/v1", "Ingress");

/// Regression test: the collector waited for one write at a time, so that each of the objects of a
/// namespace whose webhook does not respond delayed all others by its timeout.
#[tokio::test(start_paused = true)]
async fn a_webhook_that_does_not_respond_does_not_block_garbage_collection_elsewhere() {
    let it = ManagedCluster::start().await;
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
        let it = ManagedCluster::start().await;
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
async fn dependents_are_deleted_after_their_owner_transitively() {
    let it = ManagedCluster::start().await;
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
    let it = ManagedCluster::start().await;
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
    let it = ManagedCluster::start().await;
    let a = it.add(map("default", "a", &[])).await;
    it.add(finalized(map("default", "blocking", &[owner(&a, true)]))).await;
    it.add(finalized(map("default", "other", &[owner(&a, false)]))).await;
    it.delete(MAPS, "default/a", Some(Propagation::Foreground)).await;
    it.until_one(MAPS, "default/blocking", |it| !it["metadata"]["deletionTimestamp"].is_null()).await;
    it.advance(Duration::from_secs(60)).await;
    let waiting = it.get(MAPS, "default/a").expect("the owner waits");
    assert_eq!(waiting["metadata"]["finalizers"], json!(["foregroundDeletion"]));
    it.change(MAPS, "default/blocking", release).await;
    it.until_gone(MAPS, "default/a").await;
    let other = it.get(MAPS, "default/other").expect("held by its own finalizer");
    assert!(!other["metadata"]["deletionTimestamp"].is_null(), "it is being deleted too");
}

#[tokio::test(start_paused = true)]
async fn foreground_deletion_of_a_chain_starts_at_its_end() {
    let it = ManagedCluster::start().await;
    let mut parent = it.add(map("default", "g0", &[])).await;
    for generation in 1..4 {
        parent = it.add(map("default", &format!("g{generation}"), &[owner(&parent, true)])).await;
    }
    let before = it.server.revision();
    it.delete(MAPS, "default/g0", Some(Propagation::Foreground)).await;
    it.until_gone(MAPS, "default/g0").await;
    let names = |revision| -> Vec<String> {
        let all = it.all_at(MAPS, revision).into_iter().filter(|it| !is_system_object(it));
        all.map(|it| it["metadata"]["name"].as_str().unwrap().to_owned()).collect()
    };
    let mut order = Vec::new();
    for revision in before..it.server.revision() {
        let left = names(revision + 1);
        order.extend(names(revision).into_iter().filter(|it| !left.contains(it)));
    }
    assert_eq!(order, ["g3", "g2", "g1", "g0"]);
}

#[tokio::test(start_paused = true)]
async fn orphaned_dependents_stay_and_lose_their_owner_reference() {
    let it = ManagedCluster::start().await;
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
    let it = ManagedCluster::start().await;
    let a = it.add(map("default", "a", &[])).await;
    let b = it.add(map("default", "b", &[owner(&a, true)])).await;
    let c = it.add(map("default", "c", &[owner(&b, true)])).await;
    it.change(MAPS, "default/a", |it| it["metadata"]["ownerReferences"] = json!([owner(&c, true)])).await;
    it.advance(Duration::from_secs(1)).await;
    assert_eq!(maps(&it).len(), 3, "each object keeps another one");
    it.delete(MAPS, "default/b", Some(Propagation::Foreground)).await;
    it.until(MAPS, |all| all.iter().all(is_system_object)).await;
}

#[tokio::test(start_paused = true)]
async fn an_object_with_a_missing_owner_is_deleted_at_once() {
    let it = ManagedCluster::start().await;
    let a = it.add(map("default", "a", &[])).await;
    let mut other = owner(&a, false);
    other["uid"] = "00000000-0000-4000-8000-000000000000".into();
    it.add(map("default", "same-name", &[other])).await;
    it.until_gone(MAPS, "default/same-name").await;
    assert!(it.get(MAPS, "default/a").is_some());
    assert!(it.all(EVENTS).is_empty());
}

/// Regression test: nothing processed a dependent again whose owner existed, but was in no cache.
/// Only the deletion of an owner that a cache has is observed.
#[tokio::test(start_paused = true)]
async fn a_dependent_is_deleted_after_an_owner_that_no_cache_ever_had() {
    let secrets: Kind = ("v1", "Secret");
    let at = TestServer::start().await;
    let broken = at.server.faults().rule(Rule::on("list").or("watch").resource("secrets").refuse(500));
    // A client that faults apply to.
    let manager = ControllerManager::builder(at.client.clone()).clock(at.server.clock()).seed(1).start();
    let it = ManagedCluster::with(manager, at);
    it.advance(Duration::from_secs(60)).await;
    let metadata = json!({ "name": "a", "namespace": "default" });
    let a = it.add(json!({ "apiVersion": "v1", "kind": "Secret", "metadata": metadata })).await;
    it.add(map("default", "m", &[owner(&a, false)])).await;
    it.advance(Duration::from_secs(60)).await;
    assert!(it.get(MAPS, "default/m").is_some(), "its owner exists");
    it.delete(secrets, "default/a", None).await;
    broken.remove();
    it.until_gone(MAPS, "default/m").await;
}

#[tokio::test(start_paused = true)]
async fn references_to_one_owner_in_another_namespace_are_reported_once() {
    let it = ManagedCluster::start().await;
    it.add(namespace("other")).await;
    let a = it.add(map("other", "a", &[])).await;
    let named = |name: String| {
        let mut reference = owner(&a, false);
        reference["name"] = name.into();
        reference
    };
    let references: Vec<Value> = (0..100).map(|it| named(format!("a-{it}"))).collect();
    it.add(map("default", "b", &references)).await;
    it.until_gone(MAPS, "default/b").await;
    assert_eq!(it.all(EVENTS).len(), 1);
}

#[tokio::test(start_paused = true)]
async fn an_owner_in_another_namespace_is_invalid_and_reported_by_an_event() {
    let it = ManagedCluster::start().await;
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
    let it = ManagedCluster::start().await;
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
async fn a_dependent_whose_owner_has_an_impossible_name_stays() {
    let it = ManagedCluster::start().await;
    let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "a/b", "uid": "u" });
    it.add(map("default", "dependent", &[owner])).await;
    it.advance(Duration::from_secs(120)).await;
    assert!(it.get(MAPS, "default/dependent").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_dependent_of_an_unknown_kind_waits_until_the_kind_is_defined() {
    let it = ManagedCluster::start().await;
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
    let it = ManagedCluster::start().await;
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
async fn controllers_handle_changes_made_before_they_started() {
    let at = TestServer::start().await;
    at.add(namespace("a")).await;
    at.add(map("a", "m", &[])).await;
    let parent = at.add(map("default", "parent", &[])).await;
    at.add(map("default", "child", &[owner(&parent, false)])).await;
    at.delete(NAMESPACES, "a", DeleteParams::default()).await;
    at.delete(MAPS, "default/parent", DeleteParams::default()).await;
    let it = ManagedCluster::on(at);
    it.until_gone(NAMESPACES, "a").await;
    it.until_gone(MAPS, "default/child").await;
}

/// The objects of a kind are deleted with its definition, and then the kind of the owner is not
/// served any more: it used to be unknown to the collector if the owner had existed.
#[tokio::test(start_paused = true)]
async fn dependents_of_custom_objects_are_deleted_with_the_definition() {
    let it = ManagedCluster::start().await;
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

/// Regression test: the deletion of a definition counted as that of all its objects. In
/// kube-apiserver they outlive a definition whose finalizer a client has removed.
#[tokio::test(start_paused = true)]
async fn dependents_stay_if_a_client_has_removed_the_finalizer_of_the_definition() {
    for waits in [true, false] {
        let it = ManagedCluster::start().await;
        it.add(definition("widgets", "Widget")).await;
        let owning = it.add(finalized(widget("default", "w"))).await;
        it.add(map("default", "m", &[owner(&owning, true)])).await;
        it.advance(Duration::from_secs(if waits { 60 } else { 0 })).await;
        it.delete(DEFINITIONS, "widgets.example.com", None).await;
        it.advance(Duration::from_secs(1)).await;
        it.change(DEFINITIONS, "widgets.example.com", |it| it["metadata"]["finalizers"] = json!([])).await;
        it.until_gone(DEFINITIONS, "widgets.example.com").await;
        it.advance(Duration::from_secs(600)).await;
        assert!(it.get(MAPS, "default/m").is_some(), "nothing says that its owner is gone");
    }
}

/// Regression test: a cache that could not be filled counted as an empty collection.
#[tokio::test(start_paused = true)]
async fn an_unavailable_kind_whose_definition_was_released_by_hand_keeps_its_dependents() {
    let at = TestServer::start().await;
    let manager = ControllerManager::builder(at.client.clone()).clock(at.server.clock()).seed(1).start();
    let it = ManagedCluster::with(manager, at);
    let name = "widgets.example.com";
    // The second time, the first deletion of the definition is known, whose objects were gone.
    for round in 0..2 {
        it.add(definition("widgets", "Widget")).await;
        let a = it.add(map("default", &format!("a-{round}"), &[])).await;
        let mut owned = finalized(widget("default", "w"));
        owned["metadata"]["ownerReferences"] = json!([owner(&a, false)]);
        let w = it.add(owned).await;
        it.add(map("default", &format!("m-{round}"), &[owner(&w, false)])).await;
        it.advance(Duration::from_secs(60)).await;
        let broken = Rule::on("list").or("watch").or("get").resource("widgets").refuse(500);
        let broken = it.server.faults().rule(broken);
        let other_version = |it: &mut Value| {
            let mut other = it["spec"]["versions"][0].clone();
            (other["name"], other["storage"]) = (json!("v2"), json!(false));
            it["spec"]["versions"][0]["served"] = json!(false);
            it["spec"]["versions"].as_array_mut().unwrap().push(other);
        };
        it.change(DEFINITIONS, name, other_version).await;
        it.advance(Duration::from_secs(10)).await;
        it.delete(DEFINITIONS, name, None).await;
        it.advance(Duration::from_secs(1)).await;
        it.change(DEFINITIONS, name, |it| it["metadata"]["finalizers"] = json!([])).await;
        it.until_gone(DEFINITIONS, name).await;
        it.advance(Duration::from_secs(600)).await;
        assert!(it.get(MAPS, &format!("default/m-{round}")).is_some(), "nothing says that its owner is gone");
        broken.remove();
        it.add(definition("widgets", "Widget")).await;
        it.advance(Duration::from_secs(60)).await;
        it.delete(DEFINITIONS, name, None).await;
        it.until_gone(DEFINITIONS, name).await;
        it.advance(Duration::from_secs(60)).await;
    }
}

/// A reference in a version that is not served cannot be looked up, and the kind of the deleted
/// definition is not that of the owner.
#[tokio::test(start_paused = true)]
async fn the_end_of_a_definition_named_like_a_built_in_kind_leaves_dependents_of_that_kind_alone() {
    let it = ManagedCluster::start().await;
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

/// Adds an object of a custom kind with an owner, and stops serving the kind.
async fn unserved_dependent(it: &ManagedCluster, owner: Value) {
    it.add(definition("widgets", "Widget")).await;
    let mut dependent = widget("default", "w");
    dependent["metadata"]["ownerReferences"] = json!([owner]);
    it.add(dependent).await;
    it.advance(Duration::from_secs(1)).await;
    serve_widgets(it, false).await;
}

async fn serve_widgets(it: &ManagedCluster, served: bool) {
    let serve = |it: &mut Value| it["spec"]["versions"][0]["served"] = served.into();
    it.change(DEFINITIONS, "widgets.example.com", serve).await;
    it.advance(Duration::from_secs(1)).await;
}

/// Regression test: the finalizer of the owner was removed while the dependent could not be
/// changed. When its kind was served again, it had an owner that did not exist, and was deleted.
#[tokio::test(start_paused = true)]
async fn an_owner_waits_until_dependents_of_a_kind_that_is_not_served_can_be_orphaned() {
    let it = ManagedCluster::start().await;
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
        let it = ManagedCluster::start().await;
        let a = it.add(map("default", "a", &[])).await;
        unserved_dependent(&it, owner(&a, true)).await;
        it.delete(MAPS, "default/a", Some(propagation)).await;
        it.advance(Duration::from_secs(60)).await;
        assert!(it.get(MAPS, "default/a").is_some(), "{propagation:?}: it waits for its dependent");
        it.delete(DEFINITIONS, "widgets.example.com", None).await;
        it.until_gone(MAPS, "default/a").await;
    }
}

/// Regression test: the collector saw the dependent before the deletion of the former definition,
/// and recorded its owner, an object of the new definition, as deleted.
#[tokio::test(start_paused = true)]
async fn an_owner_of_a_definition_that_replaced_a_deleted_one_keeps_its_dependents() {
    let it = ManagedCluster::start().await;
    it.add(definition("widgets", "Widget")).await;
    it.advance(Duration::from_secs(1)).await;
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    it.until_gone(DEFINITIONS, "widgets.example.com").await;
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

/// Regression test: the garbage collector took the denial for the absence of the object.
#[tokio::test(start_paused = true)]
async fn the_garbage_collector_tries_again_after_a_webhook_has_denied_with_404() {
    let at = TestServer::start().await;
    // The manager is an ordinary client: fault rules apply to it. The object is named in the
    // response as by a webhook.
    let manager = ControllerManager::builder(at.client.clone()).clock(at.server.clock()).start();
    let parent = at.add(map("default", "parent", &[])).await;
    at.add(map("default", "child", &[owner(&parent, true)])).await;
    let denied = Rule::on("delete").resource("configmaps").name("child").refuse(404);
    let denied = at.server.faults().rule(denied);
    at.delete(MAPS, "default/parent", DeleteParams::default()).await;
    at.advance(Duration::from_secs(10)).await;
    assert!(denied.fired() >= 3, "{}", denied.fired());
    assert!(at.get(MAPS, "default/child").is_some());
    denied.remove();
    at.until_gone(MAPS, "default/child").await;
    manager.stop().await;
}

/// The number of requests is that of the objects, whatever their number.
#[tokio::test(start_paused = true)]
async fn the_dependents_of_an_object_cost_the_same_each() {
    for propagation in [Propagation::Background, Propagation::Foreground, Propagation::Orphan] {
        let mut costs = Vec::new();
        for count in [10_usize, 100] {
            let at = TestServer::start().await;
            let manager = ControllerManager::builder(at.client.clone()).clock(at.server.clock());
            let manager = manager.namespaces(false).volume_protection(false).start();
            let parent = at.add(map("default", "parent", &[])).await;
            for index in 0..count {
                at.add(map("default", &format!("m-{index}"), &[owner(&parent, true)])).await;
            }
            manager.ready().await;
            at.advance(Duration::from_secs(1)).await;
            at.server.request_log().clear();
            let mut params = DeleteParams::default();
            params.propagation = Some(propagation);
            at.delete(MAPS, "default/parent", params).await;
            at.until_gone(MAPS, "default/parent").await;
            let is_done = |it: &Value| it["metadata"].get("ownerReferences").is_none();
            at.until(MAPS, |all| all.iter().all(is_done)).await;
            costs.push(at.server.requests().count());
            manager.stop().await;
        }
        assert!(costs[1] <= costs[0] * 11, "{propagation:?}: {costs:?}");
    }
}

/// An object whose owner exists costs no request.
#[tokio::test(start_paused = true)]
async fn objects_with_existing_owners_cost_no_requests() {
    let at = TestServer::start().await;
    let manager = ControllerManager::builder(at.client.clone()).clock(at.server.clock());
    let manager = manager.namespaces(false).volume_protection(false).start();
    manager.ready().await;
    let parent = at.add(map("default", "parent", &[])).await;
    at.advance(Duration::from_secs(1)).await;
    at.server.request_log().clear();
    for index in 0..50 {
        at.add(map("default", &format!("m-{index}"), &[owner(&parent, true)])).await;
    }
    at.advance(Duration::from_secs(10)).await;
    let reads = at.server.requests().resource("configmaps").verb("get").count();
    assert_eq!(reads, 0);
    manager.stop().await;
}

/// Asserts that a config map exists and has no owner.
fn assert_orphaned(it: &ManagedCluster, key: &str) {
    let kept = it.get(MAPS, key).expect("it was to be orphaned");
    assert!(kept["metadata"].get("ownerReferences").is_none(), "{kept:#}");
}

/// Returns a custom object whose dependents are orphaned when it is deleted.
fn orphaning(name: &str) -> Value {
    let mut object = widget("default", name);
    object["metadata"]["finalizers"] = json!(["orphan"]);
    object
}

/// Regression test: the objects of a definition were deleted with the policy `Background`, which
/// removes the finalizer `orphan`, so the dependents were deleted too.
#[tokio::test(start_paused = true)]
async fn dependents_that_are_to_be_orphaned_survive_the_definition_of_their_owner() {
    let it = ManagedCluster::start().await;
    it.add(definition("widgets", "Widget")).await;
    let finalized = it.add(orphaning("finalized")).await;
    let deleted = it.add(widget("default", "deleted")).await;
    it.add(map("default", "a", &[owner(&finalized, true)])).await;
    it.add(map("default", "b", &[owner(&deleted, true)])).await;
    it.advance(Duration::from_secs(1)).await;
    it.delete(WIDGETS, "default/deleted", Some(Propagation::Orphan)).await;
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    it.until_gone(DEFINITIONS, "widgets.example.com").await;
    it.advance(Duration::from_secs(100)).await;
    assert_orphaned(&it, "default/a");
    assert_orphaned(&it, "default/b");
}

/// Regression test: objects of a definition without served versions were removed in spite of their
/// finalizers. kube-apiserver keeps the definition until they are released, which takes a version
/// that is served.
#[tokio::test(start_paused = true)]
async fn finalizers_of_objects_hold_a_definition_that_serves_no_version() {
    let it = ManagedCluster::start().await;
    it.add(definition("widgets", "Widget")).await;
    let w = it.add(orphaning("w")).await;
    it.add(map("default", "m", &[owner(&w, true)])).await;
    it.add(widget("default", "free")).await;
    it.advance(Duration::from_secs(1)).await;
    serve_widgets(&it, false).await;
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    it.advance(Duration::from_secs(60)).await;
    assert!(it.get(DEFINITIONS, "widgets.example.com").is_some(), "an object has a finalizer");
    serve_widgets(&it, true).await;
    it.until_gone(DEFINITIONS, "widgets.example.com").await;
    it.advance(Duration::from_secs(100)).await;
    assert_orphaned(&it, "default/m");
}

/// Regression test: after a hundred objects that needed no request, the collector waited for the
/// next event, although others waited for a slot.
#[tokio::test(start_paused = true)]
async fn all_objects_that_wait_for_a_slot_are_collected() {
    let it = ManagedCluster::start().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let secret =
        json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "s", "namespace": "default" } });
    let secret = it.add(secret).await;
    for index in 0..1_000 {
        it.add(map("default", &format!("m-{index:04}"), &[owner(&secret, false)])).await;
    }
    it.add(silent_webhook(&listener, "DELETE", ("", "configmaps"), "default")).await;
    it.delete(("v1", "Secret"), "default/s", None).await;
    it.advance(Duration::from_secs(1)).await;
    it.delete(("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"), "c", None).await;
    // Some requests still wait for the webhook. These objects need none.
    for index in 4..600 {
        it.delete(MAPS, &format!("default/m-{index:04}"), None).await;
    }
    it.until(MAPS, |all| all.iter().all(is_system_object)).await;
}
