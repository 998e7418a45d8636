//! The documents of unaggregated discovery, to read from a server and to write to a directory.
//!
//! Servers written in Go encode an empty list as `null`, so every list here accepts that.

use dogwatch_core::{Gvk, ResourceType, Scope, null_as_default};
use serde::{Deserialize, Serialize};

use super::model::{ApiGroup, ApiVersion, ServedResource, ServedSubresource};

/// The document of `/api`: the versions of the core group.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ApiVersions {
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) versions: Vec<String>,
}

/// The document of `/apis`: the other groups.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct GroupList {
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) api_version: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) groups: Vec<Group>,
}

#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Group {
    #[serde(default)]
    pub(crate) name: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) versions: Vec<VersionName>,
    #[serde(default)]
    pub(crate) preferred_version: Option<VersionName>,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct VersionName {
    pub(crate) group_version: String,
    pub(crate) version: String,
}

/// The document of `/apis/{group}/{version}`: the resources of one version, and their subresources,
/// such as `pods/status`.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ResourceList {
    #[serde(default)]
    pub(crate) kind: String,
    #[serde(default)]
    pub(crate) api_version: String,
    #[serde(default)]
    pub(crate) group_version: String,
    #[serde(default, deserialize_with = "null_as_default")]
    pub(crate) resources: Vec<ResourceEntry>,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(rename_all = "camelCase", default)]
pub(crate) struct ResourceEntry {
    pub(crate) name: String,
    pub(crate) singular_name: String,
    pub(crate) namespaced: bool,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) group: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) version: String,
    pub(crate) kind: String,
    #[serde(deserialize_with = "null_as_default")]
    pub(crate) verbs: Vec<String>,
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) short_names: Vec<String>,
    #[serde(deserialize_with = "null_as_default", skip_serializing_if = "Vec::is_empty")]
    pub(crate) categories: Vec<String>,
}

impl ApiVersions {
    /// Returns the core group, unless the server has no version of it.
    pub(crate) fn into_group(self) -> Option<ApiGroup> {
        let versions: Vec<_> = self.versions.iter().map(|it| ApiVersion::unknown(it)).collect();
        (!versions.is_empty()).then(|| ApiGroup { name: String::new(), versions })
    }
}

impl GroupList {
    /// Creates the document for groups.
    pub(crate) fn of(groups: &[ApiGroup]) -> Self {
        let groups = groups.iter().map(|group| {
            let name = |it: &ApiVersion| VersionName {
                group_version: group.group_version(it),
                version: it.version.clone(),
            };
            let versions: Vec<_> = group.versions.iter().map(name).collect();
            let preferred_version = versions.first().cloned();
            Group { name: group.name.clone(), versions, preferred_version }
        });
        Self { kind: "APIGroupList".into(), api_version: "v1".into(), groups: groups.collect() }
    }

    /// Returns the groups, each with its preferred version first and without resources.
    pub(crate) fn into_groups(self) -> Vec<ApiGroup> {
        self.groups.into_iter().map(Group::into_group).collect()
    }
}

impl Group {
    fn into_group(self) -> ApiGroup {
        let mut names: Vec<_> = self.versions.into_iter().map(|it| it.version).collect();
        let preferred = self.preferred_version.unwrap_or_default().version;
        if let Some(at) = names.iter().position(|it| *it == preferred) {
            names[..=at].rotate_right(1);
        }
        let versions = names.iter().map(|it| ApiVersion::unknown(it)).collect();
        ApiGroup { name: self.name, versions }
    }
}

impl ResourceList {
    /// Creates the document for the resources of one version.
    pub(crate) fn of(group: &ApiGroup, version: &ApiVersion) -> Self {
        let mut resources = Vec::new();
        for served in &version.resources {
            resources.push(ResourceEntry::of(served));
            resources.extend(served.subresources.iter().map(|it| ResourceEntry::of_subresource(served, it)));
        }
        for orphan in &version.orphans {
            resources.extend(orphan.subresources.iter().map(|it| ResourceEntry::of_subresource(orphan, it)));
        }
        Self {
            kind: "APIResourceList".into(),
            api_version: "v1".into(),
            group_version: group.group_version(version),
            resources,
        }
    }

