//! Comparison of rules: whether those of a user include all that a role would grant.
//!
//! As `Covers` in k8s.io/component-helpers v0.36.4 auth/rbac/validation/policy_comparator.go: each
//! rule is taken apart into single permissions, and one rule of the user has to cover each of them.

use std::collections::{BTreeMap, BTreeSet, HashSet};

use super::policy_rule::{PolicyRule, Texts, covers_path, has, has_or_all};

/// The maximum number of comparisons, of 64 bytes each. A rule of a few kilobytes can have billions
/// of permissions: every verb on every resource of every group, by every name.
const MAX_COMPARISONS: usize = 10_000_000;

/// The maximum number of missing rules in an error message.
const MAX_DESCRIBED: usize = 1_000;

/// The maximum number of bytes of the texts of missing rules in an error message.
const MAX_DESCRIBED_BYTES: usize = 1024 * 1024;

/// The outcome of a comparison.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Comparison {
    /// The user has all permissions.
    Covered,
    /// The permissions that the user does not have, described and sorted.
    Missing(Vec<String>),
    /// The rules have too many permissions to be compared.
    TooLarge,
}

/// A single permission.
#[derive(Clone, Copy, Debug)]
enum Permission<'a> {
    Resource { group: &'a str, resource: &'a str, name: Option<&'a str>, verb: &'a str },
    Path { path: &'a str, verb: &'a str },
}

/// Compares the rules of a user with those that the user wants to grant.
pub(crate) fn compare(held: &[&PolicyRule], wanted: &[PolicyRule]) -> Comparison {
    if is_everything(held) {
        return Comparison::Covered;
    }
    // A role that the user has is granted without a comparison: an aggregated one grows with the
    // number of custom resources.
    let known: HashSet<_> = held.iter().copied().filter(|it| covers_itself(it)).collect();
    let wanted: Vec<_> = wanted.iter().filter(|it| !known.contains(it)).collect();
    let per_permission = held.iter().map(|it| size(it)).fold(1_usize, usize::saturating_add);
    // A long text is read once for each held rule, and a few times to describe it.
    let of_long_texts = held.len().saturating_add(4).saturating_mul(longest(&wanted) / 64);
    let per_permission = per_permission.saturating_add(of_long_texts);
    let permissions = wanted.iter().map(|it| permissions_in(it)).fold(0_usize, usize::saturating_add);
    if permissions.saturating_mul(per_permission) > MAX_COMPARISONS {
        return Comparison::TooLarge;
    }
    let mut missing = Missing::default();
    for permission in wanted.iter().flat_map(|it| permissions_of(it)) {
        if !held.iter().any(|it| covers(it, &permission)) && !missing.add(permission) {
            break;
        }
    }
    if missing.is_empty() { Comparison::Covered } else { Comparison::Missing(missing.describe()) }
}

/// Returns true for the rules of a user who may do everything, which need not be compared.
fn is_everything(held: &[&PolicyRule]) -> bool {
    let all = |texts: &[Box<str>]| has(texts, "*");
    let has_resources = |it: &&&PolicyRule| {
        all(&it.verbs) && all(&it.api_groups) && all(&it.resources) && it.resource_names.is_empty()
    };
    let has_paths =
        |it: &&&PolicyRule| all(&it.verbs) && all(&it.non_resource_urls) && it.resource_names.is_empty();
    held.iter().any(|it| has_resources(&it)) && held.iter().any(|it| has_paths(&it))
}

/// Returns true if a rule covers all of its own permissions. One with names of objects covers no
/// path.
fn covers_itself(rule: &PolicyRule) -> bool {
    rule.resource_names.is_empty() || rule.non_resource_urls.is_empty()
}

/// Returns the cost of comparing a text with all texts of a rule.
fn size(rule: &PolicyRule) -> usize {
    rule.texts().map(|it| (it.len() / 64).saturating_add(1)).fold(1, usize::saturating_add)
}

/// Returns the length of the longest text of some rules.
fn longest(rules: &[&PolicyRule]) -> usize {
    rules.iter().flat_map(|it| it.texts()).map(str::len).max().unwrap_or_default()
}

/// Returns the number of permissions in a rule.
fn permissions_in(rule: &PolicyRule) -> usize {
    let lists = [rule.api_groups.len(), rule.resources.len(), rule.resource_names.len().max(1)];
    let resources = lists.into_iter().fold(1, usize::saturating_mul);
    resources.saturating_add(rule.non_resource_urls.len()).saturating_mul(rule.verbs.len())
}

