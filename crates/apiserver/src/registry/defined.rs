//! One stored definition of a custom kind, read and compiled.
//!
//! Reading a definition is cheap, compiling its schemas is not. A catalog that follows another takes over what has
//! not changed: the definition as a whole when it is at the same version, and its compiled kinds when only labels or
//! conditions are others.

use std::sync::Arc;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::kind::{Kind, collection_name};
use crate::builtin::{ResourceDef, SubresourceDef};
use crate::custom::{CustomKind, Names, Scope, Version, names};
use crate::openapi;
use crate::store::{CollectionName, Encoded};

/// A definition as it is stored.
#[derive(Debug)]
pub struct Defined {
    key: ObjectKey,
    uid: String,
    /// The version of the definition as an object.
    version: u64,
    /// Counts the changes of its `spec`.
    generation: Option<i64>,
    /// The API group of the kind.
    pub group: String,
    /// Where its objects are stored.
    pub collection: CollectionName,
    /// The names that it asks for.
    pub requested: Names,
    /// The names that it has.
    pub accepted: Names,
    established: bool,
    terminating: bool,
    served: Arc<ServedKinds>,
}

/// The compiled kinds of a definition, one for each version that is served.
#[derive(Debug, Default)]
pub(super) struct ServedKinds {
    pub(super) kinds: Vec<Arc<Kind>>,
    /// The same for the OpenAPI documents.
    pub(super) published: Vec<Arc<openapi::CustomKind>>,
}

impl Defined {
    /// Reads a stored definition; takes over what `before` has compiled where that is still true. Returns whether
    /// anything had to be compiled too.
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
            collection: collection_name(&group, &requested.plural),
            group,
            requested,
            accepted: Names::read(&definition["status"]["acceptedNames"]),
            established: names::is_true(&definition, "Established"),
            terminating: names::is_true(&definition, "Terminating"),
            served: Arc::default(),
        };
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

    /// Whether this is the definition in that very state.
    pub(super) fn is(&self, stored: &Encoded) -> bool {
        self.version == stored.version() && self.uid == stored.uid()
    }

    /// Whether its objects are those of that definition: not of one that had the same name before.
    pub(super) fn is_successor_of(&self, other: &Self) -> bool {
        self.uid == other.uid
    }

    /// The key of the definition.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// The version of the definition as an object.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// Whether its kind is served.
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Whether it is being deleted, and its objects before it.
    pub fn is_terminating(&self) -> bool {
        self.terminating
    }

    /// The uid of the definition.
    pub fn uid(&self) -> &str {
        &self.uid
    }

    /// Whether it has all names that it asks for, so that there is nothing left to decide.
    pub fn is_settled(&self) -> bool {
        self.established && self.requested == self.accepted
    }

    pub(super) fn served(&self) -> &ServedKinds {
        &self.served
    }

    /// Every change of `spec` has a generation of its own, and of the status only the names matter.
    fn compiles_to_the_same(&self, other: &Self) -> bool {
        self.established
            && self.generation.is_some()
            && (&self.uid, self.generation, &self.accepted) == (&other.uid, other.generation, &other.accepted)
    }
}

impl ServedKinds {
    fn compile(definition: &Value, generation: Option<i64>) -> Self {
        let kind = Arc::new(CustomKind::read(definition));
        // A definition that was changed may have let other objects in before.
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

/// A version of a custom kind as discovery shows it.
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
