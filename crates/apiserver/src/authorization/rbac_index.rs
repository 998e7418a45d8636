//! The roles, and the bindings by the users and groups that they name.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use dogwatch_core::ObjectKey;
use serde_json::Value;

use super::missing_roles::{MissingRoles, RoleReference};
use super::policy_rule::PolicyRule;
use crate::kinds::json_access::{items, text};
use crate::strconv::quote;
use crate::user::User;

/// The roles, and the bindings by the users and groups that they name. A lookup takes time for the
/// groups and the bindings of the user, and not for those of others.
#[derive(Debug, Default)]
pub(super) struct RbacIndex {
    /// The rules of Roles, and of ClusterRoles, whose keys have no namespace.
    roles: HashMap<ObjectKey, Arc<[PolicyRule]>>,
    /// The RoleBindings, and the ClusterRoleBindings, whose keys have no namespace.
    bindings: HashMap<ObjectKey, Arc<Binding>>,
    /// The bindings in each namespace by their subjects; those of the cluster are in none.
    by_scope: HashMap<Option<String>, Subjects>,
}

/// The bindings that name each user and each group, with the position of the first such subject.
#[derive(Debug, Default)]
struct Subjects {
    users: HashMap<String, BTreeMap<ObjectKey, usize>>,
    groups: HashMap<String, BTreeMap<ObjectKey, usize>>,
}

/// A RoleBinding or a ClusterRoleBinding.
#[derive(Debug)]
struct Binding {
    key: ObjectKey,
    role: Arc<RoleReference>,
    /// The key of the role among all roles; none if there can be no such role.
    role_key: Option<ObjectKey>,
    subjects: Vec<Subject>,
}

/// A subject of a binding.
#[derive(Debug)]
struct Subject {
    identity: Identity,
    /// The subject as decisions name it.
    description: String,
}

/// The users that a subject names.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Identity {
    /// The user of this name, which may be that of a service account.
    User(String),
    /// The members of this group.
    Group(String),
}

/// The name and the groups of a user, each group once: a review can repeat one a million times.
#[derive(Debug)]
pub(super) struct UserNames<'a> {
    name: &'a str,
    groups: HashSet<&'a str>,
}

/// The rules that a binding grants to a user. It does not borrow from the index: rules are compared
/// while others use it.
#[derive(Debug)]
pub(super) struct Grant {
    pub(super) rules: Arc<[PolicyRule]>,
    binding: Arc<Binding>,
    /// The position of the subject that names the user.
    subject: usize,
}

impl<'a> UserNames<'a> {
    pub(super) fn of(user: &'a User) -> Self {
        Self { name: &user.name, groups: user.groups.iter().map(String::as_str).collect() }
    }
}

impl RbacIndex {
    /// Replaces the rules of a role, or removes it.
    pub(super) fn set_role(&mut self, key: &ObjectKey, role: Option<&Value>) {
        match role {
            Some(role) => self.roles.insert(key.clone(), PolicyRule::all_of(role).into()),
            None => self.roles.remove(key),
        };
    }

    /// Replaces a binding, or removes it.
    pub(super) fn set_binding(&mut self, key: &ObjectKey, binding: Option<&Value>) {
        let scope = key.namespace().map(str::to_owned);
        if let Some(former) = self.bindings.remove(key)
            && let Some(subjects) = self.by_scope.get_mut(&scope)
        {
            former.subjects.iter().for_each(|it| subjects.remove(&it.identity, key));
            if subjects.users.is_empty() && subjects.groups.is_empty() {
                self.by_scope.remove(&scope);
            }
        }
        let Some(binding) = binding.map(|it| Binding::of(it, key)) else { return };
        if !binding.subjects.is_empty() {
            let subjects = self.by_scope.entry(scope).or_default();
            for (position, subject) in binding.subjects.iter().enumerate() {
                subjects.add(&subject.identity, key, position);
            }
        }
        self.bindings.insert(key.clone(), Arc::new(binding));
    }

    /// Returns what the bindings of a user grant in a namespace, or in the cluster if it is empty,
    /// and the roles of bindings that do not exist. A role that several bindings grant is returned
    /// once.
    pub(super) fn grants(&self, user: &UserNames<'_>, namespace: &str) -> (Vec<Grant>, MissingRoles) {
        let (mut grants, mut missing, mut seen) = (Vec::new(), MissingRoles::default(), HashSet::new());
        let namespace = Some(namespace).filter(|it| !it.is_empty());
        // Those of the cluster come first: `VisitRulesFor` in k8s.io/kubernetes v1.36.4
        // pkg/registry/rbac/validation/rule.go.
        for scope in [None].into_iter().chain(namespace.map(Some)) {
            let Some(subjects) = self.by_scope.get(&scope.map(str::to_owned)) else { continue };
            for (key, subject) in subjects.naming(user) {
                let Some(binding) = self.bindings.get(key) else { continue };
                let Some(role) = binding.role_key.as_ref().and_then(|it| self.roles.get(it)) else {
                    missing.add(&binding.role);
                    continue;
                };
                if seen.insert(Arc::as_ptr(role)) {
                    let (rules, binding) = (Arc::clone(role), Arc::clone(binding));
                    grants.push(Grant { rules, binding, subject });
                }
            }
        }
        (grants, missing)
    }

