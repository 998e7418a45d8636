//! The defaults of volume sources, in pods and in persistent volumes.

use serde_json::Value;

use crate::kinds::json_access::{Object, fill, object_if_present};

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
pub(in crate::kinds) fn source(volume: &mut Object) {
    for (kind, fields) in VOLUME_DEFAULTS {
        if let Some(found) = object_if_present(volume, kind) {
            fields.iter().for_each(|(key, value)| fill(found, key, *value));
        }
    }
    if let Some(path) = object_if_present(volume, "hostPath") {
        path.entry("type").or_insert("".into());
    }
}
