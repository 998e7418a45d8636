//! Proxied requests: the subresource `proxy` of nodes, pods and services.
//!
//! The rules are those of `UpgradeAwareHandler` in k8s.io/apimachinery v0.36.4
//! pkg/util/proxy/upgradeaware.go and of `Transport` in transport.go beside it. Links in HTML pages
//! are not rewritten.

use std::time::Duration;

use http::header::{CONTENT_LENGTH, HOST, HeaderName, HeaderValue, LOCATION};
use http::request::Parts;
use http::{Method, StatusCode, Uri};
use http_body_util::BodyExt;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};

use super::answer::{self, Answer};
use super::backend_reply::{ProtocolSwitch, passed_on, undialled};
use super::backend_request::to_backend;
use super::incoming::ArrivingBody;
use super::parsed_request::ParsedRequest;
use super::service::Service;
use crate::ApiError;
use crate::cluster::ProxiedBackend;
use crate::request::decode_path;
use crate::upstream::{BackendRequest, Location};

/// The time in which a backend has to answer. kube-apiserver has no limit for proxied requests: a
/// backend may hold one until it has news.
const ANSWER: Duration = Duration::from_secs(30 * 60);

const FORWARDED_URI: HeaderName = HeaderName::from_static("x-forwarded-uri");

/// The headers by which a backend would grant rights to web pages, on this server
/// (`removeCORSHeaders` in upgradeaware.go).
const CROSS_ORIGIN: [HeaderName; 4] = [
    HeaderName::from_static("access-control-allow-credentials"),
    HeaderName::from_static("access-control-allow-headers"),
    HeaderName::from_static("access-control-allow-methods"),
    HeaderName::from_static("access-control-allow-origin"),
];

/// The characters that are escaped in a path (`shouldEscape` in Go 1.26 net/url/url.go).
const ESCAPED: &AsciiSet = &NON_ALPHANUMERIC
    .remove(b'-')
    .remove(b'_')
    .remove(b'.')
    .remove(b'~')
    .remove(b'$')
    .remove(b'&')
    .remove(b'+')
    .remove(b',')
    .remove(b'/')
    .remove(b':')
    .remove(b';')
    .remove(b'=')
    .remove(b'@');

/// The path of a proxied request.
#[derive(Debug, PartialEq, Eq)]
struct ProxiedPath {
    /// The path at the backend, decoded; empty for the object's `proxy` without a slash.
    path: String,
    /// The path that leads to the backend here.
    prefix: String,
}

impl Service {
    /// Passes a request on to a node, a pod or an endpoint of a service.
    pub(super) async fn proxy<B: ArrivingBody>(
        &self,
        parsed: &ParsedRequest,
        parts: &Parts,
        body: B,
    ) -> Result<Answer, ApiError> {
        let place = parsed.place();
        let backend = ProxiedBackend::of(&self.cluster, &place, self.dialer.reach())?;
        let proxied = ProxiedPath::of(parsed.target.subresource.as_deref(), parts.uri.path());
        // kube-apiserver loses the query of a request that switches protocols. Backends need it.
        let location = Location {
            origin: backend.origin,
            path: utf8_percent_encode(&proxied.path, ESCAPED).to_string(),
            query: parts.uri.query().unwrap_or_default().to_owned(),
        };
        if let Some(switch) = ProtocolSwitch::of(parts)? {
            let request = BackendRequest { request: switch.request(parts, &location)?, limit: ANSWER };
            let reply = self.dialer.send(&location.origin, backend.peer, request).await;
            return switch.answer(reply.map_err(|failure| undialled(&failure))?);
        }
        if location.path.is_empty() && matches!(parts.method, Method::GET | Method::HEAD) {
            return Ok(with_slash(&parts.uri));
        }
        let mut request = to_backend(parts, &location, body.map_err(Into::into).boxed_unsync())?;
        if let Some(length) = parts.headers.get(CONTENT_LENGTH) {
            request.headers_mut().insert(CONTENT_LENGTH, length.clone());
        }
        let uri = HeaderValue::try_from(format!("{}{}", proxied.prefix, proxied.path)).ok();
        request.headers_mut().extend(uri.map(|it| (FORWARDED_URI, it)));
        let request = BackendRequest { request, limit: ANSWER };
        let reply = self.dialer.send(&location.origin, backend.peer, request).await;
        let reply = reply.map_err(|failure| unreached(failure.reason()))?;
        if reply.status() == StatusCode::SWITCHING_PROTOCOLS {
            return Err(unreached("it switched protocols, which the request did not ask for"));
        }
        let mut answer = passed_on(reply);
        let own_host = parts.headers.get(HOST).and_then(|it| it.to_str().ok()).unwrap_or_default();
        let headers = answer.headers_mut();
        CROSS_ORIGIN.iter().for_each(|it| drop(headers.remove(it)));
        let target = headers.get(LOCATION).and_then(|it| it.to_str().ok());
        let target =
            target.and_then(|it| redirected(it, &location.origin.authority(), own_host, &proxied.prefix));
        if let Some(target) = target.and_then(|it| HeaderValue::try_from(it).ok()) {
            headers.insert(LOCATION, target);
        }
        Ok(answer)
    }
}

