//! VolumeAttachments.

use jiff::Timestamp;
use serde_json::Value;

use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{at, flag, text};
use crate::kinds::names;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses, StatusMetadata};
use crate::kinds::validate::check::{FieldErrors, invalid_string, required};
use crate::{FieldError, FieldErrorKind};

/// The rules of the kind VolumeAttachment.
pub(crate) static RULES: KindRules = KindRules {
    group: "storage.k8s.io",
    kind: "VolumeAttachment",
    plural: "volumeattachments",
    traits: KindTraits {
        requires_version_on_update: true,
        returns_deleted_object: true,
        has_status: true,
        status_metadata: StatusMetadata::Nothing,
        ..KindTraits::COMMON
    },
    metadata_passes: MetadataPasses { labels: 3, fixed: 1, finalizers: 1 },
    validate_create: attachment,
    validate_update: Some(validate_update),
    cells,
    ..COMMON
};

fn attachment(out: &mut FieldErrors, attachment: &Value) {
    for key in ["attacher", "nodeName"] {
        if text(attachment, &format!("/spec/{key}")).is_empty() {
            required(out, &format!("spec.{key}"), "");
        }
    }
    let node = text(attachment, "/spec/nodeName");
    if !node.is_empty() {
        invalid_string(out, "spec.nodeName", node, names::subdomain(node));
    }
    let has = |key: &str| at(attachment, &format!("/spec/source/{key}")).is_some();
    if has("inlineVolumeSpec") == has("persistentVolumeName") {
        let detail = "must specify exactly one of inlineVolumeSpec and persistentVolumeName";
        required(out, "spec.source", detail);
    }
}

fn validate_update(out: &mut FieldErrors, new: &Value, old: &Value) {
    attachment(out, new);
    if new.get("spec") != old.get("spec") {
        let part = |pointer: &str| at(new, pointer).cloned().unwrap_or_default();
        let shown = format!(
            "{{\"Attacher\":{},\"Source\":{{\"PersistentVolumeName\":{},\"InlineVolumeSpec\":{}}},\"NodeName\":{}}}",
            part("/spec/attacher"),
            part("/spec/source/persistentVolumeName"),
            part("/spec/source/inlineVolumeSpec"),
            part("/spec/nodeName")
        );
        out.push(FieldError::with_value("spec", FieldErrorKind::Invalid, shown, "field is immutable"));
    }
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let plain = |pointer: &str| Value::from(text(object, pointer));
    vec![
        cells::name(object),
        plain("/spec/attacher"),
        plain("/spec/source/persistentVolumeName"),
        plain("/spec/nodeName"),
        flag(object, "/status/attached").into(),
        age::since_creation(object, now),
    ]
}
