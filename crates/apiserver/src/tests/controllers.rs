//! Controllers on a whole cluster: definitions, events, history.

use std::time::Duration;

use crate::controllers::Controllers;
use serde_json::{Value, json};

use crate::tests::test_cluster::{TestCluster, key_of};

const MAPS: (&str, &str) = ("v1", "ConfigMap");
const NAMESPACES: (&str, &str) = ("v1", "Namespace");
const EVENTS: (&str, &str) = ("v1", "Event");
const DEFINITIONS: (&str, &str) = ("apiextensions.k8s.io/v1", "CustomResourceDefinition");
const WIDGETS: (&str, &str) = ("example.com/v1", "Widget");

async fn start() -> TestCluster {
    TestCluster::with(Controllers::default()).await
}

fn map(namespace: &str, name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": name, "namespace": namespace } })
}

fn namespace(name: &str) -> Value {
    json!({ "apiVersion": "v1", "kind": "Namespace", "metadata": { "name": name } })
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
    it.cluster.definitions().accept_at_once(false);
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

/// Regression test: an object with a deletion timestamp and no finalizer, which a webhook can
/// create, was not deleted again, and kept its definition for ever.
#[tokio::test(start_paused = true)]
async fn an_object_in_its_grace_period_does_not_hold_its_definition() {
    let it = start().await;
    it.add(definition("widgets", "Widget")).await;
    let mut object = widget("default", "w");
    object["metadata"]["deletionTimestamp"] = json!("2026-01-02T03:04:05Z");
    object["metadata"]["deletionGracePeriodSeconds"] = json!(30);
    let kind = it.kind(WIDGETS.0, WIDGETS.1);
    let (key, draft) = ("default/w".parse().unwrap(), kind.draft(&object).unwrap());
    let absent = crate::store::Expect::Absent;
    it.cluster.storage().commit(&kind.collection, &key, absent, Some(draft)).await.unwrap();
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    it.until_gone(DEFINITIONS, "widgets.example.com").await;
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

/// Regression test: the condition `Terminating` was reset before the finalizer was removed. In
/// between, objects could be created, and were then removed with the definition.
#[tokio::test(start_paused = true)]
async fn nothing_is_created_while_a_webhook_reviews_the_end_of_a_definition() {
    let it = start().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    it.add(definition("widgets", "Widget")).await;
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    let status = ("apiextensions.k8s.io", "customresourcedefinitions/status");
    it.add(silent_webhook(&listener, "UPDATE", status, "a")).await;
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

/// Regression test: the finalizer was removed by an update of the definition itself, which this
/// webhook reviews. kube-apiserver writes the status.
#[tokio::test(start_paused = true)]
async fn a_definition_is_deleted_while_a_webhook_for_updates_of_definitions_fails() {
    let it = start().await;
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    it.add(definition("widgets", "Widget")).await;
    it.add(widget("default", "w")).await;
    let definitions = ("apiextensions.k8s.io", "customresourcedefinitions");
    it.add(silent_webhook(&listener, "UPDATE", definitions, "a")).await;
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    it.until_gone(DEFINITIONS, "widgets.example.com").await;
}

/// `statusStrategy` in k8s.io/apiextensions-apiserver v0.36.4
/// pkg/registry/customresourcedefinition/strategy.go resets the spec only.
#[tokio::test(start_paused = true)]
async fn a_write_of_the_status_of_a_definition_can_change_its_metadata() {
    let it = start().await;
    it.add(definition("widgets", "Widget")).await;
    let write = |it: &mut Value| {
        it["metadata"]["labels"] = json!({ "k": "v" });
        it["spec"]["scope"] = json!("Cluster");
    };
    it.change(DEFINITIONS, "widgets.example.com", "status", write).await;
    let written = it.get(DEFINITIONS, "widgets.example.com").unwrap();
    assert_eq!(written["metadata"]["labels"], json!({ "k": "v" }));
    assert_eq!(
        (&written["spec"]["scope"], &written["metadata"]["generation"]),
        (&json!("Namespaced"), &json!(1))
    );
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

/// Namespaces are emptied and removed by a client, the controller manager.
#[tokio::test(start_paused = true)]
async fn without_its_controller_a_namespace_stays_terminating() {
    let it = start().await;
    it.add(namespace("a")).await;
    it.add(map("a", "m")).await;
    it.delete(NAMESPACES, "a", None).await;
    it.advance(Duration::from_secs(600)).await;
    assert_eq!(it.get(NAMESPACES, "a").unwrap()["status"]["phase"], "Terminating");
    assert!(it.get(MAPS, "a/m").is_some());
}

#[tokio::test(start_paused = true)]
async fn controllers_handle_changes_made_before_they_started() {
    let mut it = TestCluster::with(Controllers::none()).await;
    it.add(definition("widgets", "Widget")).await;
    it.add(widget("default", "w")).await;
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    it.advance(Duration::from_secs(60)).await;
    assert!(it.get(DEFINITIONS, "widgets.example.com").is_some());
    let cluster = std::sync::Arc::clone(&it.cluster);
    it.tasks.spawn(Controllers::default().run(cluster, std::future::pending()));
    it.until_gone(DEFINITIONS, "widgets.example.com").await;
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
    it.add(definition("widgets", "Widget")).await;
    stop.send(()).unwrap();
    controllers.await.expect("no panic");
    it.delete(DEFINITIONS, "widgets.example.com", None).await;
    it.advance(Duration::from_secs(60)).await;
    assert!(it.get(DEFINITIONS, "widgets.example.com").is_some());
}
