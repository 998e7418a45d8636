//! Impersonation of users by request headers.
//!
//! Groups that follow from a user name are added if the request names none, as in k8s.io/apiserver
//! v0.36.4 pkg/endpoints/filters/impersonation.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;

use super::request_attributes::RequestAttributes;
use crate::ApiError;
use crate::cluster::User;
use crate::request::Route;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

const MASTERS: &str = "system:masters";
const NODES: &str = "system:nodes";
const AUTHENTICATED: &str = "system:authenticated";
const UNAUTHENTICATED: &str = "system:unauthenticated";

/// Returns the effective user: `asking`, unless the headers name another user and `asking` may
/// impersonate.
pub(super) fn impersonate(
    asking: User,
    headers: &HeaderMap,
    attributes: &RequestAttributes<'_>,
) -> Result<User, ApiError> {
    let Some(wanted) = wanted(headers)? else { return Ok(asking) };
    if asking.groups.iter().any(|it| it == MASTERS) {
        Ok(with_implied_groups(wanted))
    } else {
        Err(forbidden(&asking.name, &wanted, attributes))
    }
}

/// Returns the user that the headers name, without additions.
fn wanted(headers: &HeaderMap) -> Result<Option<User>, ApiError> {
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
            let message = format!("requested {} without impersonating a user name", go_syntax(&wanted));
            Err(ApiError::bad_request(message))
        }
    }
}

/// Adds the groups that follow from the user name.
fn with_implied_groups(mut wanted: User) -> User {
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

/// Returns the namespace and name of the service account with this user name.
fn service_account(user: &str) -> Option<(&str, &str)> {
    let (namespace, name) = user.strip_prefix("system:serviceaccount:")?.split_once(':')?;
    (!namespace.is_empty() && !name.is_empty() && !name.contains(':')).then_some((namespace, name))
}

/// Returns true if only a user name is given.
fn is_only_named(wanted: &User) -> bool {
    wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty()
}

fn is_node(user: &str) -> bool {
    user.strip_prefix("system:node:").is_some_and(|it| !it.is_empty())
}

/// Returns the error of kube-apiserver. It checks the permission to perform this request as a user
/// of that sort, and reports that it is missing. If no sort fits, it reports that the permission to
/// impersonate the user is missing.
fn forbidden(asking: &str, wanted: &User, attributes: &RequestAttributes<'_>) -> ApiError {
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
            return ApiError::forbidden("", resource, name, &denial(asking, &why));
        }
    };
    let Route::Resource(target) = Route::parse(attributes.path) else {
        let verb = attributes.method.to_ascii_lowercase();
        let why = format!("cannot impersonate-on:{sort}:{verb} path {:?}", attributes.path);
        return ApiError::forbidden("", "", "", &denial(asking, &why));
    };
    let verb = target.verb(attributes.method, attributes.watches);
    let verb = verb.map_or_else(|| attributes.method.to_ascii_lowercase(), |it| it.to_string());
    let name = target.name.as_deref().unwrap_or_default();
    let namespace = if target.resource == "namespaces" { &target.name } else { &target.namespace };
    let place = in_namespace(namespace.as_deref());
    let part = target.subresource.as_deref().map(|it| format!("/{it}")).unwrap_or_default();
    let resource = format!("{}{part}", target.resource);
    let group = &target.group;
    let why =
        format!("cannot impersonate-on:{sort}:{verb} resource {resource:?} in API group {group:?} {place}");
    ApiError::forbidden(group, &target.resource, name, &denial(asking, &why))
}

fn in_namespace(namespace: Option<&str>) -> String {
    namespace.map_or_else(|| "at the cluster scope".to_owned(), |it| format!("in the namespace {it:?}"))
}

/// Escapes HTML in the part of the message that quotes the request, as `sanitizer` in
/// k8s.io/apiserver v0.36.4 pkg/endpoints/handlers/responsewriters/errors.go.
fn denial(name: &str, cannot: &str) -> String {
    format!("User {name:?} {cannot}").replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn text(value: &HeaderValue) -> String {
    String::from_utf8_lossy(value.as_bytes()).into_owned()
}

/// Decodes a key, which is percent-encoded because not every key is a valid header name. A
/// malformed encoding is taken literally.
fn unescape(key: &str) -> String {
    let pieces: Vec<&str> = key.split('%').skip(1).collect();
    let encoded = |it: &&str| it.len() >= 2 && it.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if pieces.iter().all(encoded) {
        percent_decode_str(key).decode_utf8_lossy().into_owned()
    } else {
        key.to_owned()
    }
}

/// Formats a user as Go's `%#v`, which kube-apiserver uses in its message.
fn go_syntax(user: &User) -> String {
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

    fn impersonated(asking: User, headers: &HeaderMap) -> Result<User, ApiError> {
        impersonate(
            asking,
            headers,
            &RequestAttributes { method: "GET", path: "/api/v1/namespaces/a/pods", watches: false },
        )
    }

    fn as_admin(pairs: &[(&'static str, &'static str)]) -> User {
        impersonated(User::admin(), &headers(pairs)).unwrap()
    }

    #[test]
    fn without_the_headers_the_user_is_unchanged() {
        assert_eq!(as_admin(&[]), User::admin());
        assert_eq!(as_admin(&[("impersonate-user", "")]), User::admin());
    }

    /// Every line is recorded from kube-apiserver.
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
            assert_eq!(as_admin(&pairs).groups, expected, "{name} {groups:?}");
        }
    }

    #[test]
    fn a_uid_and_extra_fields_can_be_impersonated() {
        let user = as_admin(&[
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

    /// Every line is recorded from kube-apiserver.
    #[test]
    fn a_user_outside_system_masters_gets_403_with_the_missing_permission() {
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
            let attributes = RequestAttributes { method, path, watches: false };
            let refusal = impersonate(User::named("nobody", &[]), &headers(&pairs), &attributes).unwrap_err();
            assert_eq!((refusal.0.message.as_str(), refusal.0.code), (expected, 403));
        }
    }

    /// The messages are recorded from kube-apiserver.
    #[test]
    fn groups_without_a_user_name_get_400() {
        for (header, words) in [
            ("impersonate-group", r#"UID:"", Groups:[]string{"g1"}, Extra:map[string][]string(nil)}"#),
            ("impersonate-uid", r#"UID:"g1", Groups:[]string(nil), Extra:map[string][]string(nil)}"#),
            (
                "impersonate-extra-foo",
                r#"UID:"", Groups:[]string(nil), Extra:map[string][]string{"foo":[]string{"g1"}}}"#,
            ),
        ] {
            let refusal = impersonated(User::admin(), &headers(&[(header, "g1")])).unwrap_err();
            let expected =
                format!(r#"requested &user.DefaultInfo{{Name:"", {words} without impersonating a user name"#);
            assert_eq!((refusal.0.code, refusal.0.message), (400, expected));
        }
    }
}
