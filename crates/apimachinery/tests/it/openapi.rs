//! OpenAPI documents as kubectl and older clients read them: recorded parts, references,
//! descriptions, custom kinds.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dogwatch_apimachinery::builtin::{self, ResourceDef, SubresourceDef};
use dogwatch_apimachinery::discovery::digest;
use dogwatch_apimachinery::openapi::{self, CustomDocuments, CustomKind, OpenApiV2};
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

/// Collects every `$ref` inside `value`.
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

fn assert_references_resolve(document: &Value, name: &str) {
    let mut found = Vec::new();
    references(document, &mut found);
    assert!(!found.is_empty(), "{name}");
    for reference in found {
        assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{name}: {reference}");
    }
}

#[test]
fn index_and_document_match_the_recordings() {
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
    assert_eq!(openapi::builtin_hash("coordination.k8s.io", "v1"), Some(document.hash.as_str()));
    steps[1].check(&serde_json::from_slice(&document.body).unwrap());
}

#[test]
fn every_reference_of_a_document_resolves() {
    let versions: BTreeSet<_> = builtin::resources().iter().map(|it| (&it.group, &it.version)).collect();
    for (group, version) in versions {
        assert_references_resolve(&document(group, version), &format!("{group}/{version}"));
    }
    assert_eq!(openapi::builtin_document("nothing", "v1"), None);
}

