//! Defaults of volumes and claims in pods, in templates, and on their own.

use serde_json::{Map, Value};

use crate::kinds::json_access::{fill, object, object_if_present};

type Object = Map<String, Value>;

/// The volume types with defaults, and their fields.
const VOLUME_DEFAULTS: &[(&str, &[(&str, DefaultValue)])] = &[
    ("secret", &[("defaultMode", DefaultValue::Number(420))]),
    ("configMap", &[("defaultMode", DefaultValue::Number(420))]),
    ("downwardAPI", &[("defaultMode", DefaultValue::Number(420))]),
    ("projected", &[("defaultMode", DefaultValue::Number(420))]),
    ("iscsi", &[("iscsiInterface", DefaultValue::Text("default"))]),
    (
        "rbd",
        &[
            ("pool", DefaultValue::Text("rbd")),
            ("user", DefaultValue::Text("admin")),
            ("keyring", DefaultValue::Text("/etc/ceph/keyring")),
        ],
    ),
    (
        "azureDisk",
        &[
            ("cachingMode", DefaultValue::Text("ReadWrite")),
            ("fsType", DefaultValue::Text("ext4")),
            ("readOnly", DefaultValue::Flag(false)),
            ("kind", DefaultValue::Text("Shared")),
        ],
    ),
    (
        "scaleIO",
        &[("storageMode", DefaultValue::Text("ThinProvisioned")), ("fsType", DefaultValue::Text("xfs"))],
    ),
];

#[derive(Clone, Copy)]
enum DefaultValue {
    Number(i64),
    Text(&'static str),
    Flag(bool),
}

impl From<DefaultValue> for Value {
    fn from(default: DefaultValue) -> Self {
        match default {
            DefaultValue::Number(number) => number.into(),
            DefaultValue::Text(text) => text.into(),
            DefaultValue::Flag(flag) => flag.into(),
        }
    }
}

/// Sets the defaults of a volume source, in pods and in persistent volumes.
pub(super) fn source(volume: &mut Object) {
    for (kind, fields) in VOLUME_DEFAULTS {
        if let Some(found) = object_if_present(volume, kind) {
            fields.iter().for_each(|(key, value)| fill(found, key, *value));
        }
    }
    if let Some(path) = object_if_present(volume, "hostPath") {
        path.entry("type").or_insert("".into());
    }
}

/// Sets the defaults of a claim, on its own or as a template in a StatefulSet.
pub(super) fn claim(map: &mut Object) {
    claim_spec(object(map, "spec"));
    fill(object(map, "status"), "phase", "Pending");
}

/// Sets the defaults of the spec of a claim.
pub(super) fn claim_spec(spec: &mut Object) {
    fill(spec, "volumeMode", "Filesystem");
}
