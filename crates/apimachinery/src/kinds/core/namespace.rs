//! Namespaces.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::fields::{Field, SelectableFields};
use crate::kinds::json_access::{Object, at, fill, items, object, text};
use crate::kinds::prepare::copy;
use crate::kinds::rules::{COMMON, KindRules, Undeletable};
use crate::kinds::traits::{KindTraits, NameRule};
use crate::kinds::validate::check::FieldErrors;
use crate::kinds::validate::metadata::finalizer;
use crate::{FieldError, FieldErrorKind};

/// The rules of the kind Namespace.
pub static RULES: KindRules = KindRules {
    group: "",
    kind: "Namespace",
    plural: "namespaces",
    traits: KindTraits {
        returns_deleted_object: true,
        has_status: true,
        name: NameRule::Label,
        ..KindTraits::COMMON
    },
    default: defaults,
    prepare_create: |namespace, _, _| {
        new_namespace(namespace);
        Ok(())
    },
    prepare_update: |new, old, _| {
        copy(new, old, "spec");
        Ok(())
    },
    validate_create: |out, object| {
        for value in items(object, "/spec/finalizers").iter().filter_map(Value::as_str) {
            finalizer(out, value, "spec.finalizers", "spec.finalizers");
        }
    },
    validate_status: |out, object, _| validate_phase(out, object),
    fields: SelectableFields {
        namespace: false,
        ..SelectableFields::of(&[Field::text("status.phase", "/status/phase")])
    },
    // `NamespaceLifecycle` in k8s.io/apiserver v0.36.4
    // pkg/admission/plugin/namespace/lifecycle/admission.go.
    undeletable: Some(Undeletable {
        names: &["default", "kube-system", "kube-public"],
        why: "this namespace may not be deleted",
        in_collections: true,
    }),
    cells,
    ..COMMON
};

fn defaults(_: &str, map: &mut Object) {
    label_with_name(map);
    fill(object(map, "status"), "phase", "Active");
}

fn label_with_name(map: &mut Object) {
    let meta = object(map, "metadata");
    if let Some(name) = meta.get("name").cloned() {
        object(meta, "labels").insert("kubernetes.io/metadata.name".to_owned(), name);
    }
}

fn new_namespace(namespace: &mut Value) {
    let Some(map) = namespace.as_object_mut() else { return };
    // When defaults were set, a generated name was not known: `namespaceStrategy.Canonicalize` in
    // k8s.io/kubernetes v1.36.4 pkg/registry/core/namespace/strategy.go.
    label_with_name(map);
    fill(object(map, "status"), "phase", "Active");
    let spec = object(map, "spec");
    let mut finalizers = spec.get("finalizers").and_then(Value::as_array).cloned().unwrap_or_default();
    if !finalizers.contains(&"kubernetes".into()) {
        finalizers.push("kubernetes".into());
    }
    spec.insert("finalizers".to_owned(), finalizers.into());
}

/// Checks the phase of a namespace: active until it is deleted, terminating from then on.
fn validate_phase(out: &mut FieldErrors, object: &Value) {
    let (wanted, held) = match at(object, "/metadata/deletionTimestamp") {
        None => ("Active", "empty"),
        Some(_) => ("Terminating", "not empty"),
    };
    let phase = text(object, "/status/phase");
    if phase != wanted {
        let why = format!("may only be '{wanted}' if `deletionTimestamp` is {held}");
        // The capital letter is that of k8s.io/kubernetes v1.36.4
        // pkg/apis/core/validation/validation.go.
        out.push(FieldError::with_value(
            "status.Phase",
            FieldErrorKind::Invalid,
            format_args!("{phase:?}"),
            &why,
        ));
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    vec![cells::name(object), text(object, "/status/phase").into(), age::since_creation(object, now)]
}
