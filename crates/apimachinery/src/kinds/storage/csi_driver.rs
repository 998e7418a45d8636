//! CSIDrivers.

use std::collections::HashSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, at, fill, flag, items, object, text};
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::check::{FieldErrors, duplicate, immutable, one_of, unsupported};

/// The rules of the kind CSIDriver.
pub(crate) static RULES: KindRules = KindRules {
    group: "storage.k8s.io",
    kind: "CSIDriver",
    plural: "csidrivers",
    traits: KindTraits {
        requires_version_on_update: true,
        returns_deleted_object: true,
        ..KindTraits::COMMON
    },
    metadata_passes: MetadataPasses { labels: 3, fixed: 2, finalizers: 1 },
    default: defaults,
    // Only updates count the generation: k8s.io/kubernetes v1.36.4
    // pkg/registry/storage/csidriver/strategy.go.
    counts_updates: Some(true),
    validate_create: lifecycles,
    validate_update: Some(|out, new, old| {
        lifecycles(out, new);
        // The misspelled path is that of k8s.io/kubernetes v1.36.4
        // pkg/apis/storage/validation/validation.go.
        immutable(out, new, old, "/spec/attachRequired", "spec.attachedRequired");
        immutable(out, new, old, "/spec/volumeLifecycleModes", "spec.volumeLifecycleModes");
    }),
    cells,
    ..COMMON
};

fn defaults(_: &str, map: &mut Object) {
    let spec = object(map, "spec");
    fill(spec, "attachRequired", true);
    for key in ["podInfoOnMount", "storageCapacity", "requiresRepublish", "seLinuxMount"] {
        fill(spec, key, false);
    }
    fill(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
    spec.entry("volumeLifecycleModes").or_insert_with(|| json!(["Persistent"]));
}

fn lifecycles(out: &mut FieldErrors, driver: &Value) {
    if at(driver, "/spec/fsGroupPolicy").is_some() {
        let known = ["File", "None", "ReadWriteOnceWithFSType"];
        one_of(out, driver, "/spec/fsGroupPolicy", "spec.fsGroupPolicy", &known);
    }
    let mut audiences = HashSet::new();
    for (index, request) in items(driver, "/spec/tokenRequests").iter().enumerate() {
        let audience = text(request, "/audience");
        if !audiences.insert(audience) {
            duplicate(out, &format!("spec.tokenRequests[{index}].audience"), &audience.into());
        }
    }
    let known = ["Persistent", "Ephemeral"];
    for mode in
        items(driver, "/spec/volumeLifecycleModes").iter().filter(|it| !known.iter().any(|one| it == one))
    {
        unsupported(out, "spec.volumeLifecycleModes", mode, &known);
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let on = |pointer: &str| Value::from(flag(object, pointer));
    let list = |pointer: &str, field: &str| -> Vec<String> {
        items(object, pointer).iter().map(|it| text(it, field).to_owned()).collect()
    };
    let modes = cells::joined(&list("/spec/volumeLifecycleModes", ""), "<none>");
    let attach = at(object, "/spec/attachRequired").and_then(Value::as_bool).unwrap_or(true);
    vec![
        cells::name(object),
        attach.into(),
        on("/spec/podInfoOnMount"),
        on("/spec/storageCapacity"),
        cells::joined(&list("/spec/tokenRequests", "/audience"), "<unset>").into(),
        on("/spec/requiresRepublish"),
        modes.into(),
        age::since_creation(object, now),
    ]
}
