//! ReplicationControllers.

use jiff::Timestamp;
use serde_json::{Value, json};

use super::pod::defaults;
use super::pod::template::{self, UNMATCHED, restart_policy_always};
use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::fields::{Field, SelectableFields};
use crate::kinds::json_access::{Object, at, fill, number, object, object_if_present};
use crate::kinds::rules::{Accounting, COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::check::{FieldErrors, invalid, not_negative, required};
use crate::kinds::validate::selector;
use crate::kinds::validate::status::counts;

/// The rules of the kind ReplicationController.
pub(crate) static RULES: KindRules = KindRules {
    group: "",
    kind: "ReplicationController",
    plural: "replicationcontrollers",
    traits: KindTraits {
        has_generation: true,
        orphans_by_default: true,
        has_status: true,
        ..KindTraits::COMMON
    },
    metadata_passes: MetadataPasses { labels: 3, fixed: 2, finalizers: 1 },
    default: defaults,
    prepare_status: |controller, _| {
        controller.as_object_mut().into_iter().for_each(defaults::default_labels);
    },
    validate_create: |out, object| replication_controller(out, &object["spec"]),
    validate_status: |out, object, _| {
        counts(
            out,
            object,
            &["replicas", "fullyLabeledReplicas", "readyReplicas", "availableReplicas", "observedGeneration"],
            &["fullyLabeledReplicas", "readyReplicas", "availableReplicas"],
        )
    },
    pod_spec: Some("/spec/template/spec"),
    fields: SelectableFields::of(&[Field::number("status.replicas", "/status/replicas")]),
    cells,
    accounting: Accounting::CountedByName,
    ..COMMON
};

fn defaults(_: &str, map: &mut Object) {
    defaults::default_labels(map);
    if let Some(labels) = defaults::template_labels(map).cloned() {
        object(map, "spec").entry("selector").or_insert(labels);
    }
    let spec = object(map, "spec");
    fill(spec, "replicas", 1);
    if let Some(found) = object_if_present(spec, "template") {
        defaults::template(found);
    }
}

fn replication_controller(out: &mut FieldErrors, spec: &Value) {
    not_negative(out, spec, "/minReadySeconds", "spec.minReadySeconds");
    let chosen = json!({"matchLabels": spec["selector"]});
    if selector::is_empty(&chosen) {
        required(out, "spec.selector", "");
    }
    not_negative(out, spec, "/replicas", "spec.replicas");
    let Some(template) = at(spec, "/template") else {
        return required(out, "spec.template", "");
    };
    let labels = at(template, "/metadata/labels");
    if !selector::is_empty(&chosen) && !selector::selects(&chosen, labels) {
        let value = labels.cloned().unwrap_or_default();
        invalid(out, "spec.template.metadata.labels", &value, UNMATCHED);
    }
    template::template(out, template, "spec.template");
    restart_policy_always(out, spec);
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let [names, images] = cells::containers(object, "/spec/template/spec");
    let wanted = number(object, "/spec/replicas").unwrap_or(0);
    let there = number(object, "/status/replicas").unwrap_or(0);
    let ready = number(object, "/status/readyReplicas").unwrap_or(0);
    let selector = cells::labels(object, "/spec/selector").into();
    let (first, age) = (cells::name(object), age::since_creation(object, now));
    vec![first, wanted.into(), there.into(), ready.into(), age, names, images, selector]
}
