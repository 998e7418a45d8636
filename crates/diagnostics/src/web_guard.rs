//! Protects the page from other web pages.
//!
//! A browser on this machine can reach the loopback, and runs the code of every page it shows. Such
//! a page can send requests across sites, which the browser marks with `Origin` and
//! `Sec-Fetch-Site`, or let its own name resolve to 127.0.0.1 (DNS rebinding), which shows in
//! `Host`. Neither header can be changed by a page.

use std::net::IpAddr;

use http::header::{HOST, HeaderName, ORIGIN};
use http::request::Parts;
use http::uri::Authority;
use http::{HeaderMap, Method};

const SEC_FETCH_SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const SEC_FETCH_DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// The reason for which a request is rejected with 403.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rejection {
    /// `Host` is missing, repeated, or not a name of this server.
    Host,
    /// A page of another site sent the request.
    OtherSite,
    /// A request that changes something does not come from the page.
    NotFromThePage,
}

impl Rejection {
    pub(crate) fn message(self) -> &'static str {
        match self {
            Self::Host => {
                "the host of this request is not a name of this page: use its address, localhost, \
                 or a name that the program allows\n"
            }
            Self::OtherSite => "a web page of another site sent this request\n",
            Self::NotFromThePage => "only the page itself may send this request\n",
        }
    }
}

/// Checks that a request comes from a browser at this address, and not from the page of another
/// site. `local` is the address that the client connected to; `names` are further names of this
/// server.
pub(crate) fn check(parts: &Parts, local: IpAddr, names: &[String]) -> Result<(), Rejection> {
    let mut hosts = parts.headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next().and_then(|it| it.to_str().ok()), hosts.next()) else {
        return Err(Rejection::Host);
    };
    let target = parts.uri.authority().map(|it| it.as_str());
    let is_own = |host: &str| {
        let name = host.parse::<Authority>().map_or_else(|_| host.to_owned(), |it| it.host().to_owned());
        is_own_address(&name, local) || names.iter().any(|it| it.eq_ignore_ascii_case(&name))
    };
    if !is_own(host) || target.is_some_and(|it| !is_own(it)) {
        return Err(Rejection::Host);
    }
    let mut origins = texts(&parts.headers, &ORIGIN).peekable();
    let has_origin = origins.peek().is_some();
    if !origins.all(|it| is_origin_of(it, host)) {
        return Err(Rejection::OtherSite);
    }
    let is_ours = texts(&parts.headers, &SEC_FETCH_SITE).all(|it| matches!(it, "none" | "same-origin"));
    if !is_ours && !is_navigation(parts) {
        return Err(Rejection::OtherSite);
    }
    let is_read = matches!(parts.method, Method::GET | Method::HEAD);
    if is_read || has_origin { Ok(()) } else { Err(Rejection::NotFromThePage) }
}

/// Returns true if a user follows a link on another site to the page, which that site cannot read.
fn is_navigation(parts: &Parts) -> bool {
    parts.method == Method::GET
        && parts.uri.path() == "/"
        && texts(&parts.headers, &SEC_FETCH_DEST).eq(["document"])
}

fn is_own_address(host: &str, local: IpAddr) -> bool {
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

fn is_origin_of(origin: &str, host: &str) -> bool {
    match origin.split_once("://") {
        // A proxy in front of the page may add TLS.
        Some(("http" | "https", origin)) => origin.eq_ignore_ascii_case(host),
        _ => false,
    }
}

/// Returns the values of a header; one that is not valid text becomes a question mark, which
/// matches nothing.
fn texts<'a>(headers: &'a HeaderMap, name: &HeaderName) -> impl Iterator<Item = &'a str> {
    headers.get_all(name).iter().map(|it| it.to_str().unwrap_or("?"))
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    fn outcome(method: &str, path: &str, headers: &[(&str, &str)]) -> Result<(), Rejection> {
        let mut request = Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let parts = request.body(()).unwrap().into_parts().0;
        check(&parts, "127.0.0.1".parse().unwrap(), &["box.lan".to_owned()])
    }

    #[test]
    fn only_names_of_this_server_are_accepted_as_host() {
        for host in ["127.0.0.1:80", "localhost:9", "[::1]:80", "a.localhost", "LOCALHOST.", "box.lan:80"] {
            assert_eq!(outcome("GET", "/", &[("host", host)]), Ok(()), "{host}");
        }
        for host in ["evil.example", "127.0.0.1.evil.example", "localhost.evil.example", "192.0.2.1", ""] {
            assert_eq!(outcome("GET", "/", &[("host", host)]), Err(Rejection::Host), "{host}");
        }
        assert_eq!(outcome("GET", "/", &[]), Err(Rejection::Host));
        let twice = [("host", "localhost"), ("host", "localhost")];
        assert_eq!(outcome("GET", "/", &twice), Err(Rejection::Host));
        assert_eq!(outcome("GET", "http://evil.example/", &twice[..1]), Err(Rejection::Host));
    }

    #[test]
    fn requests_of_other_sites_are_rejected_unless_a_user_follows_a_link() {
        let own = ("origin", "http://localhost:80");
        let other = Err(Rejection::OtherSite);
        for (method, path, headers, expected) in [
            ("GET", "/events", &[][..], Ok(())),
            ("GET", "/events", &[own], Ok(())),
            ("GET", "/events", &[("sec-fetch-site", "same-origin")], Ok(())),
            ("GET", "/events", &[("sec-fetch-site", "same-site")], other),
            ("GET", "/events", &[("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "document")], other),
            ("GET", "/", &[("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "document")], Ok(())),
            ("GET", "/", &[("sec-fetch-site", "cross-site"), ("sec-fetch-dest", "iframe")], other),
            ("GET", "/", &[("origin", "http://localhost:81")], other),
            ("GET", "/", &[("origin", "null")], other),
            ("GET", "/", &[own, ("origin", "https://evil.example")], other),
            ("POST", "/actions/0", &[own], Ok(())),
            ("POST", "/actions/0", &[own, ("sec-fetch-site", "same-origin")], Ok(())),
            ("POST", "/actions/0", &[own, ("sec-fetch-site", "cross-site")], other),
            ("POST", "/actions/0", &[("origin", "https://evil.example")], other),
            ("POST", "/actions/0", &[], Err(Rejection::NotFromThePage)),
            ("POST", "/actions/0", &[("sec-fetch-site", "same-origin")], Err(Rejection::NotFromThePage)),
        ] {
            let headers = [&[("host", "localhost:80")][..], headers].concat();
            assert_eq!(outcome(method, path, &headers), expected, "{method} {path} {headers:?}");
        }
    }
}
