//! Acting as somebody else, as the headers of a request ask.
//!
//! Groups that follow from a name are added where the request names none, as the original does.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;

use super::deed::Deed;
use crate::cluster::User;
use crate::refusal::Refusal;
use crate::request::Route;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

const MASTERS: &str = "system:masters";
const NODES: &str = "system:nodes";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Who the request acts as: `asking`, unless its headers name somebody else and `asking` may be that.
pub(super) fn act(asking: User, headers: &HeaderMap, deed: &Deed<'_>) -> Result<User, Refusal> {
    let Some(wanted) = wanted(headers)? else { return Ok(asking) };
    if asking.groups.iter().any(|it| it == MASTERS) {
        Ok(complete(wanted))
    } else {
        Err(forbidden(&asking.name, &wanted, deed))
    }
}

/// Whom the headers name, word for word.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, Refusal> {
    let first = |name| headers.get(name).map(text).unwrap_or_default();
    let mut wanted = User { name: first(USER), uid: first(UID), ..User::default() };
    wanted.groups = headers.get_all(GROUP).iter().map(text).collect();
    for (name, value) in headers {
        if let Some(key) = name.as_str().strip_prefix(EXTRA) {
            wanted.extra.entry(unescape(key)).or_default().push(text(value));
        }
    }
    match (wanted.name.is_empty(), is_only_named(&wanted)) {
        (false, _) => Ok(Some(wanted)),
        (true, true) => Ok(None),
        (true, false) => {
            let message = format!("requested {} without impersonating a user name", in_go(&wanted));
            Err(Refusal::bad_request(message))
        }
    }
}

/// Adds the groups that everybody of that name is in.
fn complete(mut wanted: User) -> User {
    let is_node = is_only_named(&wanted) && is_node(&wanted.name);
    if let Some((namespace, _)) = service_account(&wanted.name) {
        if wanted.groups.is_empty() {
            let of_namespace = format!("system:serviceaccounts:{namespace}");
            wanted.groups = vec!["system:serviceaccounts".to_owned(), of_namespace];
        }
    } else if is_node {
        wanted.groups.push(NODES.to_owned());
    }
    let has = |group: &str| wanted.groups.iter().any(|it| it == group);
    if wanted.name == User::anonymous().name {
        if !has(UNAUTHENTICATED) {
            wanted.groups.push(UNAUTHENTICATED.to_owned());
        }
    } else if !has(UNAUTHENTICATED) && !has(AUTHENTICATED) {
        wanted.groups.push(AUTHENTICATED.to_owned());
    }
    wanted
}

/// The namespace and name of a service account that is a user of this name.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// Whether nothing but a name is asked for.
fn is_only_named(wanted: &User) -> bool {
    wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty()
}

fn is_node(user: &str) -> bool {
    user.strip_prefix("system:node:").is_some_and(|it| !it.is_empty())
}

/// The original asks for the right to do this very thing as somebody of that sort, and says that it is missing. Where no sort
/// fits, it says that the right to be that user is missing.
fn forbidden(asking: &str, wanted: &User, deed: &Deed<'_>) -> Refusal {
    let account = service_account(&wanted.name);
    let sort = match (account.is_some(), is_node(&wanted.name), is_only_named(wanted)) {
        (true, _, true) => "serviceaccount",
        (_, true, true) => "arbitrary-node",
        (false, false, _) => "user-info",
        _ => {
            let (resource, name, place) = match account {
                Some((namespace, name)) => ("serviceaccounts", name, in_namespace(Some(namespace))),
                None => ("users", wanted.name.as_str(), in_namespace(None)),
            };
            let why = format!("cannot impersonate resource {resource:?} in API group \"\" {place}");
            return Refusal::forbidden("", resource, name, &user_who(asking, &why));
        }
    };
    let Route::Resource(target) = Route::parse(deed.path) else {
        let verb = deed.method.to_ascii_lowercase();
        let why = format!("cannot impersonate-on:{sort}:{verb} path {:?}", deed.path);
        return Refusal::forbidden("", "", "", &user_who(asking, &why));
    };
    let verb = target.verb(deed.method, deed.watches);
    let verb = verb.map_or_else(|| deed.method.to_ascii_lowercase(), |it| it.to_string());
    let name = target.name.as_deref().unwrap_or_default();
    let namespace = if target.resource == "namespaces" { &target.name } else { &target.namespace };
    let place = in_namespace(namespace.as_deref());
    let part = target.subresource.as_deref().map(|it| format!("/{it}")).unwrap_or_default();
    let resource = format!("{}{part}", target.resource);
    let group = &target.group;
    let why =
        format!("cannot impersonate-on:{sort}:{verb} resource {resource:?} in API group {group:?} {place}");
    Refusal::forbidden(group, &target.resource, name, &user_who(asking, &why))
}