    /// Returns the rules of the role that a binding in a namespace refers to, if it exists.
    pub(super) fn role(&self, kind: &str, name: &str, namespace: Option<&str>) -> Option<&Arc<[PolicyRule]>> {
        role_key(kind, name, namespace).and_then(|it| self.roles.get(&it))
    }
}

/// Returns the key of the role that a binding in a namespace refers to; none if there can be no
/// such role.
fn role_key(kind: &str, name: &str, namespace: Option<&str>) -> Option<ObjectKey> {
    let namespace = match kind {
        // A role of no namespace would be a ClusterRole.
        "Role" => Some(namespace?),
        "ClusterRole" => None,
        _ => return None,
    };
    ObjectKey::from_parts(namespace, name).ok()
}

impl Subjects {
    /// Returns the bindings that name a user, in the order of their names, each with the position
    /// of the first subject that does.
    fn naming(&self, user: &UserNames<'_>) -> BTreeMap<&ObjectKey, usize> {
        let of_groups = user.groups.iter().filter_map(|&it| self.groups.get(it));
        let mut found = BTreeMap::new();
        for (key, &position) in self.users.get(user.name).into_iter().chain(of_groups).flatten() {
            let first = found.entry(key).or_insert(position);
            *first = (*first).min(position);
        }
        found
    }

    fn add(&mut self, identity: &Identity, key: &ObjectKey, position: usize) {
        let (bindings, name) = self.of(identity);
        bindings.entry(name.to_owned()).or_default().entry(key.clone()).or_insert(position);
    }

    fn remove(&mut self, identity: &Identity, key: &ObjectKey) {
        let (bindings, name) = self.of(identity);
        if let Some(keys) = bindings.get_mut(name) {
            keys.remove(key);
            if keys.is_empty() {
                bindings.remove(name);
            }
        }
    }

    fn of<'a>(
        &mut self,
        identity: &'a Identity,
    ) -> (&mut HashMap<String, BTreeMap<ObjectKey, usize>>, &'a str) {
        match identity {
            Identity::User(name) => (&mut self.users, name),
            Identity::Group(name) => (&mut self.groups, name),
        }
    }
}

impl Binding {
    fn of(binding: &Value, key: &ObjectKey) -> Self {
        let subjects = items(binding, "/subjects").iter().filter_map(|it| Subject::of(it, key.namespace()));
        let (kind, name) = (text(binding, "/roleRef/kind"), text(binding, "/roleRef/name"));
        Self {
            key: key.clone(),
            role: Arc::new(RoleReference { kind: kind.into(), name: name.into() }),
            role_key: role_key(kind, name, key.namespace()),
            subjects: subjects.collect(),
        }
    }
}

impl Subject {
    /// Reads a subject of a binding in a namespace. Returns `None` for a subject that names no
    /// user.
    fn of(subject: &Value, namespace: Option<&str>) -> Option<Self> {
        let (kind, name) = (text(subject, "/kind"), text(subject, "/name"));
        let plain = |identity| Self { identity, description: format!("{kind} {}", quote(name)) };
        Some(match kind {
            "User" => plain(Identity::User(name.to_owned())),
            "Group" => plain(Identity::Group(name.to_owned())),
            "ServiceAccount" => {
                let namespace = match text(subject, "/namespace") {
                    "" => namespace?,
                    given => given,
                };
                Self {
                    identity: Identity::User(format!("system:serviceaccount:{namespace}:{name}")),
                    description: format!("{kind} {}", quote(&format!("{name}/{namespace}"))),
                }
            }
            _ => return None,
        })
    }
}

