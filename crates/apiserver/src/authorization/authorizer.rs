//! The authorizer: decides by the roles and bindings that are stored.

use std::borrow::Cow;
use std::sync::{Arc, LazyLock};

use dogwatch_core::ObjectKey;
use parking_lot::{RwLock, RwLockWriteGuard};
use serde_json::Value;

use super::MASTERS;
use super::access_request::AccessRequest;
use super::coverage::{Comparison, compare};
use super::missing_roles::MissingRoles;
use super::policy_rule::PolicyRule;
use super::rbac_index::{Grant, RbacIndex, UserNames};
use crate::store::{CollectionName, Compacted, Cursor, Encoded, Store};
use crate::user::User;

/// The reason of decisions without authorization. `kubectl auth can-i` does not print it next to a
/// yes; programs can read it.
const ALWAYS: &str = "this server does not authorize requests: every authenticated user may do everything";

/// The collections that hold roles and bindings.
static COLLECTIONS: LazyLock<[CollectionName; 4]> = LazyLock::new(|| {
    ["clusterroles", "roles", "clusterrolebindings", "rolebindings"]
        .map(|it| format!("rbac.authorization.k8s.io/{it}").into())
});

/// The number of [`COLLECTIONS`] that hold roles; they come first.
const OF_ROLES: usize = 2;

/// The way in which a server decides what users may do.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum AuthorizationMode {
    /// Every authenticated user may do everything. Roles and bindings are stored and not enforced.
    #[default]
    AlwaysAllow,
    /// Users may do what roles and bindings permit, as in Kubernetes. Members of `system:masters`,
    /// of which the administrator is one, may do everything. The server starts with the roles and
    /// bindings of Kubernetes.
    Rbac,
}

/// The decision about a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    /// The binding that allows the request, or what is wrong with a binding; may be empty.
    pub(crate) reason: Cow<'static, str>,
}

impl Decision {
    /// Returns the word for the decision in audit logs (k8s.io/apiserver v0.36.4
    /// pkg/endpoints/filters/authorization.go).
    pub(crate) fn outcome(&self) -> &'static str {
        if self.allowed { "allow" } else { "forbid" }
    }
}

/// The rules that a user has in a namespace.
#[derive(Debug)]
pub(crate) struct RulesOfUser {
    /// The rules of each role of the user.
    pub(crate) roles: Vec<Arc<[PolicyRule]>>,
    /// The bindings that refer to roles that do not exist; empty if there are none.
    pub(crate) error: String,
}

/// Decides what users may do.
#[derive(Debug, Default)]
pub(crate) struct Authorizer {
    mode: AuthorizationMode,
    followed: RwLock<FollowedRbac>,
}

/// The index of the stored roles and bindings, and the position up to which it includes changes.
#[derive(Debug, Default)]
struct FollowedRbac {
    index: RbacIndex,
    /// One for each of [`COLLECTIONS`]; none before the first lookup.
    cursors: Vec<Cursor>,
    /// The newest revision of the store that is included.
    revision: Option<u64>,
}

impl Authorizer {
    pub(crate) fn new(mode: AuthorizationMode) -> Self {
        Self { mode, followed: RwLock::default() }
    }

    pub(crate) fn mode(&self) -> AuthorizationMode {
        self.mode
    }

    /// Decides about a request of a user, by what is stored now.
    pub(crate) fn authorize(&self, store: &Store, user: &User, request: &AccessRequest<'_>) -> Decision {
        if self.mode == AuthorizationMode::AlwaysAllow {
            return Decision { allowed: true, reason: ALWAYS.into() };
        }
        if is_master(user) {
            return Decision { allowed: true, reason: "".into() };
        }
        let (grants, missing) = self.grants(store, user, request.namespace());
        match grants.iter().find(|it| it.rules.iter().any(|rule| rule.allows(request))) {
            Some(grant) => {
                let reason = format!("RBAC: allowed by {}", grant.describe());
                Decision { allowed: true, reason: reason.into() }
            }
            None if missing.is_empty() => Decision { allowed: false, reason: "".into() },
            None => {
                let reason = format!("RBAC: {}", missing.found_by_lister());
                Decision { allowed: false, reason: reason.into() }
            }
        }
    }

    /// Returns the rules that a user has in a namespace.
    pub(crate) fn rules_of(&self, store: &Store, user: &User, namespace: &str) -> RulesOfUser {
        if self.mode == AuthorizationMode::AlwaysAllow {
            return RulesOfUser { roles: vec![PolicyRule::everything().into()], error: String::new() };
        }
        let (grants, missing) = self.grants(store, user, namespace);
        let roles = grants.into_iter().map(|it| it.rules).collect();
        RulesOfUser { roles, error: missing.found_by_lister() }
    }

    /// Returns the rules of the role that a binding in a namespace refers to, if it exists.
    pub(crate) fn role(
        &self,
        store: &Store,
        kind: &str,
        name: &str,
        namespace: Option<&str>,
    ) -> Option<Arc<[PolicyRule]>> {
        self.look(store, |index| index.role(kind, name, namespace).cloned())
    }

