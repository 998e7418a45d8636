//! Aggregated discovery: all groups and resources in two documents (rule DI-1).
//!
//! The content type of the response shows whether a server supports the format; the body does not
//! decide.

use dogwatch_core::{Gvk, ResourceType, Scope, null_as_default};
use serde::Deserialize;

use super::document::singular_or_guess;
use super::model::{ApiGroup, ApiVersion, FailureReason, GroupFailure, ServedResource, ServedSubresource};

/// The `Accept` header. Servers compare the parameters in this order: g, v, as.
pub(crate) const ACCEPT: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// Like [`ACCEPT`], but without resources that only peers of another version serve (since 1.35).
pub(crate) const ACCEPT_NO_PEER: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer,\
     application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// A document: the groups of `/api` or of `/apis`, with all their resources.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct GroupDiscoveryList {
    #[serde(deserialize_with = "null_as_default")]
    items: Vec<Group>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Group {
    #[serde(deserialize_with = "null_as_default")]
    metadata: Name,
    #[serde(deserialize_with = "null_as_default")]
    versions: Vec<Version>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Name {
    name: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Version {
    version: String,
    #[serde(deserialize_with = "null_as_default")]
    resources: Vec<Resource>,
    freshness: String,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Resource {
    resource: String,
    #[serde(deserialize_with = "null_as_default")]
    response_kind: Kind,
    scope: String,
    singular_resource: String,
    #[serde(deserialize_with = "null_as_default")]
    verbs: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    short_names: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    categories: Vec<String>,
    #[serde(deserialize_with = "null_as_default")]
    subresources: Vec<Subresource>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Subresource {
    subresource: String,
    #[serde(deserialize_with = "null_as_default")]
    response_kind: Kind,
    #[serde(deserialize_with = "null_as_default")]
    verbs: Vec<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Kind {
    group: String,
    version: String,
    kind: String,
}

/// Returns true if a content type is the aggregated format: with parameters in any order, and with
/// any that a proxy may have added.
pub(crate) fn is_aggregated(content_type: &str) -> bool {
    let mut parts = content_type.split(';').map(str::trim);
    let is_json = parts.next().is_some_and(|it| it.eq_ignore_ascii_case("application/json"));
    let parameters: Vec<_> = parts
        .filter_map(|it| it.split_once('='))
        .map(|(key, value)| (key.trim().to_ascii_lowercase(), value.trim().trim_matches('"')))
        .collect();
    let says = |key: &str, value| parameters.iter().any(|it| it.0 == key && it.1 == value);
    is_json && says("g", "apidiscovery.k8s.io") && says("v", "v2") && says("as", "APIGroupDiscoveryList")
}

impl GroupDiscoveryList {
    /// Returns the groups, and the versions that the server reports as stale.
    pub(crate) fn into_groups(self) -> (Vec<ApiGroup>, Vec<GroupFailure>) {
        let mut failures = Vec::new();
        let groups = self.items.into_iter().map(|it| it.into_group(&mut failures)).collect();
        (groups, failures)
    }
}

impl Group {
    fn into_group(self, failures: &mut Vec<GroupFailure>) -> ApiGroup {
        let name = self.metadata.name;
        let (stale, current): (Vec<_>, Vec<_>) =
            self.versions.into_iter().partition(|it| it.freshness == "Stale");
        failures
            .extend(stale.into_iter().map(|it| GroupFailure::new(&name, &it.version, FailureReason::Stale)));
        let versions = current.into_iter().map(|it| it.into_version(&name)).collect();
        ApiGroup { name, versions }
    }
}

impl Version {
    fn into_version(self, group: &str) -> ApiVersion {
        let mut result = ApiVersion::unknown(&self.version);
        for resource in self.resources {
            let has_kind = !resource.response_kind.kind.is_empty();
            let resource = resource.into_resource(group, &self.version);
            // Without a kind there is nothing to decode into, but its subresources may have one.
            match has_kind {
                true => result.resources.push(resource),
                false if !resource.subresources.is_empty() => result.orphans.push(resource),
                false => {}
            }
        }
        result
    }
}

impl Resource {
    fn into_resource(self, group: &str, version: &str) -> ServedResource {
        let known = |it: &Subresource| !it.response_kind.kind.is_empty() && !it.subresource.is_empty();
        let subresources = self.subresources.into_iter().filter(known).map(|it| ServedSubresource {
            gvk: it.response_kind.within(group, version),
            name: it.subresource,
            verbs: it.verbs,
        });
        // A resource is addressed by the version that lists it, whatever its kind is.
        let gvk = Gvk::new(group, version, &self.response_kind.kind);
        let scope = if self.scope == "Namespaced" { Scope::Namespaced } else { Scope::Cluster };
        ServedResource {
            resource: ResourceType { gvk, plural: self.resource.as_str().into(), scope },
            singular: singular_or_guess(self.singular_resource, &self.response_kind.kind),
            short_names: self.short_names,
            categories: self.categories,
            verbs: self.verbs,
            subresources: subresources.collect(),
        }
    }
}

impl Kind {
    /// Returns the kind; without group and version it belongs to the version that lists it.
    fn within(&self, group: &str, version: &str) -> Gvk {
        match (self.group.as_str(), self.version.as_str()) {
            ("", "") => Gvk::new(group, version, &self.kind),
            (own, "") => Gvk::new(own, version, &self.kind),
            (own, own_version) => Gvk::new(own, own_version, &self.kind),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn split(document: &str) -> (Vec<ApiGroup>, Vec<GroupFailure>) {
        serde_json::from_str::<GroupDiscoveryList>(document).expect("a document").into_groups()
    }

    #[test]
    fn di_1_discovery_content_type_version() {
        for (content_type, expected) in [
            ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", true),
            ("application/json; g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", true),
            ("application/json; as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io", true),
            ("application/json; as=APIGroupDiscoveryList;v=v2;g=apidiscovery.k8s.io;charset=utf-8", true),
            ("application/json;charset=utf-8; as=APIGroupDiscoveryList;v=\"v2\";G=apidiscovery.k8s.io", true),
            ("Application/JSON;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList;profile=nopeer", true),
            ("application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList", false),
            ("application/json;g=other;v=v2;as=APIGroupDiscoveryList", false),
            ("application/json", false),
            ("application/json; charset=UTF-8", false),
            ("text/html;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", false),
            ("no content type", false),
            ("", false),
        ] {
            assert_eq!(is_aggregated(content_type), expected, "{content_type:?}");
        }
    }

    #[test]
    fn di_1_the_accept_header_names_the_parameters_in_the_servers_order() {
        let first = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        assert!(ACCEPT.starts_with(&format!("{first},")) && ACCEPT.ends_with(",application/json"));
        assert_eq!(ACCEPT_NO_PEER, format!("{first};profile=nopeer,{ACCEPT}"));
    }

    #[test]
    fn di_1_split_groups_and_resources() {
        let (groups, failures) = split(
            r#"{"items":[{"metadata":{"name":"apps"},"versions":[{"version":"v1","freshness":"Current","resources":[
                {"resource":"deployments","responseKind":{"group":"","version":"","kind":"Deployment"},"scope":"Namespaced",
                 "singularResource":"deployment","verbs":["get","list"],"shortNames":["deploy"],"categories":["all"],
                 "subresources":[{"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"},"verbs":["get"]},
                                 {"subresource":"status","responseKind":{"group":"","version":"","kind":"Deployment"},"verbs":["get"]},
                                 {"subresource":"nokind","verbs":["get"]}]}]}]}]}"#,
        );
        assert!(failures.is_empty());
        let deployments = &groups[0].versions[0].resources[0];
        assert_eq!(deployments.resource.gvr().to_string(), "deployments.v1.apps");
        assert_eq!(deployments.resource.gvk.to_string(), "Deployment.v1.apps");
        assert_eq!((deployments.singular.as_str(), deployments.is_namespaced()), ("deployment", true));
        let parts: Vec<_> =
            deployments.subresources.iter().map(|it| (it.name.as_str(), it.gvk.to_string())).collect();
        assert_eq!(
            parts,
            [("scale", "Scale.v1.autoscaling".to_owned()), ("status", "Deployment.v1.apps".to_owned())]
        );
    }

    #[test]
    fn di_1_stale_versions_are_failures_and_never_preferred() {
        let (groups, failures) = split(
            r#"{"items":[{"metadata":{"name":"m"},"versions":[
                {"version":"v2","freshness":"Stale","resources":[]},{"version":"v1","freshness":"Current","resources":[]}]},
                {"metadata":{"name":"all-stale"},"versions":[{"version":"v1","freshness":"Stale"}]}]}"#,
        );
        assert_eq!(groups[0].preferred().map(|it| it.version.as_str()), Some("v1"));
        assert!(groups[1].preferred().is_none());
        let failed: Vec<_> = failures.iter().map(GroupFailure::group_version).collect();
        assert_eq!(failed, ["m/v2", "all-stale/v1"]);
        assert!(failures.iter().all(|it| matches!(it.reason, FailureReason::Stale)));
        assert!(!failures[0].reason.is_transient());
    }

    #[test]
    fn di_1_a_resource_without_a_kind_is_kept_for_its_subresources_only() {
        let (groups, _) = split(
            r#"{"items":[{"metadata":{},"versions":[{"version":"v1","resources":[
                {"resource":"things","scope":"Namespaced","subresources":[{"subresource":"scale","responseKind":{"group":"autoscaling","version":"v1","kind":"Scale"}}]},
                {"resource":"nothing","responseKind":{},"subresources":null}]}]}]}"#,
        );
        let version = &groups[0].versions[0];
        assert!(version.resources.is_empty());
        assert_eq!(version.orphans.len(), 1);
        assert_eq!(version.orphans[0].subresources[0].name, "scale");
    }

    #[test]
    fn di_1_missing_and_null_lists_are_empty() {
        assert!(split("{}").0.is_empty());
        assert!(split(r#"{"items":null}"#).0.is_empty());
        assert!(split(r#"{"items":[{"metadata":{"name":"a"},"versions":null}]}"#).0[0].versions.is_empty());
    }
}
