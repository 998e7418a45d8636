//! Reviews of permissions: what a user may do, as the authorizer decides.

use dogwatch_core::{FieldSelector, LabelSelector};
use serde_json::{Map, Value, json};

use super::{Cluster, ObjectRef};
use crate::authorization::{AccessRequest, AccessTarget, PolicyRule};
use crate::kinds::json_access::{at, entries, items, text};
use crate::kinds::names;
use crate::user::User;
use crate::{ApiError, FieldError, FieldErrorKind, FieldErrors};

/// The maximum size of the rules that a review shows, in bytes of JSON. A user of a few hundred
/// roles can have gigabytes of rules.
const MAX_SHOWN_BYTES: usize = 1024 * 1024;

/// The error of a review that does not show all rules.
const TOO_MANY_RULES: &str = "the rules of the user are too large to be shown in one review";

/// Returns the status of an access review. It is about its writer if `asking` is given, and
/// otherwise about the user that it names.
///
/// # Errors
/// 422 if the review is not valid.
pub(super) fn access_status(
    cluster: &Cluster,
    place: &ObjectRef<'_>,
    review: &Value,
    asking: Option<&User>,
) -> Result<Value, ApiError> {
    let problems = problems(review, place, asking.is_some());
    if !problems.is_empty() {
        // The kind of the decoded object is empty in this error: k8s.io/kubernetes v1.36.4
        // pkg/registry/authorization/subjectaccessreview/rest.go.
        return Err(ApiError::invalid(&place.kind.def.group, "", "", &problems));
    }
    let named = || named_user(&review["spec"]);
    let user = asking.cloned().unwrap_or_else(named);
    let decision = cluster.authorize(&user, &access_request(&review["spec"]));
    let mut status = json!({ "allowed": decision.allowed });
    if !decision.reason.is_empty() {
        status["reason"] = decision.reason.into();
    }
    let ignored = ignored_selectors(&review["spec"]["resourceAttributes"]);
    if !ignored.is_empty() {
        status["evaluationError"] = ignored.join("; ").into();
    }
    Ok(status)
}

/// Returns the status of a review of everything that a user may do in a namespace.
///
/// # Errors
/// 400 if the review names no namespace.
pub(super) fn rules_status(cluster: &Cluster, review: &Value, user: &User) -> Result<Value, ApiError> {
    let namespace = text(review, "/spec/namespace");
    if namespace.is_empty() {
        return Err(ApiError::bad_request("no namespace on request"));
    }
    let found = cluster.authorizer.rules_of(cluster.store(), user, namespace);
    let all: Vec<&PolicyRule> = found.roles.iter().flat_map(|it| it.iter()).collect();
    let shown = rules_within(&all, MAX_SHOWN_BYTES);
    let incomplete = shown.len() < all.len();
    let of_resources = shown.iter().filter(|it| !it.resources.is_empty());
    let of_paths = shown.iter().filter(|it| !it.non_resource_urls.is_empty());
    let mut status = json!({
        "resourceRules": of_resources.map(|it| resource_rule(it)).collect::<Vec<_>>(),
        "nonResourceRules": of_paths.map(|it| path_rule(it)).collect::<Vec<_>>(),
        "incomplete": incomplete,
    });
    let errors = [found.error.as_str(), if incomplete { TOO_MANY_RULES } else { "" }];
    let errors: Vec<&str> = errors.into_iter().filter(|it| !it.is_empty()).collect();
    if !errors.is_empty() {
        status["evaluationError"] = errors.join("; ").into();
    }
    Ok(status)
}

/// Returns the rules that fit into a number of bytes, without those that do not fit after the
/// others.
fn rules_within<'a>(rules: &[&'a PolicyRule], mut bytes: usize) -> Vec<&'a PolicyRule> {
    let fits = |it: &&&PolicyRule| {
        let rest = bytes.checked_sub(it.json_size());
        bytes = rest.unwrap_or(bytes);
        rest.is_some()
    };
    rules.iter().filter(fits).copied().collect()
}

