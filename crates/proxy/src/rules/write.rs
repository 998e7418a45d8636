//! Writes of objects that rules change for their caller: what the caller changes is stored or
//! refused, and nothing that a rule added is stored.
//!
//! Both an update and a patch are compared with the object as the caller sees it now. So nothing
//! here depends on the kinds of changes that rules make.

use std::sync::Arc;

use serde_json::Value;

use super::difference::{Missing, differences, merged};
use super::pointer::Pointer;
use super::rule::{Change, OnWrite, Rule};
use super::seen;

/// The reason for which a write is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum RefusedWrite {
    /// The rule says so.
    #[error("the object is changed by {0:?} of the proxy, which refuses writes of it")]
    ByRule(String),
    /// The object does not exist for this caller.
    #[error("the object is hidden by {0:?} of the proxy")]
    Hidden(String),
    /// The object is no longer the one that the caller has read.
    #[error("the object has been modified; please apply your changes to the latest version and try again")]
    Changed,
    /// The write is not one of an object.
    #[error("the proxy has rules for this resource, and cannot read the write: {0}")]
    Malformed(&'static str),
    /// The caller writes a place that a rule has changed.
    #[error(
        "{place} is changed by {rule:?} of the proxy, and the write changes it too: leave it out, or write to the \
         API server itself"
    )]
    Mixed { rule: String, place: String },
}

/// The type of a patch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PatchForm {
    /// A list of operations (RFC 6902).
    Json,
    /// A part of an object; null removes (RFC 7386).
    Merge,
    /// A part of an object; lists merge as the schema declares.
    Strategic,
    /// The object as its manager wants it (server-side apply).
    Apply,
}

/// A place that a patch writes.
struct Written {
    place: Pointer,
    /// Set if the patch only makes sure that there is an object.
    is_empty_object: bool,
}

/// Returns the name of the rule that refuses writes of an object that it changes, if there is one.
pub(crate) fn refuses_writes(rules: &[Arc<Rule>], stored: &Value) -> Option<String> {
    let mut applied = rules.iter().filter(|it| it.objects.contain(stored));
    let rule = applied.find(|it| it.on_write == OnWrite::Refuse)?;
    (seen(rules, stored).as_ref() != Some(stored)).then(|| rule.name.clone())
}

/// Returns the object to store for an update by a caller who sees `stored` through these rules.
pub(crate) fn restored(rules: &[Arc<Rule>], written: Value, stored: &Value) -> Result<Value, RefusedWrite> {
    let Some(shown) = changed(rules, stored)? else { return Ok(written) };
    merged(&shown, &written, stored).map_err(|place| mixed(rules, &place, stored))
}

/// Returns an error for a patch of `stored` that writes a place that the rules have changed for its
/// caller. Any other patch has the same effect on the stored object as on the one that is seen.
pub(crate) fn check_patch(
    rules: &[Arc<Rule>],
    form: PatchForm,
    patch: &Value,
    stored: &Value,
) -> Result<(), RefusedWrite> {
    let Some(shown) = changed(rules, stored)? else { return Ok(()) };
    // An operation of a JSON patch needs the object that it adds to; the others create it.
    let missing = if form == PatchForm::Json { Missing::Whole } else { Missing::AsEmpty };
    let changed = differences(&shown, stored, missing);
    let mut written = Vec::new();
    match (form, patch) {
        (PatchForm::Json, Value::Array(operations)) => {
            for operation in operations {
                written.extend(places_of_operation(operation)?);
            }
        }
        (PatchForm::Json, _) => return Err(RefusedWrite::Malformed("a JSON patch is a list of operations")),
        (_, Value::Object(_)) => places_of_object(form, patch, &Pointer::of(&[]), &mut written),
        _ => return Err(RefusedWrite::Malformed("the patch is not an object")),
    }
    let is_mixed = |it: &Written| {
        let clash = |changed: &Pointer| {
            let is_harmless = it.is_empty_object && it.place.contains(changed);
            it.place.overlaps(changed) && !is_harmless
        };
        changed.iter().any(clash)
    };
    match written.iter().find(|it| is_mixed(it)) {
        Some(written) => Err(mixed(rules, &written.place, stored)),
        None => Ok(()),
    }
}

