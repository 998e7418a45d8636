//! The permissions that impersonation takes.
//!
//! kube-apiserver knows several modes, of which one has to permit the request (k8s.io/apiserver
//! v0.36.4 pkg/endpoints/filters/impersonation/mode.go). The constrained modes take two
//! permissions: `impersonate:MODE` for each attribute of the user, and `impersonate-on:MODE:VERB`
//! for what the request does. The legacy mode takes `impersonate` for each attribute, and then
//! permits every request.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};

use dogwatch_apimachinery::names;
use parking_lot::Mutex;

use crate::ApiError;
use crate::authorization::{AccessRequest, AccessTarget, Decision, MASTERS};
use crate::strconv::quote;
use crate::user::{NODE_NAME, User, service_account};

const NODES: &str = "system:nodes";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// The group of the resources that stand for the attributes of users.
const GROUP: &str = "authentication.k8s.io";

/// The number of groups or extra fields from which on a permission for all of them is looked for
/// first.
const MANY: usize = 4;

/// The characters of the path in the key of an extra field, besides letters and digits.
const PATH_CHARACTERS: &str = "/-._~%!$&'()*+,;=:";

/// A mode of impersonation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// A service account becomes the node that its pod runs on.
    AssociatedNode,
    /// Anyone becomes a node.
    ArbitraryNode,
    /// Anyone becomes a service account.
    ServiceAccount,
    /// Anyone becomes any other user.
    UserInfo,
    /// Anyone becomes anyone, for every request.
    Legacy,
}

/// The maximum number of users whose last mode is remembered.
const MAX_REMEMBERED: usize = 10_000;

/// The mode that last permitted each user to impersonate. It is tried first, so that a user of the
/// legacy mode gets the errors of that mode.
#[derive(Debug, Default)]
pub(super) struct LastModes {
    /// By a hash of the name of the user: names can be long, and a collision changes only the
    /// order.
    by_user: Mutex<HashMap<u64, Mode>>,
}

impl LastModes {
    fn get(&self, user: &User) -> Option<Mode> {
        self.by_user.lock().get(&hash(&user.name)).copied()
    }

    fn set(&self, user: &User, mode: Mode) {
        let mut modes = self.by_user.lock();
        if modes.len() >= MAX_REMEMBERED {
            modes.clear();
        }
        modes.insert(hash(&user.name), mode);
    }
}

fn hash(name: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    name.hash(&mut hasher);
    hasher.finish()
}

/// Decides about requests of the user who impersonates.
pub(super) trait Authorize: Fn(&AccessRequest<'_>) -> Decision {}
impl<T: Fn(&AccessRequest<'_>) -> Decision> Authorize for T {}

/// Returns the user that `asking` becomes, if one of the modes permits that.
///
/// # Errors
/// 403 with the first permission that is missing.
pub(super) fn impersonate(
    asking: &User,
    wanted: &User,
    access: &AccessRequest<'_>,
    last: &LastModes,
    authorize: &impl Authorize,
) -> Result<User, ApiError> {
    let modes =
        [Mode::AssociatedNode, Mode::ArbitraryNode, Mode::ServiceAccount, Mode::UserInfo, Mode::Legacy];
    let last_one = last.get(asking);
    let others = modes.into_iter().filter(|it| Some(*it) != last_one);
    let mut first = None;
    for mode in last_one.into_iter().chain(others).filter(|it| it.applies(asking, wanted)) {
        let check = Check { mode, asking: &asking.name, authorize };
        match check.run(wanted, access) {
            Ok(user) => {
                last.set(asking, mode);
                return Ok(user);
            }
            Err(refusal) => first = first.or(Some(refusal)),
        }
    }
    Err(first.unwrap_or_else(|| ApiError::internal("no mode of impersonation applies")))
}

impl Mode {
    /// Returns true if the mode can be used for these users.
    fn applies(self, asking: &User, wanted: &User) -> bool {
        let is_only_named = wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty();
        let (node, account) = (node(&wanted.name), service_account(&wanted.name));
        match self {
            Self::AssociatedNode => {
                let of_pod = asking.extra.get(NODE_NAME).map(Vec::as_slice);
                let is_own = matches!((node, of_pod), (Some(node), Some([own])) if node == own);
                is_only_named && is_own && service_account(&asking.name).is_some()
            }
            Self::ArbitraryNode => is_only_named && node.is_some(),
            Self::ServiceAccount => is_only_named && account.is_some(),
            Self::UserInfo => node.is_none() && account.is_none(),
            Self::Legacy => true,
        }
    }

    /// Returns the name in verbs; `None` for the legacy mode.
    fn name(self) -> Option<&'static str> {
        Some(match self {
            Self::AssociatedNode => "associated-node",
            Self::ArbitraryNode => "arbitrary-node",
            Self::ServiceAccount => "serviceaccount",
            Self::UserInfo => "user-info",
            Self::Legacy => return None,
        })
    }

    fn is_constrained(self) -> bool {
        self != Self::Legacy
    }
}

/// The check of one mode.
struct Check<'a, A> {
    mode: Mode,
    /// The name of the user who impersonates.
    asking: &'a str,
    authorize: &'a A,
}

