//! Protects a server that trusts its connections from web pages.
//!
//! A browser on this machine can reach the loopback, and runs the code of every page it shows. Such
//! a page can send requests in two ways:
//!
//! - **Across sites**: `fetch(url, { method: "POST", mode: "no-cors", body })` needs no permission.
//!   The browser adds `Origin` to it, and `Sec-Fetch-Site` on the loopback, which the page can
//!   neither change nor omit.
//! - **By DNS rebinding**: the name of the page's own server is made to resolve to 127.0.0.1. To
//!   the browser that is the same origin, but `Host` has the foreign name. An address cannot be
//!   rebound.
//!
//! Neither can present a bearer token that it does not know, so requests with one are left alone.
//! `kubectl proxy` has `--accept-hosts` for the same reason.

use std::net::IpAddr;

use dogwatch_core::Reason;
use http::header::{HOST, HeaderName, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Version};

use super::connection_info::ConnectionInfo;
use crate::ApiError;

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");

/// The number of characters of a header that are repeated in an error message.
const QUOTED: usize = 100;

/// Rejects what no API client sends: requests without a host, and requests that a web page sends
/// through a browser. `trusts` returns true if the server needs no credentials in the request;
/// `is_verified` is true if the connection has a verified client certificate.
///
/// # Errors
///
/// Returns 400 for a missing host, and 403 for a request of a web page.
pub(super) fn check(
    parts: &Parts,
    is_verified: bool,
    advertised: Option<&str>,
    trusts: impl FnOnce() -> bool,
) -> Result<(), ApiError> {
    let Some(connection) = parts.extensions.get::<ConnectionInfo>() else { return Ok(()) };
    check_host_header(parts)?;
    let is_socket = connection.local.is_some();
    if is_socket && trusts() {
        if !is_verified {
            check_host(parts, connection, advertised)?;
        }
        check_origin(parts)?;
    }
    Ok(())
}

/// Checks that a request has exactly one `Host`, as HTTP/1.1 demands. Go's server answers the same
/// (`readRequest` in Go 1.26 net/http/server.go).
///
/// # Errors
///
/// Returns 400 for none or several: a proxy in front may have looked at another one than this
/// server would.
fn check_host_header(parts: &Parts) -> Result<(), ApiError> {
    if parts.version != Version::HTTP_11 {
        return Ok(());
    }
    match parts.headers.get_all(HOST).iter().count() {
        1 => Ok(()),
        0 => Err(ApiError::bad_request("missing required Host header")),
        _ => Err(ApiError::bad_request("too many Host headers")),
    }
}

/// Checks that the host of a request is this server: localhost, a loopback address, the address
/// that the client connected to, or `advertised`.
///
/// # Errors
///
/// Returns 403 for any other host.
fn check_host(parts: &Parts, connection: &ConnectionInfo, advertised: Option<&str>) -> Result<(), ApiError> {
    let Some(local) = connection.local else { return Ok(()) };
    let is_own = |host: &str| {
        is_own_host(host, local.ip()) || advertised.is_some_and(|it| it.eq_ignore_ascii_case(host))
    };
    // An HTTP/1.1 request may name the host twice, in its target and in the header: both must
    // match.
    let target = parts.uri.authority().map(|it| it.host().to_owned());
    let header = parts.headers.get(HOST).map(|it| host_of(it.to_str().unwrap_or("?")));
    match [target, header].into_iter().flatten().find(|it| !is_own(it)) {
        None => Ok(()),
        Some(host) => Err(forbidden(format!(
            "the host {} is not a name of this server: without credentials it accepts only localhost and its own address, to \
             prevent DNS rebinding; use {local}, or start the server with --token or --tls",
            quoted(&host)
        ))),
    }
}

/// Checks that a request does not come from a web page of another site.
///
/// # Errors
///
/// Returns 403 if the browser reports that it does.
fn check_origin(parts: &Parts) -> Result<(), ApiError> {
    let origins: Vec<&str> = texts(&parts.headers, &ORIGIN).collect();
    let foreign = origins.iter().find(|it| !is_same_origin(it, parts));
    if let Some(origin) = foreign {
        return Err(from_elsewhere(&format!("Origin: {}", quoted(origin))));
    }
    // `none` is a bookmark or a typed address, not a web page.
    let site = texts(&parts.headers, &SEC_FETCH_SITE).find(|it| !matches!(*it, "none" | "same-origin"));
    site.map_or(Ok(()), |site| Err(from_elsewhere(&format!("Sec-Fetch-Site: {}", quoted(site)))))
}

fn is_own_host(host: &str, local: IpAddr) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    let address = host.strip_prefix('[').and_then(|it| it.strip_suffix(']')).unwrap_or(host);
    match address.parse::<IpAddr>() {
        Ok(address) => {
            let address = address.to_canonical();
            address.is_loopback() || address == local.to_canonical()
        }
        // Names below localhost never leave the machine (RFC 6761).
        Err(_) => host.rsplit('.').next().is_some_and(|it| it.eq_ignore_ascii_case("localhost")),
    }
}

/// Returns the host of a `Host` header, without the port.
fn host_of(header: &str) -> String {
    header.parse::<Authority>().map_or_else(|_| header.to_owned(), |it| it.host().to_owned())
}

fn is_same_origin(origin: &str, parts: &Parts) -> bool {
    let own = parts.uri.authority().map(Authority::as_str);
    let own = own.or_else(|| parts.headers.get(HOST)?.to_str().ok());
    match (origin.split_once("://"), own) {
        (Some(("http" | "https", origin)), Some(own)) => origin.eq_ignore_ascii_case(own),
        _ => false,
    }
}

