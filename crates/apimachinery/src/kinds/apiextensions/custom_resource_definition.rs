//! CustomResourceDefinitions. The kinds that they define are implemented by [`crate::custom`].

use serde_json::json;

use crate::kinds::cells;
use crate::kinds::json_access::text;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, StatusMetadata};

/// The rules of the kind CustomResourceDefinition.
pub static RULES: KindRules = KindRules {
    group: "apiextensions.k8s.io",
    kind: "CustomResourceDefinition",
    plural: "customresourcedefinitions",
    traits: KindTraits {
        requires_version_on_update: true,
        has_generation: true,
        has_status: true,
        // The call that should keep the metadata copies the new metadata over itself
        // (`statusStrategy.PrepareForUpdate` in k8s.io/apiextensions-apiserver v0.36.4
        // pkg/registry/customresourcedefinition/strategy.go).
        status_metadata: StatusMetadata::All,
        ..KindTraits::COMMON
    },
    finalizers_need_domain: false,
    blank: Some(|| {
        json!({ "metadata": {}, "spec": { "group": "", "names": { "plural": "", "kind": "" }, "scope": "", "versions": null },
            "status": { "conditions": null, "acceptedNames": { "plural": "", "kind": "" }, "storedVersions": null } })
    }),
    cells: |object, _| vec![cells::name(object), text(object, "/metadata/creationTimestamp").into()],
    storage_version: Some("v1beta1"),
    ..COMMON
};
