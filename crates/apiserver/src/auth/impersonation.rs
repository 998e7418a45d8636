//! Impersonation of users by request headers.

use std::collections::BTreeMap;

use http::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode_str;

use super::impersonation_mode::{self, LastModes};
use crate::ApiError;
use crate::authorization::{AccessRequest, Decision};
use crate::strconv::quote;
use crate::user::User;

const USER: &str = "impersonate-user";
const UID: &str = "impersonate-uid";
const GROUP: &str = "impersonate-group";
const EXTRA: &str = "impersonate-extra-";

/// Returns the effective user: `asking`, unless the headers name another user.
///
/// # Errors
/// 403 if `asking` may not impersonate that user for this request; 400 for headers without a user
/// name.
pub(super) fn impersonate(
    asking: User,
    headers: &HeaderMap,
    access: &AccessRequest<'_>,
    last: &LastModes,
    authorize: impl Fn(&User, &AccessRequest<'_>) -> Decision,
) -> Result<User, ApiError> {
    match wanted(headers)? {
        None => Ok(asking),
        Some(wanted) => {
            let authorize = |it: &AccessRequest<'_>| authorize(&asking, it);
            impersonation_mode::impersonate(&asking, &wanted, access, last, &authorize)
        }
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

/// Returns true if only a user name is given.
fn is_only_named(wanted: &User) -> bool {
    wanted.uid.is_empty() && wanted.groups.is_empty() && wanted.extra.is_empty()
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

/// Formats a user as Go's `%#v`, which the message in k8s.io/apiserver v0.36.4
/// pkg/endpoints/filters/impersonation/constrained_impersonation.go contains.
fn go_syntax(user: &User) -> String {
    let list = |values: &[String]| {
        let quoted: Vec<String> = values.iter().map(|it| quote(it)).collect();
        format!("[]string{{{}}}", quoted.join(", "))
    };
    let groups = if user.groups.is_empty() { "[]string(nil)".to_owned() } else { list(&user.groups) };
    let map = |values: &BTreeMap<String, Vec<String>>| {
        let entries: Vec<String> =
            values.iter().map(|(key, it)| format!("{}:{}", quote(key), list(it))).collect();
        format!("map[string][]string{{{}}}", entries.join(", "))
    };
    let extra = if user.extra.is_empty() { "map[string][]string(nil)".to_owned() } else { map(&user.extra) };
    let (name, uid) = (quote(&user.name), quote(&user.uid));
    format!("&user.DefaultInfo{{Name:{name}, UID:{uid}, Groups:{groups}, Extra:{extra}}}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::AccessTarget;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(http::HeaderName::from_static(name), HeaderValue::from_static(value));
        }
        headers
    }

    /// Impersonates as a user who may do everything, or nothing.
    fn impersonated(asking: User, headers: &HeaderMap, path: &str, allowed: bool) -> Result<User, ApiError> {
        let target = match path.split(' ').collect::<Vec<_>>().as_slice() {
            [path] => AccessTarget::Path(path),
            [namespace, group, resource, name] => {
                AccessTarget::Resource { group, resource, subresource: "", namespace, name }
            }
            other => panic!("{other:?}"),
        };
        let verb = match target {
            AccessTarget::Resource { name: "", .. } => "list",
            AccessTarget::Resource { .. } => "delete",
            AccessTarget::Path(_) => "get",
        };
        let access = AccessRequest { verb: verb.into(), target };
        let authorize = |_: &User, _: &AccessRequest<'_>| Decision { allowed, reason: "".into() };
        impersonate(asking, headers, &access, &LastModes::default(), authorize)
    }

    fn as_admin(pairs: &[(&'static str, &'static str)]) -> User {
        impersonated(User::admin(), &headers(pairs), "/api", true).unwrap()
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
    fn a_user_without_permissions_gets_403_with_the_first_that_is_missing() {
        for (user, group, target, expected) in [
            (
                "bob",
                None,
                "default  pods ",
                r#"pods is forbidden: User "nobody" cannot impersonate-on:user-info:list resource "pods" in API group "" in the namespace "default""#,
            ),
            (
                "bob",
                Some("devs"),
                " nope.io foos ",
                r#"foos.nope.io is forbidden: User "nobody" cannot impersonate-on:user-info:list resource "foos" in API group "nope.io" at the cluster scope"#,
            ),
            (
                "system:serviceaccount:a:b",
                None,
                "x  namespaces x",
                r#"namespaces "x" is forbidden: User "nobody" cannot impersonate-on:serviceaccount:delete resource "namespaces" in API group "" in the namespace "x""#,
            ),
            (
                "system:serviceaccount:a:b",
                Some("devs"),
                "  nodes ",
                r#"serviceaccounts "b" is forbidden: User "nobody" cannot impersonate resource "serviceaccounts" in API group "" in the namespace "a""#,
            ),
            (
                "system:node:n1",
                None,
                "  nodes ",
                r#"nodes is forbidden: User "nobody" cannot impersonate-on:arbitrary-node:list resource "nodes" in API group "" at the cluster scope"#,
            ),
            (
                "system:node:n1",
                Some("devs"),
                "/api",
                r#"users "system:node:n1" is forbidden: User "nobody" cannot impersonate resource "users" in API group "" at the cluster scope"#,
            ),
            (
                "bob",
                None,
                "/healthz",
                r#"forbidden: User "nobody" cannot impersonate-on:user-info:get path "/healthz""#,
            ),
        ] {
            let mut pairs = vec![("impersonate-user", user)];
            pairs.extend(group.map(|it| ("impersonate-group", it)));
            let nobody = User::named("nobody", &[]);
            let refusal = impersonated(nobody, &headers(&pairs), target, false).unwrap_err();
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
            let refusal = impersonated(User::admin(), &headers(&[(header, "g1")]), "/api", true).unwrap_err();
            let expected =
                format!(r#"requested &user.DefaultInfo{{Name:"", {words} without impersonating a user name"#);
            assert_eq!((refusal.0.code, refusal.0.message), (400, expected));
        }
    }
}
