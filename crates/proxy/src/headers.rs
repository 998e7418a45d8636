//! The headers of a request that is passed on: which are removed, and which identify the caller.
//!
//! Headers of one connection (RFC 9110, 7.6.1) do not belong to the next one. Headers that assert
//! an identity are removed before the proxy sets its own, so that a `Connection` header, which
//! removes others, cannot remove those.

use http::header::{
    AUTHORIZATION, CONNECTION, EXPECT, HOST, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};

use crate::user::User;

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");

/// The prefix of the headers with which kube-apiserver lets a front proxy name the user.
const REMOTE: &str = "x-remote-";
/// The prefix of the headers with which a user acts as another.
const IMPERSONATE: &str = "impersonate-";

/// Removes the headers of one connection, and returns the protocol that the client wants to switch
/// to, if any.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','))
        .filter_map(|it| it.trim().parse().ok())
        // A caller would be another one upstream than here.
        .filter(|it| !is_of_identity(it))
        .collect();
    let upgrade = headers.get(UPGRADE).filter(|_| named.contains(&UPGRADE)).cloned();
    // Only this value has a meaning beyond one connection: the client reads trailers.
    let trailers = headers.get(TE).is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"trailers"));
    let fixed = [
        CONNECTION,
        KEEP_ALIVE,
        PROXY_CONNECTION,
        PROXY_AUTHENTICATE,
        PROXY_AUTHORIZATION,
        TE,
        TRAILER,
        TRANSFER_ENCODING,
        UPGRADE,
    ];
    for name in named.into_iter().chain(fixed) {
        headers.remove(name);
    }
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    upgrade
}

/// Removes what the proxy answers itself or sets anew, and every header with which only a front
/// proxy may name the user.
pub(crate) fn remove_of_proxy(headers: &mut HeaderMap) {
    headers.remove(HOST);
    // hyper answers it, when the upstream connection takes the body.
    headers.remove(EXPECT);
    remove_prefixed(headers, REMOTE);
}

fn is_of_identity(name: &HeaderName) -> bool {
    matches!(*name, AUTHORIZATION | SEC_WEBSOCKET_PROTOCOL) || name.as_str().starts_with(IMPERSONATE)
}

/// Returns true if the request is to be carried out as another user.
pub(crate) fn impersonates(headers: &HeaderMap) -> bool {
    headers.keys().any(|it| it.as_str().starts_with(IMPERSONATE))
}

/// Returns true if another credential than `Authorization` could count upstream: a token among the
/// protocols of a WebSocket, as browsers send it, or none if a proxy on the way removes the header
/// because `Connection` names it.
pub(crate) fn names_callers_twice(headers: &HeaderMap) -> bool {
    let contains = |name: HeaderName, part: &str| {
        let values = headers.get_all(name).iter();
        values
            .into_iter()
            .any(|it| String::from_utf8_lossy(it.as_bytes()).to_ascii_lowercase().contains(part))
    };
    contains(SEC_WEBSOCKET_PROTOCOL, "bearer.authorization.k8s.io") || contains(CONNECTION, "authorization")
}

/// The headers, besides those of [`REMOTE`], in which upstream accepts a user from a front proxy.
#[derive(Clone, Debug, Default)]
pub(crate) struct OtherNames(Vec<String>);

impl OtherNames {
    /// Reads names, and prefixes that end with `-`. The error is the one that is no header.
    pub(crate) fn new(names: &[String]) -> Result<Self, String> {
        let read = |name: &String| match HeaderName::try_from(name.trim()) {
            Ok(read) => Ok(read.as_str().to_owned()),
            Err(_) => Err(format!("{name:?} is not the name of a header")),
        };
        Ok(Self(names.iter().map(read).collect::<Result<_, _>>()?))
    }

    fn remove(&self, headers: &mut HeaderMap) {
        for name in &self.0 {
            if name.ends_with('-') {
                remove_prefixed(headers, name);
            } else {
                headers.remove(name);
            }
        }
    }
}

/// Sets the headers of a front proxy that names the user. kube-apiserver trusts them on connections
/// with the front proxy's certificate only. `others` are removed: one of them might count instead.
pub(crate) fn name_user(headers: &mut HeaderMap, user: &User, others: &OtherNames) -> Option<()> {
    remove_prefixed(headers, REMOTE);
    others.remove(headers);
    headers.remove(AUTHORIZATION);
    headers.insert("x-remote-user", value(&user.name)?);
    for group in &user.groups {
        headers.append("x-remote-group", value(group)?);
    }
    Some(())
}

