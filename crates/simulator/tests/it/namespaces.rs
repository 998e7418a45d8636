//! Deletion of namespaces: their content, its order, and the conditions that report it.

use std::time::Duration;

use dogwatch_apiserver::faults::Rule;
use dogwatch_core::{DeleteParams, Propagation};
use dogwatch_simulator::ControllerManager;
use serde_json::{Value, json};

use crate::managed_cluster::{
    MAPS, ManagedCluster, NAMESPACES, PODS, WIDGETS, condition, definition, finalized, map, maps, namespace,
    owner, pod, release, silent_webhook, widget,
};
use crate::test_cluster::{TestServer, key_of};

#[tokio::test(start_paused = true)]
async fn a_namespace_is_deleted_with_all_its_objects_including_custom_ones() {
    let it = ManagedCluster::start().await;
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
    let it = ManagedCluster::start().await;
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
    let revision = it.server.revision();
    it.advance(Duration::from_secs(600)).await;
    assert_eq!(it.server.revision(), revision, "waiting writes nothing");
    it.change(MAPS, "a/m", release).await;
    it.until_gone(NAMESPACES, "a").await;
}

/// The order is that of k8s.io/kubernetes v1.36.4
/// pkg/controller/namespace/deletion/namespaced_resources_deleter.go.
#[tokio::test(start_paused = true)]
async fn pods_are_deleted_first_with_their_grace_period() {
    let it = ManagedCluster::start().await;
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
    let at_once = DeleteParams::default().grace_period(Duration::ZERO);
    TestServer::delete(&it, PODS, "a/p", at_once).await;
    it.until_gone(NAMESPACES, "a").await;
    assert!(it.get(MAPS, "a/m").is_none());
}