    /// Converts to a version, with subresources assigned to their resources.
    pub(crate) fn into_version(self, group: &str, version: &str) -> ApiVersion {
        let mut result = ApiVersion::unknown(version);
        let (parts, wholes): (Vec<_>, Vec<_>) =
            self.resources.into_iter().partition(|it| it.name.contains('/'));
        let known = |it: &ResourceEntry| !it.name.is_empty() && !it.kind.is_empty();
        result.resources =
            wholes.into_iter().filter(known).map(|it| it.into_resource(group, version)).collect();
        for part in parts {
            let Some((parent, name)) = part.name.split_once('/') else { continue };
            let (parent, name) = (parent.to_owned(), name.to_owned());
            let gvk = part.kind_within(group, version);
            let subresource = ServedSubresource { name, gvk, verbs: part.verbs.clone() };
            let home = result
                .resources
                .iter()
                .position(|it| it.resource.plural == parent.as_str())
                .map(|at| &mut result.resources[at]);
            match home {
                Some(home) => home.subresources.push(subresource),
                None => adopt(&mut result.orphans, part, &parent, group, version).push(subresource),
            }
        }
        result
    }
}

/// Returns the subresources of an orphan, which is added if necessary.
fn adopt<'a>(
    orphans: &'a mut Vec<ServedResource>,
    part: ResourceEntry,
    parent: &str,
    group: &str,
    version: &str,
) -> &'a mut Vec<ServedSubresource> {
    let at = orphans.iter().position(|it| it.resource.plural == parent).unwrap_or_else(|| {
        let entry = ResourceEntry { name: parent.to_owned(), kind: String::new(), verbs: Vec::new(), ..part };
        orphans.push(entry.into_resource(group, version));
        orphans.len() - 1
    });
    &mut orphans[at].subresources
}

impl ResourceEntry {
    fn of(served: &ServedResource) -> Self {
        Self {
            name: served.resource.plural.to_string(),
            singular_name: served.singular.clone(),
            namespaced: served.is_namespaced(),
            kind: served.resource.gvk.kind.to_string(),
            verbs: served.verbs.clone(),
            short_names: served.short_names.clone(),
            categories: served.categories.clone(),
            ..Self::default()
        }
    }

    fn of_subresource(parent: &ServedResource, it: &ServedSubresource) -> Self {
        let own = &parent.resource.gvk;
        let foreign = it.gvk.group != own.group || it.gvk.version != own.version;
        Self {
            name: format!("{}/{}", parent.resource.plural, it.name),
            singular_name: parent.singular.clone(),
            namespaced: parent.is_namespaced(),
            group: if foreign { it.gvk.group.to_string() } else { String::new() },
            version: if foreign { it.gvk.version.to_string() } else { String::new() },
            kind: it.gvk.kind.to_string(),
            verbs: it.verbs.clone(),
            ..Self::default()
        }
    }

    /// Returns the kind; a missing group or version is that of the list.
    fn kind_within(&self, group: &str, version: &str) -> Gvk {
        let group = if self.group.is_empty() { group } else { &self.group };
        let version = if self.version.is_empty() { version } else { &self.version };
        Gvk::new(group, version, &self.kind)
    }

    fn into_resource(self, group: &str, version: &str) -> ServedResource {
        let gvk = Gvk::new(group, version, &self.kind);
        let scope = if self.namespaced { Scope::Namespaced } else { Scope::Cluster };
        let singular = singular_or_guess(self.singular_name, &self.kind);
        ServedResource {
            resource: ResourceType { gvk, plural: self.name.as_str().into(), scope },
            singular,
            short_names: self.short_names,
            categories: self.categories,
            verbs: self.verbs,
            subresources: Vec::new(),
        }
    }
}

