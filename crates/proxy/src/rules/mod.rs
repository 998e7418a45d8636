//! Rules that change what callers see. Everything here is a pure function over values.
//!
//! A rule decides by the stored object whether it applies, so the order of rules matters only where
//! they change the same field. It cannot change what identifies an object: key, uid, kind, version.
//!
//! A kind of change is a variant of `Change` in `rule.rs`, a function from an object to an object,
//! and its fields in `file.rs`; a kind of condition is a field of `Objects`. Nothing else knows the
//! kinds: views and writes compare the objects before and after.
//!
//! The `mod` lines below are in layer order.

mod pointer;
mod expression;
mod rule;
mod file;
mod difference;
mod write;
#[cfg(test)]
pub(crate) mod generated;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use rule::{Rule, is_same};
pub(crate) use write::{PatchForm, RefusedWrite, check_patch, refuses_writes, restored};

/// The rules of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleSet {
    rules: Vec<Arc<Rule>>,
    stale: Vec<(String, String)>,
}

impl RuleSet {
    /// Parses a file of rules for the resources that are cached, each a group and a plural name.
    ///
    /// # Errors
    /// The error is a line of text with the line of the file and the reason.
    pub(crate) fn parse(text: &str, cached: &[(String, String)]) -> Result<Self, String> {
        let file::Parsed { rules, stale } = file::parse(text, cached)?;
        Ok(Self { rules: rules.into_iter().map(Arc::new).collect(), stale })
    }

    /// Returns true if the resource is answered from memory while upstream cannot be reached.
    pub(crate) fn allows_stale(&self, group: &str, resource: &str) -> bool {
        self.stale.iter().any(|it| is_same(it, group, resource))
    }

    /// Returns the rules for a resource, in order.
    pub(crate) fn of(&self, group: &str, resource: &str) -> Vec<Arc<Rule>> {
        self.rules.iter().filter(|it| it.is_of(group, resource)).cloned().collect()
    }
}

/// Returns an object as its callers see it by these rules; `None` if it is hidden, and for a value
/// that is no object.
pub(crate) fn seen(rules: &[Arc<Rule>], object: &Value) -> Option<Value> {
    if !object.is_object() {
        return None;
    }
    let mut seen = object.clone();
    let changes = rules.iter().filter(|it| it.objects.contain(object)).flat_map(|it| &it.changes);
    for change in changes {
        seen = change.apply(seen).filter(Value::is_object)?;
    }
    keep_identity(object, &mut seen);
    Some(seen)
}

/// Returns true if an object is hidden by these rules.
pub(crate) fn hides(rules: &[Arc<Rule>], object: &Value) -> bool {
    seen(rules, object).is_none()
}

