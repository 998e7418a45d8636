//! PersistentVolumes.

use jiff::Timestamp;
use serde_json::Value;

use super::pod::spec::node_terms;
use super::volume_source::source as default_source;
use crate::kinds::age;
use crate::kinds::cells;
use crate::kinds::json_access::{Object, at, entries, fill, items, object, text};
use crate::kinds::quantity::Quantity;
use crate::kinds::rules::{COMMON, KindRules};
use crate::kinds::traits::{KindTraits, MetadataPasses};
use crate::kinds::validate::check::{FieldErrors, forbidden, invalid, one_of, required, unsupported};
use crate::kinds::validate::volume::{access_modes, has_source, is_source};
use crate::{FieldError, FieldErrorKind};

/// The rules of the kind PersistentVolume.
pub(crate) static RULES: KindRules = KindRules {
    group: "",
    kind: "PersistentVolume",
    plural: "persistentvolumes",
    traits: KindTraits { returns_deleted_object: true, has_status: true, ..KindTraits::COMMON },
    metadata_passes: MetadataPasses { labels: 4, fixed: 1, finalizers: 2 },
    default: defaults,
    prepare_create: |volume, now, _| {
        volume["status"]["phase"] = "Pending".into();
        volume["status"]["lastPhaseTransitionTime"] = now.into();
        Ok(())
    },
    validate_create: volume,
    validate_update: Some(validate_update),
    cells,
    ..COMMON
};

/// The field for the capacity of a volume.
const STORAGE: &str = "spec.capacity[storage]";

fn defaults(_: &str, map: &mut Object) {
    let spec = object(map, "spec");
    default_source(spec);
    fill(spec, "persistentVolumeReclaimPolicy", "Retain");
    fill(spec, "volumeMode", "Filesystem");
    fill(object(map, "status"), "phase", "Pending");
}

fn volume(out: &mut FieldErrors, object: &Value) {
    let spec = &object["spec"];
    if items(spec, "/accessModes").is_empty() {
        required(out, "spec.accessModes", "");
    }
    access_modes(out, spec);
    if entries(spec, "/capacity").next().is_none() {
        required(out, "spec.capacity", "");
    }
    if !entries(spec, "/capacity").any(|(key, _)| key == "storage") {
        let shown = at(spec, "/capacity").cloned().unwrap_or_default();
        unsupported(out, "spec.capacity", &shown, &["storage"]);
    }
    if let Some(amount) = at(spec, "/capacity/storage").and_then(Quantity::read) {
        if amount.is_negative() {
            let detail = "must be a valid resource quantity";
            out.push(FieldError::with_value(STORAGE, FieldErrorKind::Invalid, amount.units(), detail));
        }
        if amount.is_negative() || amount.is_zero() {
            invalid(out, STORAGE, &amount.canonical().into(), "must be greater than zero");
        }
    }
    let path = text(spec, "/hostPath/path");
    if path.split('/').any(|part| part == "..") {
        invalid(out, "spec.hostPath.path", &path.into(), "must not contain '..'");
    }
    let sources: Vec<&str> = entries(spec, "").map(|(key, _)| key).filter(|key| is_source(key)).collect();
    if !has_source(spec) {
        required(out, "spec", "must specify a volume type");
    } else {
        for more in sources.iter().skip(1) {
            forbidden(out, &format!("spec.{more}"), "may not specify more than 1 volume type");
        }
    }
    if let Some(nodes) = at(spec, "/nodeAffinity/required") {
        node_terms(out, nodes, "spec.nodeAffinity.required");
    }
    let policies = ["Delete", "Recycle", "Retain"];
    one_of(out, spec, "/persistentVolumeReclaimPolicy", "spec.persistentVolumeReclaimPolicy", &policies);
}

fn validate_update(out: &mut FieldErrors, new: &Value, old: &Value) {
    volume(out, new);
    if source(new) != source(old) {
        let detail = "spec.persistentvolumesource is immutable after creation";
        forbidden(out, "spec.persistentvolumesource", detail);
    }
}

/// Returns the source fields of the spec of a volume.
fn source(volume: &Value) -> Vec<(&str, &Value)> {
    entries(volume, "/spec").filter(|(key, _)| is_source(key)).collect()
}

fn cells(object: &Value, now: Timestamp) -> Vec<Value> {
    let age = age::since_creation(object, now);
    let claim = at(object, "/spec/claimRef")
        .map(|claim| format!("{}/{}", text(claim, "/namespace"), text(claim, "/name")))
        .unwrap_or_default();
    vec![
        cells::name(object),
        cells::non_empty_or(text(object, "/spec/capacity/storage"), "0").into(),
        cells::access_modes(object, "/spec/accessModes").into(),
        text(object, "/spec/persistentVolumeReclaimPolicy").into(),
        cells::phase(object),
        claim.into(),
        cells::storage_class(object),
        cells::unset(object, "/spec/volumeAttributesClassName"),
        text(object, "/status/reason").into(),
        age,
        cells::unset(object, "/spec/volumeMode"),
    ]
}
