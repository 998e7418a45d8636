//! OpenAPI v3 as kubectl reads it: the recorded parts, whole references, and custom kinds.

use std::sync::Arc;

use dogwatch_apiserver::builtin::{self, ResourceDef, SubresourceDef};
use dogwatch_apiserver::discovery::digest;
use dogwatch_apiserver::openapi::{self, CustomKind};
use serde_json::{Value, json};

use crate::recording;

fn document(group: &str, version: &str) -> Value {
    serde_json::from_slice(&openapi::builtin_document(group, version).unwrap().body).unwrap()
}

fn trains(namespaced: bool) -> Arc<ResourceDef> {
    let verbs = |names: &[&str]| names.iter().map(|it| (*it).to_owned()).collect::<Vec<_>>();
    Arc::new(ResourceDef {
        group: "rail.example.com".into(),
        version: "v1".into(),
        kind: "Train".into(),
        list_kind: String::new(),
        plural: "trains".into(),
        singular: "train".into(),
        short_names: Vec::new(),
        categories: Vec::new(),
        namespaced,
        verbs: verbs(&ResourceDef::CUSTOM_VERBS),
        subresources: vec![SubresourceDef {
            name: "scale".into(),
            group: "autoscaling".into(),
            version: "v1".into(),
            kind: "Scale".into(),
            verbs: verbs(&["get", "patch", "update"]),
        }],
        preferred: true,
        custom: true,
    })
}

/// Every `$ref` inside `value`.
fn references(value: &Value, found: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            found.extend(fields.get("$ref").and_then(Value::as_str).map(Into::into));
            fields.values().for_each(|it| references(it, found));
        }
        Value::Array(items) => items.iter().for_each(|it| references(it, found)),
        _ => {}
    }
}

fn assert_whole(document: &Value, name: &str) {
    let mut found = Vec::new();
    references(document, &mut found);
    assert!(!found.is_empty(), "{name}");
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{name}: {reference}");
    }
}

#[test]
fn the_recorded_parts_of_index_and_document_are_answered_as_the_original_did() {
    let steps = recording::steps("discovery-openapi-v3.json");
    let mut index: Value = serde_json::from_slice(&openapi::index([])).unwrap();
    let url = index["paths"]["apis/coordination.k8s.io/v1"]["serverRelativeURL"].as_str().unwrap().to_owned();
    for entry in index["paths"].as_object_mut().unwrap().values_mut() {
        let url = entry["serverRelativeURL"].as_str().unwrap().split_once("hash=").unwrap().0.to_owned();
        entry["serverRelativeURL"] = json!(url + "hash=<hash>");
    }
    steps[0].check(&index);
    let document = openapi::builtin_document("coordination.k8s.io", "v1").unwrap();
    assert_eq!(url, format!("/openapi/v3/apis/coordination.k8s.io/v1?hash={}", document.hash));
    assert_eq!(document.hash, digest(&document.body));
    steps[1].check(&serde_json::from_slice(&document.body).unwrap());
}

#[test]
fn every_document_holds_all_that_it_refers_to() {
    for it in builtin::resources() {
        assert_whole(&document(&it.group, &it.version), &it.api_version());
    }
    assert_eq!(openapi::builtin_document("nothing", "v1"), None);
}

#[test]
fn patches_of_built_in_kinds_say_what_kubectl_looks_for() {
    for it in builtin::resources().iter().filter(|it| it.has_verb("patch")) {
        let document = document(&it.group, &it.version);
        let root = if it.group.is_empty() { "/api" } else { "/apis" };
        let inside = if it.namespaced { "namespaces/{namespace}/" } else { "" };
        let path = format!("{root}/{}/{inside}{}/{{name}}", it.api_version(), it.plural);
        let patch = &document["paths"][&path]["patch"];
        assert_eq!(
            patch["x-kubernetes-group-version-kind"],
            json!({"group": it.group, "version": it.version, "kind": it.kind}),
            "{path}"
        );
        let parameters = patch["parameters"].as_array().unwrap();
        assert!(parameters.iter().any(|it| it["name"] == "fieldValidation" && it["in"] == "query"), "{path}");
        assert!(patch["requestBody"]["content"]["application/strategic-merge-patch+json"].is_object());
    }
}