fn resource_rule(rule: &PolicyRule) -> Value {
    let mut shown = Map::from_iter([("verbs".to_owned(), json!(rule.verbs))]);
    for (field, texts) in [
        ("apiGroups", &rule.api_groups),
        ("resources", &rule.resources),
        ("resourceNames", &rule.resource_names),
    ] {
        if !texts.is_empty() {
            shown.insert(field.to_owned(), json!(texts));
        }
    }
    Value::Object(shown)
}

fn path_rule(rule: &PolicyRule) -> Value {
    json!({ "verbs": rule.verbs, "nonResourceURLs": rule.non_resource_urls })
}

/// Returns the user that a review names.
fn named_user(spec: &Value) -> User {
    let texts = |it: &Value| items(it, "").iter().filter_map(Value::as_str).map(str::to_owned).collect();
    User {
        name: text(spec, "/user").to_owned(),
        uid: text(spec, "/uid").to_owned(),
        groups: texts(&spec["groups"]),
        extra: entries(spec, "/extra").map(|(key, values)| (key.to_owned(), texts(values))).collect(),
    }
}

fn access_request(spec: &Value) -> AccessRequest<'_> {
    let attributes = &spec["resourceAttributes"];
    if attributes.is_null() {
        let target = AccessTarget::Path(text(spec, "/nonResourceAttributes/path"));
        return AccessRequest { verb: text(spec, "/nonResourceAttributes/verb").into(), target };
    }
    let target = AccessTarget::Resource {
        group: text(attributes, "/group"),
        resource: text(attributes, "/resource"),
        subresource: text(attributes, "/subresource"),
        namespace: text(attributes, "/namespace"),
        name: text(attributes, "/name"),
    };
    AccessRequest { verb: text(attributes, "/verb").into(), target }
}