/// Returns what a caller sees who may write the object; `None` if that is the stored object.
fn changed(rules: &[Arc<Rule>], stored: &Value) -> Result<Option<Value>, RefusedWrite> {
    let hides = |it: &&Arc<Rule>| {
        it.objects.contain(stored) && it.changes.iter().any(|it| matches!(it, Change::Hide))
    };
    let Some(shown) = seen(rules, stored) else {
        let name = rules.iter().find(hides).map(|it| it.name.clone());
        return Err(RefusedWrite::Hidden(name.unwrap_or_default()));
    };
    if shown == *stored {
        return Ok(None);
    }
    match refuses_writes(rules, stored) {
        Some(rule) => Err(RefusedWrite::ByRule(rule)),
        None => Ok(Some(shown)),
    }
}

/// Returns the refusal, with the rule that changes the place.
fn mixed(rules: &[Arc<Rule>], place: &Pointer, stored: &Value) -> RefusedWrite {
    let changes = |it: &&Arc<Rule>| {
        let shown = seen(std::slice::from_ref(*it), stored);
        let differing = shown.map(|it| differences(&it, stored, Missing::AsEmpty));
        differing.is_some_and(|it| it.iter().any(|it| it.overlaps(place)))
    };
    let rule = rules.iter().find(changes).or(rules.first()).map(|it| it.name.clone());
    RefusedWrite::Mixed { rule: rule.unwrap_or_default(), place: place.to_string() }
}

/// Returns the places of one operation. A test and the source of a copy count: they mean what the
/// caller has seen.
fn places_of_operation(operation: &Value) -> Result<Vec<Written>, RefusedWrite> {
    const NO_PATH: RefusedWrite = RefusedWrite::Malformed("an operation of a JSON patch needs a path");
    let Some(fields) = operation.as_object() else { return Err(NO_PATH) };
    let mut places = Vec::new();
    for key in ["path", "from"] {
        let path = match (fields.get(key), key) {
            (Some(Value::String(path)), _) => path,
            (None, "from") => continue,
            _ => return Err(NO_PATH),
        };
        let place = match path.as_str() {
            "" => Pointer::of(&[]),
            // kube-apiserver ignores what is before the first slash.
            path => Pointer::parse(path)
                .map_err(|_| RefusedWrite::Malformed("a path of a JSON patch does not begin with `/`"))?,
        };
        places.push(Written { place, is_empty_object: false });
    }
    Ok(places)
}