#[test]
fn patch_operations_of_built_in_kinds_have_what_kubectl_needs() {
    let mut documents = BTreeMap::new();
    for it in builtin::resources().iter().filter(|it| it.has_verb("patch")) {
        let document = documents.entry(it.api_version()).or_insert_with(|| document(&it.group, &it.version));
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
fn operation_ids_match_kube_apiserver() {
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
fn delete_options_are_listed_for_their_group_too() {
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
    let kind = CustomKind { resource: trains(true), schema: Some(schema), selectable: Vec::new() };
    let made = CustomDocuments::new().document("rail.example.com", "v1", &[kind]);
    assert_eq!(made.path, "apis/rail.example.com/v1");
    let document: Value = serde_json::from_slice(&made.body).unwrap();
    assert_references_resolve(&document, "custom");
    let train = &document["components"]["schemas"]["com.example.rail.v1.Train"];
    assert_eq!(train["description"], "A train");
    let api_version = &train["properties"]["apiVersion"];
    assert_eq!(api_version["type"], "string");
    assert!(
        api_version["description"].as_str().unwrap().starts_with("APIVersion defines the versioned schema")
    );
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
    assert_eq!(scale["x-kubernetes-group-version-kind"]["kind"], "Train");
    assert_eq!(made.hash, digest(&made.body));
    let index: Value = serde_json::from_slice(&openapi::index([&made])).unwrap();
    assert_eq!(
        index["paths"]["apis/rail.example.com/v1"]["serverRelativeURL"],
        format!("/openapi/v3/apis/rail.example.com/v1?hash={}", made.hash)
    );
}

#[test]
fn embedded_resources_have_the_fields_of_objects() {
    let embedded = json!({"type": "object", "x-kubernetes-embedded-resource": true});
    let schema = json!({"type": "object", "properties": {"list": {"type": "array", "items": embedded}}});
    let kind = CustomKind { resource: trains(true), schema: Some(schema), selectable: Vec::new() };
    let made = CustomDocuments::new().document("rail.example.com", "v1", &[kind]);
    let document: Value = serde_json::from_slice(&made.body).unwrap();
    let train = &document["components"]["schemas"]["com.example.rail.v1.Train"];
    let item = &train["properties"]["list"]["items"];
    assert_eq!(item["required"], json!(["kind", "apiVersion"]));
    assert_eq!(item["properties"]["metadata"], train["properties"]["metadata"]);
}

#[test]
fn a_custom_kind_without_a_schema_is_an_object() {
    let kind = CustomKind { resource: trains(false), schema: None, selectable: Vec::new() };
    let made = CustomDocuments::new().document("rail.example.com", "v1", &[kind]);
    let document: Value = serde_json::from_slice(&made.body).unwrap();
    assert!(document["paths"]["/apis/rail.example.com/v1/trains/{name}"]["get"].is_object());
    let train = &document["components"]["schemas"]["com.example.rail.v1.Train"];
    assert_eq!(train["type"], "object");
    assert_eq!(train["properties"]["kind"]["type"], "string");
}

#[test]
fn definitions_have_descriptions() {
    let core = document("", "v1");
    let pod = &core["components"]["schemas"]["io.k8s.api.core.v1.Pod"];
    let description = pod["description"].as_str().unwrap();
    assert!(
        description.starts_with("Pod is a collection of containers that can run on a host."),
        "{description}"
    );
    let spec = pod["properties"]["spec"]["description"].as_str().unwrap();
    assert!(spec.starts_with("Specification of the desired behavior of the pod."), "{spec}");
    let read = &core["paths"]["/api/v1/namespaces/{namespace}/pods/{name}/status"]["get"];
    assert_eq!(read["description"], "read status of the specified Pod");
    assert_eq!(read["responses"]["200"]["description"], "OK");
}

fn swagger(kinds: &[CustomKind]) -> Value {
    serde_json::from_slice(&OpenApiV2::new(kinds).json()).unwrap()
}

#[test]
fn version_2_is_one_document_of_all_groups_whose_references_resolve() {
    let document = swagger(&[]);
    assert_references_resolve(&document, "swagger");
    assert_eq!(document["swagger"], "2.0");
    for it in builtin::resources() {
        let name = builtin::definition_name(&it.group, &it.version, &it.kind).unwrap();
        let kinds = document["definitions"][name]["x-kubernetes-group-version-kind"].as_array().unwrap();
        let own = json!({"group": it.group, "version": it.version, "kind": it.kind});
        assert!(kinds.contains(&own), "{name}");
    }
    let text = document.to_string();
    assert!(!text.contains("#/components") && !text.contains("oneOf\":[") && !text.contains("requestBody"));
}

#[test]
fn operations_of_version_2_declare_their_parameters_and_responses() {
    let document = swagger(&[]);
    let item = &document["paths"]["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"];
    let deployment = json!({"$ref": "#/definitions/io.k8s.api.apps.v1.Deployment"});
    assert_eq!(
        item["parameters"][1],
        json!({"name": "namespace", "in": "path", "required": true, "type": "string", "uniqueItems": true})
    );
    let put = &item["put"];
    assert_eq!(
        put["parameters"][0],
        json!({"name": "body", "in": "body", "required": true, "schema": deployment})
    );
    assert_eq!(
        (&put["consumes"], &put["produces"]),
        (
            &json!(["*/*"]),
            &json!(["application/json", "application/vnd.kubernetes.protobuf", "application/yaml"])
        )
    );
    assert_eq!(put["responses"]["201"], json!({"description": "Created", "schema": deployment}));
    assert_eq!(put["x-kubernetes-action"], "put");
    assert_eq!(
        put["x-kubernetes-group-version-kind"],
        json!({"group": "apps", "version": "v1", "kind": "Deployment"})
    );
    assert!(
        item["patch"]["consumes"]
            .as_array()
            .unwrap()
            .contains(&json!("application/strategic-merge-patch+json"))
    );
}

/// Returns the schema of a custom kind in version 2, without the fields that every object has.
fn simple(schema: Value) -> Value {
    let kind = CustomKind { resource: trains(true), schema: Some(schema), selectable: vec!["spec.a".into()] };
    let mut train = swagger(&[kind])["definitions"]["com.example.rail.v1.Train"].take();
    assert_eq!(train["x-kubernetes-selectable-fields"], json!([{"fieldPath": "spec.a"}]));
    let fields = train.as_object_mut().unwrap();
    fields.retain(|key, _| {
        !matches!(&**key, "x-kubernetes-group-version-kind" | "x-kubernetes-selectable-fields")
    });
    train
}

#[test]
fn version_2_omits_what_its_clients_would_misinterpret() {
    let spec = |fields: Value| json!({"type": "object", "properties": {"spec": fields}});
    for (schema, published) in [
        (json!({"type": "string", "default": "a", "enum": ["a"]}), json!({"type": "string", "enum": ["a"]})),
        (json!({"type": "object", "nullable": true, "properties": {"a": {}}}), json!({})),
        (
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            json!({"type": "array", "x-kubernetes-preserve-unknown-fields": true, "items": {"type": "object"}}),
            json!({"x-kubernetes-preserve-unknown-fields": true}),
        ),
        (
            json!({"x-kubernetes-int-or-string": true, "anyOf": [{"type": "integer"}, {"type": "string"}]}),
            json!({"x-kubernetes-int-or-string": true}),
        ),
        (
            json!({"type": "object", "required": ["a", "b"], "properties": {
                "a": {"type": "string", "nullable": true}, "b": {"type": "string"},
            }}),
            json!({"type": "object", "required": ["b"], "properties": {"a": {}, "b": {"type": "string"}}}),
        ),
        (
            json!({"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
            json!({"x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true}),
        ),
    ] {
        assert_eq!(simple(spec(schema))["properties"]["spec"], published);
    }
    let open =
        json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {"a": {}}});
    assert_eq!(simple(open), json!({"type": "object"}));
    let metadata = simple(spec(json!({})))["properties"]["metadata"].take();
    assert_eq!(metadata["$ref"], "#/definitions/io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta");
}

#[test]
fn the_protobuf_of_version_2_begins_with_its_version_and_title() {
    let message = OpenApiV2::new([]).protobuf();
    assert!(message.starts_with(b"\n\x032.0\x12\x12\n\nKubernetes\x12\x041.36"));
    let has = |text: &[u8]| message.windows(text.len()).any(|it| it == text);
    assert!(has(b"io.k8s.api.core.v1.Pod\x12") && has(b"/api/v1/pods\x12"));
}
