//! Validation of the metadata of objects of all kinds.

use std::collections::HashSet;

use serde_json::Value;

use super::check::{FieldErrors, forbidden, immutable, invalid, invalid_string, required};
use super::field_manager;
use crate::kinds::json_access::{at, entries, flag, items, number, text};
use crate::kinds::names;
use crate::kinds::rules::KindRules;
use crate::kinds::traits::NameRule;
use crate::{FieldError, FieldErrorKind, strconv};

/// The number of bytes that all annotations may hold together, `TotalAnnotationSizeLimitB` of
/// k8s.io/apimachinery v0.36.4 pkg/api/validation/objectmeta.go.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// The finalizers that need no domain.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

/// Validates the metadata of a new object of a built-in kind.
pub fn create(rules: &KindRules, namespaced: bool, object: &Value) -> FieldErrors {
    let mut out = common(rules.traits.name, namespaced, object);
    if rules.finalizers_need_domain {
        standard_finalizers(&mut out, object);
    }
    out
}

/// Validates the metadata of a new object of any kind, with this rule for names.
pub fn common(rule: NameRule, namespaced: bool, object: &Value) -> FieldErrors {
    let mut out = FieldErrors::new();
    let name = text(object, "/metadata/name");
    let prefix = text(object, "/metadata/generateName");
    if !prefix.is_empty() {
        invalid_string(&mut out, "metadata.generateName", prefix, rule.problems(prefix, true));
    }
    if name.is_empty() {
        required(&mut out, "metadata.name", "name or generateName is required");
    } else {
        invalid_string(&mut out, "metadata.name", name, rule.problems(name, false));
    }
    let namespace = text(object, "/metadata/namespace");
    if !namespaced {
        if !namespace.is_empty() {
            forbidden(&mut out, "metadata.namespace", "not allowed on this type");
        }
    } else if namespace.is_empty() {
        required(&mut out, "metadata.namespace", "");
    } else {
        invalid_string(&mut out, "metadata.namespace", namespace, names::label(namespace));
    }
    if let Some(generation) = number(object, "/metadata/generation").filter(|it| *it < 0) {
        let detail = "must be greater than or equal to 0";
        invalid(&mut out, "metadata.generation", &generation.into(), detail);
    }
    labels_and_owners(&mut out, object);
    finalizers(&mut out, object);
    field_manager::managed_fields(&mut out, object);
    out
}

/// Validates the metadata of the new state of an object of a built-in kind. Errors are
/// repeated as often as in kube-apiserver: `BeforeUpdate` in k8s.io/apiserver v0.36.4
/// pkg/registry/rest/update.go validates metadata besides the strategy of the kind.
pub fn update(rules: &KindRules, new: &Value, old: &Value) -> FieldErrors {
    let passes = rules.metadata_passes;
    let mut out = FieldErrors::new();
    for _ in 0..passes.fixed {
        immutable_fields(&mut out, new, old);
    }
    for _ in 0..passes.labels {
        labels_and_owners(&mut out, new);
        field_manager::managed_fields(&mut out, new);
    }
    for _ in 0..passes.finalizers {
        finalizers(&mut out, new);
        if rules.finalizers_need_domain {
            standard_finalizers(&mut out, new);
        }
    }
    out
}

/// Validates the metadata of the new state of any object, without repeats.
pub fn update_common(new: &Value, old: &Value) -> FieldErrors {
    let mut out = FieldErrors::new();
    immutable_fields(&mut out, new, old);
    labels_and_owners(&mut out, new);
    field_manager::managed_fields(&mut out, new);
    finalizers(&mut out, new);
    out
}

/// Validates the labels and annotations of an object.
pub fn labels_and_annotations(object: &Value) -> FieldErrors {
    let mut out = FieldErrors::new();
    labels(&mut out, object, "/metadata/labels", "metadata.labels");
    annotations(&mut out, object, "/metadata/annotations", "metadata.annotations");
    out
}

fn labels_and_owners(out: &mut FieldErrors, object: &Value) {
    labels(out, object, "/metadata/labels", "metadata.labels");
    annotations(out, object, "/metadata/annotations", "metadata.annotations");
    owners(out, object);
}