#[test]
fn ids_and_subresources_are_called_as_in_the_original() {
    let core = document("", "v1");
    for (path, method, id) in [
        ("/api/v1/pods", "get", "listCoreV1PodForAllNamespaces"),
        ("/api/v1/nodes", "delete", "deleteCoreV1CollectionNode"),
        ("/api/v1/namespaces/{namespace}/pods", "post", "createCoreV1NamespacedPod"),
        ("/api/v1/namespaces/{namespace}/pods/{name}/log", "get", "readCoreV1NamespacedPodLog"),
        ("/api/v1/namespaces/{namespace}/pods/{name}/eviction", "post", "createCoreV1NamespacedPodEviction"),
        ("/api/v1/namespaces/{name}/finalize", "put", "replaceCoreV1NamespaceFinalize"),
    ] {
        assert_eq!(core["paths"][path][method]["operationId"], id, "{path}");
    }
    let rbac = document("rbac.authorization.k8s.io", "v1");
    let roles = &rbac["paths"]["/apis/rbac.authorization.k8s.io/v1/clusterroles"]["get"];
    assert_eq!(roles["operationId"], "listRbacAuthorizationV1ClusterRole");
    assert_eq!(roles["tags"], json!(["rbacAuthorization_v1"]));
}

#[test]
fn options_for_deletion_have_the_names_of_their_group_too() {
    let apps = document("apps", "v1");
    let schemas = &apps["components"]["schemas"];
    assert_eq!(
        schemas["io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions"]["x-kubernetes-group-version-kind"],
        json!([
            {"group": "", "kind": "DeleteOptions", "version": "v1"},
            {"group": "apps", "kind": "DeleteOptions", "version": "v1"},
        ])
    );
}

#[test]
fn custom_kinds_are_published_with_their_schema_and_without_strategic_merge() {
    let schema = json!({"type": "object", "description": "A train", "properties": {"spec": {
        "type": "object",
        "properties": {"speed": {"type": "integer"}, "port": {"x-kubernetes-int-or-string": true}},
    }}});
    let kind = CustomKind { resource: trains(true), schema: Some(schema) };
    let made = openapi::custom_document("rail.example.com", "v1", &[kind]);
    assert_eq!(made.path, "apis/rail.example.com/v1");
    let document: Value = serde_json::from_slice(&made.body).unwrap();
    assert_whole(&document, "custom");
    let train = &document["components"]["schemas"]["com.example.rail.v1.Train"];
    assert_eq!(train["description"], "A train");
    assert_eq!(train["properties"]["apiVersion"], json!({"type": "string"}));
    assert_eq!(
        train["properties"]["spec"]["properties"]["port"],
        json!({"anyOf": [{"type": "integer"}, {"type": "string"}], "x-kubernetes-int-or-string": true})
    );
    assert_eq!(
        train["x-kubernetes-group-version-kind"],
        json!([{"group": "rail.example.com", "version": "v1", "kind": "Train"}])
    );
    let paths = &document["paths"];
    let patch = &paths["/apis/rail.example.com/v1/namespaces/{namespace}/trains/{name}"]["patch"];
    let types: Vec<_> = patch["requestBody"]["content"].as_object().unwrap().keys().collect();
    assert_eq!(
        types,
        ["application/apply-patch+yaml", "application/json-patch+json", "application/merge-patch+json"]
    );
    let scale = &paths["/apis/rail.example.com/v1/namespaces/{namespace}/trains/{name}/scale"]["get"];
    assert_eq!(scale["x-kubernetes-group-version-kind"]["group"], "autoscaling");
    let index: Value = serde_json::from_slice(&openapi::index([&made])).unwrap();
    assert_eq!(
        index["paths"]["apis/rail.example.com/v1"]["serverRelativeURL"],
        format!("/openapi/v3/apis/rail.example.com/v1?hash={}", made.hash)
    );
}

#[test]
fn objects_within_objects_have_the_fields_of_objects() {
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true});
    let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": embedded}}});
    let kind = CustomKind { resource: trains(true), schema: Some(schema) };
    let made = openapi::custom_document("rail.example.com", "v1", &[kind]);
    let document: Value = serde_json::from_slice(&made.body).unwrap();
    let train = &document["components"]["schemas"]["com.example.rail.v1.Train"];
    let item = &train["properties"]["list"]["items"];
    assert_eq!(item["required"], json!(["kind", "apiVersion"]));
    assert_eq!(item["properties"]["metadata"], train["properties"]["metadata"]);
}

#[test]
fn a_custom_kind_without_a_schema_is_still_an_object() {
    let kind = CustomKind { resource: trains(false), schema: None };
    let made = openapi::custom_document("rail.example.com", "v1", &[kind]);
    let document: Value = serde_json::from_slice(&made.body).unwrap();
    assert!(document["paths"]["/apis/rail.example.com/v1/trains/{name}"]["get"].is_object());
    let train = &document["components"]["schemas"]["com.example.rail.v1.Train"];
    assert_eq!(train["type"], "object");
    assert_eq!(train["properties"]["kind"], json!({"type": "string"}));
}