/// Puts back what identifies the object: a patch can move values to places that its rule does not
/// name.
fn keep_identity(object: &Value, seen: &mut Value) {
    for key in ["apiVersion", "kind"] {
        if let Some(value) = object.get(key) {
            seen[key] = value.clone();
        }
    }
    let Some(stored) = object["metadata"].as_object() else { return };
    if !seen["metadata"].is_object() {
        seen["metadata"] = Value::Object(serde_json::Map::new());
    }
    for key in ["name", "namespace", "uid", "resourceVersion"] {
        match stored.get(key) {
            Some(value) => seen["metadata"][key] = value.clone(),
            None => {
                seen["metadata"].as_object_mut().map(|it| it.remove(key));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use dogwatch_apimachinery::patch::{Patch, PatchKind};
    use dogwatch_apimachinery::schema::{NoDefinitions, Schema};
    use proptest::prelude::*;
    use serde_json::json;

    use super::difference::{Missing, differences};
    use super::generated::{any_caller, any_object, any_rule, rules_for};
    use super::*;

    fn rules(text: &str) -> Vec<Arc<Rule>> {
        let cached = ["services", "maps"].map(|it| (String::new(), it.to_owned()));
        RuleSet::parse(text, &cached).unwrap().rules
    }

    #[test]
    fn each_change_shows_in_the_object() {
        let service = json!({
            "apiVersion": "v1", "kind": "Service",
            "metadata": { "name": "web", "namespace": "shop", "resourceVersion": "7", "labels": { "rewrite": "yes" } },
            "spec": { "externalName": "old.test", "ports": [{ "port": 80 }], "clusterIP": "10.0.0.1" },
            "endpoints": [{ "zone": "a" }, { "zone": "b" }, {}],
        });
        let all = rules(
            "rules:\n\
             - match: {resource: services, labels: rewrite=yes}\n  patch: {type: json, value: [{op: replace, path: /spec/ports/0/port, value: 8080}]}\n  \
             annotations: {seen: through-the-proxy}\n  renameHosts: {old.test: new.test}\n  keepZone: a\n  redact: [/spec/clusterIP]\n\
             - match: {resource: services, namespace: other}\n  hide: true\n",
        );
        let view = seen(&all, &service).unwrap();
        assert_eq!(view["spec"], json!({ "externalName": "new.test", "ports": [{ "port": 8080 }] }));
        assert_eq!(view["metadata"]["annotations"], json!({ "seen": "through-the-proxy" }));
        assert_eq!(view["endpoints"], json!([{ "zone": "a" }, {}]));
        let hidden = json!({ "metadata": { "namespace": "other", "name": "x" } });
        assert_eq!(seen(&all, &hidden), None);
        let unlabelled =
            json!({ "metadata": { "namespace": "shop", "name": "x" }, "spec": { "clusterIP": "10.0.0.1" } });
        assert_eq!(seen(&all, &unlabelled), Some(unlabelled.clone()));
    }

    #[test]
    fn expressions_choose_objects_and_compute_patches() {
        let all = rules(
            "rules:\n\
             - match: {resource: services, when: 'object.spec.ports.size() > 1'}\n  \
             patch: {type: cel, value: '{\"metadata\": {\"name\": \"x\", \"labels\": {\"type\": object.spec.type}}}'}\n\
             - match: {resource: maps, when: '!object.metadata.labels.public'}\n  hide: true\n",
        );
        let service = |spec: Value| json!({ "metadata": { "name": "web" }, "spec": spec });
        let changed = seen(&all[..1], &service(json!({ "type": "NodePort", "ports": [1, 2] }))).unwrap();
        assert_eq!(changed["metadata"], json!({ "name": "web", "labels": { "type": "NodePort" } }));
        for spec in [json!({ "type": "NodePort", "ports": [1] }), json!({ "ports": [1, 2] }), json!({})] {
            assert_eq!(seen(&all[..1], &service(spec.clone())), Some(service(spec)));
        }
        let map = |labels: Value| json!({ "metadata": { "name": "a", "labels": labels } });
        assert!(!hides(&all[1..], &map(json!({ "public": true }))));
        assert!(hides(&all[1..], &map(json!({ "public": false }))));
        assert!(hides(&all[1..], &map(json!({}))), "an object without the field is hidden as well");
    }

    #[test]
    fn a_patch_that_does_not_apply_leaves_the_object() {
        let tested = rules(
            "rules:\n- match: {resource: services}\n  patch: {type: json, value: [{op: test, path: /spec/type, value: NodePort}, {op: add, path: /spec/x, value: 1}]}\n",
        );
        let object = json!({ "metadata": { "name": "a" }, "spec": { "type": "ClusterIP" } });
        assert_eq!(seen(&tested, &object), Some(object.clone()));
    }

    #[test]
    fn what_identifies_an_object_stays() {
        let moved = rules(
            "rules:\n- match: {resource: services}\n  patch: {type: json, value: [{op: copy, from: /spec/evil, path: /metadata/labels}]}\n",
        );
        let object = json!({ "kind": "Service", "metadata": { "name": "a", "resourceVersion": "3" }, "spec": { "evil": { "b": "c" } } });
        let view = seen(&moved, &object).unwrap();
        assert_eq!(view["metadata"], json!({ "name": "a", "resourceVersion": "3", "labels": { "b": "c" } }));
    }

    #[test]
    fn a_value_that_is_no_object_is_not_shown() {
        let annotated = rules("rules:\n- match: {resource: services}\n  annotations: {a: b}\n");
        for value in [json!("text"), json!([]), json!(null)] {
            assert_eq!(seen(&annotated, &value), None);
        }
        assert_eq!(seen(&annotated, &json!({ "a": 1 })), Some(json!({ "a": 1 })), "it has no metadata");
    }

    /// A change of an object by its caller: a value, or none, at one of the places that rules
    /// change.
    fn any_edit() -> impl Strategy<Value = (Vec<&'static str>, Option<Value>)> {
        let place = prop_oneof![
            Just(vec!["data", "a"]),
            Just(vec!["data", "b"]),
            Just(vec!["data"]),
            Just(vec!["items"]),
            Just(vec!["endpoints"]),
            Just(vec!["copy"]),
            Just(vec!["extra"]),
            Just(vec!["spec", "externalName"]),
            Just(vec!["spec", "rules"]),
            Just(vec!["metadata", "annotations"]),
            Just(vec!["metadata", "annotations", "seen"]),
            Just(vec!["metadata", "labels", "tier"]),
        ];
        let value = prop_oneof![
            Just(None),
            Just(Some(json!("own"))),
            Just(Some(json!([{ "x": 5, "zone": "near" }]))),
            Just(Some(json!({ "own": "value" }))),
            Just(Some(json!({}))),
        ];
        (place, value)
    }

    /// Returns the merge patch of an edit, in which null removes.
    fn merge_patch((place, value): &(Vec<&'static str>, Option<Value>)) -> Value {
        place.iter().rev().fold(value.clone().unwrap_or_default(), |inner, key| json!({ *key: inner }))
    }

    /// Returns the JSON patch of an edit.
    fn json_patch((place, value): &(Vec<&'static str>, Option<Value>)) -> Value {
        let path: String = place.iter().map(|it| format!("/{it}")).collect();
        match value {
            Some(value) => json!([{ "op": "add", "path": path, "value": value }]),
            None => json!([{ "op": "remove", "path": path }]),
        }
    }

    /// Applies a patch as kube-apiserver does; `None` if it does not apply.
    fn patched(kind: PatchKind, patch: &Value, object: &Value) -> Option<Value> {
        let patch = Patch::decode(kind, &serde_json::to_vec(patch).unwrap(), false).unwrap();
        patch.apply(object, &Schema::Any, &NoDefinitions).ok()
    }

    /// Checks that `result` has, at every place, what the caller has changed of `read`, and
    /// otherwise what is stored.
    fn check_stored(
        read: &Value,
        written: &Value,
        stored: &Value,
        result: &Value,
    ) -> Result<(), TestCaseError> {
        for place in differences(read, written, Missing::AsEmpty) {
            let kept = differences(written, result, Missing::AsEmpty);
            prop_assert!(
                !kept.iter().any(|it| place.overlaps(it)),
                "the change of {place} is lost: {result}"
            );
        }
        for place in differences(stored, result, Missing::AsEmpty) {
            // A patch may ask for an empty object where the caller already sees one of the rules.
            // It means the same as none.
            let at = place.to_string();
            if result.pointer(&at) == Some(&json!({})) && stored.pointer(&at).is_none() {
                continue;
            }
            let changed = differences(read, written, Missing::AsEmpty);
            prop_assert!(changed.iter().any(|it| it.overlaps(&place)), "{place} was not changed: {result}");
        }
        Ok(())
    }

    proptest! {
        /// A watcher that folds the events of every change has the list of what is seen in the end.
        #[test]
        fn a_list_is_the_fold_of_a_watch_for_every_set_of_rules(
            texts in proptest::collection::vec(any_rule(), 0..4),
            caller in any_caller(),
            writes in proptest::collection::vec((any_object(), any::<bool>()), 0..20),
        ) {
            let rules = rules_for(&texts, caller);
            let key = |it: &Value| (it["metadata"]["namespace"].clone().to_string(), it["metadata"]["name"].to_string());
            let (mut stored, mut watched) = (BTreeMap::new(), BTreeMap::new());
            for (object, deleted) in writes {
                let before = stored.get(&key(&object)).and_then(|it| seen(&rules, it));
                let after = if deleted {
                    stored.remove(&key(&object));
                    None
                } else {
                    stored.insert(key(&object), object.clone());
                    seen(&rules, &object)
                };
                match (before, after) {
                    (None, None) => {}
                    (None, Some(added)) => prop_assert!(watched.insert(key(&object), added).is_none()),
                    (Some(_), Some(modified)) => prop_assert!(watched.insert(key(&object), modified).is_some()),
                    (Some(_), None) => prop_assert!(watched.remove(&key(&object)).is_some()),
                }
            }
            let listed: BTreeMap<_, _> = stored.iter().filter_map(|(key, it)| Some((key.clone(), seen(&rules, it)?))).collect();
            prop_assert_eq!(listed, watched);
        }

        /// An object that is read and written back unchanged stays as it is stored.
        #[test]
        fn writing_back_what_was_read_changes_nothing(
            texts in proptest::collection::vec(any_rule(), 1..4),
            caller in any_caller(),
            object in any_object(),
        ) {
            let rules = rules_for(&texts, caller);
            let is_refused = refuses_writes(&rules, &object).is_some();
            if let Some(read) = seen(&rules, &object).filter(|_| !is_refused) {
                prop_assert_eq!(restored(&rules, read, &object).map_err(|it| it.to_string()), Ok(object));
            }
        }

        /// An update is refused, or the caller's change is stored and nothing that a rule added.
        #[test]
        fn a_callers_update_is_stored_or_refused(
            texts in proptest::collection::vec(any_rule(), 1..4),
            caller in any_caller(),
            object in any_object(),
            edit in any_edit(),
        ) {
            let rules = rules_for(&texts, caller);
            let Some(read) = seen(&rules, &object) else { return Ok(()) };
            let Some(written) = patched(PatchKind::Merge, &merge_patch(&edit), &read) else { return Ok(()) };
            let Ok(result) = restored(&rules, written.clone(), &object) else { return Ok(()) };
            check_stored(&read, &written, &object, &result)?;
        }

        /// A patch is refused, or it does to the stored object what it does to the one that is
        /// seen.
        #[test]
        fn a_callers_patch_is_stored_or_refused(
            texts in proptest::collection::vec(any_rule(), 1..4),
            caller in any_caller(),
            object in any_object(),
            edit in any_edit(),
        ) {
            let rules = rules_for(&texts, caller);
            let Some(read) = seen(&rules, &object) else { return Ok(()) };
            let (merge, json) = (merge_patch(&edit), json_patch(&edit));
            for (form, kind, patch) in [
                (PatchForm::Merge, PatchKind::Merge, &merge),
                (PatchForm::Strategic, PatchKind::Strategic, &merge),
                (PatchForm::Json, PatchKind::Json, &json),
            ] {
                if check_patch(&rules, form, patch, &object).is_err() {
                    continue;
                }
                let (wanted, result) = (patched(kind, patch, &read), patched(kind, patch, &object));
                // The API server refuses it.
                let (Some(wanted), Some(result)) = (wanted, result) else { continue };
                check_stored(&read, &wanted, &object, &result)?;
            }
            // What a manager applies is merged like a merge patch; its lists are refused as a
            // whole.
            if check_patch(&rules, PatchForm::Apply, &merge, &object).is_ok() {
                prop_assert!(check_patch(&rules, PatchForm::Merge, &merge, &object).is_ok());
            }
        }

        /// The same object is seen the same way each time, and its identity does not change.
        #[test]
        fn rules_depend_on_nothing_else(texts in proptest::collection::vec(any_rule(), 1..4), object in any_object()) {
            let rules = rules(&format!("rules:\n{}", texts.concat()));
            let view = seen(&rules, &object);
            prop_assert_eq!(&view, &seen(&rules, &object));
            if let Some(view) = view {
                prop_assert_eq!(&view["metadata"]["name"], &object["metadata"]["name"]);
                prop_assert_eq!(&view["metadata"]["namespace"], &object["metadata"]["namespace"]);
            }
        }
    }
}
