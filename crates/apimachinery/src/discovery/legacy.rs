//! Legacy discovery: one document for each group and each version.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::served::{Group, Served};
use crate::builtin::{ResourceDef, SubresourceDef};
use crate::kinds::index;

/// Returns the document of `/api`. `address` is the server's `host:port`.
pub fn api_versions(served: &Served, address: &str) -> Value {
    let groups = served.groups();
    let core = groups.iter().find(|it| it.name.is_empty());
    let versions: Vec<&str> = core.into_iter().flat_map(|it| it.versions.iter().map(|it| it.name)).collect();
    json!({
        "kind": "APIVersions",
        "versions": versions,
        "serverAddressByClientCIDRs": [{"clientCIDR": "0.0.0.0/0", "serverAddress": address}],
    })
}

/// Returns the document of `/apis`.
pub fn group_list(served: &Served) -> Value {
    let groups = served.groups();
    let groups: Vec<Value> = groups.iter().filter(|it| !it.name.is_empty()).map(versions_of).collect();
    json!({"kind": "APIGroupList", "apiVersion": "v1", "groups": groups})
}

/// Returns the document of `/apis/{group}`, if the group is served.
pub fn group(served: &Served, name: &str) -> Option<Value> {
    let groups = served.groups();
    let mut out = groups.iter().find(|it| !it.name.is_empty() && it.name == name).map(versions_of)?;
    out["kind"] = json!("APIGroup");
    out["apiVersion"] = json!("v1");
    Some(out)
}

/// Returns the document of `/api/{version}` (with an empty group) or `/apis/{group}/{version}`, if
/// it is served.
pub fn resource_list(served: &Served, group: &str, version: &str) -> Option<Value> {
    let mut resources = Vec::new();
    let matching = served.resources().iter().filter(|it| it.group == group && it.version == version);
    for it in matching {
        resources.push(resource(it));
        resources.extend(it.subresources.iter().map(|sub| subresource(it, sub)));
    }
    if resources.is_empty() {
        return None;
    }
    Some(if group.is_empty() {
        // kube-apiserver omits `apiVersion` for the core group, for compatibility with Kubernetes
        // 1.1 (`stripVersionEncoder` in k8s.io/apiserver v0.36.4 pkg/endpoints/discovery/util.go).
        json!({"kind": "APIResourceList", "groupVersion": version, "resources": resources})
    } else {
        json!({
            "kind": "APIResourceList",
            "apiVersion": "v1",
            "groupVersion": format!("{group}/{version}"),
            "resources": resources,
        })
    })
}

fn versions_of(group: &Group<'_>) -> Value {
    let version = |name: &str| json!({"groupVersion": format!("{}/{name}", group.name), "version": name});
    let versions: Vec<Value> = group.versions.iter().map(|it| version(it.name)).collect();
    json!({"name": group.name, "versions": versions, "preferredVersion": versions.first()})
}

fn resource(resource: &ResourceDef) -> Value {
    let mut out = json!({
        "name": resource.plural,
        "singularName": resource.singular,
        "namespaced": resource.namespaced,
        "kind": resource.kind,
        "verbs": resource.verbs,
    });
    if !resource.short_names.is_empty() {
        out["shortNames"] = json!(resource.short_names);
    }
    if !resource.categories.is_empty() {
        out["categories"] = json!(resource.categories);
    }
    let has = |verb: &str| resource.verbs.iter().any(|it| it == verb);
    if !resource.custom && has("create") && has("list") {
        out["storageVersionHash"] = json!(storage_version_hash(resource));
    }
    out
}

/// Returns a short digest of the version in which objects of a built-in kind are stored: mostly the
/// requested version, with a few exceptions. As `StorageVersionHash` in k8s.io/apiserver v0.36.4
/// pkg/endpoints/discovery/storageversionhash.go.
fn storage_version_hash(resource: &ResourceDef) -> String {
    let rules = index::of_resource(&resource.group, &resource.plural);
    let group = rules.conversion.map_or(resource.group.as_str(), |it| it.stored_group);
    let version = rules.storage_version.unwrap_or(&resource.version);
    let digest = Sha256::digest(format!("{group}/{version}/{}", resource.kind));
    STANDARD.encode(&digest[..8])
}

fn subresource(resource: &ResourceDef, subresource: &SubresourceDef) -> Value {
    let mut out = json!({
        "name": format!("{}/{}", resource.plural, subresource.name),
        "singularName": "",
        "namespaced": resource.namespaced,
        "kind": subresource.kind,
        "verbs": subresource.verbs,
    });
    if !subresource.version.is_empty() {
        out["group"] = json!(subresource.group);
        out["version"] = json!(subresource.version);
    }
    out
}