fn immutable_fields(out: &mut FieldErrors, new: &Value, old: &Value) {
    for field in ["name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        immutable(out, new, old, &format!("/metadata/{field}"), &format!("metadata.{field}"));
    }
    if at(old, "/metadata/deletionTimestamp").is_none() {
        return;
    }
    let before: HashSet<&Value> = items(old, "/metadata/finalizers").iter().collect();
    let added: Vec<String> = items(new, "/metadata/finalizers")
        .iter()
        .filter(|it| !before.contains(it))
        .map(|it| strconv::quote(it.as_str().unwrap_or_default()))
        .collect();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        out.push(FieldError::new("metadata.finalizers", FieldErrorKind::Forbidden, &detail));
    }
}

/// Validates labels, in metadata and elsewhere.
pub(in crate::kinds) fn labels(out: &mut FieldErrors, object: &Value, pointer: &str, field: &str) {
    for (key, value) in entries(object, pointer) {
        invalid_string(out, field, key, names::qualified(key));
        let value = value.as_str().unwrap_or_default();
        invalid_string(out, field, value, names::label_value(value));
    }
}

/// Validates annotations, in metadata and elsewhere. Their keys are checked in lower case.
pub(in crate::kinds) fn annotations(out: &mut FieldErrors, object: &Value, pointer: &str, field: &str) {
    let mut size = 0;
    for (key, value) in entries(object, pointer) {
        size += key.len() + value.as_str().unwrap_or_default().len();
        invalid_string(out, field, key, names::qualified(&key.to_lowercase()));
    }
    if size > ANNOTATIONS_LIMIT {
        let detail = format!("may not be more than {ANNOTATIONS_LIMIT} bytes");
        out.push(FieldError::new(field, FieldErrorKind::TooLong, &detail));
    }
}

fn owners(out: &mut FieldErrors, object: &Value) {
    let field = "metadata.ownerReferences";
    let mut controller: Option<&Value> = None;
    let mut all: Option<String> = None;
    for owner in items(object, "/metadata/ownerReferences") {
        let version = text(owner, "/apiVersion");
        let parts: Vec<&str> = version.split('/').collect();
        let known = match parts.as_slice() {
            [version] | [_, version] => !version.is_empty(),
            _ => false,
        };
        if !known {
            invalid(out, &format!("{field}.apiVersion"), &version.into(), "version must not be empty");
        }
        for part in ["kind", "name", "uid"] {
            if text(owner, &format!("/{part}")).is_empty() {
                invalid(out, &format!("{field}.{part}"), &"".into(), "must not be empty");
            }
        }
        if version == "v1" && text(owner, "/kind") == "Event" {
            let shown = ShownFields(&owner_fields(owner)).to_string();
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            out.push(FieldError::with_value(field, FieldErrorKind::Invalid, shown, detail));
        }
        if flag(owner, "/controller") {
            if let Some(first) = controller {
                out.push_with(|| {
                    let all = all.get_or_insert_with(|| shown_owners(object));
                    let named = |owner: &Value| format!("{}/{}", text(owner, "/kind"), text(owner, "/name"));
                    let detail = format!(
                        "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                        named(first),
                        named(owner)
                    );
                    FieldError::with_value(field, FieldErrorKind::Invalid, all, &detail)
                });
            } else {
                controller = Some(owner);
            }
        }
    }
}

/// Formats all owner references of an object.
fn shown_owners(object: &Value) -> String {
    let owners = items(object, "/metadata/ownerReferences").iter();
    let all: Vec<String> = owners.map(|owner| ShownFields(&owner_fields(owner)).to_string()).collect();
    format!("[{}]", all.join(","))
}

/// Returns the fields of an owner reference in the order in which messages show them.
fn owner_fields(owner: &Value) -> Vec<(&'static str, Value)> {
    ["apiVersion", "kind", "name", "uid"]
        .into_iter()
        .map(|key| (key, owner.get(key).cloned().unwrap_or("".into())))
        .chain(
            ["controller", "blockOwnerDeletion"]
                .into_iter()
                .filter_map(|key| Some((key, owner.get(key)?.clone()))),
        )
        .collect()
}

struct ShownFields<'a>(&'a [(&'static str, Value)]);

impl std::fmt::Display for ShownFields<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields: Vec<String> = self.0.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        write!(f, "{{{}}}", fields.join(","))
    }
}

