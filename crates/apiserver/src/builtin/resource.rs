//! One resource as a server knows it: its names, its scope, its verbs and its subresources.
//!
//! Built-in ones are read from the table; custom ones are made by whoever serves definitions of them. Discovery and the
//! OpenAPI documents read both alike.

use std::borrow::Cow;
use std::sync::Arc;

use dogwatch_core::{Gvk, Gvr, ResourceType, Scope};
use serde::Deserialize;

/// A resource that is served in one version.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ResourceDef {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version inside the group.
    pub version: String,
    /// The kind of its objects.
    pub kind: String,
    /// The kind of its lists; empty means the kind and `List`.
    #[serde(default, rename = "listKind")]
    pub list_kind: String,
    /// The plural name used in paths.
    #[serde(rename = "resource")]
    pub plural: String,
    /// The singular name.
    pub singular: String,
    /// Short names, as people type them.
    #[serde(rename = "shortNames")]
    pub short_names: Vec<String>,
    /// Categories, such as `all`.
    pub categories: Vec<String>,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
    /// Verbs, in the order in which they are shown.
    pub verbs: Vec<String>,
    /// Subresources, in the order in which they are shown.
    pub subresources: Vec<SubresourceDef>,
    /// Whether this is the version of the group that clients should prefer.
    pub preferred: bool,
    /// Whether a custom resource definition made it.
    #[serde(default)]
    pub custom: bool,
}

/// A subresource.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct SubresourceDef {
    /// Its name, the last part of the path.
    pub name: String,
    /// The group of its kind; empty together with `version` where it is that of the resource.
    pub group: String,
    /// The version of its kind; empty where group and version are those of the resource.
    pub version: String,
    /// The kind of what it takes and gives.
    pub kind: String,
    /// Verbs, in the order in which they are shown.
    pub verbs: Vec<String>,
}

/// A column of a resource printed as a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Column {
    /// The heading.
    pub name: String,
    /// The OpenAPI type of the cells.
    pub kind: String,
    /// The OpenAPI format; `name` marks the column with the name of the object.
    pub format: String,
    /// 0 is always shown, others only in wide tables.
    pub priority: i32,
    /// What the cells say, in words.
    pub description: Arc<str>,
}

impl ResourceDef {
    /// The verbs of every custom resource, in the order in which the original shows them.
    pub const CUSTOM_VERBS: [&str; 8] =
        ["delete", "deletecollection", "get", "list", "patch", "create", "update", "watch"];

    /// The kind of its objects.
    pub fn gvk(&self) -> Gvk {
        Gvk::new(&self.group, &self.version, &self.kind)
    }

    /// What a path says.
    pub fn gvr(&self) -> Gvr {
        Gvr::new(&self.group, &self.version, &self.plural)
    }

    /// Group and version as `apiVersion` has them: `v1`, `apps/v1`.
    pub fn api_version(&self) -> Cow<'_, str> {
        if self.group.is_empty() {
            Cow::Borrowed(&self.version)
        } else {
            Cow::Owned(format!("{}/{}", self.group, self.version))
        }
    }

    /// The kind of its lists.
    pub fn list_kind(&self) -> Cow<'_, str> {
        if self.list_kind.is_empty() {
            Cow::Owned(format!("{}List", self.kind))
        } else {
            Cow::Borrowed(&self.list_kind)
        }
    }

    /// True if it is served with this verb.
    pub fn has_verb(&self, verb: &str) -> bool {
        self.verbs.iter().any(|it| it == verb)
    }

    /// The subresource of that name.
    pub fn subresource(&self, name: &str) -> Option<&SubresourceDef> {
        self.subresources.iter().find(|it| it.name == name)
    }

    /// Group, version and kind of what a subresource of this resource takes and gives.
    pub fn subresource_gvk(&self, subresource: &SubresourceDef) -> Gvk {
        if subresource.version.is_empty() {
            Gvk::new(&self.group, &self.version, &subresource.kind)
        } else {
            Gvk::new(&subresource.group, &subresource.version, &subresource.kind)
        }
    }

    /// The same resource as clients name it.
    pub fn resource_type(&self) -> ResourceType {
        let scope = if self.namespaced { Scope::Namespaced } else { Scope::Cluster };
        ResourceType { gvk: self.gvk(), plural: self.plural.as_str().into(), scope }
    }
}