impl<A: Authorize> Check<'_, A> {
    fn run(&self, wanted: &User, access: &AccessRequest<'_>) -> Result<User, ApiError> {
        if let Some(mode) = self.mode.name() {
            self.require(&access.with_verb(format!("impersonate-on:{mode}:{}", access.verb)))?;
        }
        let verb = self.mode.name().map_or("impersonate".to_owned(), |it| format!("impersonate:{it}"));
        let mut user = wanted.clone();
        self.check_name(&verb, &mut user)?;
        if !wanted.uid.is_empty() {
            self.require(&AccessRequest::cluster(&verb, GROUP, "uids", &wanted.uid))?;
        }
        self.check_groups(&verb, &wanted.groups)?;
        self.check_extra(&verb, &wanted.extra)?;
        add_implied_group(&mut user);
        Ok(user)
    }

    /// Checks the name, and adds the groups that follow from it.
    fn check_name(&self, verb: &str, user: &mut User) -> Result<(), ApiError> {
        let group = if self.mode.is_constrained() { GROUP } else { "" };
        let name = user.name.clone();
        if let Some(node) = node(&name).filter(|_| self.mode.is_constrained()) {
            user.groups = vec![NODES.to_owned()];
            // Which node it is was checked already.
            let node = if self.mode == Mode::AssociatedNode { "*" } else { node };
            return self.require(&AccessRequest::cluster(verb, group, "nodes", node));
        }
        let Some((namespace, account)) = service_account(&name) else {
            return self.require(&AccessRequest::cluster(verb, group, "users", &name));
        };
        if user.groups.is_empty() {
            let of_namespace = format!("system:serviceaccounts:{namespace}");
            user.groups = vec!["system:serviceaccounts".to_owned(), of_namespace];
        }
        let target = AccessTarget::Resource {
            group,
            resource: "serviceaccounts",
            subresource: "",
            namespace,
            name: account,
        };
        self.require(&AccessRequest { verb: verb.into(), target })
    }

    fn check_groups(&self, verb: &str, groups: &[String]) -> Result<(), ApiError> {
        let group = if self.mode.is_constrained() { GROUP } else { "" };
        let request = |name| AccessRequest::cluster(verb, group, "groups", name);
        if self.mode.is_constrained() {
            let has = |group: &str| groups.iter().any(|it| it == group);
            if has("") {
                let why = "impersonating the empty string group is not allowed";
                return Err(request("").forbidden(self.asking, why));
            }
            if has(MASTERS) {
                let why = "impersonating the system:masters group is not allowed";
                return Err(request(MASTERS).forbidden(self.asking, why));
            }
            if groups.len() >= MANY && self.require(&request("*")).is_ok() {
                return Ok(());
            }
        }
        // Each once: a request can repeat one thousands of times.
        let mut seen = HashSet::new();
        groups.iter().filter(|it| seen.insert(*it)).try_for_each(|it| self.require(&request(it)))
    }

    fn check_extra(&self, verb: &str, extra: &BTreeMap<String, Vec<String>>) -> Result<(), ApiError> {
        let request = |subresource, name| AccessRequest {
            verb: verb.into(),
            target: AccessTarget::Resource {
                group: GROUP,
                resource: "userextras",
                subresource,
                namespace: "",
                name,
            },
        };
        if self.mode.is_constrained() {
            if let Some(why) = extra.iter().find_map(|(key, values)| problem_of_extra(key, values)) {
                return Err(request("", "").forbidden(self.asking, &why));
            }
            let values = extra.values().map(Vec::len).fold(0, usize::saturating_add);
            if extra.len().max(values) >= MANY && self.require(&request("*", "*")).is_ok() {
                return Ok(());
            }
        }
        let all = extra.iter().flat_map(|(key, values)| values.iter().map(move |it| (key, it)));
        let mut seen = HashSet::new();
        all.filter(|it| seen.insert(*it)).try_for_each(|(key, value)| self.require(&request(key, value)))
    }

    /// Rejects the impersonation unless the user has this permission.
    fn require(&self, request: &AccessRequest<'_>) -> Result<(), ApiError> {
        let Decision { allowed, reason } = (self.authorize)(request);
        if allowed { Ok(()) } else { Err(request.forbidden(self.asking, &reason)) }
    }
}