/// Sets the headers that let the proxy act as the user. The caller's own are removed: the proxy's
/// right to act as others must not become theirs.
pub(crate) fn act_as(headers: &mut HeaderMap, user: &User) -> Option<()> {
    remove_prefixed(headers, IMPERSONATE);
    headers.remove(AUTHORIZATION);
    headers.insert("impersonate-user", value(&user.name)?);
    for group in &user.groups {
        headers.append("impersonate-group", value(group)?);
    }
    Some(())
}

fn remove_prefixed(headers: &mut HeaderMap, prefix: &str) {
    let names: Vec<HeaderName> =
        headers.keys().filter(|it| it.as_str().starts_with(prefix)).cloned().collect();
    for name in names {
        headers.remove(name);
    }
}

fn value(text: &str) -> Option<HeaderValue> {
    HeaderValue::from_bytes(text.as_bytes()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(lines: &[(&'static str, &str)]) -> HeaderMap {
        lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())).collect()
    }

    #[test]
    fn headers_of_a_connection_are_removed_with_those_that_it_names() {
        let mut given = headers(&[
            ("connection", "close, X-Own"),
            ("connection", "keep-alive"),
            ("keep-alive", "5"),
            ("x-own", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("accept", "application/json"),
        ]);
        assert_eq!(remove_hop_by_hop(&mut given), None, "the upgrade is not named by Connection");
        assert_eq!(given, headers(&[("accept", "application/json"), ("te", "trailers")]));
    }

    #[test]
    fn a_connection_does_not_remove_the_identity_of_its_caller() {
        let lines = [("authorization", "Bearer t"), ("impersonate-user", "jane")];
        let mut given =
            headers(&[&[("connection", "Authorization, Impersonate-User, X-Own")][..], &lines].concat());
        remove_hop_by_hop(&mut given);
        assert_eq!(given, headers(&lines));
    }

    #[test]
    fn an_upgrade_is_returned_with_its_protocol() {
        let mut given = headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")]);
        assert_eq!(remove_hop_by_hop(&mut given).unwrap(), "SPDY/3.1");
        assert!(given.is_empty());
    }

    #[test]
    fn a_caller_cannot_smuggle_an_identity() {
        let smuggled = [
            ("connection", "impersonate-user, x-remote-user, authorization"),
            ("x-remote-user", "admin"),
            ("x-remote-group", "system:masters"),
            ("x-remote-extra-scopes", "all"),
            ("impersonate-user", "admin"),
            ("impersonate-extra-a", "b"),
            ("authorization", "Bearer t"),
        ];
        let jane = User { name: "jane".to_owned(), groups: vec!["devs".to_owned()], ..User::default() };
        let name_user = |headers: &mut HeaderMap, user: &User| {
            let others = ["X-Forwarded-User", "x-own-"].map(str::to_owned);
            name_user(headers, user, &OtherNames::new(&others).unwrap())
        };
        for (set, expected) in [
            (&name_user as &dyn Fn(&mut HeaderMap, &User) -> Option<()>, ["x-remote-user", "x-remote-group"]),
            (&act_as, ["impersonate-user", "impersonate-group"]),
        ] {
            let mut given = headers(&smuggled);
            if expected[0] == "x-remote-user" {
                given.insert("x-forwarded-user", value("admin").unwrap());
                given.insert("x-own-group", value("system:masters").unwrap());
            }
            remove_hop_by_hop(&mut given);
            remove_of_proxy(&mut given);
            assert!(!given.keys().any(|it| it.as_str().starts_with(REMOTE)));
            set(&mut given, &jane).unwrap();
            assert_eq!(
                (&given[expected[0]], &given[expected[1]]),
                (&value("jane").unwrap(), &value("devs").unwrap())
            );
            // Upstream decides if a user whom a front proxy names may act as another.
            let is_checked =
                |it: &HeaderName| expected[0] == "x-remote-user" && it.as_str().starts_with(IMPERSONATE);
            let values: Vec<_> = given.iter().filter(|(name, _)| !is_checked(name)).map(|it| it.1).collect();
            assert!(!values.iter().any(|it| *it == "admin" || *it == "system:masters"), "{given:?}");
            assert!(!given.contains_key(AUTHORIZATION));
        }
    }

    #[test]
    fn other_names_are_names_of_headers() {
        assert!(OtherNames::new(&["not a header".to_owned()]).unwrap_err().contains("not a header"));
    }
}
