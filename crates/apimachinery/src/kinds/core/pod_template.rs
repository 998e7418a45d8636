//! PodTemplates.

use jiff::Timestamp;
use serde_json::Value;

use super::pod::defaults;
use super::pod::template::template;
use crate::kinds::cells;
use crate::kinds::json_access::object;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};

/// The rules of the kind PodTemplate.
pub(crate) static RULES: KindRules = KindRules {
    group: "",
    kind: "PodTemplate",
    plural: "podtemplates",
    traits: KindTraits { returns_deleted_object: true, has_generation: true, ..KindTraits::COMMON },
    metadata_passes: MetadataPasses { labels: 3, fixed: 2, finalizers: 1 },
    default: |_, map| defaults::template(object(map, "template")),
    validate_create: |out, object| template(out, &object["template"], "template"),
    pod_spec: Some("/template/spec"),
    cells,
    ..COMMON
};

fn cells(object: &Value, _: Timestamp) -> Vec<Value> {
    let [names, images] = cells::containers(object, "/template/spec");
    vec![cells::name(object), names, images, cells::labels(object, "/template/metadata/labels").into()]
}
