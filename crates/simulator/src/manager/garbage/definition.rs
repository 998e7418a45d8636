//! Custom resource definitions, as far as the collector reads them.

use dogwatch_core::{Header, Meta, Object};
use serde::Deserialize;

/// A custom resource definition.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Definition {
    metadata: Meta,
    pub(super) spec: DefinitionSpec,
    status: DefinitionStatus,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct DefinitionSpec {
    pub(super) group: String,
    scope: String,
    names: Names,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct Names {
    kind: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct DefinitionStatus {
    accepted_names: Names,
    conditions: Option<Vec<DefinitionCondition>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct DefinitionCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
}

impl Object for Definition {
    fn header(&self) -> Header<'_> {
        self.metadata.header()
    }
}

impl Definition {
    /// Returns the kind of its objects, if it is established. Otherwise its names may be those of
    /// another definition.
    pub(super) fn kind(&self) -> Option<&str> {
        let is_established = |it: &DefinitionCondition| it.kind == "Established" && it.status == "True";
        let established = self.status.conditions.iter().flatten().any(is_established);
        Some(self.status.accepted_names.kind.as_str()).filter(|it| established && !it.is_empty())
    }

    /// Returns the kind that its objects have as soon as it is established.
    pub(super) fn wanted_kind(&self) -> &str {
        &self.spec.names.kind
    }

    /// Returns true if the server has reported that its objects are gone. Without that, they may
    /// have outlived it: a client can remove its finalizer, and kube-apiserver shows them again
    /// when it is created again.
    pub(super) fn is_emptied(&self) -> bool {
        // Not if it is not terminating any more, because another finalizer holds it: then objects
        // can be created again.
        let is_emptied = |it: &DefinitionCondition| {
            it.kind == "Terminating" && it.status == "True" && it.reason == "InstanceDeletionCompleted"
        };
        self.status.conditions.iter().flatten().any(is_emptied)
    }

    pub(super) fn is_namespaced(&self) -> bool {
        self.spec.scope == "Namespaced"
    }

    /// Returns the revision of its last state, if the server counts revisions.
    pub(super) fn revision(&self) -> Option<u64> {
        self.metadata.resource_version.as_str().parse().ok()
    }
}
