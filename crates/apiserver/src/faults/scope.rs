//! The scope of a fault: the requests that it matches.

use serde::{Deserialize, Serialize};

/// The verbs that a rule may name.
pub(super) const VERBS: [&str; 8] =
    ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];

/// The attributes of a request that rules match.
#[derive(Clone, Copy, Debug, Default)]
pub struct Call<'a> {
    /// The verb, as in discovery.
    pub verb: &'a str,
    /// The group of the resource; empty for the core group and for requests that are not about a
    /// resource.
    pub group: &'a str,
    /// The plural name of the resource; empty for requests that are not about a resource.
    pub resource: &'a str,
    /// The namespace, if the request names one.
    pub namespace: Option<&'a str>,
    /// The name of the object, if the request names one.
    pub name: Option<&'a str>,
    /// The subresource; empty for the object itself.
    pub part: &'a str,
    /// The name of the user.
    pub user: &'a str,
}

/// A set of requests: all conditions must hold, and an absent condition always holds.
///
/// ```
/// use dogwatch_apiserver::faults::{FaultInjector, Scope};
///
/// let faults = FaultInjector::default();
/// let mut scope = Scope::resource("deployments.apps");
/// scope.namespace = Some("shop".to_owned());
/// faults.drop_watches_of(scope, true); // cuts their connections
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct Scope {
    /// Any of these verbs; empty for all.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub verbs: Vec<String>,
    /// The resource: its plural name in any group, or `plural.group`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource: Option<String>,
    /// The namespace. A request for all namespaces is in none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// The name of the object.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The subresource; the empty string is the object itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub part: Option<String>,
    /// The name of the user.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<String>,
}

/// An owned [`Call`].
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
    /// Returns the scope of all requests for a resource: its plural name, or `plural.group`.
    pub fn resource(resource: &str) -> Self {
        Self { resource: Some(resource.to_owned()), ..Self::default() }
    }

    /// Returns true if a request is in the scope.
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

/// Returns true if `plural` or `plural.group` names a resource.
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
