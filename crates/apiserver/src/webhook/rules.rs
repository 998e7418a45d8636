//! The rules of a webhook, which select the requests that it is called for.
//!
//! Label selectors are not evaluated here, since they need the namespace.

use serde_json::Value;

use crate::kinds::json_access::{items, text};

/// The attributes of a request that rules match.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Subject<'a> {
    /// `CREATE`, `UPDATE`, `DELETE` or `CONNECT`.
    pub(crate) operation: &'a str,
    pub(crate) group: &'a str,
    pub(crate) version: &'a str,
    /// The plural of the resource.
    pub(crate) resource: &'a str,
    /// The subresource, such as `status`; empty for the object itself.
    pub(crate) part: &'a str,
    /// True if the object is in a namespace.
    pub(crate) namespaced: bool,
}

/// Returns true if a rule of a webhook matches.
pub(crate) fn wants(webhook: &Value, subject: &Subject<'_>) -> bool {
    items(webhook, "/rules").iter().any(|it| covers(it, subject))
}

/// Returns true if a rule matches.
pub(crate) fn covers(rule: &Value, subject: &Subject<'_>) -> bool {
    let names = |field: &str, value: &str| items(rule, field).iter().any(|it| it == "*" || it == value);
    let scope = match text(rule, "/scope") {
        "Namespaced" => subject.namespaced,
        "Cluster" => !subject.namespaced,
        _ => true,
    };
    let resource = items(rule, "/resources").iter().filter_map(Value::as_str).any(|it| {
        let (resource, part) = it.split_once('/').unwrap_or((it, ""));
        (resource == "*" || resource == subject.resource) && (part == "*" || part == subject.part)
    });
    scope
        && resource
        && names("/operations", subject.operation)
        && names("/apiGroups", subject.group)
        && names("/apiVersions", subject.version)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const DEPLOYMENT: Subject<'_> = Subject {
        operation: "CREATE",
        group: "apps",
        version: "v1",
        resource: "deployments",
        part: "",
        namespaced: true,
    };

    fn rule(resources: &[&str], scope: &str) -> Value {
        json!({ "rules": [{ "operations": ["CREATE"], "apiGroups": ["apps"], "apiVersions": ["*"],
            "resources": resources, "scope": scope }] })
    }

    #[test]
    fn a_rule_names_resources_and_subresources_one_by_one_or_all() {
        let status = Subject { part: "status", ..DEPLOYMENT };
        for (resource, whole, part) in [
            ("deployments", true, false),
            ("deployments/status", false, true),
            ("deployments/*", true, true),
            ("*", true, false),
            ("*/*", true, true),
            ("*/status", false, true),
            ("pods", false, false),
        ] {
            let webhook = rule(&[resource], "*");
            assert_eq!((wants(&webhook, &DEPLOYMENT), wants(&webhook, &status)), (whole, part), "{resource}");
        }
    }

    #[test]
    fn all_other_attributes_must_match_as_well() {
        let webhook = rule(&["*"], "*");
        assert!(!wants(&webhook, &Subject { operation: "DELETE", ..DEPLOYMENT }));
        assert!(!wants(&webhook, &Subject { group: "", ..DEPLOYMENT }));
        assert!(wants(&webhook, &Subject { version: "v2", ..DEPLOYMENT }));
        assert!(!wants(&rule(&["*"], "Cluster"), &DEPLOYMENT));
        assert!(wants(&rule(&["*"], "Cluster"), &Subject { namespaced: false, ..DEPLOYMENT }));
        assert!(!wants(&rule(&["*"], "Namespaced"), &Subject { namespaced: false, ..DEPLOYMENT }));
        assert!(!wants(&json!({}), &DEPLOYMENT));
    }
}
