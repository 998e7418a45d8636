//! Defaults of volumes and claims in pods, in templates, and on their own.

use serde_json::{Map, Value};

use crate::kinds::look::{fill, object, object_if_present};

type Object = Map<String, Value>;

/// The volume types with defaults, and their fields.
const VOLUME_DEFAULTS: &[(&str, &[(&str, Plain)])] = &[
    ("secret", &[("defaultMode", Plain::Number(420))]),
    ("configMap", &[("defaultMode", Plain::Number(420))]),
    ("downwardAPI", &[("defaultMode", Plain::Number(420))]),
    ("projected", &[("defaultMode", Plain::Number(420))]),
    ("iscsi", &[("iscsiInterface", Plain::Text("default"))]),
    (
        "rbd",
        &[
            ("pool", Plain::Text("rbd")),
            ("user", Plain::Text("admin")),
            ("keyring", Plain::Text("/etc/ceph/keyring")),
        ],
    ),
    (
        "azureDisk",
        &[
            ("cachingMode", Plain::Text("ReadWrite")),
            ("fsType", Plain::Text("ext4")),
            ("readOnly", Plain::Flag(false)),
            ("kind", Plain::Text("Shared")),
        ],
    ),
    ("scaleIO", &[("storageMode", Plain::Text("ThinProvisioned")), ("fsType", Plain::Text("xfs"))]),
];

#[derive(Clone, Copy)]
enum Plain {
    Number(i64),
    Text(&'static str),
    Flag(bool),
}

impl From<Plain> for Value {
    fn from(plain: Plain) -> Self {
        match plain {
            Plain::Number(number) => number.into(),
            Plain::Text(text) => text.into(),
            Plain::Flag(flag) => flag.into(),
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