/// The test suite of controller-runtime deletes a namespace, reads it and writes it back without
/// its finalizer, because there are no controllers in its usual environment. A controller that is
/// faster than the client would break it.
#[tokio::test(start_paused = true)]
async fn a_client_has_a_moment_to_finalize_a_namespace_itself() {
    let it = ManagedCluster::start().await;
    it.add(namespace("a")).await;
    it.add(map("a", "m", &[])).await;
    it.delete(NAMESPACES, "a", None).await;
    it.advance(Duration::from_millis(900)).await;
    let left_alone = it.get(NAMESPACES, "a").expect("the namespace still exists");
    assert_eq!(left_alone["status"], json!({ "phase": "Terminating" }));
    assert_eq!(left_alone["spec"]["finalizers"], json!(["kubernetes"]));
    it.change_part(NAMESPACES, "a", "finalize", |it| it["spec"]["finalizers"] = json!([])).await;
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
    let it = ManagedCluster::start().await;
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

#[tokio::test(start_paused = true)]
async fn a_webhook_that_does_not_respond_does_not_block_other_namespaces() {
    let it = ManagedCluster::start().await;
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

/// Regression test: the policy of the deletion of a namespace had no effect.
#[tokio::test(start_paused = true)]
async fn dependents_of_a_namespace_are_orphaned_or_deleted_first_if_the_deletion_says_so() {
    let it = ManagedCluster::start().await;
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
    it.change(MAPS, "default/b", release).await;
    it.until_gone(NAMESPACES, "b").await;
    it.until_gone(MAPS, "default/b").await;
}

/// Regression test: the finalizer was removed, and content deleted, by the name of the namespace
/// alone.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_replaces_a_deleted_one_keeps_its_finalizer_and_its_content() {
    let at = TestServer::start().await;
    // The manager is an ordinary client: fault rules apply to it.
    let manager = ControllerManager::builder(at.client.clone()).clock(at.server.clock()).start();
    at.add(namespace("a")).await;
    at.add(map("a", "held", &[])).await;
    let slow = Rule::on("delete").resource("configmaps").name("held").delay(Duration::from_secs(20));
    let slow = at.server.faults().rule(slow);
    at.delete(NAMESPACES, "a", DeleteParams::default()).await;
    at.advance(Duration::from_secs(10)).await;
    assert_eq!(slow.fired(), 1, "the manager deletes the content of the first namespace");
    at.change_part(NAMESPACES, "a", "finalize", |it| it["spec"]["finalizers"] = json!([])).await;
    assert!(at.get(NAMESPACES, "a").is_none());
    at.add(namespace("a")).await;
    // Kinds that the pass has not reached yet.
    at.add(json!({ "apiVersion": "v1", "kind": "Secret", "metadata": { "name": "new", "namespace": "a" } }))
        .await;
    at.advance(Duration::from_secs(600)).await;
    let namespace = at.get(NAMESPACES, "a").expect("the new namespace stays");
    assert_eq!(namespace["spec"]["finalizers"], json!(["kubernetes"]));
    assert_eq!(namespace["status"], json!({ "phase": "Active" }));
    assert!(at.get(("v1", "Secret"), "a/new").is_some());
    manager.stop().await;
}

/// The content of a namespace is listed again only now and then while it disappears one by one.
#[tokio::test(start_paused = true)]
async fn a_namespace_whose_content_disappears_slowly_costs_few_requests() {
    let at = TestServer::start().await;
    let manager = ControllerManager::builder(at.client.clone()).clock(at.server.clock());
    let manager = manager.garbage_collector(false).volume_protection(false).start();
    at.add(namespace("a")).await;
    for index in 0..100 {
        at.add(finalized(map("a", &format!("m-{index}"), &[]))).await;
    }
    at.delete(NAMESPACES, "a", DeleteParams::default()).await;
    at.advance(Duration::from_secs(60)).await;
    let lists = || at.server.requests().verb("list").resource("configmaps").count();
    let before = lists();
    for index in 0..100 {
        at.change(MAPS, &format!("a/m-{index}"), release).await;
        at.advance(Duration::from_millis(100)).await;
    }
    at.until_gone(NAMESPACES, "a").await;
    let passes = lists() - before;
    assert!(passes <= 10, "{passes} lists");
    manager.stop().await;
}

/// Regression test: the text of a failure was written into a condition, and that change of the
/// namespace caused the next pass at once.
#[tokio::test(start_paused = true)]
async fn a_failure_whose_text_changes_is_retried_with_a_pause() {
    let at = TestServer::start().await;
    let manager = ControllerManager::builder(at.client.clone()).clock(at.server.clock());
    let manager = manager.garbage_collector(false).volume_protection(false).start();
    at.add(namespace("a")).await;
    at.add(map("a", "m", &[])).await;
    let denied: Vec<_> = (0..50)
        .map(|index| {
            let rule = Rule::on("delete").resource("configmaps").namespace("a").times(1).refuse(403);
            at.server.faults().rule(rule.message(&format!("denied for the {index}th time")))
        })
        .collect();
    at.delete(NAMESPACES, "a", DeleteParams::default()).await;
    let failed = |it: &Value| condition(it, "NamespaceDeletionContentFailure")["status"] == "True";
    at.until_one(NAMESPACES, "a", failed).await;
    at.advance(Duration::from_secs(60)).await;
    let attempts: u64 = denied.iter().map(|it| it.fired()).sum();
    assert!((2..=8).contains(&attempts), "{attempts} attempts in a minute");
    denied.iter().for_each(|it| it.remove());
    at.until_gone(NAMESPACES, "a").await;
    manager.stop().await;
}

/// More namespaces than there are workers have a webhook that allows the deletion of each object
/// after some seconds.
#[tokio::test(start_paused = true)]
async fn slow_deletions_do_not_delay_other_namespaces_for_long() {
    let at = TestServer::start().await;
    let manager = ControllerManager::builder(at.client.clone()).clock(at.server.clock());
    let manager = manager.garbage_collector(false).volume_protection(false).start();
    for index in 0..12 {
        let name = format!("slow-{index}");
        at.add(namespace(&name)).await;
        for index in 0..100 {
            at.add(map(&name, &format!("m-{index}"), &[])).await;
        }
        let slow = Rule::on("delete").resource("configmaps").namespace(&name).delay(Duration::from_secs(5));
        at.server.faults().rule(slow);
        at.delete(NAMESPACES, &name, DeleteParams::default()).await;
    }
    at.add(namespace("b")).await;
    at.add(map("b", "m", &[])).await;
    at.delete(NAMESPACES, "b", DeleteParams::default()).await;
    let begun = tokio::time::Instant::now();
    at.until_gone(NAMESPACES, "b").await;
    assert!(begun.elapsed() < Duration::from_secs(50), "{:?}", begun.elapsed());
    for index in 0..12 {
        at.until_gone(NAMESPACES, &format!("slow-{index}")).await;
    }
    manager.stop().await;
}

/// Regression test: an error of the write of the conditions ended each pass before the finalizer
/// was removed.
#[tokio::test(start_paused = true)]
async fn a_namespace_ends_although_its_conditions_cannot_be_written() {
    let at = TestServer::start().await;
    // The manager is an ordinary client: fault rules apply to it.
    let manager = ControllerManager::builder(at.client.clone()).clock(at.server.clock()).start();
    at.add(namespace("a")).await;
    at.add(map("a", "m", &[])).await;
    let denied = Rule::on("update").resource("namespaces").part("status").refuse(403);
    let denied = at.server.faults().rule(denied);
    at.delete(NAMESPACES, "a", DeleteParams::default()).await;
    at.until_gone(NAMESPACES, "a").await;
    assert!(denied.fired() > 0);
    manager.stop().await;
}

/// Regression test: the write that removes the finalizer was larger than a request may be.
#[tokio::test(start_paused = true)]
async fn a_namespace_as_large_as_a_request_can_be_deleted() {
    let it = ManagedCluster::start().await;
    let mut large = namespace("large");
    let labels = (0..33_500).map(|index| (format!("l{index:060}"), json!("x".repeat(20))));
    large["metadata"]["labels"] = Value::Object(labels.collect());
    large["metadata"]["annotations"] = json!({ "a": "" });
    let rest = (3_usize << 20) - 300 - large.to_string().len();
    large["metadata"]["annotations"]["a"] = "x".repeat(rest).into();
    it.add(large).await;
    it.delete(NAMESPACES, "large", None).await;
    it.until_gone(NAMESPACES, "large").await;
}