/// Returns the permissions in a rule.
fn permissions_of(rule: &PolicyRule) -> impl Iterator<Item = Permission<'_>> {
    // Rules are compared before they are validated. One without verbs has no permissions, whatever
    // the number of its groups and resources.
    let groups: &[Box<str>] = if rule.verbs.is_empty() { &[] } else { &rule.api_groups };
    let resources = groups.iter().flat_map(move |group| {
        rule.resources.iter().flat_map(move |resource| {
            rule.verbs.iter().flat_map(move |verb| {
                let all_names = rule.resource_names.is_empty().then_some(None);
                let names = rule.resource_names.iter().map(|it| Some(&**it)).chain(all_names);
                names.map(move |name| Permission::Resource { group, resource, name, verb })
            })
        })
    });
    let paths = rule
        .non_resource_urls
        .iter()
        .flat_map(move |path| rule.verbs.iter().map(move |verb| Permission::Path { path, verb }));
    resources.chain(paths)
}

fn covers(rule: &PolicyRule, permission: &Permission<'_>) -> bool {
    match *permission {
        Permission::Path { path, verb } => {
            has_or_all(&rule.verbs, verb)
                && rule.resource_names.is_empty()
                && rule.non_resource_urls.iter().any(|it| covers_path(it, path))
        }
        Permission::Resource { group, resource, name, verb } => {
            has_or_all(&rule.verbs, verb)
                && has_or_all(&rule.api_groups, group)
                && covers_resource(&rule.resources, resource)
                && (rule.resource_names.is_empty() || name.is_some_and(|it| has(&rule.resource_names, it)))
        }
    }
}

/// Returns true if resources of a rule include a resource of another: `*/scale` includes
/// `deployments/scale`.
fn covers_resource(resources: &[Box<str>], resource: &str) -> bool {
    let part = || resource.split_once('/').map(|(_, part)| part);
    has_or_all(resources, resource) || part().is_some_and(|it| resources.iter().any(|any| is_any(any, it)))
}

/// Returns true if a resource of a rule is this subresource of any resource.
fn is_any(resource: &str, part: &str) -> bool {
    resource.strip_prefix("*/").is_some_and(|it| it == part)
}

/// A group, a resource of it, and the name of an object.
type ResourceOfRule<'a> = (&'a str, &'a str, Option<&'a str>);

/// The permissions that a user does not have. Those that differ only in the verb are one rule, as
/// by `CompactRules` in k8s.io/kubernetes v1.36.4 pkg/registry/rbac/validation/policy_compact.go.
#[derive(Debug, Default)]
struct Missing<'a> {
    /// The verbs by group, resource and name.
    resources: BTreeMap<ResourceOfRule<'a>, Vec<&'a str>>,
    /// The paths and the verb of each.
    paths: BTreeSet<(&'a str, &'a str)>,
    /// The bytes of all texts.
    bytes: usize,
    /// True if there are more, which are not described.
    has_more: bool,
}

impl<'a> Missing<'a> {
    /// Adds a permission. Returns false if there are more than can be described.
    fn add(&mut self, permission: Permission<'a>) -> bool {
        let lines = self.resources.len().saturating_add(self.paths.len());
        self.bytes = self.bytes.saturating_add(self.added_bytes(&permission));
        self.has_more = lines >= MAX_DESCRIBED || self.bytes > MAX_DESCRIBED_BYTES;
        if self.has_more {
            return false;
        }
        match permission {
            Permission::Path { path, verb } => {
                self.paths.insert((path, verb));
            }
            Permission::Resource { group, resource, name, verb } => {
                self.resources.entry((group, resource, name)).or_default().push(verb);
            }
        }
        true
    }

    /// Returns the bytes that the description of a permission adds.
    fn added_bytes(&self, permission: &Permission<'a>) -> usize {
        match *permission {
            Permission::Path { path, verb } => path.len().saturating_add(verb.len()),
            Permission::Resource { group, resource, name, verb } => {
                let key = (group, resource, name);
                let texts = [group, resource, name.unwrap_or_default()].map(str::len);
                let key_bytes = texts.into_iter().fold(0, usize::saturating_add);
                let is_new = !self.resources.contains_key(&key);
                verb.len().saturating_add(if is_new { key_bytes } else { 0 }).saturating_add(1)
            }
        }
    }

    fn is_empty(&self) -> bool {
        self.resources.is_empty() && self.paths.is_empty() && !self.has_more
    }

