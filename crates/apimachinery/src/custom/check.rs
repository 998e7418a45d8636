//! Validation of CustomResourceDefinitions, with the messages of kube-apiserver
//! (k8s.io/apiextensions-apiserver v0.36.4 pkg/apis/apiextensions/validation/validation.go).
//!
//! kube-apiserver moves fields that are equal in all versions to the top of its internal form
//! before it validates: a problem of a schema that all versions share is a problem of
//! `spec.validation`. Rules are compiled only if nothing else is wrong.

use std::cell::LazyCell;
use std::collections::HashSet;

use serde_json::Value;

use super::go_format::{json as compact, quoted};
use super::internal::{self, SharedByVersions};
use super::keywords::{flag, listed, text};
use super::pattern_checks::check_patterns;
use super::validate::CheckBudget;
use super::version_checks::{
    check_choice, check_columns, check_conversion, check_deprecation, check_selectable, check_subresources,
    forbidden, invalid,
};
use super::{Structural, default_checks, keywords, names, openapi, rule_checks, structural_rules};
use crate::api_error::{FieldError, FieldErrorKind};
use crate::field_errors::FieldErrors;
use crate::names::{label_1035, subdomain};
use crate::weight;

const APPROVAL: &str = "api-approved.kubernetes.io";
const AT_ROOT: &str = "only [Description Type Format Title Maximum ExclusiveMaximum Minimum ExclusiveMinimum MaxLength \
                       MinLength Pattern MaxItems MinItems UniqueItems MultipleOf Required Items Properties ExternalDocs \
                       Example XPreserveUnknownFields XValidations] fields are allowed at the root of the schema if the \
                       status subresource is enabled";
const ROOT_FIELDS: [&str; 22] = [
    "description",
    "type",
    "format",
    "title",
    "maximum",
    "exclusiveMaximum",
    "minimum",
    "exclusiveMinimum",
    "maxLength",
    "minLength",
    "pattern",
    "maxItems",
    "minItems",
    "uniqueItems",
    "multipleOf",
    "required",
    "items",
    "properties",
    "externalDocs",
    "example",
    "x-kubernetes-preserve-unknown-fields",
    "x-kubernetes-validations",
];

/// Returns the problems of a new definition, after [`super::definition::prepare_create`]. Labels,
/// annotations and the like are not checked.
pub fn check_create(definition: &Value) -> FieldErrors {
    let mut problems = FieldErrors::new();
    let spec = &definition["spec"];
    let name = text(&definition["metadata"], "name");
    let wanted = format!("{}.{}", text(&spec["names"], "plural"), text(spec, "group"));
    let mut faults = subdomain(name);
    if name != wanted {
        faults.push("must be spec.names.plural+\".\"+spec.group".to_owned());
    }
    for fault in faults {
        problems.push(invalid("metadata.name", &quoted(name), &fault));
    }
    check_both(definition, None, &mut problems);
    problems
}

/// Returns the problems of a changed definition, after [`super::definition::prepare_update`].
pub fn check_update(definition: &Value, old: &Value) -> FieldErrors {
    let mut problems = FieldErrors::new();
    check_both(definition, Some(old), &mut problems);
    problems
}

/// Returns a warning for each format in a definition that is not checked. With `old`, only for
/// those that are new.
pub fn format_warnings(definition: &Value, old: Option<&Value>) -> Vec<String> {
    let known: HashSet<String> = old.map(unchecked_formats).unwrap_or_default().into_iter().collect();
    let fresh = unchecked_formats(definition).into_iter().filter(|format| !known.contains(format));
    fresh.map(|format| format!("unrecognized format {}", quoted(&format))).collect()
}

fn check_both(definition: &Value, old: Option<&Value>, problems: &mut FieldErrors) {
    let spec = &definition["spec"];
    check_spec(spec, problems);
    if problems.is_empty() {
        problems.append(rule_checks::problems(definition, old));
    }
    if let Some(old) = old {
        let mut fields = vec!["/group", "/names/plural"];
        if names::is_true(old, "Established") {
            fields.splice(0..0, ["/scope", "/names/kind"]);
        }
        for pointer in fields {
            let (new, before) = (spec.pointer(pointer), old["spec"].pointer(pointer));
            if new != before {
                let field = format!("spec{}", pointer.replace('/', "."));
                let value = quoted(new.and_then(Value::as_str).unwrap_or_default());
                problems.push(invalid(&field, &value, "field is immutable"));
            }
        }
    }
    check_stored(definition, problems);
    check_approval(definition, old, problems);
    if flag(spec, "preserveUnknownFields")
        && !old.is_some_and(|old| flag(&old["spec"], "preserveUnknownFields"))
    {
        let detail = "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in \
                      spec.versions[*].schema instead";
        problems.push(invalid("spec.preserveUnknownFields", "true", detail));
    }
}