fn in_namespace(namespace: Option<&str>) -> String {
    namespace.map_or_else(|| "at the cluster scope".to_owned(), |it| format!("in the namespace {it:?}"))
}

/// The original keeps what could be taken for HTML out of the part that quotes the request.
fn user_who(name: &str, cannot: &str) -> String {
    format!("User {name:?} {cannot}").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Keys are percent-encoded, since not all of them can be header names. What is not well encoded is taken as it is.
fn unescape(key: &str) -> String {
    let pieces: Vec<&str> = key.split('%').skip(1).collect();
    let encoded = |it: &&str| it.len() >= 2 && it.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if pieces.iter().all(encoded) {
        percent_decode_str(key).decode_utf8_lossy().into_owned()
    } else {
        key.to_owned()
    }
}

/// A user as Go prints one, since the original does so in its message.
fn in_go(user: &User) -> String {
    let list = |values: &[String]| {
        let quoted: Vec<String> = values.iter().map(|it| format!("{it:?}")).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let map = |values: &BTreeMap<String, Vec<String>>| {
        let entries: Vec<String> = values.iter().map(|(key, it)| format!("{key:?}:{}", list(it))).collect();
        format!("map[string][]string{{{}}}", entries.join(", "))
    };
    let extra = if user.extra.is_empty() { "map[string][]string(nil)".to_owned() } else { map(&user.extra) };
    let (name, uid) = (&user.name, &user.uid);
    format!("&user.DefaultInfo{{Name:{name:?}, UID:{uid:?}, Groups:{groups}, Extra:{extra}}}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(http::HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    fn acted(asking: User, headers: &HeaderMap) -> Result<User, Refusal> {
        act(asking, headers, &Deed { method: "GET", path: "/api/v1/namespaces/a/pods", watches: false })
    }

    fn acting(pairs: &[(&'static str, &'static str)]) -> User {
        acted(User::admin(), &headers(pairs)).unwrap()
    }

    #[test]
    fn without_the_headers_everybody_is_oneself() {
        assert_eq!(acting(&[]), User::admin());
        assert_eq!(acting(&[("impersonate-user", "")]), User::admin());
    }

    /// Each line was asked of the original.
    #[test]
    fn groups_that_follow_from_the_name_are_added() {
        for (name, groups, expected) in [
            ("bob", &[][..], &["system:authenticated"][..]),
            ("bob", &["g1", "g2"], &["g1", "g2", "system:authenticated"]),
            ("bob", &["system:authenticated"], &["system:authenticated"]),
            ("bob", &["system:unauthenticated"], &["system:unauthenticated"]),
            (
                "system:serviceaccount:ns1:sa1",
                &[],
                &["system:serviceaccounts", "system:serviceaccounts:ns1", "system:authenticated"],
            ),
            ("system:serviceaccount:bad", &[], &["system:authenticated"]),
            ("system:node:foo", &[], &["system:nodes", "system:authenticated"]),
            ("system:anonymous", &[], &["system:unauthenticated"]),
            (
                "system:anonymous",
                &["system:authenticated"],
                &["system:authenticated", "system:unauthenticated"],
            ),
        ] {
            let mut pairs = vec![("impersonate-user", name)];
            pairs.extend(groups.iter().map(|&it| ("impersonate-group", it)));
            assert_eq!(acting(&pairs).groups, expected, "{name} {groups:?}");
        }
    }

    #[test]
    fn a_uid_and_more_can_be_named_too() {
        let user = acting(&[
            ("impersonate-user", "bob"),
            ("impersonate-uid", "u1"),
            ("impersonate-extra-foo%2fbar", "1"),
            ("impersonate-extra-foo%2fbar", "2"),
            ("impersonate-extra-100%", "3"),
        ]);
        assert_eq!((user.name.as_str(), user.uid.as_str()), ("bob", "u1"));
        assert_eq!(user.extra["foo/bar"], ["1", "2"]);
        assert_eq!(user.extra["100%"], ["3"]);
    }

    /// Each line was asked of the original.
    #[test]
    fn who_is_no_master_may_not_and_is_told_what() {
        for (user, group, method, path, expected) in [
            (
                "bob",
                None,
                "GET",
                "/api/v1/namespaces/default/pods",
                r#"pods is forbidden: User "nobody" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "default""#,
            ),
            (
                "bob",
                Some("devs"),
                "GET",
                "/apis/nope.io/v1/foos",
                r#"foos.nope.io is forbidden: User "nobody" cannot impersonate-on:user-info:list resource "foos" in API group "nope.io" at the cluster scope"#,
            ),
            (
                "system:serviceaccount:a:b",
                None,
                "DELETE",
                "/api/v1/namespaces/x",
                r#"namespaces "x" is forbidden: User "nobody" cannot impersonate-on:serviceaccount:delete resource "namespaces" in API group "" in the namespace "x""#,
            ),
            (
                "system:serviceaccount:a:b",
                Some("devs"),
                "GET",
                "/api/v1/nodes",
                r#"serviceaccounts "b" is forbidden: User "nobody" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "a""#,
            ),
            (
                "system:node:n1",
                None,
                "GET",
                "/api/v1/nodes",
                r#"nodes is forbidden: User "nobody" cannot impersonate-on:arbitrary-node:list resource "nodes" in API group "" at the cluster scope"#,
            ),
            (
                "system:node:n1",
                Some("devs"),
                "GET",
                "/api",
                r#"users "system:node:n1" is forbidden: User "nobody" cannot impersonate resource "users" in API group "" at the cluster scope"#,
            ),
            (
                "bob",
                None,
                "GET",
                "/healthz",
                r#"forbidden: User "nobody" cannot impersonate-on:user-info:get path "/healthz""#,
            ),
        ] {
            let mut pairs = vec![("impersonate-user", user)];
            pairs.extend(group.map(|it| ("impersonate-group", it)));
            let deed = Deed { method, path, watches: false };
            let refusal = act(User::named("nobody", &[]), &headers(&pairs), &deed).unwrap_err();
            assert_eq!((refusal.0.message.as_str(), refusal.0.code), (expected, 403));
        }
    }

    /// The words were asked of the original.
    #[test]
    fn groups_without_a_user_are_a_mistake() {
        for (header, words) in [
            ("impersonate-group", r#"UID:"", Groups:[]string{"g1"}, Extra:map[string][]string(nil)}"#),
            ("impersonate-uid", r#"UID:"g1", Groups:[]string(nil), Extra:map[string][]string(nil)}"#),
            (
                "impersonate-extra-foo",
                r#"UID:"", Groups:[]string(nil), Extra:map[string][]string{"foo":[]string{"g1"}}}"#,
            ),
        ] {
            let refusal = acted(User::admin(), &headers(&[(header, "g1")])).unwrap_err();
            let expected =
                format!(r#"requested &user.DefaultInfo{{Name:"", {words} without impersonating a user name"#);
            assert_eq!((refusal.0.code, refusal.0.message), (400, expected));
        }
    }
}
