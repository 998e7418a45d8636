//! A rule of a role.

use serde_json::Value;

use super::access_request::{AccessRequest, AccessTarget};
use crate::kinds::json_access::items;
use crate::strconv::quote;

/// Some texts of a rule. Roles are kept in memory for as long as they exist.
pub(crate) type Texts = Box<[Box<str>]>;

/// A rule of a role: verbs on resources, or on paths.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct PolicyRule {
    pub(crate) verbs: Texts,
    pub(crate) api_groups: Texts,
    pub(crate) resources: Texts,
    /// The names of objects; empty for all.
    pub(crate) resource_names: Texts,
    pub(crate) non_resource_urls: Texts,
}

impl PolicyRule {
    /// Reads a rule of a Role or a ClusterRole.
    pub(crate) fn of(rule: &Value) -> Self {
        let texts = |pointer| items(rule, pointer).iter().filter_map(Value::as_str).map(Box::from).collect();
        Self {
            verbs: texts("/verbs"),
            api_groups: texts("/apiGroups"),
            resources: texts("/resources"),
            resource_names: texts("/resourceNames"),
            non_resource_urls: texts("/nonResourceURLs"),
        }
    }

    /// Reads the rules of a Role or a ClusterRole.
    pub(crate) fn all_of(role: &Value) -> Box<[Self]> {
        items(role, "/rules").iter().map(Self::of).collect()
    }

    /// Returns the rules of a user who may do everything.
    pub(crate) fn everything() -> [Self; 2] {
        let all = || Texts::from([Box::from("*")]);
        [
            Self { verbs: all(), api_groups: all(), resources: all(), ..Self::default() },
            Self { verbs: all(), non_resource_urls: all(), ..Self::default() },
        ]
    }

    /// Returns true if the rule permits what is requested.
    pub(super) fn allows(&self, request: &AccessRequest<'_>) -> bool {
        if !has_or_all(&self.verbs, &request.verb) {
            return false;
        }
        match request.target {
            AccessTarget::Path(path) => self.non_resource_urls.iter().any(|it| covers_path(it, path)),
            AccessTarget::Resource { group, resource, subresource, name, .. } => {
                has_or_all(&self.api_groups, group)
                    && self.resources.iter().any(|it| covers_resource(it, resource, subresource))
                    && (self.resource_names.is_empty() || has(&self.resource_names, name))
            }
        }
    }

    /// Returns the texts of all lists.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        let lists =
            [&self.verbs, &self.api_groups, &self.resources, &self.resource_names, &self.non_resource_urls];
        lists.into_iter().flat_map(|it| it.iter()).map(|it| &**it)
    }

    /// Returns about the size of the rule in JSON.
    pub(crate) fn json_size(&self) -> usize {
        // Two quotes and a comma for each text, and the names of the fields.
        self.texts().map(|it| it.len().saturating_add(3)).fold(64, usize::saturating_add)
    }

    /// Describes the rule as error messages about escalation do: `CompactString` in
    /// k8s.io/kubernetes v1.36.4 pkg/apis/rbac/v1/evaluation_helpers.go.
    pub(super) fn describe(&self) -> String {
        let fields = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.non_resource_urls),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ];
        let given = fields.iter().filter(|(_, texts)| !texts.is_empty());
        let parts: Vec<String> = given.map(|(name, texts)| format!("{name}:{}", quoted(texts))).collect();
        format!("{{{}}}", parts.join(", "))
    }
}

/// Formats texts as Go's `%q` formats a slice of strings.
pub(crate) fn quoted<T: AsRef<str>>(texts: &[T]) -> String {
    let texts: Vec<String> = texts.iter().map(|it| quote(it.as_ref())).collect();
    format!("[{}]", texts.join(" "))
}

pub(super) fn has(texts: &[Box<str>], text: &str) -> bool {
    texts.iter().any(|it| **it == *text)
}

/// Returns true if one of the texts is this one or `*`.
pub(super) fn has_or_all(texts: &[Box<str>], text: &str) -> bool {
    texts.iter().any(|it| **it == *"*" || **it == *text)
}

/// Returns true if a resource of a rule covers a resource or a subresource: `*`, `pods`, `pods/log`
/// and `*/scale` are possible.
fn covers_resource(rule: &str, resource: &str, subresource: &str) -> bool {
    if rule == "*" {
        return true;
    }
    if subresource.is_empty() {
        return rule == resource;
    }
    let parent = rule.strip_suffix(subresource).and_then(|it| it.strip_suffix('/'));
    parent.is_some_and(|it| it == "*" || it == resource)
}

/// Returns true if a path of a rule covers a path. A `*` at the end of it stands for everything.
pub(super) fn covers_path(rule: &str, path: &str) -> bool {
    rule == path || (rule.ends_with('*') && path.starts_with(rule.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn request<'a>(verb: &'a str, target: &'a str) -> AccessRequest<'a> {
        // `group resource/subresource name`, or a path.
        let target = match target.split(' ').collect::<Vec<_>>().as_slice() {
            [path] => AccessTarget::Path(path),
            [group, resource, name] => {
                let (resource, subresource) = resource.split_once('/').unwrap_or((resource, ""));
                AccessTarget::Resource { group, resource, subresource, namespace: "a", name }
            }
            other => panic!("{other:?}"),
        };
        AccessRequest { verb: verb.into(), target }
    }

    #[test]
    fn a_rule_allows_its_verbs_on_its_resources() {
        let pods =
            json!({ "verbs": ["get", "list"], "apiGroups": ["", "apps"], "resources": ["pods", "pods/log"] });
        let named =
            json!({ "verbs": ["get"], "apiGroups": [""], "resources": ["secrets"], "resourceNames": ["a"] });
        let scales = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*/scale"] });
        let all = json!({ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] });
        let paths = json!({ "verbs": ["get"], "nonResourceURLs": ["/logs/*", "/version"] });
        let every_path = json!({ "verbs": ["get"], "nonResourceURLs": ["*"] });
        for (rule, verb, target, expected) in [
            (&pods, "get", " pods x", true),
            (&pods, "list", "apps pods ", true),
            (&pods, "delete", " pods x", false),
            (&pods, "get", "batch pods x", false),
            (&pods, "get", " pods/log x", true),
            (&pods, "get", " pods/exec x", false),
            (&pods, "get", " podslog x", false),
            (&named, "get", " secrets a", true),
            (&named, "get", " secrets b", false),
            (&named, "get", " secrets ", false),
            (&scales, "update", "apps deployments/scale x", true),
            (&scales, "update", "apps deployments x", false),
            (&scales, "update", "apps deployments/upscale x", false),
            (&all, "escalate", "x.io things/status x", true),
            (&all, "get", "/version", false),
            (&paths, "get", "/logs/a/b", true),
            (&paths, "get", "/logs/", true),
            (&paths, "get", "/logs", false),
            (&paths, "get", "/version", true),
            (&paths, "get", "/version/", false),
            (&paths, "post", "/version", false),
            (&every_path, "get", "/anything", true),
            (&every_path, "get", " pods x", false),
        ] {
            assert_eq!(
                PolicyRule::of(rule).allows(&request(verb, target)),
                expected,
                "{rule} {verb} {target}"
            );
        }
    }

    #[test]
    fn a_rule_is_described_without_its_empty_lists() {
        let rule = json!({ "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"] });
        let text = r#"{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}"#;
        assert_eq!(PolicyRule::of(&rule).describe(), text);
    }
}
