//! Aggregated discovery, v2: all groups, versions, resources and subresources in one document per
//! root.

use serde_json::{Value, json};

use super::served::{Group, Served, Version};
use crate::builtin::{ResourceDef, SubresourceDef};

/// The content type of these documents, in requests and responses.
pub const AGGREGATED_TYPE: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// The content type of the documents in protobuf.
pub const AGGREGATED_PROTOBUF_TYPE: &str =
    "application/vnd.kubernetes.protobuf;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// Returns the document of `/api`.
pub fn aggregated_core(served: &Served) -> Value {
    document(served, |group| group.is_empty())
}

/// Returns the document of `/apis`.
pub fn aggregated_groups(served: &Served) -> Value {
    document(served, |group| !group.is_empty())
}

fn document(served: &Served, wanted: impl Fn(&str) -> bool) -> Value {
    let groups = served.groups();
    let items: Vec<Value> = groups.iter().filter(|it| wanted(it.name)).map(group).collect();
    json!({
        "kind": "APIGroupDiscoveryList",
        "apiVersion": "apidiscovery.k8s.io/v2",
        "metadata": {},
        "items": items,
    })
}

fn group(group: &Group<'_>) -> Value {
    let metadata = if group.name.is_empty() { json!({}) } else { json!({"name": group.name}) };
    json!({"metadata": metadata, "versions": group.versions.iter().map(version).collect::<Vec<_>>()})
}

fn version(version: &Version<'_>) -> Value {
    let resources: Vec<Value> = version.resources.iter().map(|it| resource(it)).collect();
    json!({"version": version.name, "resources": resources, "freshness": "Current"})
}

fn resource(resource: &ResourceDef) -> Value {
    let mut out = json!({
        "resource": resource.plural,
        "responseKind": response_kind(resource, "", "", &resource.kind),
        "scope": if resource.namespaced { "Namespaced" } else { "Cluster" },
        "singularResource": resource.singular,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        out["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        out["categories"] = json!(resource.categories);
    }
    if !resource.subresources.is_empty() {
        let subresources = resource.subresources.iter().map(|it| subresource(resource, it));
        out["subresources"] = subresources.collect();
    }
    out
}

fn subresource(resource: &ResourceDef, subresource: &SubresourceDef) -> Value {
    json!({
        "subresource": subresource.name,
        "responseKind": response_kind(resource, &subresource.group, &subresource.version, &subresource.kind),
        "verbs": subresource.verbs,
    })
}

/// Returns a response kind. Built-in resources leave their own group and version empty; custom
/// resources state them.
fn response_kind(resource: &ResourceDef, group: &str, version: &str, kind: &str) -> Value {
    if version.is_empty() && resource.custom {
        return json!({"group": resource.group, "version": resource.version, "kind": kind});
    }
    json!({"group": group, "version": version, "kind": kind})
}