fn check_spec(spec: &Value, problems: &mut FieldErrors) {
    check_group(text(spec, "group"), problems);
    check_choice("spec.scope", text(spec, "scope"), &["Cluster", "Namespaced"], problems);
    let versions = listed(spec, "versions");
    if versions.len() > MAX_VERSIONS {
        let detail = format!("must have at most {MAX_VERSIONS} items (a limit of this server)");
        let count = versions.len();
        return problems.push(FieldError::with_value(
            "spec.versions",
            FieldErrorKind::TooMany,
            count,
            &detail,
        ));
    }
    let nodes = number_of_nodes(versions);
    if nodes > MAX_NODES {
        let detail = format!(
            "must have at most {MAX_NODES} schemas in all versions, including those of fields, items and alternatives \
             (a limit of this server)"
        );
        return problems.push(FieldError::with_value(
            "spec.versions",
            FieldErrorKind::TooMany,
            nodes,
            &detail,
        ));
    }
    let values = weight::of(&spec["versions"]);
    if values > MAX_VALUES {
        let detail = format!(
            "must have at most {MAX_VALUES} values in all versions, including those of defaults and enums, where each \
             64 bytes of a text count as one (a limit of this server)"
        );
        return problems.push(FieldError::with_value(
            "spec.versions",
            FieldErrorKind::TooMany,
            values,
            &detail,
        ));
    }
    for (index, version) in versions.iter().enumerate() {
        if !version["schema"]["openAPIV3Schema"].is_object() {
            let field = format!("spec.versions[{index}].schema.openAPIV3Schema");
            problems.push(FieldError::new(field, FieldErrorKind::Required, ""));
        }
    }
    let shared = SharedByVersions::of(versions);
    if !check_patterns(versions, &shared, problems) {
        return;
    }
    let mut budget = CheckBudget::of(&spec["versions"]);
    for (index, version) in versions.iter().enumerate() {
        check_version(version, &format!("spec.versions[{index}]"), &shared, &mut budget, problems);
    }
    check_version_set(spec, &shared, problems);
    for key in ["plural", "singular", "kind", "listKind"] {
        if text(&spec["names"], key).is_empty() {
            problems.push(FieldError::new(format!("spec.names.{key}"), FieldErrorKind::Required, ""));
        }
    }
    check_names(&spec["names"], "spec.names", problems);
    if let Some(first) = versions.first() {
        let status = versions.iter().any(|version| version["subresources"]["status"].is_object());
        if shared.schema {
            check_schema(&first["schema"], status, "spec.validation", &mut budget, problems);
        }
        if shared.subresources {
            check_subresources(&first["subresources"], "spec.subresources", problems);
        }
        if shared.columns {
            check_columns(first, "spec.additionalPrinterColumns", problems);
        }
        if shared.selectable {
            check_selectable(first, "spec.selectableFields", problems);
        }
    }
    check_conversion(spec, problems);
}

fn check_group(group: &str, problems: &mut FieldErrors) {
    let faults = subdomain(group);
    if group.is_empty() {
        problems.push(FieldError::new("spec.group", FieldErrorKind::Required, ""));
    } else if !faults.is_empty() {
        problems.push(invalid("spec.group", &quoted(group), &faults.join(",")));
    } else if !group.contains('.') {
        problems.push(invalid("spec.group", &quoted(group), "should be a domain with at least one dot"));
    }
}

fn check_version(
    version: &Value,
    path: &str,
    shared: &SharedByVersions,
    budget: &mut CheckBudget,
    problems: &mut FieldErrors,
) {
    let name = text(version, "name");
    let faults = label_1035(name);
    if !faults.is_empty() {
        problems.push(invalid(&format!("{path}.name"), &quoted(name), &faults.join(",")));
    }
    check_deprecation(version, path, problems);
    if !shared.schema {
        let status = version["subresources"]["status"].is_object();
        check_schema(&version["schema"], status, &format!("{path}.schema"), budget, problems);
    }
    if !shared.subresources {
        check_subresources(&version["subresources"], &format!("{path}.subresources"), problems);
    }
    if !shared.columns {
        check_columns(version, &format!("{path}.additionalPrinterColumns"), problems);
    }
    if !shared.selectable {
        check_selectable(version, &format!("{path}.selectableFields"), problems);
    }
}

