//! RuntimeClasses.

use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::core::pod::spec::tolerations;
use crate::kinds::json_access::text;
use crate::kinds::names;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::check::{FieldErrors, immutable, invalid_string, required};
use crate::kinds::validate::metadata::labels;

/// The rules of the kind RuntimeClass.
pub(crate) static RULES: KindRules = KindRules {
    group: "node.k8s.io",
    kind: "RuntimeClass",
    plural: "runtimeclasses",
    traits: KindTraits {
        allow_create_on_update: true,
        requires_version_on_update: true,
        ..KindTraits::COMMON
    },
    metadata_passes: MetadataPasses { labels: 4, fixed: 2, finalizers: 0 },
    finalizers_need_domain: false,
    validate_create: validate,
    validate_update: Some(|out, new, old| {
        validate(out, new);
        immutable(out, new, old, "/handler", "handler");
    }),
    cells: |object, now| {
        let handler = text(object, "/handler").into();
        vec![cells::name(object), handler, age::since_creation(object, now)]
    },
    ..COMMON
};

fn validate(out: &mut FieldErrors, object: &Value) {
    match text(object, "/handler") {
        "" => required(out, "handler", ""),
        handler => invalid_string(out, "handler", handler, names::label(handler)),
    }
    labels(out, object, "/scheduling/nodeSelector", "scheduling.nodeSelector");
    tolerations(out, &object["scheduling"], "scheduling");
}