    /// Compares the rules that a user has in a namespace with those that the user wants to grant.
    /// Returns the user's roles that do not exist as well.
    pub(crate) fn compare(
        &self,
        store: &Store,
        user: &User,
        namespace: &str,
        wanted: &[PolicyRule],
    ) -> (Comparison, MissingRoles) {
        let (grants, missing) = self.grants(store, user, namespace);
        let held: Vec<&PolicyRule> = grants.iter().flat_map(|it| it.rules.iter()).collect();
        (compare(&held, wanted), missing)
    }

    fn grants(&self, store: &Store, user: &User, namespace: &str) -> (Vec<Grant>, MissingRoles) {
        let names = UserNames::of(user);
        self.look(store, |index| index.grants(&names, namespace))
    }

    /// Calls `look` with an index of what is stored now. It must be quick: the next change of the
    /// store waits for it, and all other requests for that.
    fn look<T>(&self, store: &Store, look: impl FnOnce(&RbacIndex) -> T) -> T {
        let revision = store.revision();
        let followed = self.followed.read();
        if followed.revision == Some(revision) {
            return look(&followed.index);
        }
        drop(followed);
        let mut followed = self.followed.write();
        followed.update(store, revision);
        look(&RwLockWriteGuard::downgrade(followed).index)
    }
}

impl FollowedRbac {
    /// Includes the changes up to a revision.
    fn update(&mut self, store: &Store, revision: u64) {
        // Another request may have included later ones meanwhile.
        if self.revision.is_some_and(|it| it >= revision) {
            return;
        }
        if self.revision.is_none() || self.follow().is_err() {
            self.reload(store);
        }
        self.revision = Some(revision);
    }

    /// Includes the changes that the cursors have not returned yet.
    fn follow(&mut self) -> Result<(), Compacted> {
        for (position, cursor) in self.cursors.iter_mut().enumerate() {
            while let Some(change) = cursor.try_next()? {
                if let Some(object) = change.after.as_ref().or(change.before.as_ref()) {
                    let after = change.after.as_ref().map(|it| it.to_value());
                    set(&mut self.index, position, object.key(), after.as_ref());
                }
            }
        }
        Ok(())
    }

    /// Reads everything again.
    fn reload(&mut self, store: &Store) {
        (self.index, self.cursors) = (RbacIndex::default(), Vec::new());
        for (position, collection) in COLLECTIONS.iter().enumerate() {
            let (objects, cursor, _) = store.list_and_watch(collection);
            for object in &objects {
                set(&mut self.index, position, Encoded::key(object), Some(&object.to_value()));
            }
            self.cursors.push(cursor);
        }
    }
}

/// Replaces or removes an object of one of [`COLLECTIONS`] in the index.
fn set(index: &mut RbacIndex, collection: usize, key: &ObjectKey, object: Option<&Value>) {
    if collection < OF_ROLES {
        index.set_role(key, object);
    } else {
        index.set_binding(key, object);
    }
}

pub(crate) fn is_master(user: &User) -> bool {
    user.groups.iter().any(|it| it == MASTERS)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::store::{Draft, Expect};

    fn put(store: &Store, plural: &str, name: &str, object: &Value) {
        let collection: CollectionName = format!("rbac.authorization.k8s.io/{plural}").into();
        let key = ObjectKey::cluster(name);
        let expect = store.get(&collection, &key).map_or(Expect::Absent, |it| Expect::At(it.version()));
        let mut object = object.clone();
        object["metadata"] = json!({ "name": name });
        let draft = Draft::new(&object, Vec::new()).expect("it has a name");
        store.commit(&collection, &key, expect, Some(draft)).expect("as expected");
    }

    fn role(verb: &str) -> Value {
        json!({ "rules": [{ "verbs": [verb], "apiGroups": [""], "resources": ["pods"] }] })
    }

    #[test]
    fn a_change_of_a_role_or_a_binding_counts_at_once_even_if_the_history_is_gone() {
        let (store, authorizer) = (Store::default(), Authorizer::new(AuthorizationMode::Rbac));
        let bob = User::named("bob", &[]);
        let may = |verb: &str| {
            authorizer.authorize(&store, &bob, &AccessRequest::cluster(verb, "", "pods", "")).allowed
        };
        assert!(!may("get"));
        let binding = json!({ "roleRef": { "kind": "ClusterRole", "name": "r" }, "subjects": [{ "kind": "User", "name": "bob" }] });
        put(&store, "clusterrolebindings", "b", &binding);
        assert!(!may("get"));
        put(&store, "clusterroles", "r", &role("get"));
        assert!(may("get") && !may("list"));
        put(&store, "clusterroles", "r", &role("list"));
        store.compact(store.revision());
        put(&store, "clusterroles", "other", &role("get"));
        assert!(may("list") && !may("get"));
        let binding = json!({ "roleRef": { "kind": "ClusterRole", "name": "r" }, "subjects": [] });
        put(&store, "clusterrolebindings", "b", &binding);
        assert!(!may("list"));
    }

    #[test]
    fn masters_may_do_everything_and_others_nothing_by_default() {
        let (store, authorizer) = (Store::default(), Authorizer::new(AuthorizationMode::Rbac));
        let request = AccessRequest::cluster("delete", "", "nodes", "");
        assert!(authorizer.authorize(&store, &User::admin(), &request).allowed);
        assert!(!authorizer.authorize(&store, &User::named("bob", &[]), &request).allowed);
        let open = Authorizer::default().authorize(&store, &User::anonymous(), &request);
        assert!(open.allowed && open.reason.contains("does not authorize"), "{open:?}");
    }
}
