//! Which requests a fault is about.

use serde::{Deserialize, Serialize};

/// The words a rule may name as verbs.
pub(super) const VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// A request, as rules see it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call<'a> {
    /// The verb, as in discovery.
    pub verb: &'a str,
    /// The group of the resource; empty for the core group, and for what is no resource.
    pub group: &'a str,
    /// The plural of the resource; empty for what is no resource.
    pub resource: &'a str,
    /// The namespace, where the request names one.
    pub namespace: Option<&'a str>,
    /// The object, where the request names one.
    pub name: Option<&'a str>,
    /// The part of the object; empty for the object itself.
    pub part: &'a str,
    /// Who asks.
    pub user: &'a str,
}

/// Which requests: all conditions must hold, and those that are not given always do.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Scope {
    /// Any of these verbs.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// This resource: by its plural in whatever group, or as `plural.group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// In this namespace. A request for all namespaces is in none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// About the object of this name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// About this part of an object; the empty part is the object itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// From this user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// A request that outlives its caller.
#[derive(Clone, Debug)]
pub(super) struct OwnedCall {
    verb: String,
    group: String,
    resource: String,
    namespace: Option<String>,
    name: Option<String>,
    part: String,
    user: String,
}

impl Scope {
    /// All requests about a resource: by its plural, or as `plural.group`.
    pub fn resource(resource: &str) -> Self {
        Self { resource: Some(resource.to_owned()), ..Self::default() }
    }

    /// Whether it covers a request.
    pub fn holds(&self, call: &Call<'_>) -> bool {
        let is = |wanted: &Option<String>, found: Option<&str>| {
            wanted.as_deref().is_none_or(|wanted| found == Some(wanted))
        };
        (self.verbs.is_empty() || self.verbs.iter().any(|it| it == call.verb))
            && self.resource.as_deref().is_none_or(|it| names_resource(it, call.group, call.resource))
            && is(&self.namespace, call.namespace)
            && is(&self.name, call.name)
            && is(&self.part, Some(call.part))
            && is(&self.user, Some(call.user))
    }
}

/// Whether `plural` or `plural.group` names a resource.
pub(crate) fn names_resource(wanted: &str, group: &str, resource: &str) -> bool {
    match wanted.split_once('.') {
        Some((plural, of)) => plural == resource && of == group,
        None => wanted == resource,
    }
}

impl OwnedCall {
    pub(super) fn new(call: &Call<'_>) -> Self {
        Self {
            verb: call.verb.to_owned(),
            group: call.group.to_owned(),
            resource: call.resource.to_owned(),
            namespace: call.namespace.map(str::to_owned),
            name: call.name.map(str::to_owned),
            part: call.part.to_owned(),
            user: call.user.to_owned(),
        }
    }

    pub(super) fn as_call(&self) -> Call<'_> {
        Call {
            verb: &self.verb,
            group: &self.group,
            resource: &self.resource,
            namespace: self.namespace.as_deref(),
            name: self.name.as_deref(),
            part: &self.part,
            user: &self.user,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_conditions_must_hold_and_absent_ones_always_do() {
        let call = Call {
            verb: "patch",
            group: "apps",
            resource: "deployments",
            namespace: Some("a"),
            name: Some("web"),
            part: "status",
            user: "admin",
        };
        for (scope, expected) in [
            (r#"{}"#, true),
            (r#"{"verbs": ["get", "patch"]}"#, true),
            (r#"{"verbs": ["get"]}"#, false),
            (r#"{"resource": "deployments"}"#, true),
            (r#"{"resource": "deployments.apps"}"#, true),
            (r#"{"resource": "deployments.extensions"}"#, false),
            (r#"{"resource": "pods"}"#, false),
            (r#"{"namespace": "a", "name": "web", "part": "status", "user": "admin"}"#, true),
            (r#"{"namespace": "b"}"#, false),
            (r#"{"name": "api"}"#, false),
            (r#"{"part": ""}"#, false),
            (r#"{"user": "bob"}"#, false),
        ] {
            let read: Scope = serde_json::from_str(scope).expect("valid");
            assert_eq!(read.holds(&call), expected, "{scope}");
            assert_eq!(read.holds(&OwnedCall::new(&call).as_call()), expected, "{scope}");
        }
    }
}