fn places_of_object(form: PatchForm, value: &Value, at: &Pointer, places: &mut Vec<Written>) {
    let mut push = |place: Pointer, is_empty_object: bool| places.push(Written { place, is_empty_object });
    let Value::Object(fields) = value else { return push(at.clone(), false) };
    if fields.is_empty() {
        return push(at.clone(), true);
    }
    for (key, value) in fields {
        // Directives of a strategic merge patch, as in k8s.io/apimachinery v0.36.4
        // pkg/util/strategicpatch/patch.go.
        match (form, key.strip_prefix('$'), key.split_once('/')) {
            (PatchForm::Strategic, Some(_), Some((_, list))) => {
                places.push(Written { place: at.member(list), is_empty_object: false });
            }
            (PatchForm::Strategic, Some(_), None) => {
                places.push(Written { place: at.clone(), is_empty_object: false });
            }
            _ => places_of_object(form, value, &at.member(key), places),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::RuleSet;
    use super::*;

    fn rules(text: &str) -> Vec<Arc<Rule>> {
        let cached = [(String::new(), "services".to_owned())];
        let text = format!("rules:\n- match: {{resource: services}}\n  {text}\n");
        RuleSet::parse(&text, &cached).unwrap().rules
    }

    fn stored() -> Value {
        json!({ "metadata": { "name": "web" }, "spec": { "host": "a", "ports": [{ "port": 80 }] } })
    }

    #[test]
    fn the_callers_own_changes_are_kept_and_those_of_the_rule_are_not() {
        let rules =
            rules("patch: {type: merge, value: {metadata: {annotations: {seen: 'x'}}, spec: {host: b}}}");
        let mut written = seen(&rules, &stored()).unwrap();
        written["metadata"]["annotations"]["own"] = "y".into();
        written["spec"]["type"] = "NodePort".into();
        let result = restored(&rules, written.clone(), &stored()).unwrap();
        assert_eq!(result["metadata"], json!({ "name": "web", "annotations": { "own": "y" } }));
        assert_eq!(result["spec"], json!({ "host": "a", "ports": [{ "port": 80 }], "type": "NodePort" }));
        // What the caller sets itself is the caller's.
        written["spec"]["host"] = "c".into();
        assert_eq!(restored(&rules, written, &stored()).unwrap()["spec"]["host"], "c");
    }

    #[test]
    fn redacted_values_are_not_repeated_by_metadata_and_the_object_is_not_written() {
        let rules = rules("redact: [/spec/host]");
        let mut stored = stored();
        stored["metadata"]["managedFields"] = json!([{ "fieldsV1": { "k:{\"host\":\"a\"}": {} } }]);
        stored["metadata"]["annotations"] = json!({ "kubectl.kubernetes.io/last-applied-configuration": "{\"spec\":{\"host\":\"a\"}}", "own": "y" });
        let written = seen(&rules, &stored).unwrap();
        assert_eq!(written["spec"].get("host"), None);
        assert_eq!(written["metadata"], json!({ "name": "web", "annotations": { "own": "y" } }));
        assert_eq!(restored(&rules, written, &stored), Err(RefusedWrite::ByRule("rule 1".to_owned())));
    }

    #[test]
    fn a_list_that_the_rule_and_the_caller_change_is_refused() {
        for text in [
            "patch: {type: json, value: [{op: add, path: /spec/ports/-, value: {port: 81}}]}",
            "patch: {type: merge, value: {spec: {ports: [{port: 81}]}}}",
        ] {
            let rules = rules(text);
            let mut written = seen(&rules, &stored()).unwrap();
            assert_eq!(restored(&rules, written.clone(), &stored()), Ok(stored()));
            written["spec"]["ports"] = json!([{ "port": 90 }, { "port": 81 }]);
            let error = restored(&rules, written, &stored()).unwrap_err().to_string();
            assert!(error.contains("/spec/ports") && error.contains("rule 1"), "{error}");
        }
    }

    #[test]
    fn the_endpoints_of_other_zones_are_not_lost() {
        let rules = rules("keepZone: a");
        let stored =
            json!({ "metadata": { "name": "web" }, "endpoints": [{ "zone": "a" }, { "zone": "b" }] });
        let mut written = seen(&rules, &stored).unwrap();
        written["endpoints"] = json!([{ "zone": "a" }, { "zone": "c" }]);
        assert!(matches!(restored(&rules, written, &stored), Err(RefusedWrite::Mixed { .. })));
        let patch = json!({ "endpoints": [{ "zone": "a" }] });
        let operation = json!([{ "op": "add", "path": "/endpoints/-", "value": { "zone": "c" } }]);
        for (form, patch) in [
            (PatchForm::Merge, &patch),
            (PatchForm::Strategic, &patch),
            (PatchForm::Apply, &patch),
            (PatchForm::Json, &operation),
        ] {
            let refused = check_patch(&rules, form, patch, &stored);
            assert!(matches!(refused, Err(RefusedWrite::Mixed { .. })), "{form:?}: {refused:?}");
        }
        let labels = json!({ "metadata": { "labels": { "a": "b" } } });
        assert_eq!(check_patch(&rules, PatchForm::Merge, &labels, &stored), Ok(()));
    }

    #[test]
    fn a_renamed_host_that_the_caller_sets_is_stored() {
        let rules = rules("renameHosts: {old.test: new.test}");
        let stored = json!({ "metadata": { "name": "web" }, "spec": { "externalName": "old.test", "rules": [{ "host": "old.test" }] } });
        let mut written = seen(&rules, &stored).unwrap();
        written["spec"]["externalName"] = "own.test".into();
        let result = restored(&rules, written, &stored).unwrap();
        assert_eq!(result["spec"], json!({ "externalName": "own.test", "rules": [{ "host": "old.test" }] }));
    }

    #[test]
    fn a_patch_of_a_changed_place_is_refused_in_every_form() {
        let rules = rules(
            "patch: {type: merge, value: {metadata: {annotations: {seen: x}}, spec: {host: b, ports: []}}}",
        );
        let check = |form: PatchForm, patch: Value| check_patch(&rules, form, &patch, &stored());
        let objects = [
            (json!({ "spec": { "host": "c" } }), false),
            (json!({ "spec": { "host": null } }), false),
            (json!({ "spec": null }), false),
            (json!({ "spec": { "ports": [] } }), false),
            (json!({ "spec": { "host": { "deep": 1 } } }), false),
            (json!({ "metadata": { "annotations": { "seen": "y" } } }), false),
            (json!({ "metadata": { "annotations": null } }), false),
            (json!({ "metadata": { "annotations": { "own": "y" } } }), true),
            (json!({ "metadata": { "annotations": {} }, "status": {} }), true),
            (json!({ "spec": { "type": "NodePort" } }), true),
        ];
        for form in [PatchForm::Merge, PatchForm::Strategic, PatchForm::Apply] {
            for (patch, is_passed) in &objects {
                assert_eq!(check(form, patch.clone()).is_ok(), *is_passed, "{form:?} {patch}");
            }
        }
        for (directive, is_passed) in [
            (json!({ "spec": { "$patch": "replace", "type": "NodePort" } }), false),
            (json!({ "spec": { "$setElementOrder/ports": [] } }), false),
            (json!({ "spec": { "$deleteFromPrimitiveList/names": ["a"] } }), true),
            (json!({ "metadata": { "$retainKeys": ["name"] } }), false),
        ] {
            assert_eq!(check(PatchForm::Strategic, directive.clone()).is_ok(), is_passed, "{directive}");
        }
        for (operation, is_passed) in [
            (json!({ "op": "replace", "path": "/spec/host", "value": "c" }), false),
            (json!({ "op": "remove", "path": "/spec" }), false),
            (json!({ "op": "replace", "path": "", "value": {} }), false),
            (json!({ "op": "add", "path": "/spec/ports/-", "value": {} }), false),
            (json!({ "op": "add", "path": "/metadata/annotations", "value": {} }), false),
            (json!({ "op": "copy", "from": "/spec/host", "path": "/spec/copy" }), false),
            (json!({ "op": "move", "from": "/spec/host", "path": "/spec/copy" }), false),
            (json!({ "op": "test", "path": "/spec/host", "value": "b" }), false),
            (json!({ "op": "add", "path": "x/spec/host", "value": "c" }), false),
            (json!({ "op": "add" }), false),
            (json!("add"), false),
            (json!({ "op": "add", "path": "/spec/type", "value": "NodePort" }), true),
        ] {
            assert_eq!(check(PatchForm::Json, json!([operation])).is_ok(), is_passed, "{operation}");
        }
        assert!(check(PatchForm::Merge, json!([])).is_err() && check(PatchForm::Json, json!({})).is_err());
    }

    #[test]
    fn a_rule_may_refuse_and_a_hidden_object_is_not_written() {
        let refusing = rules("annotations: {a: b}\n  onWrite: refuse");
        assert_eq!(restored(&refusing, stored(), &stored()), Err(RefusedWrite::ByRule("rule 1".to_owned())));
        let hiding = rules("hide: true");
        assert_eq!(restored(&hiding, stored(), &stored()), Err(RefusedWrite::Hidden("rule 1".to_owned())));
        let patch = json!({});
        let refused = check_patch(&hiding, PatchForm::Merge, &patch, &stored());
        assert_eq!(refused, Err(RefusedWrite::Hidden("rule 1".to_owned())));
    }
}