    fn describe(self) -> Vec<String> {
        let one = |text: &str| Texts::from([Box::from(text)]);
        let resources = self.resources.into_iter().map(|((group, resource, name), verbs)| PolicyRule {
            verbs: verbs.into_iter().map(Box::from).collect(),
            api_groups: one(group),
            resources: one(resource),
            resource_names: name.map(one).unwrap_or_default(),
            ..PolicyRule::default()
        });
        let paths = self.paths.into_iter().map(|(path, verb)| PolicyRule {
            verbs: one(verb),
            non_resource_urls: one(path),
            ..PolicyRule::default()
        });
        let mut lines: Vec<String> = resources.chain(paths).map(|it| it.describe()).collect();
        lines.sort_unstable();
        lines.dedup();
        if self.has_more {
            lines.push("... and more".to_owned());
        }
        lines
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::super::access_request::{AccessRequest, AccessTarget};
    use super::*;

    fn compared(held: Value, wanted: Value) -> Comparison {
        let rules = |it: Value| PolicyRule::all_of(&json!({ "rules": it }));
        let (held, wanted) = (rules(held), rules(wanted));
        compare(&held.iter().collect::<Vec<_>>(), &wanted)
    }

    fn missing(lines: &[&str]) -> Comparison {
        match lines {
            [] => Comparison::Covered,
            lines => Comparison::Missing(lines.iter().map(|&it| it.to_owned()).collect()),
        }
    }

    #[test]
    fn a_role_that_the_user_has_is_granted_whatever_its_size() {
        let rule = |number: usize| {
            let verbs = ["get", "list", "watch", "create", "update", "patch", "delete", "deletecollection"];
            json!({ "verbs": verbs, "apiGroups": [format!("g{number}.example")], "resources": ["things"] })
        };
        let rules: Value = (0..2_000).map(rule).collect();
        assert_eq!(compared(rules.clone(), rules.clone()), Comparison::Covered);
        let mut more = rules.as_array().cloned().unwrap_or_default();
        more.push(json!({ "verbs": ["get"], "apiGroups": ["other.example"], "resources": ["things"] }));
        assert!(matches!(compared(rules, more.into()), Comparison::Missing(missing) if missing.len() == 1));
        // A path is not covered by a rule with names, not even by the same one.
        let odd = json!([{ "verbs": ["get"], "resourceNames": ["a"], "nonResourceURLs": ["/a"] }]);
        assert!(matches!(compared(odd.clone(), odd), Comparison::Missing(_)));
    }

    #[test]
    fn permissions_that_no_rule_covers_are_missing() {
        let reader = json!([{ "verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"] }]);
        let scaler = json!([{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*/scale"] }]);
        let paths = json!([{ "verbs": ["get"], "nonResourceURLs": ["/a/*"] }]);
        let all = json!([{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }]);
        for (held, wanted, expected) in [
            (&reader, json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }]), &[][..]),
            (
                &reader,
                json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"] }]),
                &[],
            ),
            (
                &reader,
                json!([{ "verbs": ["get", "watch", "delete"], "apiGroups": [""], "resources": ["pods", "secrets"] }]),
                &[
                    r#"{APIGroups:[""], Resources:["pods"], Verbs:["watch" "delete"]}"#,
                    r#"{APIGroups:[""], Resources:["secrets"], Verbs:["get" "watch" "delete"]}"#,
                ],
            ),
            (
                &reader,
                json!([{ "verbs": ["*"], "apiGroups": [""], "resources": ["pods"] }]),
                &[r#"{APIGroups:[""], Resources:["pods"], Verbs:["*"]}"#],
            ),
            (
                &scaler,
                json!([{ "verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments/scale"] }]),
                &[],
            ),
            (
                &scaler,
                json!([{ "verbs": ["get"], "apiGroups": ["apps"], "resources": ["deployments"] }]),
                &[r#"{APIGroups:["apps"], Resources:["deployments"], Verbs:["get"]}"#],
            ),
            (&paths, json!([{ "verbs": ["get"], "nonResourceURLs": ["/a/b", "/a/*"] }]), &[]),
            (
                &paths,
                json!([{ "verbs": ["get"], "nonResourceURLs": ["/*"] }]),
                &[r#"{NonResourceURLs:["/*"], Verbs:["get"]}"#],
            ),
            (
                &all,
                json!([{ "verbs": ["get"], "nonResourceURLs": ["/a"] }]),
                &[r#"{NonResourceURLs:["/a"], Verbs:["get"]}"#],
            ),
        ] {
            assert_eq!(compared(held.clone(), wanted.clone()), missing(expected), "{held} {wanted}");
        }
        let named =
            json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["x"] }]);
        let unnamed = json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"] }]);
        assert!(matches!(compared(named, unnamed), Comparison::Missing(_)));
    }

    #[test]
    fn rules_with_too_many_permissions_are_not_compared() {
        let many: Vec<String> = (0..1_000).map(|it| it.to_string()).collect();
        let wanted = json!([{ "verbs": many, "apiGroups": many, "resources": many, "resourceNames": many }]);
        assert_eq!(compared(json!([]), wanted), Comparison::TooLarge);
    }

    /// Regression test: ten billion pairs of a group and a resource were visited.
    #[test]
    fn rules_without_verbs_have_no_permissions_to_compare() {
        let many: Vec<String> = (0..100_000).map(|it| it.to_string()).collect();
        let wanted = json!([{ "verbs": [], "apiGroups": many, "resources": many }]);
        assert_eq!(compared(json!([]), wanted), Comparison::Covered);
    }

