//! Validation of volumes: those of pods, and the parts that persistent volumes share with them.

use std::collections::HashSet;

use serde_json::Value;

use super::check::{FieldErrors, duplicate, forbidden, invalid, invalid_string, required, unsupported};
use crate::kinds::json_access::{at, items, number, text};
use crate::kinds::names;

/// The volume types, in the order in which a second one is reported.
const SOURCES: &[&str] = &[
    "emptyDir",
    "hostPath",
    "gitRepo",
    "gcePersistentDisk",
    "awsElasticBlockStore",
    "secret",
    "nfs",
    "iscsi",
    "glusterfs",
    "flocker",
    "persistentVolumeClaim",
    "rbd",
    "cinder",
    "cephfs",
    "quobyte",
    "downwardAPI",
    "fc",
    "flexVolume",
    "configMap",
    "azureFile",
    "vsphereVolume",
    "photonPersistentDisk",
    "portworxVolume",
    "azureDisk",
    "storageos",
    "projected",
    "scaleIO",
    "csi",
    "ephemeral",
    "image",
];
/// The volume types of persistent volumes only.
const PERSISTENT_SOURCES: &[&str] = &["local"];
const PATH_TYPES: &[&str] =
    &["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Validates the volumes of a pod, and returns their names.
pub(in crate::kinds) fn volumes<'a>(
    out: &mut FieldErrors,
    list: &'a [Value],
    field: &str,
) -> HashSet<&'a str> {
    let mut names_ = HashSet::new();
    for (index, volume) in list.iter().enumerate() {
        let path = format!("{field}[{index}]");
        let name = text(volume, "/name");
        if name.is_empty() {
            required(out, &format!("{path}.name"), "");
        } else {
            invalid_string(out, &format!("{path}.name"), name, names::label(name));
        }
        let mut found = false;
        for kind in SOURCES.iter().copied() {
            let Some(source) = at(volume, &format!("/{kind}")) else { continue };
            if found {
                forbidden(out, &format!("{path}.{kind}"), "may not specify more than 1 volume type");
            } else {
                one(out, kind, source, &format!("{path}.{kind}"));
            }
            found = true;
        }
        if !found {
            required(out, &path, "must specify a volume type");
        }
        if !name.is_empty() && !names_.insert(name) {
            duplicate(out, &format!("{path}.name"), &name.into());
        }
    }
    names_
}

/// Returns true if an object has a volume source.
pub(in crate::kinds) fn has_source(object: &Value) -> bool {
    SOURCES.iter().chain(PERSISTENT_SOURCES).any(|kind| at(object, &format!("/{kind}")).is_some())
}

/// Returns true if a field is a volume source.
pub(in crate::kinds) fn is_source(field: &str) -> bool {
    SOURCES.iter().chain(PERSISTENT_SOURCES).any(|kind| *kind == field)
}

fn one(out: &mut FieldErrors, kind: &str, source: &Value, path: &str) {
    match kind {
        "hostPath" => {
            let place = text(source, "/path");
            if place.is_empty() {
                required(out, &format!("{path}.path"), "");
            } else if place.split('/').any(|segment| segment == "..") {
                invalid(out, &format!("{path}.path"), &place.into(), "must not contain '..'");
            }
            let kind = text(source, "/type");
            if !PATH_TYPES.contains(&kind) {
                unsupported(out, &format!("{path}.type"), &kind.into(), PATH_TYPES);
            }
        }
        "secret" => {
            if text(source, "/secretName").is_empty() {
                required(out, &format!("{path}.secretName"), "");
            }
            mode_and_items(out, source, path);
        }
        "configMap" => {
            if text(source, "/name").is_empty() {
                required(out, &format!("{path}.name"), "");
            }
            mode_and_items(out, source, path);
        }
        "projected" | "downwardAPI" => mode(out, source, path, "defaultMode"),
        "persistentVolumeClaim" if text(source, "/claimName").is_empty() => {
            required(out, &format!("{path}.claimName"), "");
        }
        "nfs" => {
            for key in ["server", "path"] {
                if text(source, &format!("/{key}")).is_empty() {
                    required(out, &format!("{path}.{key}"), "");
                }
            }
        }
        _ => {}
    }
}

fn mode(out: &mut FieldErrors, source: &Value, path: &str, key: &str) {
    if let Some(mode) = number(source, &format!("/{key}")).filter(|mode| !(0..=0o777).contains(mode)) {
        let detail = "must be a number between 0 and 0777 (octal), both inclusive";
        invalid(out, &format!("{path}.{key}"), &mode.into(), detail);
    }
}

fn mode_and_items(out: &mut FieldErrors, source: &Value, path: &str) {
    mode(out, source, path, "defaultMode");
    for (index, item) in items(source, "/items").iter().enumerate() {
        let path = format!("{path}.items[{index}]");
        if text(item, "/key").is_empty() {
            required(out, &format!("{path}.key"), "");
        }
        let place = text(item, "/path");
        if place.is_empty() {
            required(out, &format!("{path}.path"), "");
        }
        if place.starts_with('/') {
            invalid(out, &format!("{path}.path"), &place.into(), "must be a relative path");
        }
        if place.split('/').any(|segment| segment == "..") {
            invalid(out, &format!("{path}.path"), &place.into(), "must not contain '..'");
        }
        mode(out, item, &path, "mode");
    }
}

/// Checks the access modes of a volume or a claim.
pub(in crate::kinds) fn access_modes(out: &mut FieldErrors, spec: &Value) {
    for mode in items(spec, "/accessModes") {
        if !ACCESS_MODES.iter().any(|known| mode == known) {
            unsupported(out, "spec.accessModes", mode, ACCESS_MODES);
        }
    }
}

const ACCESS_MODES: &[&str] = &["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];