fn standard_finalizers(out: &mut FieldErrors, object: &Value) {
    let all = items(object, "/metadata/finalizers").iter().map(|it| it.as_str().unwrap_or_default());
    for (index, name) in all.enumerate().filter(|(_, it)| names::qualified(it).is_empty()) {
        standard_finalizer(out, name, &format!("metadata.finalizers[{index}]"));
    }
}

fn finalizers(out: &mut FieldErrors, object: &Value) {
    let all = items(object, "/metadata/finalizers");
    for name in all.iter().map(|it| it.as_str().unwrap_or_default()) {
        invalid_string(out, "metadata.finalizers", name, names::qualified(name));
    }
    let has = |name: &str| all.iter().any(|it| it == name);
    if has("orphan") && has("foregroundDeletion") {
        let shown = Value::from(all.to_vec());
        invalid(
            out,
            "metadata.finalizers",
            &shown,
            "finalizer orphan and foregroundDeletion cannot be both set",
        );
    }
}

/// Validates a finalizer: a qualified name, with a domain unless it is a standard one.
pub(in crate::kinds) fn finalizer(out: &mut FieldErrors, name: &str, field: &str, indexed: &str) {
    invalid_string(out, field, name, names::qualified(name));
    standard_finalizer(out, name, indexed);
}

/// Validates the finalizers in a write to `/finalize` of a namespace.
pub fn namespace_finalizers(namespace: &Value) -> FieldErrors {
    let mut out = FieldErrors::new();
    for (index, name) in items(namespace, "/spec/finalizers").iter().filter_map(Value::as_str).enumerate() {
        let field = format!("spec.finalizers[{index}]");
        standard_finalizer(&mut out, name, &field);
        invalid_string(&mut out, &field, name, names::qualified(name));
    }
    out
}

fn standard_finalizer(out: &mut FieldErrors, name: &str, indexed: &str) {
    if !name.contains('/') && !STANDARD_FINALIZERS.contains(&name) {
        invalid(
            out,
            indexed,
            &name.into(),
            "name is neither a standard finalizer name nor is it fully qualified",
        );
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::kinds::index::of_resource;

    #[test]
    fn finalizers_need_a_domain_only_where_kube_apiserver_requires_one() {
        let object =
            json!({"metadata": {"name": "a", "namespace": "b", "finalizers": ["plain.example.com"]}});
        for (group, plural, namespaced, rejected) in [
            ("", "configmaps", true, true),
            ("coordination.k8s.io", "leases", true, false),
            ("apiextensions.k8s.io", "customresourcedefinitions", false, false),
        ] {
            let has_problem =
                |problems: &[FieldError]| problems.iter().any(|it| it.message.contains("neither a standard"));
            let rules = of_resource(group, plural);
            assert_eq!(has_problem(&create(rules, namespaced, &object)), rejected, "{plural}");
            assert_eq!(has_problem(&update(rules, &object, &object)), rejected, "{plural}");
        }
        assert!(
            common(NameRule::Subdomain, true, &object).is_empty()
                && update_common(&object, &object).is_empty()
        );
    }

    #[test]
    fn the_size_of_annotations_is_limited() {
        let with = |size: usize| json!({"metadata": {"name": "a", "annotations": {"k": "v".repeat(size)}}});
        let problems = |size| common(NameRule::Subdomain, false, &with(size));
        assert!(problems(ANNOTATIONS_LIMIT - 1).is_empty());
        let found = problems(ANNOTATIONS_LIMIT);
        assert_eq!(found[0].to_string(), "metadata.annotations: Too long: may not be more than 262144 bytes");
    }

    #[test]
    fn no_finalizer_can_be_added_to_an_object_that_is_being_deleted() {
        let meta = |finalizers: &[&str]| json!({"metadata": {"name": "a", "deletionTimestamp": "t", "finalizers": finalizers}});
        let problems = update_common(&meta(&["a.b/c", "d.e/f"]), &meta(&["a.b/c"]));
        assert_eq!(
            problems[0].to_string(),
            "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, \
             found new finalizers []string{\"d.e/f\"}"
        );
        assert!(update_common(&meta(&[]), &meta(&["a.b/c"])).is_empty());
    }
}