/// Returns the values of a header; one that is not valid text becomes a question mark, which
/// matches no origin.
fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().map(|it| it.to_str().unwrap_or("?"))
}

fn from_elsewhere(header: &str) -> ApiError {
    forbidden(format!(
        "a web page of another site sent this request ({header}): web pages may not use a server that authenticates by \
         connection; send a bearer token with the request (dogwatch serve --token or --tls)"
    ))
}

fn forbidden(message: String) -> ApiError {
    let mut refusal = ApiError::new(Reason::Forbidden, message);
    refusal.0.details = None;
    refusal
}

fn quoted(text: &str) -> String {
    let short: String = text.chars().take(QUOTED).collect();
    if short.len() < text.len() { format!("{short:?}...") } else { format!("{short:?}") }
}

#[cfg(test)]
mod tests {
    use http::Request;
    use proptest::prelude::*;

    use super::*;

    fn parts(target: &str, headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::get(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn host(local: &str, advertised: Option<&str>, host: &str) -> Result<(), u16> {
        let connection = ConnectionInfo::new(Some(local.parse().unwrap()));
        let parts = parts("/api", &[("host", host)]);
        check_host(&parts, &connection, advertised).map_err(|it| it.0.code)
    }

    #[test]
    fn the_servers_own_names_are_accepted() {
        for (local, name) in [
            ("127.0.0.1:80", "localhost:80"),
            ("127.0.0.1:80", "LOCALHOST"),
            ("127.0.0.1:80", "localhost."),
            ("127.0.0.1:80", "dogwatch.localhost:80"),
            ("127.0.0.1:80", "127.0.0.1:80"),
            ("127.0.0.1:80", "127.9.9.9"),
            ("127.0.0.1:80", "[::1]:80"),
            ("[::1]:80", "127.0.0.1:80"),
            ("192.0.2.1:80", "192.0.2.1:9000"),
            ("[::ffff:192.0.2.1]:80", "192.0.2.1"),
        ] {
            assert_eq!(host(local, None, name), Ok(()), "{local} {name}");
        }
        assert_eq!(host("127.0.0.1:80", Some("box.lan"), "Box.lan:80"), Ok(()));
    }

    #[test]
    fn other_names_are_rejected() {
        for (local, name) in [
            ("127.0.0.1:80", "rebind.attacker.example:80"),
            ("127.0.0.1:80", "localhost.attacker.example"),
            ("127.0.0.1:80", "127.0.0.1.attacker.example"),
            ("127.0.0.1:80", "notlocalhost"),
            ("127.0.0.1:80", "192.0.2.1"),
            ("127.0.0.1:80", "localhost:80, evil"),
            ("127.0.0.1:80", ""),
            ("192.0.2.1:80", "203.0.113.7:80"),
        ] {
            assert_eq!(host(local, Some("box.lan"), name), Err(403), "{local} {name}");
        }
        // The host in the target is checked as well as that in the header.
        let connection = ConnectionInfo::new(Some("127.0.0.1:80".parse().unwrap()));
        let both = parts("http://rebind.attacker.example/api", &[("host", "localhost")]);
        assert!(check_host(&both, &connection, None).is_err());
    }

    #[test]
    fn requests_of_foreign_pages_are_rejected_by_origin_and_fetch_site() {
        for (headers, expected) in [
            (&[][..], Ok(())),
            (&[("origin", "http://127.0.0.1:80")], Ok(())),
            (&[("origin", "http://127.0.0.1:81")], Err(403)),
            (&[("origin", "https://evil.example")], Err(403)),
            (&[("origin", "null")], Err(403)),
            (&[("origin", "")], Err(403)),
            (&[("origin", "http://127.0.0.1:80"), ("origin", "https://evil.example")], Err(403)),
            (&[("sec-fetch-site", "none")], Ok(())),
            (&[("sec-fetch-site", "same-origin")], Ok(())),
            (&[("sec-fetch-site", "same-site")], Err(403)),
            (&[("sec-fetch-site", "cross-site")], Err(403)),
        ] {
            let headers = [&[("host", "127.0.0.1:80")][..], headers].concat();
            let found = check_origin(&parts("/api", &headers)).map_err(|it| it.0.code);
            assert_eq!(found, expected, "{headers:?}");
        }
    }

    #[test]
    fn an_http_1_1_request_must_have_exactly_one_host() {
        for (headers, expected) in [
            (&[][..], Some("missing required Host header")),
            (&[("host", "a")], None),
            (&[("host", "a"), ("host", "a")], Some("too many Host headers")),
        ] {
            let refusal = check_host_header(&parts("/", headers)).err();
            assert_eq!(refusal.map(|it| it.0.message), expected.map(str::to_owned));
        }
    }

    proptest! {
        /// The error message is short, however long the headers are.
        #[test]
        fn error_messages_are_short(name in "[a-z.]{1,5000}", origin in "[ -~]{1,5000}") {
            let connection = ConnectionInfo::new(Some("127.0.0.1:80".parse().unwrap()));
            let parts = parts("/", &[("host", &name), ("origin", &origin)]);
            for refusal in [check_host(&parts, &connection, None).err(), check_origin(&parts).err()] {
                prop_assert!(refusal.is_none_or(|it| it.0.message.len() < 1_000));
            }
        }
    }
}