fn check_version_set(spec: &Value, shared: &SharedByVersions, problems: &mut FieldErrors) {
    let versions = listed(spec, "versions");
    let refuse = |detail: &str| invalid("spec.versions", &shared.versions(&spec["versions"]), detail);
    let mut names = HashSet::new();
    if !versions.iter().all(|version| names.insert(&version["name"])) {
        problems.push_with(|| refuse("must contain unique version names"));
    }
    if versions.iter().filter(|version| flag(version, "storage")).count() != 1 {
        problems.push_with(|| refuse("must have exactly one version marked as storage version"));
    }
    if let Some(name) = versions.first().map(|version| text(version, "name")).filter(|name| !name.is_empty())
    {
        let faults = label_1035(name);
        if !faults.is_empty() {
            problems.push(invalid("spec.version", &quoted(name), &faults.join(",")));
        }
    }
}

/// The number of schemas that a definition may have in all its versions, including nested ones.
/// kube-apiserver has no limit, but etcd stores at most 1.5 MiB for it. A schema of three bytes
/// takes hundreds when it is parsed.
const MAX_NODES: usize = 100_000;

/// The number of values that the versions of a definition may have, such as the parts of defaults
/// and enums. kube-apiserver has no limit. An object of seven bytes takes almost 700 when it is
/// parsed, and a definition is kept in several forms.
const MAX_VALUES: usize = 300_000;

/// Returns the number of nodes in the schemas of these versions.
fn number_of_nodes(versions: &[Value]) -> usize {
    versions.iter().map(|version| keywords::number_of_nodes(&version["schema"]["openAPIV3Schema"])).sum()
}

/// The number of short names and of categories that a definition may have. kube-apiserver has no
/// limit. Discovery repeats them for every version.
const MAX_NAMES: usize = 64;

/// The number of versions that a definition may have. kube-apiserver has no limit. Each of them has
/// a document of OpenAPI, of tens of kilobytes, and an entry in discovery.
const MAX_VERSIONS: usize = 32;

/// Checks the status of a definition: `ValidateCustomResourceDefinitionStatus` of
/// k8s.io/apiextensions-apiserver v0.36.4 pkg/apis/apiextensions/validation/validation.go.
pub fn check_status(definition: &Value) -> FieldErrors {
    let mut problems = FieldErrors::new();
    check_names(&definition["status"]["acceptedNames"], "status.acceptedNames", &mut problems);
    problems
}

fn check_names(names: &Value, field: &str, problems: &mut FieldErrors) {
    for key in ["plural", "singular", "kind", "listKind"] {
        let name = text(names, key);
        let mixed = matches!(key, "kind" | "listKind");
        let faults = if mixed { label_1035(&name.to_lowercase()) } else { label_1035(name) };
        if !name.is_empty() && !faults.is_empty() {
            let faults = faults.join(",");
            let detail = if mixed {
                format!("may have mixed case, but should otherwise match: {faults}")
            } else {
                faults
            };
            problems.push(invalid(&format!("{field}.{key}"), &quoted(name), &detail));
        }
    }
    let mut check_list = |key: &str| {
        let count = listed(names, key).len();
        if count > MAX_NAMES {
            let detail = format!("must have at most {MAX_NAMES} items (a limit of this server)");
            problems.push(FieldError::with_value(
                format!("{field}.{key}"),
                FieldErrorKind::TooMany,
                count,
                &detail,
            ));
            return;
        }
        for (index, name) in listed(names, key).iter().enumerate() {
            let name = name.as_str().unwrap_or_default();
            let faults = label_1035(name);
            if !faults.is_empty() {
                problems.push(invalid(&format!("{field}.{key}[{index}]"), &quoted(name), &faults.join(",")));
            }
        }
    };
    check_list("shortNames");
    check_list("categories");
    let list_kind = text(names, "listKind");
    if !list_kind.is_empty() && list_kind == text(names, "kind") {
        problems.push(invalid(
            &format!("{field}.listKind"),
            &quoted(list_kind),
            "kind and listKind may not be the same",
        ));
    }
}

