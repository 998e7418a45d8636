//! What is wrong with the metadata of an object of any kind.

use serde_json::Value;

use super::check::{Problems, forbidden, immutable, invalid, required, wrong_text};
use crate::kinds::look::{at, entries, flag, items, number, text};
use crate::kinds::names;
use crate::kinds::traits::NameRule;
use crate::{Problem, ProblemKind};

/// How much all annotations may hold together.
const ANNOTATIONS_LIMIT: usize = 256 * 1024;

/// Finalizers without a domain that are known to the server.
const STANDARD_FINALIZERS: &[&str] = &["kubernetes", "orphan", "foregroundDeletion"];

/// What is wrong with the metadata of a new object of a built-in kind.
pub fn create(group: &str, plural: &str, namespaced: bool, object: &Value) -> Vec<Problem> {
    let mut out = common(NameRule::of(group, plural), namespaced, object);
    if wants_standard_finalizers(group, plural) {
        standard_finalizers(&mut out, object);
    }
    out
}

/// What is wrong with the metadata of any object whose names follow a rule.
pub fn common(rule: NameRule, namespaced: bool, object: &Value) -> Vec<Problem> {
    let mut out = Problems::new();
    let name = text(object, "/metadata/name");
    let prefix = text(object, "/metadata/generateName");
    if !prefix.is_empty() {
        wrong_text(&mut out, "metadata.generateName", prefix, rule.problems(prefix, true));
    }
    if name.is_empty() {
        required(&mut out, "metadata.name", "name or generateName is required");
    } else {
        wrong_text(&mut out, "metadata.name", name, rule.problems(name, false));
    }
    let namespace = text(object, "/metadata/namespace");
    if !namespaced {
        if !namespace.is_empty() {
            forbidden(&mut out, "metadata.namespace", "not allowed on this type");
        }
    } else if namespace.is_empty() {
        required(&mut out, "metadata.namespace", "");
    } else {
        wrong_text(&mut out, "metadata.namespace", namespace, names::label(namespace));
    }
    if let Some(generation) = number(object, "/metadata/generation").filter(|it| *it < 0) {
        let detail = "must be greater than or equal to 0";
        invalid(&mut out, "metadata.generation", &generation.into(), detail);
    }
    described(&mut out, object);
    finalizers(&mut out, object);
    out
}

/// How often a kind looks at parts of its metadata when an object is updated. The original looks more than once and
/// tells what it found each time; it shows the same words only once in the message, but in every cause.
struct Looks {
    /// At labels, annotations and owners.
    labels: usize,
    /// At what must not change.
    fixed: usize,
    /// At the names of finalizers.
    finalizers: usize,
}

fn looks(group: &str, plural: &str) -> Looks {
    let (labels, fixed, finalizers) = match (group, plural) {
        ("", "replicationcontrollers" | "podtemplates" | "resourcequotas" | "services")
        | ("apps", "deployments" | "replicasets" | "statefulsets" | "daemonsets")
        | ("batch", "cronjobs")
        | ("networking.k8s.io", "networkpolicies")
        | ("autoscaling", _)
        | ("storage.k8s.io", "csidrivers")
        | ("scheduling.k8s.io", _) => (3, 2, 1),
        ("", "limitranges")
        | ("discovery.k8s.io", _)
        | ("storage.k8s.io", "csinodes" | "volumeattachments") => (3, 1, 1),
        ("", "events") | ("policy", _) => (2, 1, 0),
        ("coordination.k8s.io", _) => (3, 2, 0),
        ("node.k8s.io", _) => (4, 2, 0),
        ("apps", "controllerrevisions") => (5, 3, 3),
        ("", "persistentvolumes") => (4, 1, 2),
        _ => (4, 2, 2),
    };
    Looks { labels, fixed, finalizers }
}

/// What is wrong with the metadata of the new state of an object of a built-in kind, as often as the original says it.
pub fn update(group: &str, plural: &str, new: &Value, old: &Value) -> Vec<Problem> {
    let looks = looks(group, plural);
    let mut out = Problems::new();
    for _ in 0..looks.fixed {
        fixed(&mut out, new, old);
    }
    for _ in 0..looks.labels {
        described(&mut out, new);
    }
    for _ in 0..looks.finalizers {
        finalizers(&mut out, new);
        if wants_standard_finalizers(group, plural) {
            standard_finalizers(&mut out, new);
        }
    }
    out
}

/// What is wrong with the metadata of the new state of any object, each thing once.
pub fn update_common(new: &Value, old: &Value) -> Vec<Problem> {
    let mut out = Problems::new();
    fixed(&mut out, new, old);
    described(&mut out, new);
    finalizers(&mut out, new);
    out
}

fn described(out: &mut Problems, object: &Value) {
    labels(out, object, "/metadata/labels", "metadata.labels");
    annotations(out, object, "/metadata/annotations", "metadata.annotations");
    owners(out, object);
}

fn fixed(out: &mut Problems, new: &Value, old: &Value) {
    for field in ["name", "namespace", "uid", "deletionTimestamp", "deletionGracePeriodSeconds"] {
        immutable(out, new, old, &format!("/metadata/{field}"), &format!("metadata.{field}"));
    }
    if at(old, "/metadata/deletionTimestamp").is_none() {
        return;
    }
    let before = items(old, "/metadata/finalizers");
    let added: Vec<String> = items(new, "/metadata/finalizers")
        .iter()
        .filter(|it| !before.contains(it))
        .map(ToString::to_string)
        .collect();
    if !added.is_empty() {
        let detail = format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            added.join(", ")
        );
        out.push(Problem::new("metadata.finalizers", ProblemKind::Forbidden, &detail));
    }
}