/// Adds the group of all authenticated or of all other users.
fn add_implied_group(user: &mut User) {
    let has = |group: &str| user.groups.iter().any(|it| it == group);
    let implied = if user.name == User::anonymous().name {
        UNAUTHENTICATED
    } else if has(UNAUTHENTICATED) {
        return;
    } else {
        AUTHENTICATED
    };
    if !has(implied) {
        user.groups.push(implied.to_owned());
    }
}

/// Returns the reason that an extra field cannot be impersonated in a constrained mode.
fn problem_of_extra(key: &str, values: &[String]) -> Option<String> {
    let invalid = |value: &str, why: &str| {
        let value = quote(value);
        format!(
            "impersonating an invalid key in extra is not allowed: extra.key: Invalid value: {value}: {why}"
        )
    };
    if key.is_empty() {
        return Some("impersonating the empty string key in extra is not allowed".to_owned());
    }
    let (host, path) = key.split_once('/').unwrap_or((key, ""));
    if host.is_empty() || path.is_empty() {
        return Some(invalid(key, r#"must be a domain-prefixed path (such as "acme.io/foo")"#));
    }
    if let Some(why) = names::subdomain(host).first() {
        return Some(invalid(host, why));
    }
    if !path.chars().all(|it| it.is_ascii_alphanumeric() || PATH_CHARACTERS.contains(it)) {
        let why = r"Invalid path (regex used for validation is '[A-Za-z0-9/\-._~%!$&'()*+,;=:]+')";
        return Some(invalid(path, why));
    }
    if key.chars().any(char::is_uppercase) {
        let key = quote(key);
        return Some(format!("impersonating a non-lowercase key in extra is not allowed: {key}"));
    }
    let is_empty = values.iter().any(String::is_empty);
    is_empty.then(|| "impersonating the empty string value in extra is not allowed".to_owned())
}

/// Returns the name of the node with this user name.
fn node(user: &str) -> Option<&str> {
    user.strip_prefix("system:node:").filter(|it| names::subdomain(it).is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const PODS: AccessRequest<'_> = AccessRequest {
        verb: std::borrow::Cow::Borrowed("list"),
        target: AccessTarget::Resource {
            group: "",
            resource: "pods",
            subresource: "",
            namespace: "a",
            name: "",
        },
    };

    /// Returns the groups after an impersonation by a user with these permissions, each
    /// `VERB GROUP/RESOURCE NAME`, or the first permission that is missing.
    fn impersonated(wanted: &User, permissions: &[&str]) -> Result<Vec<String>, String> {
        let authorize = |request: &AccessRequest<'_>| {
            let AccessTarget::Resource { group, resource, subresource, name, .. } = request.target else {
                panic!("{request:?}")
            };
            let part = if subresource.is_empty() { String::new() } else { format!("/{subresource}") };
            let asked = format!("{} {group}/{resource}{part} {name}", request.verb);
            Decision { allowed: permissions.contains(&asked.as_str()), reason: "".into() }
        };
        let user = impersonate(&User::named("eve", &[]), wanted, &PODS, &LastModes::default(), &authorize);
        user.map(|it| it.groups).map_err(|it| it.0.message.clone())
    }

    #[test]
    fn a_constrained_mode_takes_the_permission_for_the_user_and_for_the_request() {
        let bob = User { name: "bob".to_owned(), ..User::default() };
        let (on, user) =
            ("impersonate-on:user-info:list /pods ", "impersonate:user-info authentication.k8s.io/users bob");
        assert_eq!(impersonated(&bob, &[on, user]), Ok(vec!["system:authenticated".to_owned()]));
        for (permissions, missing) in [
            (&[][..], r#"cannot impersonate-on:user-info:list resource "pods""#),
            (&[user], r#"cannot impersonate-on:user-info:list resource "pods""#),
            (&[on], r#"cannot impersonate:user-info resource "users" in API group "authentication.k8s.io""#),
        ] {
            let refusal = impersonated(&bob, permissions).unwrap_err();
            assert!(refusal.contains(missing), "{refusal}");
        }
        assert!(impersonated(&bob, &["impersonate /users bob"]).is_ok(), "the legacy mode");
    }

    #[test]
    fn repeated_groups_and_extra_values_take_one_decision_each() {
        let wanted = User {
            name: "bob".to_owned(),
            groups: vec!["devs".to_owned(); 1_000],
            extra: BTreeMap::from([("e.test/x".to_owned(), vec!["y".to_owned(); 1_000])]),
            ..User::default()
        };
        let decisions = std::cell::Cell::new(0);
        let authorize = |request: &AccessRequest<'_>| {
            decisions.set(decisions.get() + 1);
            Decision { allowed: request.verb == "impersonate", reason: "".into() }
        };
        let last = LastModes::default();
        assert!(impersonate(&User::named("eve", &[]), &wanted, &PODS, &last, &authorize).is_ok());
        // The request in the constrained mode; the name, the group and the value in the legacy
        // mode.
        assert_eq!(decisions.get(), 4);
    }

    #[test]
    fn the_error_names_the_mode_that_worked_last() {
        let last = LastModes::default();
        let become_user = |name: &str, allowed: bool| {
            let wanted = User { name: name.to_owned(), ..User::default() };
            let authorize = |request: &AccessRequest<'_>| Decision {
                allowed: allowed && request.verb == "impersonate",
                reason: "".into(),
            };
            impersonate(&User::named("eve", &[]), &wanted, &PODS, &last, &authorize)
        };
        let refusal = |it: Result<User, ApiError>| it.unwrap_err().0.message.clone();
        assert!(refusal(become_user("bob", false)).contains("cannot impersonate-on:user-info:list"));
        assert!(become_user("bob", true).is_ok());
        assert!(refusal(become_user("bob", false)).contains(r#"cannot impersonate resource "users""#));
    }

    #[test]
    fn masters_can_be_impersonated_only_in_the_legacy_mode() {
        let admin = User { name: "bob".to_owned(), groups: vec![MASTERS.to_owned()], ..User::default() };
        let constrained = [
            "impersonate-on:user-info:list /pods ",
            "impersonate:user-info authentication.k8s.io/users bob",
            "impersonate:user-info authentication.k8s.io/groups system:masters",
        ];
        let refusal = impersonated(&admin, &constrained).unwrap_err();
        assert!(refusal.ends_with("impersonating the system:masters group is not allowed"), "{refusal}");
        let legacy = ["impersonate /users bob", "impersonate /groups system:masters"];
        assert!(impersonated(&admin, &legacy).is_ok());
    }

    #[test]
    fn a_name_that_no_service_account_can_have_is_that_of_a_user() {
        for name in [
            "system:serviceaccount:default:Admin_1",
            "system:serviceaccount:Bad_ns:x",
            "system:serviceaccount:a:b:c",
        ] {
            let wanted = User { name: name.to_owned(), ..User::default() };
            let account = name.rsplit(':').next().unwrap();
            let refusal = impersonated(&wanted, &[&format!("impersonate /serviceaccounts {account}")]);
            assert!(refusal.unwrap_err().contains("impersonate-on:user-info:list"), "{name}");
            let user = format!("impersonate /users {name}");
            assert_eq!(
                impersonated(&wanted, &[&user]),
                Ok(vec!["system:authenticated".to_owned()]),
                "{name}"
            );
        }
    }

    #[test]
    fn each_extra_value_takes_a_permission_of_its_own() {
        let values = vec!["x".to_owned(), "y".to_owned()];
        let extra = BTreeMap::from([("acme.io/scopes".to_owned(), values)]);
        let bob = User { name: "bob".to_owned(), extra, ..User::default() };
        let of = |it: &str| format!("impersonate authentication.k8s.io/userextras/acme.io/scopes {it}");
        let (x, y) = (of("x"), of("y"));
        assert!(impersonated(&bob, &["impersonate /users bob", &x, &y]).is_ok());
        assert!(impersonated(&bob, &["impersonate /users bob", &x]).is_err());
    }

    #[test]
    fn a_service_account_can_become_the_node_of_its_pod() {
        let extra = BTreeMap::from([(NODE_NAME.to_owned(), vec!["n1".to_owned()])]);
        let account = User { extra, ..User::named("system:serviceaccount:a:agent", &[]) };
        let permissions = [
            ("impersonate-on:associated-node:list", "pods", ""),
            ("impersonate:associated-node", "nodes", "*"),
        ];
        let authorize = |request: &AccessRequest<'_>| {
            let AccessTarget::Resource { resource, name, .. } = request.target else { panic!("{request:?}") };
            let allowed = permissions.contains(&(&*request.verb, resource, name));
            Decision { allowed, reason: "".into() }
        };
        let become_node = |node: &str| {
            let wanted = User { name: format!("system:node:{node}"), ..User::default() };
            impersonate(&account, &wanted, &PODS, &LastModes::default(), &authorize).map(|it| it.groups)
        };
        assert_eq!(become_node("n1").unwrap(), ["system:nodes", "system:authenticated"]);
        assert!(become_node("n2").is_err());
    }

    #[test]
    fn keys_of_extra_fields_are_domain_prefixed_in_constrained_modes() {
        let x = ["x".to_owned()];
        assert_eq!(problem_of_extra("acme.io/a", &x), None);
        for (key, values, why) in [
            ("", &x[..], "the empty string key"),
            ("scopes", &x, "must be a domain-prefixed path"),
            ("acme.io/", &x, "must be a domain-prefixed path"),
            ("acme_io/a", &x, "RFC 1123 subdomain"),
            ("acme.io/a b", &x, "Invalid path"),
            ("acme.io/A", &x, "a non-lowercase key"),
            ("acme.io/a", &[String::new()], "the empty string value"),
        ] {
            let problem = problem_of_extra(key, values).unwrap_or_default();
            assert!(problem.contains(why), "{key:?}: {problem}");
        }
    }
}