/// Returns the singular; servers before 1.27 do not send it, and it is the kind in lower case.
pub(crate) fn singular_or_guess(singular: String, kind: &str) -> String {
    if singular.is_empty() { kind.to_lowercase() } else { singular }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(document: &str) -> ApiVersion {
        let list: ResourceList = serde_json::from_str(document).expect("a list");
        list.into_version("apps", "v1")
    }

    #[test]
    fn di_2_subresources_are_assigned_to_their_resources_in_any_order() {
        let found = version(
            r#"{"resources":[
            {"name":"deployments/scale","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get"]},
            {"name":"deployments","singularName":"","namespaced":true,"kind":"Deployment","verbs":null,"shortNames":["deploy"]},
            {"name":"deployments/status","namespaced":true,"kind":"Deployment","verbs":["get"]}]}"#,
        );
        let [deployments] = found.resources.as_slice() else { panic!("{found:?}") };
        assert_eq!(deployments.singular, "deployment", "guessed");
        let kinds: Vec<_> = deployments.subresources.iter().map(|it| it.gvk.to_string()).collect();
        assert_eq!(kinds, ["Scale.v1.autoscaling", "Deployment.v1.apps"]);
        assert!(found.orphans.is_empty());
    }

    #[test]
    fn di_2_subresources_without_a_resource_are_kept_apart() {
        let found = version(r#"{"resources":[{"name":"gone/scale","namespaced":true,"kind":"Scale"}]}"#);
        assert!(found.resources.is_empty() && !found.is_empty());
        assert_eq!(found.orphans[0].resource.plural, "gone");
        assert_eq!(found.orphans[0].subresources[0].name, "scale");
    }

    #[test]
    fn di_2_null_lists_are_empty() {
        let groups: GroupList =
            serde_json::from_str(r#"{"groups":[{"name":"a","versions":null}]}"#).expect("a list");
        assert!(groups.into_groups()[0].versions.is_empty());
        assert!(version(r#"{"resources":null}"#).is_empty());
        let core: ApiVersions = serde_json::from_str(r#"{"versions":null}"#).expect("versions");
        assert!(core.into_group().is_none());
    }

    #[test]
    fn di_2_the_preferred_version_comes_first_and_the_others_keep_their_order() {
        for (preferred, expected) in
            [("v1", ["v1", "v2", "v3"]), ("v3", ["v3", "v1", "v2"]), ("none", ["v1", "v2", "v3"])]
        {
            let name = |it: &str| VersionName { group_version: format!("g/{it}"), version: it.to_owned() };
            let group = Group {
                name: "g".to_owned(),
                versions: ["v1", "v2", "v3"].map(name).to_vec(),
                preferred_version: Some(name(preferred)),
            };
            let versions: Vec<_> = group.into_group().versions.into_iter().map(|it| it.version).collect();
            assert_eq!(versions, expected, "{preferred}");
        }
    }

    #[test]
    fn di_4_written_documents_read_back_the_same() {
        let read = version(
            r#"{"resources":[
            {"name":"deployments","singularName":"deployment","namespaced":true,"kind":"Deployment","verbs":["get"],"shortNames":["deploy"],"categories":["all"]},
            {"name":"deployments/scale","namespaced":true,"group":"autoscaling","version":"v1","kind":"Scale","verbs":["get"]},
            {"name":"gone/status","singularName":"go","kind":"Gone","verbs":["get"]}]}"#,
        );
        let group = ApiGroup { name: "apps".to_owned(), versions: vec![read.clone()] };
        let written = serde_json::to_string(&ResourceList::of(&group, &read)).expect("JSON");
        assert_eq!(version(&written), read);
        let written = serde_json::to_string(&GroupList::of(&[group])).expect("JSON");
        assert_eq!(
            written,
            r#"{"kind":"APIGroupList","apiVersion":"v1","groups":[{"name":"apps","versions":[{"groupVersion":"apps/v1","version":"v1"}],"preferredVersion":{"groupVersion":"apps/v1","version":"v1"}}]}"#
        );
    }
}