/// Validates an access review: it must be about exactly one kind of attributes, and about a user or
/// a group.
fn problems(review: &Value, place: &ObjectRef<'_>, about_self: bool) -> FieldErrors {
    let mut problems = FieldErrors::default();
    let given = |pointer: &str| at(review, pointer).filter(|it| !it.is_null());
    let (resource, path) = (given("/spec/resourceAttributes"), given("/spec/nonResourceAttributes"));
    match (resource, path) {
        (Some(_), Some(path)) => {
            let detail = "cannot be specified in combination with resourceAttributes";
            problems.push(invalid("spec.nonResourceAttributes", shown_path(path), detail));
        }
        (None, None) => {
            let detail = "exactly one of nonResourceAttributes or resourceAttributes must be specified";
            problems.push(invalid("spec.resourceAttributes", "null", detail));
        }
        _ => {}
    }
    if !about_self && text(review, "/spec/user").is_empty() && items(review, "/spec/groups").is_empty() {
        problems.push(invalid("spec.user", r#""""#, "at least one of user or group must be specified"));
    }
    for (field, of_labels) in [("fieldSelector", false), ("labelSelector", true)] {
        if let Some(selector) = given(&format!("/spec/resourceAttributes/{field}")) {
            check_selector(&mut problems, selector, &format!("spec.resourceAttributes.{field}"), of_labels);
        }
    }
    let is_local = place.kind.def.namespaced;
    let has_metadata = entries(review, "/metadata").any(|(key, value)| {
        let is_empty = value.is_null() || value == "" || value == &json!({}) || value == &json!([]);
        !is_empty && key != "managedFields" && !(is_local && key == "namespace")
    });
    if has_metadata {
        let detail = if is_local { "must be empty except for namespace" } else { "must be empty" };
        problems.push(invalid("metadata", review["metadata"].to_string(), detail));
    }
    if is_local {
        let namespace = text(review, "/spec/resourceAttributes/namespace");
        if resource.is_some() && Some(namespace) != place.namespace {
            let (field, detail) = ("spec.resourceAttributes.namespace", "must match metadata.namespace");
            problems.push(invalid(field, json!(namespace).to_string(), detail));
        }
        if let Some(path) = path {
            let detail = "disallowed on this kind of request";
            problems.push(invalid("spec.nonResourceAttributes", shown_path(path), detail));
        }
    }
    problems
}

/// Formats attributes of a path as kube-apiserver does, whose internal type has other names
/// (`NonResourceAttributes` in k8s.io/kubernetes v1.36.4 pkg/apis/authorization/types.go).
fn shown_path(attributes: &Value) -> String {
    let (path, verb) = (json!(text(attributes, "/path")), json!(text(attributes, "/verb")));
    format!(r#"{{"Path":{path},"Verb":{verb}}}"#)
}

fn invalid(field: &str, value: impl std::fmt::Display, detail: &str) -> FieldError {
    FieldError::with_value(field, FieldErrorKind::Invalid, value, detail)
}

/// Validates a selector of resource attributes. Unknown operators are accepted: newer clients may
/// know them.
fn check_selector(out: &mut FieldErrors, selector: &Value, path: &str, of_labels: bool) {
    let (raw, requirements) = (text(selector, "/rawSelector"), items(selector, "/requirements"));
    if !raw.is_empty() && !requirements.is_empty() {
        let detail = "may not specified at the same time as requirements";
        out.push(invalid(&format!("{path}.rawSelector"), json!(raw).to_string(), detail));
    }
    if raw.is_empty() && requirements.is_empty() {
        let detail = format!("when {path} is specified, requirements or rawSelector is required");
        out.push(FieldError::new(format!("{path}.requirements"), FieldErrorKind::Required, &detail));
    }
    for (index, requirement) in requirements.iter().enumerate() {
        if out.is_full() {
            return;
        }
        let path = format!("{path}.requirements[{index}]");
        let (key, values) = (text(requirement, "/key"), items(requirement, "/values"));
        if !of_labels && key.is_empty() {
            out.push(FieldError::new(format!("{path}.key"), FieldErrorKind::Required, "must be specified"));
        }
        match text(requirement, "/operator") {
            "In" | "NotIn" if values.is_empty() => {
                let detail = "must be specified when `operator` is 'In' or 'NotIn'";
                out.push(FieldError::new(format!("{path}.values"), FieldErrorKind::Required, detail));
            }
            "Exists" | "DoesNotExist" if !values.is_empty() => {
                let detail = "may not be specified when `operator` is 'Exists' or 'DoesNotExist'";
                out.push(FieldError::new(format!("{path}.values"), FieldErrorKind::Forbidden, detail));
            }
            _ => {}
        }
        if of_labels {
            let wrong = |field: String, text: &str, faults: Vec<String>| {
                let value = json!(text).to_string();
                faults.into_iter().map(move |it| invalid(&field, value.clone(), &it)).collect::<Vec<_>>()
            };
            out.extend(wrong(format!("{path}.key"), key, names::qualified(key)));
            for (index, value) in values.iter().filter_map(Value::as_str).enumerate() {
                if out.is_full() {
                    return;
                }
                let field = format!("{path}.values[{index}]");
                out.extend(wrong(field, value, names::label_value(value)));
            }
        }
    }
}

/// Returns what cannot be evaluated of the selectors of resource attributes. Roles do not depend on
/// them.
fn ignored_selectors(attributes: &Value) -> Vec<String> {
    let usable_fields =
        |it: &&Value| matches!(text(it, "/operator"), "In" | "NotIn") && items(it, "/values").len() == 1;
    let usable_labels =
        |it: &&Value| matches!(text(it, "/operator"), "In" | "NotIn" | "Exists" | "DoesNotExist");
    let parses_fields = |raw: &str| raw.parse::<FieldSelector>().is_ok();
    let parses_labels = |raw: &str| raw.parse::<LabelSelector>().is_ok();
    let ignored = |field: &str, parses: &dyn Fn(&str) -> bool, usable: &dyn Fn(&&Value) -> bool| {
        let (raw, requirements) = (
            text(attributes, &format!("/{field}/rawSelector")),
            items(attributes, &format!("/{field}/requirements")),
        );
        let used = requirements.iter().filter(usable).count();
        let how = match (requirements.len(), used) {
            (0, _) if raw.is_empty() || parses(raw) => return None,
            (all, used) if all > 0 && used == all => return None,
            (_, 0) => "ignored",
            _ => "partially ignored",
        };
        Some(format!("spec.resourceAttributes.{field} {how} due to parse error"))
    };
    let fields = ignored("fieldSelector", &parses_fields, &usable_fields);
    fields.into_iter().chain(ignored("labelSelector", &parses_labels, &usable_labels)).collect()
}