fn check_schema(
    schema: &Value,
    status: bool,
    path: &str,
    budget: &mut CheckBudget,
    problems: &mut FieldErrors,
) {
    let Some(root) = schema.get("openAPIV3Schema").filter(|root| root.is_object()) else { return };
    let path = format!("{path}.openAPIV3Schema");
    if status {
        check_root(root, &path, problems);
    }
    if flag(root, "nullable") {
        problems.push(forbidden(&format!("{path}.nullable"), "nullable cannot be true at the root"));
    }
    let unsupported = structural_rules::unsupported(root);
    let before = problems.count();
    if unsupported.is_none() {
        let found = structural_rules::problems(root, &path);
        if found.is_empty() {
            problems.append(default_checks::problems(Structural::parse(root), &path, budget));
        } else {
            problems.append(found);
        }
    }
    problems.append(openapi::problems(root, &path));
    if let Some(keyword) = unsupported.filter(|_| problems.count() == before) {
        problems.push(invalid(&path, "\"\"", &format!("OpenAPIV3Schema '{keyword}' is not supported")));
    }
}

/// Checks the root of a schema with a status subresource: it may only have fields that can be
/// validated for `status` alone. Only the first problem is reported; fields that come before `type`
/// in the internal form take precedence over it.
fn check_root(root: &Value, path: &str, problems: &mut FieldErrors) {
    let kind = text(root, "type");
    let earlier = ["id", "$schema", "$ref"].iter().any(|key| !text(root, key).is_empty());
    if !earlier && !kind.is_empty() && kind != "object" {
        let detail = "only \"object\" is allowed as the type at the root of the schema if the status subresource is enabled";
        problems.push(invalid(&format!("{path}.type"), &quoted(kind), detail));
        return;
    }
    let more = |(key, value): (&String, &Value)| {
        !ROOT_FIELDS.contains(&key.as_str()) && !matches!(value, Value::Null | Value::Bool(false))
    };
    if root.as_object().is_some_and(|fields| fields.iter().any(more)) {
        problems.push_with(|| invalid(path, &internal::schema(root), AT_ROOT));
    }
}

/// Checks that the versions in which objects may be stored are kept.
fn check_stored(definition: &Value, problems: &mut FieldErrors) {
    let stored = listed(&definition["status"], "storedVersions");
    let versions = listed(&definition["spec"], "versions");
    let field = "status.storedVersions";
    if stored.is_empty() {
        problems.push(invalid(field, "null", "must have at least one stored version"));
        return;
    }
    let shown = LazyCell::new(|| compact(&Value::Array(stored.to_vec())));
    let (names, known): (HashSet<&Value>, HashSet<&Value>) =
        (versions.iter().map(|version| &version["name"]).collect(), stored.iter().collect());
    for version in
        versions.iter().filter(|version| flag(version, "storage") && !known.contains(&version["name"]))
    {
        let detail = format!("must have the storage version {}", text(version, "name"));
        problems.push_with(|| invalid(field, &shown, &detail));
    }
    for (index, name) in stored.iter().enumerate() {
        if !names.contains(name) {
            let name = name.as_str().unwrap_or_default();
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions \
                 until a storage migration ensures no data remains persisted in {name} and removes {name} from \
                 status.storedVersions"
            );
            problems.push_with(|| invalid(&format!("{field}[{index}]"), &quoted(name), &detail));
        }
    }
}

/// Checks that a definition in a protected group has an approval annotation.
fn check_approval(definition: &Value, old: Option<&Value>, problems: &mut FieldErrors) {
    let group = text(&definition["spec"], "group");
    let community = ["k8s.io", "kubernetes.io"];
    if !community.iter().any(|domain| group == *domain || group.ends_with(&format!(".{domain}"))) {
        return;
    }
    let approval = |definition: &Value| text(&definition["metadata"]["annotations"], APPROVAL).to_owned();
    let sound = |approval: &str| {
        let host = approval.split_once("://").map_or("", |(_, rest)| rest);
        approval.starts_with("unapproved") || !host.is_empty() && !host.starts_with('/')
    };
    let state = |approval: &str| (approval.is_empty(), sound(approval));
    let new = approval(definition);
    if old.is_some_and(|old| state(&approval(old)) == state(&new)) || sound(&new) {
        return;
    }
    let field = format!("metadata.annotations[{APPROVAL}]");
    let see = "see https://github.com/kubernetes/enhancements/pull/1111";
    if new.is_empty() {
        let detail = format!("protected groups must have approval annotation \"{APPROVAL}\", {see}");
        problems.push(FieldError::new(field, FieldErrorKind::Required, &detail));
    } else {
        let detail = format!(
            "protected groups must have approval annotation \"{APPROVAL}\" with either a URL or a reason starting with \
             \"unapproved\", {see}"
        );
        problems.push(invalid(&field, &quoted(&new), &detail));
    }
}

