//! The decision of a pod failure policy about a pod that has failed.

use serde_json::Value;

use crate::json_access::{at, items, number, text};

/// The decision about a pod that has failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Decision {
    /// It counts.
    Count,
    /// It is replaced without being counted.
    Ignore,
    /// Its index has failed.
    FailIndex,
    /// The Job has failed, with this message.
    FailJob(String),
}

/// Returns the decision of the first rule that matches a pod; without one, the pod counts.
pub(super) fn decide(job: &Value, pod: &Value) -> Decision {
    for (position, rule) in items(job, "/spec/podFailurePolicy/rules").iter().enumerate() {
        let name = || format!("{}/{}", text(pod, "/metadata/namespace"), text(pod, "/metadata/name"));
        let message = if let Some(codes) = at(rule, "/onExitCodes") {
            matching_container(pod, codes).map(|it| {
                let code = number(it, "/state/terminated/exitCode").unwrap_or(0);
                let container = text(it, "/name");
                format!("Container {container} for pod {} failed with exit code {code} matching FailJob rule at index {position}", name())
            })
        } else {
            let matching = items(rule, "/onPodConditions").iter().find_map(|pattern| {
                let same = |it: &&Value| ["type", "status"].iter().all(|field| it[*field] == pattern[*field]);
                items(pod, "/status/conditions").iter().find(same)
            });
            matching.map(|it| {
                format!(
                    "Pod {} has condition {} matching FailJob rule at index {position}",
                    name(),
                    text(it, "/type")
                )
            })
        };
        let Some(message) = message else { continue };
        return match text(rule, "/action") {
            "Ignore" => Decision::Ignore,
            "FailIndex" => Decision::FailIndex,
            "FailJob" => Decision::FailJob(message),
            _ => Decision::Count,
        };
    }
    Decision::Count
}

/// Returns the first container whose exit code matches a requirement.
fn matching_container<'a>(pod: &'a Value, requirement: &Value) -> Option<&'a Value> {
    let statuses = ["/status/containerStatuses", "/status/initContainerStatuses"];
    statuses.iter().flat_map(|it| items(pod, it)).find(|it| {
        let code = number(it, "/state/terminated/exitCode").unwrap_or(0);
        let named = at(requirement, "/containerName").is_none_or(|name| *name == it["name"]);
        let listed = items(requirement, "/values").iter().any(|it| it.as_i64() == Some(code));
        named && code != 0 && listed == (text(requirement, "/operator") == "In")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_first_rule_that_matches_decides() {
        let job = json!({ "spec": { "podFailurePolicy": { "rules": [
            { "action": "Ignore", "onPodConditions": [{ "type": "DisruptionTarget", "status": "True" }] },
            { "action": "FailJob", "onExitCodes": { "containerName": "main", "operator": "In", "values": [42] } },
            { "action": "FailIndex", "onExitCodes": { "operator": "NotIn", "values": [1, 42] } },
        ] } } });
        let pod = |container: &str, code: u32, disrupted: &str| {
            json!({ "metadata": { "name": "p", "namespace": "n" }, "status": {
                "conditions": [{ "type": "DisruptionTarget", "status": disrupted }],
                "containerStatuses": [{ "name": container, "state": { "terminated": { "exitCode": code } } }] } })
        };
        let message = "Container main for pod n/p failed with exit code 42 matching FailJob rule at index 1";
        for (pod, expected) in [
            (pod("main", 42, "True"), Decision::Ignore),
            (pod("main", 42, "False"), Decision::FailJob(message.to_owned())),
            (pod("other", 42, "False"), Decision::Count),
            (pod("other", 1, "False"), Decision::Count),
            (pod("other", 2, "False"), Decision::FailIndex),
            (pod("other", 0, "False"), Decision::Count),
        ] {
            assert_eq!(decide(&job, &pod), expected, "{pod}");
        }
        assert_eq!(decide(&json!({}), &pod("main", 42, "True")), Decision::Count);
    }
}
