//! The headers of a request that is passed on to a backend, and of its response.
//!
//! Headers of one connection (RFC 9110, 7.6.1) do not belong to the next one, and the credentials
//! of the caller are for this server only.

use std::net::IpAddr;

use http::header::{
    AUTHORIZATION, CONNECTION, EXPECT, HeaderMap, HeaderName, HeaderValue, PROXY_AUTHENTICATE,
    PROXY_AUTHORIZATION, SEC_WEBSOCKET_PROTOCOL, TE, TRAILER, TRANSFER_ENCODING, UPGRADE,
};

const KEEP_ALIVE: HeaderName = HeaderName::from_static("keep-alive");
const PROXY_CONNECTION: HeaderName = HeaderName::from_static("proxy-connection");
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The headers of one connection, besides those that `Connection` names.
const HOP_BY_HOP: [HeaderName; 9] = [
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

/// The prefix of headers with which a caller acts as another user.
const IMPERSONATE: &str = "impersonate-";

/// The prefix of the protocol by which browsers send a bearer token, which is no protocol for the
/// backend (k8s.io/apiserver v0.36.4 pkg/authentication/request/websocket/protocol.go).
const BEARER_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";

/// Returns true if a request asks to switch protocols: `IsUpgradeRequest` in k8s.io/streaming
/// v0.36.4 pkg/httpstream/httpstream.go looks only for the word in `Connection`.
pub(crate) fn requests_upgrade(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CONNECTION).iter();
    values.map(HeaderValue::as_bytes).any(|it| it.to_ascii_lowercase().windows(7).any(|it| it == b"upgrade"))
}

/// Removes the headers of one connection, and returns the protocols to switch to, if any.
pub(crate) fn remove_hop_by_hop(headers: &mut HeaderMap) -> Option<HeaderValue> {
    let upgrade = headers.get(UPGRADE).filter(|_| requests_upgrade(headers)).cloned();
    let named: Vec<HeaderName> = headers
        .get_all(CONNECTION)
        .iter()
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','))
        .filter_map(|it| it.trim().parse().ok())
        .collect();
    // Only this value has a meaning beyond one connection: the client reads trailers.
    let trailers = headers.get(TE).is_some_and(|it| it.as_bytes().eq_ignore_ascii_case(b"trailers"));
    for name in named.into_iter().chain(HOP_BY_HOP) {
        headers.remove(name);
    }
    if trailers {
        headers.insert(TE, HeaderValue::from_static("trailers"));
    }
    upgrade
}

/// Adds the headers of a switch of protocols.
pub(crate) fn announce_upgrade(headers: &mut HeaderMap, protocols: HeaderValue) {
    headers.insert(CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(UPGRADE, protocols);
}

/// Removes the credentials of the caller, as kube-apiserver does after it has authenticated a
/// request (`withAuthentication` in k8s.io/apiserver v0.36.4
/// pkg/endpoints/filters/authentication.go, `WithImpersonation` beside it), and `Expect`, which the
/// server has answered itself.
pub(crate) fn remove_credentials(headers: &mut HeaderMap) {
    headers.remove(AUTHORIZATION);
    headers.remove(EXPECT);
    let acting: Vec<HeaderName> =
        headers.keys().filter(|it| it.as_str().starts_with(IMPERSONATE)).cloned().collect();
    for name in acting {
        headers.remove(name);
    }
    let offered: Vec<String> = headers
        .get_all(SEC_WEBSOCKET_PROTOCOL)
        .iter()
        .filter_map(|it| it.to_str().ok())
        .flat_map(|it| it.split(','))
        .map(|it| it.trim().to_owned())
        .collect();
    if offered.iter().any(|it| it.starts_with(BEARER_PROTOCOL)) {
        let others: Vec<String> = offered.into_iter().filter(|it| !it.starts_with(BEARER_PROTOCOL)).collect();
        headers.remove(SEC_WEBSOCKET_PROTOCOL);
        if let Ok(value) = HeaderValue::from_str(&others.join(", "))
            && !others.is_empty()
        {
            headers.insert(SEC_WEBSOCKET_PROTOCOL, value);
        }
    }
}

/// Appends the address of the caller to `X-Forwarded-For`.
pub(crate) fn append_forwarded_for(headers: &mut HeaderMap, address: IpAddr) {
    let mut all: Vec<String> =
        headers.get_all(&FORWARDED_FOR).iter().filter_map(|it| it.to_str().ok()).map(str::to_owned).collect();
    all.push(address.to_string());
    if let Ok(value) = HeaderValue::from_str(&all.join(", ")) {
        headers.insert(FORWARDED_FOR, value);
    }
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
            ("connection", "keep-alive, X-Own"),
            ("keep-alive", "5"),
            ("x-own", "1"),
            ("te", "trailers"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("accept", "text/plain"),
        ]);
        assert_eq!(remove_hop_by_hop(&mut given), None, "the upgrade is not named by Connection");
        assert_eq!(given, headers(&[("accept", "text/plain"), ("te", "trailers")]));
    }

    #[test]
    fn an_upgrade_is_returned_with_its_protocols() {
        let mut given = headers(&[("connection", "Upgrade"), ("upgrade", "SPDY/3.1")]);
        assert!(requests_upgrade(&given));
        assert_eq!(remove_hop_by_hop(&mut given).unwrap(), "SPDY/3.1");
        assert!(given.is_empty());
        assert!(!requests_upgrade(&headers(&[("connection", "close"), ("upgrade", "SPDY/3.1")])));
    }

    #[test]
    fn credentials_of_the_caller_stay_here() {
        let mut given = headers(&[
            ("authorization", "Bearer t"),
            ("impersonate-user", "jane"),
            ("impersonate-extra-a", "b"),
            ("expect", "100-continue"),
            ("sec-websocket-protocol", "base64url.bearer.authorization.k8s.io.dA, v5.channel.k8s.io"),
            ("cookie", "of=backend"),
        ]);
        remove_credentials(&mut given);
        assert_eq!(
            given,
            headers(&[("sec-websocket-protocol", "v5.channel.k8s.io"), ("cookie", "of=backend")])
        );
        let mut given = headers(&[("sec-websocket-protocol", "v4.channel.k8s.io,v5.channel.k8s.io")]);
        remove_credentials(&mut given);
        assert_eq!(given["sec-websocket-protocol"], "v4.channel.k8s.io,v5.channel.k8s.io");
    }

    #[test]
    fn the_callers_address_is_appended() {
        let mut given = headers(&[("x-forwarded-for", "10.0.0.1")]);
        append_forwarded_for(&mut given, IpAddr::from([127, 0, 0, 1]));
        assert_eq!(given["x-forwarded-for"], "10.0.0.1, 127.0.0.1");
    }
}