impl Grant {
    /// Describes the binding as decisions do.
    pub(super) fn describe(&self) -> String {
        let Binding { key, role, subjects, .. } = &*self.binding;
        let (kind, name) = match key.namespace() {
            None => ("ClusterRoleBinding", quote(key.name())),
            Some(namespace) => ("RoleBinding", quote(&format!("{}/{namespace}", key.name()))),
        };
        let subject = subjects.get(self.subject).map(|it| it.description.as_str()).unwrap_or_default();
        format!("{kind} {name} of {} {} to {subject}", role.kind, quote(&role.name))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn key(namespace: Option<&str>, name: &str) -> ObjectKey {
        ObjectKey::from_parts(namespace, name).expect("a key")
    }

    fn binding(role: (&str, &str), subjects: Value) -> Value {
        json!({ "roleRef": { "kind": role.0, "name": role.1 }, "subjects": subjects })
    }

    fn index() -> RbacIndex {
        let mut index = RbacIndex::default();
        let role =
            |verb: &str| json!({ "rules": [{ "verbs": [verb], "apiGroups": [""], "resources": ["pods"] }] });
        index.set_role(&key(None, "reader"), Some(&role("get")));
        index.set_role(&key(Some("a"), "writer"), Some(&role("update")));
        let bob = json!([{ "kind": "User", "name": "bob" }]);
        let devs = json!([{ "kind": "User", "name": "eve" }, { "kind": "Group", "name": "devs" }]);
        let account = json!([{ "kind": "ServiceAccount", "name": "builder" }]);
        index.set_binding(&key(None, "all"), Some(&binding(("ClusterRole", "reader"), bob)));
        index.set_binding(&key(Some("a"), "devs"), Some(&binding(("Role", "writer"), devs)));
        index.set_binding(&key(Some("a"), "builders"), Some(&binding(("ClusterRole", "reader"), account)));
        index
    }

    fn granted(index: &RbacIndex, user: &User, namespace: &str) -> Vec<String> {
        index.grants(&UserNames::of(user), namespace).0.iter().map(Grant::describe).collect()
    }

    #[test]
    fn a_user_gets_the_roles_of_bindings_that_name_the_user_or_a_group() {
        let index = index();
        let all = r#"ClusterRoleBinding "all" of ClusterRole "reader" to User "bob""#;
        let devs = r#"RoleBinding "devs/a" of Role "writer" to Group "devs""#;
        let builders = r#"RoleBinding "builders/a" of ClusterRole "reader" to ServiceAccount "builder/a""#;
        for (user, namespace, expected) in [
            (User::named("bob", &[]), "", &[all][..]),
            (User::named("bob", &["devs"]), "a", &[all, devs]),
            (User::named("bob", &["devs"]), "b", &[all]),
            (User::named("eve", &[]), "a", &[r#"RoleBinding "devs/a" of Role "writer" to User "eve""#]),
            (User::named("devs", &[]), "a", &[]),
            (User::named("system:serviceaccount:a:builder", &[]), "a", &[builders]),
            (User::named("system:serviceaccount:b:builder", &[]), "a", &[]),
        ] {
            assert_eq!(granted(&index, &user, namespace), expected, "{user:?} {namespace}");
        }
    }

    #[test]
    fn a_role_that_does_not_exist_is_reported() {
        let mut index = index();
        index.set_role(&key(Some("a"), "writer"), None);
        let (grants, missing) = index.grants(&UserNames::of(&User::named("eve", &[])), "a");
        assert!(grants.is_empty());
        assert_eq!(missing.found_by_lister(), r#"role.rbac.authorization.k8s.io "writer" not found"#);
    }

    #[test]
    fn a_role_of_no_namespace_is_not_a_cluster_role() {
        let mut index = index();
        assert!(index.role("ClusterRole", "reader", None).is_some());
        assert!(index.role("ClusterRole", "reader", Some("a")).is_some());
        for (kind, namespace) in [("Role", None), ("Role", Some("a")), ("Other", None)] {
            assert!(index.role(kind, "reader", namespace).is_none(), "{kind} {namespace:?}");
        }
        let bob = json!([{ "kind": "User", "name": "bob" }]);
        index.set_binding(&key(None, "all"), Some(&binding(("Role", "reader"), bob)));
        assert!(granted(&index, &User::named("bob", &[]), "").is_empty());
    }

    /// Regression test: each of the repeated groups visited all bindings of the group.
    #[test]
    fn repeated_groups_are_looked_up_once() {
        let groups = vec!["devs"; 100_000];
        let user = User::named("bob", &groups);
        let names = UserNames::of(&user);
        assert_eq!(names.groups.len(), 2);
        assert_eq!(index().grants(&names, "a").0.len(), 2);
    }

    #[test]
    fn a_replaced_or_removed_binding_leaves_nothing_behind() {
        let mut index = index();
        let eve = json!([{ "kind": "User", "name": "eve" }]);
        index.set_binding(&key(None, "all"), Some(&binding(("ClusterRole", "reader"), eve)));
        assert!(granted(&index, &User::named("bob", &[]), "").is_empty());
        assert_eq!(granted(&index, &User::named("eve", &[]), "").len(), 1);
        for name in [key(None, "all"), key(Some("a"), "devs"), key(Some("a"), "builders")] {
            index.set_binding(&name, None);
        }
        assert!(index.bindings.is_empty() && index.by_scope.is_empty());
    }

    #[test]
    fn a_role_that_several_bindings_grant_is_returned_once() {
        let mut index = index();
        for number in 0..100 {
            let bob = json!([{ "kind": "User", "name": "bob" }]);
            let again = binding(("ClusterRole", "reader"), bob);
            index.set_binding(&key(Some("a"), &format!("again-{number}")), Some(&again));
        }
        assert_eq!(granted(&index, &User::named("bob", &[]), "a").len(), 1);
    }
}
