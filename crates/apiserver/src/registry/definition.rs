//! One stored definition of a custom kind, parsed and compiled.
//!
//! Parsing a definition is cheap, compiling its schemas is not. A new catalog reuses what has not
//! changed: the whole definition if its resource version is the same, and its compiled kinds if
//! only labels or conditions have changed.

use std::sync::Arc;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::kind::{Kind, custom_collection};
use crate::builtin::{ResourceDef, SubresourceDef};
use crate::custom::{CustomKind, Names, Scope, Version, names};
use crate::openapi;
use crate::store::{CollectionName, Encoded};

/// A stored CustomResourceDefinition.
#[derive(Debug)]
pub struct StoredDefinition {
    key: ObjectKey,
    uid: String,
    /// The resource version of the definition.
    version: u64,
    /// Incremented by each change of its `spec`.
    generation: Option<i64>,
    /// The API group of the kind.
    pub group: String,
    /// The collection that its objects are stored in.
    pub collection: CollectionName,
    /// The requested names (`spec.names`).
    pub requested: Names,
    /// The accepted names (`status.acceptedNames`).
    pub accepted: Names,
    established: bool,
    /// True if it was ever established: then its collection may hold objects, and another status
    /// must not discard them.
    begun: bool,
    terminating: bool,
    served: Arc<ServedKinds>,
}

/// The compiled kinds of a definition, one for each served version.
#[derive(Debug, Default)]
pub(super) struct ServedKinds {
    pub(super) kinds: Vec<Arc<Kind>>,
    /// The same kinds for the OpenAPI documents.
    pub(super) published: Vec<Arc<openapi::CustomKind>>,
}

impl StoredDefinition {
    /// Parses a stored definition. Reuses the kinds that `before` has compiled if they are still
    /// valid. The returned flag is true if anything was compiled.
    pub(super) fn read(stored: &Encoded, before: Option<&Self>) -> (Self, bool) {
        let definition = stored.to_value();
        let spec = &definition["spec"];
        let text = |it: &Value| it.as_str().unwrap_or_default().to_owned();
        let (group, requested) = (text(&spec["group"]), Names::read(&spec["names"]));
        let mut read = Self {
            key: stored.key().clone(),
            uid: stored.uid().to_owned(),
            version: stored.version(),
            generation: definition["metadata"]["generation"].as_i64(),
            collection: custom_collection(&group, &requested.plural),
            group,
            requested,
            accepted: Names::read(&definition["status"]["acceptedNames"]),
            established: names::is_true(&definition, "Established"),
            begun: false,
            terminating: names::is_true(&definition, "Terminating"),
            served: Arc::default(),
        };
        let begun = before.is_some_and(|it| it.begun && it.is_same_definition_as(&read));
        read.begun = read.established || begun;
        match before.filter(|it| it.compiles_to_the_same(&read)) {
            _ if !read.established => {}
            Some(before) => read.served = Arc::clone(&before.served),
            None => {
                read.served = Arc::new(ServedKinds::compile(&definition, read.generation));
                return (read, true);
            }
        }
        (read, false)
    }

    /// Returns true if `stored` is this definition at the same resource version.
    pub(super) fn is(&self, stored: &Encoded) -> bool {
        self.version == stored.version() && self.uid == stored.uid()
    }

    /// Returns true if both are states of one definition, as opposed to a deleted and re-created
    /// one of the same name.
    pub(super) fn is_same_definition_as(&self, other: &Self) -> bool {
        self.uid == other.uid
    }

    /// Returns the key of the definition.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Returns the resource version of the definition.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Returns true if its kind is served.
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Returns true if its kind is served, or was served before its status was changed.
    pub fn has_begun(&self) -> bool {
        self.begun
    }

    /// Returns true while the definition is being deleted. Its objects are deleted first.
    pub fn is_terminating(&self) -> bool {
        self.terminating
    }

    /// Returns the uid of the definition.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Returns true if it has all the names it requests, so that there is nothing left to decide.
    pub fn is_settled(&self) -> bool {
        self.established && self.requested == self.accepted
    }

    pub(super) fn served(&self) -> &ServedKinds {
        &self.served
    }

    /// Returns true if the compiled kinds of `self` are valid for `other`.
    ///
    /// Every change of `spec` increments the generation, and only the accepted names of the status
    /// matter.
    fn compiles_to_the_same(&self, other: &Self) -> bool {
        self.established
            && self.generation.is_some()
            && (&self.uid, self.generation, &self.accepted) == (&other.uid, other.generation, &other.accepted)
    }
}

impl ServedKinds {
    fn compile(definition: &Value, generation: Option<i64>) -> Self {
        let kind = Arc::new(CustomKind::read(definition));
        // Objects that are already stored may have been written under an older schema or in another
        // version.
        let evolved = generation != Some(1) || kind.versions.len() > 1;
        let mut compiled = Self::default();
        for (at, version) in kind.versions.iter().enumerate().filter(|(_, it)| it.served) {
            let def = Arc::new(resource_def(&kind, version));
            let schema = definition.pointer(&format!("/spec/versions/{at}/schema/openAPIV3Schema"));
            compiled.published.push(Arc::new(openapi::CustomKind {
                resource: Arc::clone(&def),
                schema: schema.cloned(),
                selectable: version.selectable.clone(),
            }));
            compiled.kinds.push(Arc::new(Kind::custom(def, &kind, at, evolved)));
        }
        compiled
    }
}

/// Returns the discovery entry of a version of a custom kind.
fn resource_def(kind: &CustomKind, version: &Version) -> ResourceDef {
    let part = |name: &str, group: &str, version: &str, kind: &str| SubresourceDef {
        name: name.to_owned(),
        group: group.to_owned(),
        version: version.to_owned(),
        kind: kind.to_owned(),
        verbs: ["get", "patch", "update"].map(str::to_owned).to_vec(),
    };
    let status = version.status.then(|| part("status", "", "", &kind.names.kind));
    let scale = version.scale.is_some().then(|| part("scale", "autoscaling", "v1", "Scale"));
    ResourceDef {
        group: kind.group.clone(),
        version: version.name.clone(),
        kind: kind.names.kind.clone(),
        list_kind: kind.names.list_kind.clone(),
        plural: kind.names.plural.clone(),
        singular: kind.names.singular.clone(),
        short_names: kind.names.short_names.clone(),
        categories: kind.names.categories.clone(),
        namespaced: matches!(kind.scope, Scope::Namespaced),
        verbs: ResourceDef::CUSTOM_VERBS.map(str::to_owned).to_vec(),
        subresources: status.into_iter().chain(scale).collect(),
        preferred: false,
        custom: true,
    }
}