/// Labels, wherever they are.
pub(super) fn labels(out: &mut Problems, object: &Value, pointer: &str, field: &str) {
    for (key, value) in entries(object, pointer) {
        wrong_text(out, field, key, names::qualified(key));
        let value = value.as_str().unwrap_or_default();
        wrong_text(out, field, value, names::label_value(value));
    }
}

/// Annotations, wherever they are: their keys are checked in lower case.
pub(super) fn annotations(out: &mut Problems, object: &Value, pointer: &str, field: &str) {
    let mut size = 0;
    for (key, value) in entries(object, pointer) {
        size += key.len() + value.as_str().unwrap_or_default().len();
        wrong_text(out, field, key, names::qualified(&key.to_lowercase()));
    }
    if size > ANNOTATIONS_LIMIT {
        let detail = format!("may not be more than {ANNOTATIONS_LIMIT} bytes");
        out.push(Problem::new(field, ProblemKind::TooLong, &detail));
    }
}

fn owners(out: &mut Problems, object: &Value) {
    let field = "metadata.ownerReferences";
    let mut controller: Option<&Value> = None;
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
            let shown = Shown(&owner_fields(owner)).to_string();
            let detail = "/v1, Kind=Event is disallowed from being an owner";
            out.push(Problem::with_value(field, ProblemKind::Invalid, shown, detail));
        }
        if flag(owner, "/controller") {
            if let Some(first) = controller {
                let all: Vec<String> = items(object, "/metadata/ownerReferences")
                    .iter()
                    .map(|owner| Shown(&owner_fields(owner)).to_string())
                    .collect();
                let named = |owner: &Value| format!("{}/{}", text(owner, "/kind"), text(owner, "/name"));
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {} and {}",
                    named(first),
                    named(owner)
                );
                let shown = format!("[{}]", all.join(","));
                out.push(Problem::with_value(field, ProblemKind::Invalid, shown, &detail));
            } else {
                controller = Some(owner);
            }
        }
    }
}

/// The fields of an owner in the order in which they are shown.
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

struct Shown<'a>(&'a [(&'static str, Value)]);

impl std::fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let fields: Vec<String> = self.0.iter().map(|(key, value)| format!("\"{key}\":{value}")).collect();
        write!(f, "{{{}}}", fields.join(","))
    }
}

/// Whether finalizers of a kind need a domain. Those of custom objects, of definitions and of some others do not.
fn wants_standard_finalizers(group: &str, plural: &str) -> bool {
    group != "apiextensions.k8s.io" && looks(group, plural).finalizers > 0
}

fn standard_finalizers(out: &mut Problems, object: &Value) {
    let all = items(object, "/metadata/finalizers").iter().map(|it| it.as_str().unwrap_or_default());
    for (index, name) in all.enumerate().filter(|(_, it)| names::qualified(it).is_empty()) {
        standard_finalizer(out, name, &format!("metadata.finalizers[{index}]"));
    }
}

fn finalizers(out: &mut Problems, object: &Value) {
    let all = items(object, "/metadata/finalizers");
    for name in all.iter().map(|it| it.as_str().unwrap_or_default()) {
        wrong_text(out, "metadata.finalizers", name, names::qualified(name));
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

/// A finalizer: a qualified name, with a domain unless it is a standard one.
pub(super) fn finalizer(out: &mut Problems, name: &str, field: &str, indexed: &str) {
    wrong_text(out, field, name, names::qualified(name));
    standard_finalizer(out, name, indexed);
}

/// The finalizers a namespace is given through `/finalize`.
pub fn namespace_finalizers(namespace: &Value) -> Vec<Problem> {
    let mut out = Vec::new();
    for (index, name) in items(namespace, "/spec/finalizers").iter().filter_map(Value::as_str).enumerate() {
        let field = format!("spec.finalizers[{index}]");
        standard_finalizer(&mut out, name, &field);
        wrong_text(&mut out, &field, name, names::qualified(name));
    }
    out
}

fn standard_finalizer(out: &mut Problems, name: &str, indexed: &str) {
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

    #[test]
    fn finalizers_need_a_domain_only_where_the_original_says_so() {
        let object =
            json!({"metadata": {"name": "a", "namespace": "b", "finalizers": ["plain.example.com"]}});
        for (group, plural, namespaced, refused) in [
            ("", "configmaps", true, true),
            ("coordination.k8s.io", "leases", true, false),
            ("apiextensions.k8s.io", "customresourcedefinitions", false, false),
        ] {
            let told =
                |problems: &[Problem]| problems.iter().any(|it| it.message.contains("neither a standard"));
            assert_eq!(told(&create(group, plural, namespaced, &object)), refused, "{plural}");
            assert_eq!(told(&update(group, plural, &object, &object)), refused, "{plural}");
        }
        assert!(
            common(NameRule::Subdomain, true, &object).is_empty()
                && update_common(&object, &object).is_empty()
        );
    }

    #[test]
    fn annotations_may_hold_so_much_and_no_more() {
        let with = |size: usize| json!({"metadata": {"name": "a", "annotations": {"k": "v".repeat(size)}}});
        let problems = |size| common(NameRule::Subdomain, false, &with(size));
        assert!(problems(ANNOTATIONS_LIMIT - 1).is_empty());
        let found = problems(ANNOTATIONS_LIMIT);
        assert_eq!(found[0].to_string(), "metadata.annotations: Too long: may not be more than 262144 bytes");
    }

    #[test]
    fn no_finalizer_is_added_to_what_is_being_deleted() {
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
