//! ResourceSlices.

use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::fields::{Field, SelectableFields};
use crate::kinds::json_access::text;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, StatusMetadata};

/// The rules of the kind ResourceSlice.
pub(crate) static RULES: KindRules = KindRules {
    group: "resource.k8s.io",
    kind: "ResourceSlice",
    plural: "resourceslices",
    traits: KindTraits {
        returns_deleted_object: true,
        has_generation: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    fields: SelectableFields {
        unknown: |label| {
            format!("field label not supported for resource.k8s.io/v1, Kind=ResourceSlice: {label}")
        },
        ..SelectableFields::of(&[
            Field::text("spec.nodeName", "/spec/nodeName"),
            Field::text("spec.driver", "/spec/driver"),
        ])
    },
    cells: |object, now| {
        let plain = |pointer: &str| Value::from(text(object, pointer));
        let (node, driver, pool) = (plain("/spec/nodeName"), plain("/spec/driver"), plain("/spec/pool/name"));
        vec![cells::name(object), node, driver, pool, age::since_creation(object, now)]
    },
    ..COMMON
};