    #[test]
    fn long_texts_count_for_the_comparison_and_for_the_message() {
        let long = "x".repeat(1024 * 1024);
        let few: Vec<String> = (0..100).map(|it| it.to_string()).collect();
        for wanted in [
            json!([{ "verbs": [long], "apiGroups": [""], "resources": vec!["a"; 100] }]),
            json!([{ "verbs": ["get"], "apiGroups": [long], "resources": few }]),
        ] {
            let Comparison::Missing(lines) = compared(json!([]), wanted) else {
                panic!("nothing is covered")
            };
            assert!(lines.iter().map(String::len).sum::<usize>() < 2 * 1024 * 1024);
        }
        let many: Vec<String> = (0..1_000).map(|it| it.to_string()).collect();
        let all = json!([{ "verbs": ["*"], "apiGroups": ["*"], "resources": ["*"] }]);
        let named =
            json!([{ "verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": [long] }]);
        for (held, wanted) in [
            (named, json!([{ "verbs": ["get"], "apiGroups": [""], "resources": many }])),
            (all, json!([{ "verbs": many, "apiGroups": [""], "resources": [long] }])),
            (json!([]), json!([{ "verbs": many, "apiGroups": [long], "resources": ["a"] }])),
        ] {
            assert_eq!(compared(held, wanted), Comparison::TooLarge);
        }
    }

    #[test]
    fn a_user_who_may_do_everything_may_grant_rules_of_any_size() {
        let many: Vec<String> = (0..1_000).map(|it| it.to_string()).collect();
        let wanted = json!([{ "verbs": many, "apiGroups": many, "resources": many, "resourceNames": many }]);
        let all = PolicyRule::everything();
        let wanted = PolicyRule::all_of(&json!({ "rules": wanted }));
        assert_eq!(compare(&all.iter().collect::<Vec<_>>(), &wanted), Comparison::Covered);
    }

    #[test]
    fn a_long_list_of_missing_rules_is_shortened() {
        let many: Vec<String> = (0..2_000).map(|it| it.to_string()).collect();
        let wanted = json!([{ "verbs": ["get"], "apiGroups": [""], "resources": many }]);
        let Comparison::Missing(lines) = compared(json!([]), wanted) else { panic!("nothing is covered") };
        assert_eq!((lines.len(), lines[MAX_DESCRIBED].as_str()), (MAX_DESCRIBED + 1, "... and more"));
    }

    fn rule() -> impl Strategy<Value = PolicyRule> {
        let some = |of: &'static [&'static str], least: usize| {
            proptest::collection::vec(proptest::sample::select(of), least..3)
                .prop_map(|it| it.into_iter().map(Box::from).collect::<Texts>())
        };
        let resources = (
            some(&["get", "list", "*"], 1),
            some(&["", "apps", "*"], 1),
            some(&["pods", "pods/log", "*/log", "*"], 1),
            some(&["x", "y"], 0),
        );
        let resources = resources.prop_map(|(verbs, api_groups, resources, resource_names)| PolicyRule {
            verbs,
            api_groups,
            resources,
            resource_names,
            ..PolicyRule::default()
        });
        let paths = (some(&["get", "post", "*"], 1), some(&["/a", "/a/*", "/b", "*"], 1));
        let paths = paths.prop_map(|(verbs, non_resource_urls)| PolicyRule {
            verbs,
            non_resource_urls,
            ..PolicyRule::default()
        });
        prop_oneof![3 => resources, 1 => paths]
    }

    proptest! {
        /// The invariant that makes escalation impossible.
        #[test]
        fn rules_that_are_covered_allow_nothing_that_the_others_do_not(
            held in proptest::collection::vec(rule(), 0..4),
            wanted in proptest::collection::vec(rule(), 1..3),
        ) {
            let references: Vec<&PolicyRule> = held.iter().collect();
            if compare(&references, &wanted) != Comparison::Covered {
                return Ok(());
            }
            let mut requests = Vec::new();
            for verb in ["get", "list", "post", "delete"] {
                for path in ["/a", "/a/b", "/b", "/c"] {
                    requests.push(AccessRequest { verb: verb.into(), target: AccessTarget::Path(path) });
                }
                for group in ["", "apps", "batch"] {
                    for (resource, subresource) in [("pods", ""), ("pods", "log"), ("nodes", "log"), ("nodes", "")] {
                        for name in ["", "x", "z"] {
                            let target = AccessTarget::Resource { group, resource, subresource, namespace: "", name };
                            requests.push(AccessRequest { verb: verb.into(), target });
                        }
                    }
                }
            }
            for request in requests {
                if wanted.iter().any(|it| it.allows(&request)) {
                    prop_assert!(held.iter().any(|it| it.allows(&request)), "{request:?}");
                }
            }
        }
    }
}