impl ProxiedPath {
    /// Splits the path of a request. `subresource` is its decoded part from `proxy` on.
    fn of(subresource: Option<&str>, path: &str) -> Self {
        let decoded = decode_path(path);
        let rest = subresource.unwrap_or_default().strip_prefix("proxy").unwrap_or_default();
        let mut path = String::new();
        let mut kept: Vec<&str> = Vec::new();
        for part in rest.split('/') {
            match part {
                "" | "." => {}
                ".." => drop(kept.pop()),
                part => kept.push(part),
            }
        }
        for part in &kept {
            path.push('/');
            path.push_str(part);
        }
        if decoded.ends_with('/') || (path.is_empty() && !rest.is_empty()) {
            path.push('/');
        }
        let named = decoded.strip_suffix('/').unwrap_or(&decoded);
        let prefix = named.strip_suffix(rest).unwrap_or(named).to_owned();
        Self { path, prefix }
    }
}

/// Redirects a browser to the same path with a slash at its end, so that relative links work
/// (`proxyRedirectsforRootPath` in upgradeaware.go).
fn with_slash(uri: &Uri) -> Answer {
    let query = uri.query().map(|it| format!("?{it}")).unwrap_or_default();
    let mut answer = answer::empty(StatusCode::MOVED_PERMANENTLY);
    let target = HeaderValue::try_from(format!("{}/{query}", uri.path())).ok();
    answer.headers_mut().extend(target.map(|it| (LOCATION, it)));
    answer
}

fn unreached(reason: &str) -> ApiError {
    let message = format!("error trying to reach service: {reason}");
    let mut refusal = ApiError::new(dogwatch_core::Reason::ServiceUnavailable, message);
    refusal.0.details = None;
    refusal
}

/// Returns the target of a redirection to the backend itself as a path of this server (`rewriteURL`
/// in transport.go). Returns `None` for targets that stay as they are.
fn redirected(target: &str, backend: &str, own_host: &str, prefix: &str) -> Option<String> {
    let uri: Uri = target.parse().ok()?;
    let is_elsewhere = uri.authority().is_some_and(|it| it.as_str() != backend && it.as_str() != own_host);
    if is_elsewhere || !uri.path().starts_with('/') || !(target.starts_with('/') || uri.authority().is_some())
    {
        return None;
    }
    let path = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    let is_own = uri.path().starts_with(prefix);
    Some(if is_own { path.to_owned() } else { format!("{prefix}{path}") })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::request::Route;

    #[test]
    fn the_path_after_proxy_is_that_of_the_backend() {
        let pod = "/api/v1/namespaces/a/pods/x/proxy";
        for (rest, path) in [
            ("", ""),
            ("/", "/"),
            ("/a/b", "/a/b"),
            ("/a/b/", "/a/b/"),
            ("/a/%2e%2e/../c", "/c"),
            ("/../..", "/"),
            ("/a%20b", "/a b"),
        ] {
            let raw = format!("{pod}{rest}");
            let Route::Resource(target) = Route::parse(&raw) else { panic!("{raw}") };
            let found = ProxiedPath::of(target.subresource.as_deref(), &raw);
            assert_eq!((found.path.as_str(), found.prefix.as_str()), (path, pod), "{rest}");
        }
    }

    #[test]
    fn redirections_to_the_backend_stay_behind_the_proxy() {
        let found = |target| redirected(target, "127.0.0.1:8080", "localhost:6443", "/api/v1/x/proxy");
        for (target, expected) in [
            ("/login?a=b", Some("/api/v1/x/proxy/login?a=b")),
            ("http://127.0.0.1:8080/login", Some("/api/v1/x/proxy/login")),
            ("https://localhost:6443/login", Some("/api/v1/x/proxy/login")),
            ("/api/v1/x/proxy/login", Some("/api/v1/x/proxy/login")),
            ("https://example.com/login", None),
            ("login", None),
        ] {
            assert_eq!(found(target).as_deref(), expected, "{target}");
        }
    }
}
