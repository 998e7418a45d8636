//! CSINodes.

use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{items, text};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::check::{FieldErrors, required};

/// The rules of the kind CSINode.
pub(crate) static RULES: KindRules = KindRules {
    group: "storage.k8s.io",
    kind: "CSINode",
    plural: "csinodes",
    traits: KindTraits {
        requires_version_on_update: true,
        returns_deleted_object: true,
        ..KindTraits::COMMON
    },
    metadata_passes: MetadataPasses { labels: 3, fixed: 1, finalizers: 1 },
    validate_create: node_drivers,
    cells: |object, now| {
        let drivers = items(object, "/spec/drivers").len().into();
        vec![cells::name(object), drivers, age::since_creation(object, now)]
    },
    ..COMMON
};

fn node_drivers(out: &mut FieldErrors, node: &Value) {
    for (index, driver) in items(node, "/spec/drivers").iter().enumerate() {
        for key in ["name", "nodeID"] {
            if text(driver, &format!("/{key}")).is_empty() {
                required(out, &format!("spec.drivers[{index}].{key}"), "");
            }
        }
    }
}
