//! Rules that change what callers see. Everything here is a pure function over values.
//!
//! A rule decides by the stored object whether it applies, so the order of rules matters only where
//! they change the same field. It cannot change what identifies an object: key, uid, kind, version.
//!
//! The `mod` lines below are in layer order.

mod pointer;
mod rule;
mod file;
mod write;

use std::sync::Arc;

use serde_json::Value;

pub(crate) use rule::Rule;
use rule::names;
pub(crate) use write::{RefusedWrite, refuses_writes, restored};

/// The rules of one file.
#[derive(Clone, Debug, Default)]
pub(crate) struct RuleSet {
    rules: Vec<Arc<Rule>>,
    stale: Vec<String>,
}

impl RuleSet {
    /// Parses a file of rules.
    ///
    /// # Errors
    /// The error is a line of text with the line of the file and the reason.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let file::Parsed { rules, stale } = file::parse(text)?;
        Ok(Self { rules: rules.into_iter().map(Arc::new).collect(), stale })
    }

    /// Returns true if the resource is answered from memory while upstream cannot be reached.
    pub(crate) fn allows_stale(&self, group: &str, resource: &str) -> bool {
        self.stale.iter().any(|it| names(it, group, resource))
    }

    /// Returns the rules for a resource, in order.
    pub(crate) fn of(&self, group: &str, resource: &str) -> Vec<Arc<Rule>> {
        self.rules.iter().filter(|it| it.is_of(group, resource)).cloned().collect()
    }

    /// Returns the first resource in the file that is none of these, each with its group.
    pub(crate) fn stray_resource<'a>(
        &self,
        resources: impl Iterator<Item = (&'a str, &'a str)> + Clone,
    ) -> Option<&str> {
        let named = self.rules.iter().map(|it| &it.resource).chain(&self.stale);
        let is_stray = |it: &&String| !resources.clone().any(|(group, name)| names(it, group, name));
        named.into_iter().find(is_stray).map(String::as_str)
    }
}

/// Returns an object as its callers see it by these rules; `None` if it is hidden.
pub(crate) fn seen(rules: &[Arc<Rule>], object: &Value) -> Option<Value> {
    let mut seen = object.clone();
    let changes = rules.iter().filter(|it| it.objects.contain(object)).flat_map(|it| &it.changes);
    for change in changes {
        seen = change.apply(seen)?;
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

    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    fn rules(text: &str) -> Vec<Arc<Rule>> {
        RuleSet::parse(text).unwrap().rules
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

    /// A rule of any kind, over a few labels and fields.
    fn any_rule() -> impl Strategy<Value = String> {
        let selector = prop_oneof![
            Just(""),
            Just(", labels: tier=web"),
            Just(", labels: '!tier'"),
            Just(", namespace: b")
        ];
        let change = prop_oneof![
            Just("hide: true"),
            Just("annotations: {seen: 'yes'}"),
            Just("redact: [/data/a, /items/*/x]"),
            Just("patch: {type: merge, value: {data: {b: new, c: null}, metadata: {labels: {tier: db}}}}"),
            Just("patch: {type: json, value: [{op: remove, path: /data/c}]}"),
        ];
        (selector, change)
            .prop_map(|(selector, change)| format!("- match: {{resource: maps{selector}}}\n  {change}\n"))
    }

    fn any_object() -> impl Strategy<Value = Value> {
        let tier = proptest::option::of(prop_oneof![Just("web"), Just("db")]);
        let data = proptest::collection::btree_map("[abc]", "[xy]", 0..3);
        (prop_oneof![Just("a"), Just("b")], tier, data, "[pqr]").prop_map(|(namespace, tier, data, name)| {
            let labels: BTreeMap<_, _> = tier.map(|it| ("tier", it)).into_iter().collect();
            json!({ "metadata": { "name": name, "namespace": namespace, "labels": labels }, "data": data, "items": [{ "x": 1, "y": 2 }] })
        })
    }

    proptest! {
        /// A watcher that folds the events of every change has the list of what is seen in the end.
        #[test]
        fn a_list_is_the_fold_of_a_watch_for_every_set_of_rules(
            texts in proptest::collection::vec(any_rule(), 0..4),
            writes in proptest::collection::vec((any_object(), any::<bool>()), 0..20),
        ) {
            let rules = if texts.is_empty() { Vec::new() } else { rules(&format!("rules:\n{}", texts.concat())) };
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

        /// What a caller read and writes back unchanged is what is stored.
        #[test]
        fn writing_back_what_was_read_changes_nothing(
            texts in proptest::collection::vec(any_rule(), 1..4),
            object in any_object(),
        ) {
            let rules = rules(&format!("rules:\n{}", texts.concat()));
            if let Some(read) = seen(&rules, &object) {
                prop_assert_eq!(restored(&rules, read, &object).map_err(|it| it.to_string()), Ok(object));
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
