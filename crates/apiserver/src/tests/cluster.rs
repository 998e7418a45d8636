//! The verbs of a cluster, without HTTP.

use crate::cluster::{
    Cluster, DeleteOptions, Deleted, FieldValidation, ObjectRef, PatchBody, Source, Writer,
};
use dogwatch_apimachinery::patch::PatchKind;
use dogwatch_core::ObjectKey;
use serde_json::{Value, json};

async fn cluster() -> Cluster {
    let cluster = Cluster::new(Source::seeded(1, "2026-01-02T03:04:05Z".parse().expect("a time")));
    cluster.bootstrap().await;
    cluster
}

fn writer() -> Writer {
    Writer::server("test")
}

async fn add(cluster: &Cluster, object: Value) -> Value {
    let kind = cluster
        .catalog()
        .kind_of(object["apiVersion"].as_str().expect("a version"), object["kind"].as_str().expect("a kind"))
        .expect("served");
    cluster.add(object, &writer()).await.expect("created").object.to_value(&kind)
}

#[tokio::test]
async fn a_new_cluster_has_its_namespaces_service_and_priority_classes() {
    let cluster = cluster().await;
    let names = |api_version: &str, kind: &str| -> Vec<String> {
        let kind = cluster.catalog().kind_of(api_version, kind).expect("served");
        cluster.list(&kind, None).iter().map(|it| it.key().to_string()).collect()
    };
    assert_eq!(names("v1", "Namespace"), ["default", "kube-node-lease", "kube-public", "kube-system"]);
    for (api_version, kind) in
        [("v1", "Service"), ("v1", "Endpoints"), ("discovery.k8s.io/v1", "EndpointSlice")]
    {
        assert_eq!(names(api_version, kind), ["default/kubernetes"], "{kind}");
    }
    assert_eq!(names("scheduling.k8s.io/v1", "PriorityClass").len(), 2);
    let kind = cluster.catalog().kind_of("networking.k8s.io/v1", "ServiceCIDR").expect("served");
    let range = cluster.get(&kind, &ObjectKey::cluster("kubernetes")).expect("exists").to_value();
    assert_eq!(range["spec"]["cidrs"], json!(["10.96.0.0/16"]));
    assert_eq!(range["status"]["conditions"][0]["status"], "True");
}

#[tokio::test]
async fn a_new_object_gets_its_server_side_fields() {
    let cluster = cluster().await;
    let deployment = add(
        &cluster,
        json!({ "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "d" }, "spec": {
            "selector": { "matchLabels": { "app": "d" } },
            "template": { "metadata": { "labels": { "app": "d" } }, "spec": { "containers": [{ "name": "c", "image": "i" }] } } } }),
    )
    .await;
    assert_eq!(deployment["metadata"]["generation"], 1);
    assert_eq!(deployment["metadata"]["creationTimestamp"], "2026-01-02T03:04:05Z");
    assert_eq!(deployment["spec"]["replicas"], 1);
    assert_eq!(deployment["metadata"]["managedFields"][0]["manager"], "test");
}

#[tokio::test]
async fn an_approval_changes_only_metadata_and_conditions() {
    let cluster = cluster().await;
    let request = json!({ "apiVersion": "certificates.k8s.io/v1", "kind": "CertificateSigningRequest",
        "metadata": { "name": "r" }, "spec": { "request": "LS0tLS1CRUdJTiBDRVJUSUZJQ0FURSBSRVFVRVNULS0tLS0K",
            "signerName": "example.com/s", "usages": ["any"] } });
    add(&cluster, request).await;
    let kind =
        cluster.catalog().kind_of("certificates.k8s.io/v1", "CertificateSigningRequest").expect("served");
    let key = ObjectKey::cluster("r");
    let place = ObjectRef::of(&kind, &key).part("approval");
    let approve = |it: &mut Value| {
        it["metadata"]["annotations"] = json!({ "who": "me" });
        it["spec"]["signerName"] = "example.com/other".into();
        it["status"] = json!({ "certificate": "eA==", "conditions": [
            { "type": "Approved", "status": "True", "reason": "r", "message": "m" }] });
        true
    };
    cluster.change(&place, &writer(), approve).await.expect("approved");
    let stored = cluster.get(&kind, &key).expect("exists").to_value();
    assert_eq!(stored["metadata"]["annotations"]["who"], "me");
    assert_eq!(stored["spec"]["username"], writer().user.name);
    assert_eq!(stored["status"]["conditions"][0]["lastUpdateTime"], "2026-01-02T03:04:05Z");
    assert_eq!(stored["spec"]["signerName"], "example.com/s");
    assert_eq!(
        (stored["status"]["conditions"].as_array().map(Vec::len), stored["status"].get("certificate")),
        (Some(1), None)
    );
}

#[tokio::test]
async fn duplicate_fields_of_an_applied_object_are_warned_about_or_rejected() {
    let cluster = cluster().await;
    let kind = cluster.catalog().kind_of("v1", "ConfigMap").expect("served");
    let key = ObjectKey::namespaced("default", "a");
    let yaml = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: a\ndata:\n  k: a\n  k: b\n";
    let json = r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"k":"a","k":"b"}}"#;
    for (body, line) in [(yaml, 7), (json, 1)] {
        let body = PatchBody::Apply { body: body.into(), force: false };
        let said = format!("line {line}: key \"k\" already set in map");
        let writer = |validation| Writer { validation, ..writer() };
        let apply =
            async |validation| cluster.patch(&ObjectRef::of(&kind, &key), &body, &writer(validation)).await;
        let refusal = apply(FieldValidation::Strict).await.expect_err("refused");
        let begin = "error strict decoding YAML: error converting YAML to JSON: yaml: unmarshal errors:";
        assert_eq!((refusal.0.code, refusal.0.message.clone()), (400, format!("{begin}\n  {said}")));
        assert_eq!(apply(FieldValidation::Warn).await.expect("applied").warnings, [said]);
        assert!(apply(FieldValidation::Ignore).await.expect("applied").warnings.is_empty());
    }
}

