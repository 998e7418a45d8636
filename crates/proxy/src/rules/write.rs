//! Writes of objects that a rule has changed for their caller: what the rule added or changed must
//! not be stored.

use std::sync::Arc;

use serde_json::Value;

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
    /// The written object has no metadata.
    #[error("the object has no metadata")]
    Malformed,
    /// The caller changed a list of which the rule has changed a part.
    #[error("{place} is changed by {rule:?} of the proxy, and the write changes it too; use a patch")]
    Mixed { rule: String, place: String },
}

/// Returns the name of the rule that refuses writes of an object that it changes, if there is one.
pub(crate) fn refuses_writes(rules: &[Arc<Rule>], stored: &Value) -> Option<String> {
    let mut applied = rules.iter().filter(|it| it.objects.contain(stored));
    let rule = applied.find(|it| it.on_write == OnWrite::Refuse)?;
    (seen(rules, stored).as_ref() != Some(stored)).then(|| rule.name.clone())
}

/// Returns the object to store for a write by a caller who sees `stored` through these rules: every
/// place that a rule touches has its stored value.
pub(crate) fn restored(
    rules: &[Arc<Rule>],
    mut written: Value,
    stored: &Value,
) -> Result<Value, RefusedWrite> {
    let applied: Vec<_> = rules.iter().filter(|it| it.objects.contain(stored)).collect();
    let hiding = applied.iter().find(|it| it.changes.iter().any(|it| matches!(it, Change::Hide)));
    if let Some(rule) = hiding {
        return Err(RefusedWrite::Hidden(rule.name.clone()));
    }
    let Some(shown) = seen(rules, stored) else { return Ok(written) };
    if shown == *stored {
        return Ok(written);
    }
    if let Some(rule) = refuses_writes(rules, stored) {
        return Err(RefusedWrite::ByRule(rule));
    }
    for rule in applied {
        for place in rule.changes.iter().flat_map(Change::touches) {
            let (place, is_whole) = place.fixed();
            let (before, after) = (place.get(stored), place.get(&shown));
            if before == after {
                continue;
            }
            // Items of a list have no names by which stored ones could be found again.
            if !is_whole && place.get(&written) != after && place.get(&written) != before {
                return Err(RefusedWrite::Mixed { rule: rule.name.clone(), place: place.to_string() });
            }
            place.copy(stored, &mut written);
        }
    }
    Ok(written)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::super::RuleSet;
    use super::*;

    fn rules(text: &str) -> Vec<Arc<Rule>> {
        RuleSet::parse(&format!("rules:\n- match: {{resource: services}}\n  {text}\n")).unwrap().rules
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
        let result = restored(&rules, written, &stored()).unwrap();
        assert_eq!(result["metadata"], json!({ "name": "web", "annotations": { "own": "y" } }));
        assert_eq!(result["spec"], json!({ "host": "a", "ports": [{ "port": 80 }], "type": "NodePort" }));
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
        let rules = rules("patch: {type: json, value: [{op: add, path: /spec/ports/-, value: {port: 81}}]}");
        let mut written = seen(&rules, &stored()).unwrap();
        assert_eq!(restored(&rules, written.clone(), &stored()), Ok(stored()));
        written["spec"]["ports"] = json!([{ "port": 90 }, { "port": 81 }]);
        let error = restored(&rules, written, &stored()).unwrap_err().to_string();
        assert!(error.contains("/spec/ports") && error.contains("rule 1"), "{error}");
    }

    #[test]
    fn a_rule_may_refuse_and_a_hidden_object_is_not_written() {
        let refusing = rules("annotations: {a: b}\n  onWrite: refuse");
        assert_eq!(restored(&refusing, stored(), &stored()), Err(RefusedWrite::ByRule("rule 1".to_owned())));
        let hiding = rules("hide: true");
        assert_eq!(restored(&hiding, stored(), &stored()), Err(RefusedWrite::Hidden("rule 1".to_owned())));
    }
}
