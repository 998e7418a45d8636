//! Migration from client-side apply: the annotation in which kubectl keeps the configuration that
//! it last applied (k8s.io/apimachinery v0.36.4
//! pkg/util/managedfields/internal/lastappliedmanager.go and lastappliedupdater.go).
//!
//! Fields that still have the value from kubectl's last client-side apply belong to it, whatever
//! the entries say. If the annotation exists, it is kept up to date, so that an older kubectl finds
//! the configuration that it expects.

use serde_json::Value;

use super::Target;
use super::check::{Duplicates, check};
use super::compare::{Comparison, compare};
use super::element::escape_html;
use super::field_set::FieldSet;
use super::stated::fields_of;
use crate::plain_json;

/// The manager for which the annotation is read and kept up to date.
pub(super) const KUBECTL: &str = "kubectl";

/// The annotation of client-side apply.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The limit for the size of all annotations of an object, in bytes: `TotalAnnotationSizeLimitB` in
/// k8s.io/apimachinery v0.36.4 pkg/api/validation/objectmeta.go.
const MOST_ANNOTATIONS: usize = 256 * 1024;

/// Returns the fields that client-side apply last applied and that still have that value. Empty if
/// the annotation is of another version, or cannot be decoded.
pub(super) fn left_as_applied(live: &Value, target: &Target<'_>) -> FieldSet {
    let Some(applied) = last_applied(live).and_then(|text| plain_json::from_str(text).ok()) else {
        return FieldSet::new();
    };
    let of_this_version = applied.get("apiVersion").and_then(Value::as_str) == Some(target.api_version);
    let (schema, definitions) = (target.schema, target.definitions);
    if !of_this_version || check(&applied, schema, definitions, Duplicates::Refused).is_err() {
        return FieldSet::new();
    }
    let Comparison { added, modified, removed } = compare(&applied, live, schema, definitions);
    fields_of(&applied, schema, definitions).difference(&modified.joined(added).joined(removed))
}

fn last_applied(object: &Value) -> Option<&str> {
    let annotation = object.get("metadata")?.get("annotations")?.get(LAST_APPLIED)?.as_str()?;
    Some(annotation).filter(|annotation| !annotation.is_empty())
}

/// Writes the applied configuration into the annotation, if the object has one.
pub(super) fn renew(object: &mut Value, applied: &Value) {
    if last_applied(object).is_none() {
        return;
    }
    let mut stated = applied.clone();
    if let Some(annotations) = stated.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) {
        annotations.remove(LAST_APPLIED);
    }
    let Some(annotations) = object.pointer_mut("/metadata/annotations").and_then(Value::as_object_mut) else {
        return;
    };
    // Go's encoder, whose output clients compare with, ends with a line feed.
    annotations.insert(LAST_APPLIED.to_owned(), format!("{}\n", escape_html(&stated.to_string())).into());
    let size = |(name, value): (&String, &Value)| name.len() + value.as_str().map_or(0, str::len);
    if annotations.iter().map(size).sum::<usize>() > MOST_ANNOTATIONS {
        annotations.remove(LAST_APPLIED);
    }
}