/// Regression test: of two definitions that were created concurrently, one could write back a list
/// read before the other was added. The other was stored but not served until the next change.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn concurrently_created_definitions_are_all_served() {
    let cluster = std::sync::Arc::new(cluster().await);
    let made = (0..40).map(|number| {
        let cluster = std::sync::Arc::clone(&cluster);
        tokio::spawn(async move {
            let definition = json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
                "metadata": { "name": format!("t{number}s.example.com") },
                "spec": { "group": "example.com", "scope": "Namespaced",
                    "names": { "plural": format!("t{number}s"), "kind": format!("T{number}") },
                    "versions": [{ "name": "v1", "served": true, "storage": true,
                        "schema": { "openAPIV3Schema": { "type": "object" } } }] } });
            cluster.add(definition, &writer()).await.expect("created");
        })
    });
    for task in made.collect::<Vec<_>>() {
        task.await.expect("created");
    }
    let served =
        |number: &usize| cluster.catalog().kind_of("example.com/v1", &format!("T{number}")).is_some();
    assert_eq!((0..40).filter(served).count(), 40);
}

#[tokio::test]
async fn an_object_with_a_finalizer_is_deleted_when_the_finalizer_is_removed() {
    let cluster = cluster().await;
    add(
        &cluster,
        json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a", "finalizers": ["example.com/f"] } }),
    )
    .await;
    let kind = cluster.catalog().kind_of("v1", "ConfigMap").expect("served");
    let key = ObjectKey::namespaced("default", "a");
    let place = ObjectRef::of(&kind, &key);
    let deleted = cluster.delete(&place, &DeleteOptions::default(), &writer()).await.expect("deleted");
    assert!(matches!(deleted, Deleted::Going { .. }));
    assert!(cluster.get(&kind, &key).is_some());
    let writer = writer();
    let changed = cluster.change(&place, &writer, |object| {
        object["metadata"]["finalizers"] = json!([]);
        true
    });
    changed.await.expect("changed");
    assert!(cluster.get(&kind, &key).is_none());
}

#[tokio::test]
async fn a_definition_is_served_at_once_and_a_fork_is_independent() {
    let cluster = cluster().await;
    add(
        &cluster,
        json!({ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
            "metadata": { "name": "gadgets.example.com" },
            "spec": { "group": "example.com", "scope": "Namespaced", "names": { "plural": "gadgets", "kind": "Gadget" },
                "versions": [{ "name": "v1", "served": true, "storage": true, "schema": { "openAPIV3Schema": {
                    "type": "object", "properties": { "spec": { "type": "object", "properties": {
                        "size": { "type": "integer", "default": 3 } } } } } } }] } }),
    )
    .await;
    let fork = cluster.fork();
    let gadget = add(
        &fork,
        json!({ "apiVersion": "example.com/v1", "kind": "Gadget", "metadata": { "name": "g" }, "spec": {} }),
    )
    .await;
    assert_eq!(gadget["spec"]["size"], 3);
    let kind = cluster.catalog().kind_of("example.com/v1", "Gadget").expect("served");
    assert!(cluster.list(&kind, None).is_empty() && fork.list(&kind, None).len() == 1);
}

#[tokio::test]
async fn numbers_are_stored_as_they_were_written() {
    let cluster = cluster().await;
    let kind = cluster.catalog().kind_of("apps/v1", "ControllerRevision").expect("served");
    let key = ObjectKey::namespaced("default", "r");
    // A fast but inexact parser is off by one in the last digit of each of these.
    let floats = ["1.3436424411240121e-09", "9.385958677423489e-12", "223221110.21323866"];
    let body = format!(
        r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{{"name":"r"}},"revision":5.0,
            "data":{{"f":[{}],"large":9007199254740993}}}}"#,
        floats.join(",")
    );
    let body = PatchBody::Apply { body: body.into(), force: false };
    let written = cluster.patch(&ObjectRef::of(&kind, &key), &body, &writer()).await.expect("applied");
    let stored = written.object.to_value(&kind);
    for (index, float) in floats.iter().enumerate() {
        let exact: f64 = float.parse().expect("a number");
        assert_eq!(stored["data"]["f"][index].as_f64(), Some(exact), "{float}");
    }
    assert_eq!(stored["data"]["large"], 9_007_199_254_740_993_i64);
    // An apply body is parsed as YAML, where this is an integer.
    assert_eq!(stored["revision"], json!(5));
}

#[tokio::test]
async fn duplicate_owner_references_are_merged_with_a_warning() {
    let cluster = cluster().await;
    let owner = json!({ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u" });
    add(&cluster, json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "a" } })).await;
    let kind = cluster.catalog().kind_of("v1", "ConfigMap").expect("served");
    let mut other = owner.clone();
    other["name"] = "q".into();
    let patch = json!({ "metadata": { "ownerReferences": [owner, owner, other] } });
    let body = PatchBody::Patch(PatchKind::Merge, patch.to_string().into());
    let key = ObjectKey::namespaced("default", "a");
    let written = cluster.patch(&ObjectRef::of(&kind, &key), &body, &writer()).await.expect("patched");
    let stored = written.object.to_value(&kind);
    assert_eq!(stored["metadata"]["ownerReferences"], json!([owner, other]));
    let warning = written.warnings.first().expect("a warning");
    assert!(warning.starts_with(".metadata.ownerReferences contains duplicate entries after"), "{warning}");
    assert!(warning.ends_with("duplicate UID(s) observed: u"), "{warning}");
}