fn unchecked_formats(definition: &Value) -> Vec<String> {
    fn collect(schema: &Value, found: &mut Vec<String>) {
        let format = text(schema, "format");
        let kind = super::structural::Type::named(text(schema, "type"));
        if !format.is_empty() && !super::structural::checked(format, kind, false) {
            found.push(format.to_owned());
        }
        for key in ["items", "not", "additionalProperties"] {
            schema.get(key).into_iter().for_each(|schema| collect(schema, found));
        }
        for key in ["allOf", "anyOf", "oneOf"] {
            listed(schema, key).iter().for_each(|schema| collect(schema, found));
        }
        keywords::named(schema, "properties").for_each(|(_, schema)| collect(schema, found));
    }
    let versions = listed(&definition["spec"], "versions");
    let mut found = Vec::new();
    // A schema that all versions share is visited once.
    let count = if SharedByVersions::of(versions).schema { versions.len().min(1) } else { versions.len() };
    versions[..count].iter().for_each(|version| collect(&version["schema"]["openAPIV3Schema"], &mut found));
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns the problems of a definition whose versions have a field with these schemas.
    fn problems_with_fields(fields: impl IntoIterator<Item = Value>) -> Vec<String> {
        let versions: Vec<Value> = (1..)
            .zip(fields)
            .map(|(number, field)| {
                let schema = json!({ "type": "object", "properties": { "spec": field } });
                json!({ "name": format!("v{number}"), "served": true, "storage": number == 1,
                    "schema": { "openAPIV3Schema": schema } })
            })
            .collect();
        let mut definition = json!({ "metadata": { "name": "things.ex.io" }, "spec": {
            "group": "ex.io", "scope": "Cluster", "versions": versions,
            "names": { "plural": "things", "kind": "Thing" } } });
        super::super::definition::fill_defaults(&mut definition);
        super::super::definition::prepare_create(&mut definition);
        check_create(&definition).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn a_definition_has_a_limited_number_of_values_in_all_versions() {
        let found = |items: usize| {
            let item = json!({ "type": "object", "x-kubernetes-preserve-unknown-fields": true });
            let default = vec![json!({ "": 0 }); items];
            problems_with_fields([json!({ "type": "array", "items": item, "default": default })])
        };
        assert_eq!(found(MAX_VALUES / 2 - 100), [""; 0]);
        let problems = found(MAX_VALUES / 2);
        let [problem] = &problems[..] else { panic!("{} problems", problems.len()) };
        assert!(problem.contains("must have at most 300000 values in all versions"), "{problem}");
    }

    #[test]
    fn a_definition_has_a_limited_number_of_versions() {
        let found = |versions: usize| problems_with_fields(vec![json!({ "type": "string" }); versions]);
        assert_eq!(found(32), [""; 0]);
        assert_eq!(
            found(33),
            ["spec.versions: Too many: 33: must have at most 32 items (a limit of this server)"]
        );
    }

    #[test]
    fn a_definition_has_a_limited_number_of_schemas_in_all_versions() {
        let found = |nodes: &[usize]| {
            // The root and the field are nodes too.
            let field = |nodes: usize| json!({ "type": "string", "allOf": vec![json!({}); nodes - 2] });
            problems_with_fields(nodes.iter().map(|nodes| field(*nodes)))
        };
        assert_eq!(found(&[MAX_NODES]), [""; 0]);
        assert_eq!(found(&[MAX_NODES - 2, 2]), [""; 0]);
        let expected = "spec.versions: Too many: 100001: must have at most 100000 schemas in all versions, including \
                        those of fields, items and alternatives (a limit of this server)";
        assert_eq!(found(&[MAX_NODES + 1]), [expected]);
        assert_eq!(found(&[MAX_NODES - 1, 2]), [expected]);
    }

    #[test]
    fn unknown_formats_are_reported_once_they_are_new_and_in_little_time() {
        const COUNT: usize = 50_000;
        let definition = |from: usize| {
            let formats: Vec<_> =
                (from..COUNT + from).map(|it| json!({ "format": format!("f{it}") })).collect();
            json!({ "spec": { "versions": [{ "schema": { "openAPIV3Schema": { "allOf": formats } } }] } })
        };
        // A search in a list of all known formats for each is quadratic.
        let warnings = format_warnings(&definition(1), Some(&definition(0)));
        assert_eq!(warnings, [format!("unrecognized format \"f{COUNT}\"")]);
    }
}
