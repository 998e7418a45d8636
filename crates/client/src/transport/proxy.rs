//! Proxies: the choice of a proxy for a host, and its address and credentials.
//!
//! A `proxy-url` of the settings is used for everything. Otherwise the environment decides, and
//! `NO_PROXY` is matched against the host of the cluster. Hosts on loopback never use a proxy of
//! the environment, as in Go.

use std::fmt;

use http::Uri;
use http::header::HeaderValue;
use http::uri::{Authority, Scheme};
use hyper_util::client::proxy::matcher::{Intercept, Matcher};
use url::Url;

use super::error::{TransportError, TransportErrorKind};
use crate::loopback::is_loopback;

/// The proxy variables of an environment, unparsed.
///
/// `NO_PROXY` is a list of names (a name covers its subdomains; `.name` and `*.name` as well),
/// addresses, address ranges such as `10.0.0.0/8`, each with an optional `:port`, or `*` for all
/// hosts.
///
/// ```
/// use dogwatch_client::transport::ProxyEnvironment;
///
/// let variables = |name: &str| (name == "HTTPS_PROXY").then(|| "http://proxy:3128".to_owned());
/// let proxy = ProxyEnvironment::from_env(variables);
/// assert_eq!(proxy.https.as_deref(), Some("http://proxy:3128"));
/// assert_eq!(proxy.no, None);
/// ```
#[derive(Clone, Default)]
#[non_exhaustive]
pub struct ProxyEnvironment {
    /// `HTTPS_PROXY`: for `https` servers.
    pub https: Option<String>,
    /// `HTTP_PROXY`: for `http` servers.
    pub http: Option<String>,
    /// `ALL_PROXY`: if neither of the two above is set.
    pub all: Option<String>,
    /// `NO_PROXY`: the hosts without a proxy.
    pub no: Option<String>,
}

impl ProxyEnvironment {
    /// Reads the four variables, in upper or else in lower case. `HTTP_PROXY` is ignored in a CGI
    /// program, where a client could set it by a header.
    pub fn from_env(lookup: impl Fn(&str) -> Option<String>) -> Self {
        let read = |name: &str| {
            lookup(name).or_else(|| lookup(&name.to_ascii_lowercase())).filter(|value| !value.is_empty())
        };
        let cgi = lookup("REQUEST_METHOD").is_some();
        Self {
            https: read("HTTPS_PROXY"),
            http: read("HTTP_PROXY").filter(|_| !cgi),
            all: read("ALL_PROXY"),
            no: read("NO_PROXY"),
        }
    }
}

impl fmt::Debug for ProxyEnvironment {
    /// Shows only which URLs are set, since they may contain passwords.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyEnvironment")
            .field("https", &self.https.is_some())
            .field("http", &self.http.is_some())
            .field("all", &self.all.is_some())
            .field("no", &self.no)
            .finish()
    }
}

/// The proxy rules of one transport.
pub(super) enum ProxyRules {
    /// All connections use this proxy.
    Always(Box<Proxy>),
    /// The environment decides per host.
    Environment(ProxyEnvironment),
}

/// A proxy, its protocol and its credentials.
#[derive(Clone)]
pub(super) struct Proxy {
    pub(super) kind: ProxyKind,
    /// Scheme `http` or `https`, host and port; no credentials.
    pub(super) address: Uri,
    /// For `CONNECT`.
    pub(super) basic_auth: Option<HeaderValue>,
    /// For SOCKS5.
    pub(super) user: Option<(String, String)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProxyKind {
    /// `CONNECT`, over TLS if the address is `https`.
    Connect,
    /// SOCKS5; the proxy resolves names.
    Socks5,
}

/// A placeholder for any proxy, where only the exceptions matter.
const ANY_PROXY: &str = "http://proxy.invalid";

impl ProxyRules {
    /// Creates the rules and validates the proxy, so that a misspelt one is not silently ignored.
    pub(super) fn new(
        configured: Option<&Url>,
        environment: ProxyEnvironment,
    ) -> Result<Self, TransportError> {
        if let Some(url) = configured {
            let proxy =
                intercept(url.as_str()).and_then(|it| Proxy::of(&it)).ok_or_else(|| unusable("proxy-url"))?;
            return Ok(Self::Always(Box::new(proxy)));
        }
        let mut environment = environment;
        // Go does not read ALL_PROXY: a value that only other programs support, such as a desktop's
        // `socks://`, must not prevent a client from working.
        if environment.all.as_deref().is_some_and(|it| !is_usable(it)) {
            tracing::warn!("ALL_PROXY is not an http, https or socks5 address and is ignored");
            environment.all = None;
        }
        Ok(Self::Environment(environment))
    }

    /// Validates the variable that requests to this server would use. Variables for other schemes
    /// are ignored.
    pub(super) fn check_for(&self, server: &Uri) -> Result<(), TransportError> {
        let Self::Environment(environment) = self else { return Ok(()) };
        let (name, value) = match server.scheme_str() {
            Some("http") => ("HTTP_PROXY", &environment.http),
            _ => ("HTTPS_PROXY", &environment.https),
        };
        match value {
            Some(value) if !goes_direct(environment, server) && !is_usable(value) => Err(unusable(name)),
            _ => Ok(()),
        }
    }

    /// Returns the proxy for `target`; `None` for a direct connection.
    pub(super) fn proxy_for(&self, target: &Uri) -> Option<Proxy> {
        match self {
            Self::Always(proxy) => Some(Proxy::clone(proxy)),
            Self::Environment(environment) => from_environment(environment, target),
        }
    }

    /// Returns true if a TLS connection to a proxy may be needed.
    pub(super) fn may_use_tls(&self) -> bool {
        match self {
            Self::Always(proxy) => proxy.address.scheme() == Some(&Scheme::HTTPS),
            Self::Environment(environment) => [&environment.https, &environment.http, &environment.all]
                .into_iter()
                .flatten()
                .any(|url| url.starts_with("https:")),
        }
    }
}

fn is_usable(address: &str) -> bool {
    intercept(address).and_then(|it| Proxy::of(&it)).is_some()
}

/// Returns true for a target without a proxy, whatever the proxy variables are: a loopback address,
/// or one that `NO_PROXY` covers.
fn goes_direct(environment: &ProxyEnvironment, target: &Uri) -> bool {
    let Some(host) = target.host() else { return true };
    let exceptions = exceptions(environment.no.as_deref().unwrap_or_default(), port_of(target));
    // The matcher supports `*` for names only, and API servers are mostly addresses.
    is_loopback(host)
        || exceptions.split(',').any(|it| it == "*")
        || Matcher::builder().all(ANY_PROXY).no(exceptions).build().intercept(target).is_none()
}

fn from_environment(environment: &ProxyEnvironment, target: &Uri) -> Option<Proxy> {
    if goes_direct(environment, target) {
        return None;
    }
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let matcher = Matcher::builder()
        .https(text(&environment.https))
        .http(text(&environment.http))
        .all(text(&environment.all))
        .build();
    matcher.intercept(target).and_then(|it| Proxy::of(&it))
}

/// Translates `NO_PROXY` for the matcher, which supports neither ports nor `*.name`.
fn exceptions(list: &str, port: u16) -> String {
    let mut kept = Vec::new();
    for entry in list.split(',').map(str::trim).filter(|entry| !entry.is_empty()) {
        let (host, only_port) = split_port(entry);
        if only_port.is_none_or(|it| it == port) {
            kept.push(host.strip_prefix('*').filter(|rest| rest.starts_with('.')).unwrap_or(host));
        }
    }
    kept.join(",")
}

/// Splits `host:port`; an IPv6 address without brackets has no port.
fn split_port(entry: &str) -> (&str, Option<u16>) {
    let bare = |host: &'_ str| host.starts_with('[') && host.ends_with(']');
    if let Some((host, port)) = entry.rsplit_once(':')
        && let Ok(port) = port.parse()
        && (!host.contains(':') || bare(host))
    {
        return (host.trim_start_matches('[').trim_end_matches(']'), Some(port));
    }
    (entry.trim_start_matches('[').trim_end_matches(']'), None)
}

/// Returns the port of a URI, explicit or implied.
pub(super) fn port_of(target: &Uri) -> u16 {
    let implied = if target.scheme() == Some(&Scheme::HTTP) { 80 } else { 443 };
    target.port_u16().unwrap_or(implied)
}

/// Splits a proxy URL into address and credentials. `None` if the scheme is not supported.
fn intercept(url: &str) -> Option<Intercept> {
    Matcher::builder().all(url).build().intercept(&Uri::from_static("https://any.invalid"))
}

impl Proxy {
    fn of(found: &Intercept) -> Option<Self> {
        let uri = found.uri();
        let (kind, scheme, port) = match uri.scheme_str()? {
            "http" => (ProxyKind::Connect, Scheme::HTTP, 80),
            "https" => (ProxyKind::Connect, Scheme::HTTPS, 443),
            "socks5" | "socks5h" => (ProxyKind::Socks5, Scheme::HTTP, 1080),
            _ => return None,
        };
        let authority = format!("{}:{}", uri.host()?, uri.port_u16().unwrap_or(port));
        let address = Uri::builder()
            .scheme(scheme)
            .authority(authority.parse::<Authority>().ok()?)
            .path_and_query("/")
            .build()
            .ok()?;
        let user = found.raw_auth().map(|(user, password)| (user.to_owned(), password.to_owned()));
        Some(Self { kind, address, basic_auth: found.basic_auth().cloned(), user })
    }

    /// Returns host and port, for messages.
    pub(super) fn name(&self) -> String {
        self.address.authority().map(ToString::to_string).unwrap_or_default()
    }
}

impl fmt::Debug for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Proxy")
            .field("kind", &self.kind)
            .field("address", &self.address)
            .finish_non_exhaustive()
    }
}

fn unusable(name: &str) -> TransportError {
    let message = format!("{name} is not the URL of an http, https or socks5 proxy");
    TransportError::new(TransportErrorKind::Config, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rules(variables: &[(&str, &str)]) -> ProxyRules {
        let environment = ProxyEnvironment::from_env(|name| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        });
        ProxyRules::new(None, environment).unwrap()
    }

    /// kube-rs matches NO_PROXY against the proxy's own host; this table is for the cluster's host.
    #[test]
    fn tr_1_no_proxy_is_matched_against_the_host_of_the_cluster() {
        let table = [
            ("", "https://10.0.0.1", true),
            ("10.0.0.1", "https://10.0.0.1", false),
            ("10.0.0.0/8", "https://10.1.2.3:6443", false),
            ("10.0.0.0/8", "https://11.1.2.3:6443", true),
            ("fd00::/8", "https://[fd00::1]:6443", false),
            ("[fd00::1]:6443", "https://[fd00::1]:6443", false),
            ("[fd00::1]:443", "https://[fd00::1]:6443", true),
            ("fd00::1", "https://[fd00::2]", true),
            ("example.com", "https://example.com", false),
            ("example.com", "https://api.example.com", false),
            ("example.com", "https://notexample.com", true),
            (".example.com", "https://api.example.com", false),
            ("*.example.com", "https://api.example.com", false),
            ("EXAMPLE.com", "https://api.example.COM", false),
            ("example.com:6443", "https://example.com:6443", false),
            ("example.com:6443", "https://example.com", true),
            ("example.com:443", "https://example.com", false),
            (" a.test , ,b.test", "https://b.test", false),
            ("*", "https://anything.test", false),
            ("*", "https://10.0.0.1:6443", false),
            ("*", "https://[fd00::1]:6443", false),
            ("a.test,*", "https://10.0.0.1", false),
            ("proxy.test", "https://api.example.com", true),
            ("", "https://localhost:6443", false),
            ("", "https://127.0.0.1:6443", false),
            ("", "https://[::1]:6443", false),
        ];
        for (no, target, proxied) in table {
            let rules = rules(&[("HTTPS_PROXY", "http://proxy.test:3128"), ("NO_PROXY", no)]);
            let found = rules.proxy_for(&target.parse().unwrap());
            assert_eq!(found.is_some(), proxied, "NO_PROXY={no} {target}");
        }
    }

    #[test]
    fn the_variable_is_chosen_by_the_scheme_in_either_case() {
        let chosen = |variables: &[(&str, &str)], target: &str| {
            rules(variables).proxy_for(&target.parse().unwrap()).map(|proxy| proxy.name())
        };
        let all = [("HTTPS_PROXY", "http://s:1"), ("http_proxy", "http://h:2"), ("ALL_PROXY", "socks5://a")];
        assert_eq!(chosen(&all, "https://x.test").as_deref(), Some("s:1"));
        assert_eq!(chosen(&all, "http://x.test").as_deref(), Some("h:2"));
        assert_eq!(chosen(&all[2..], "https://x.test").as_deref(), Some("a:1080"));
        assert_eq!(chosen(&[], "https://x.test"), None);
        let cgi = [("HTTP_PROXY", "http://evil:1"), ("REQUEST_METHOD", "GET")];
        assert_eq!(chosen(&cgi, "http://x.test"), None);
    }

    #[test]
    fn a_proxy_url_of_the_settings_overrides_the_environment() {
        let environment = ProxyEnvironment {
            https: Some("http://other:1".to_owned()),
            no: Some("*".to_owned()),
            ..ProxyEnvironment::default()
        };
        let url = Url::parse("socks5://user:p%40ss@proxy.test").unwrap();
        let rules = ProxyRules::new(Some(&url), environment).unwrap();
        let proxy = rules.proxy_for(&Uri::from_static("https://127.0.0.1")).unwrap();
        assert_eq!((proxy.kind, proxy.name().as_str()), (ProxyKind::Socks5, "proxy.test:1080"));
        assert_eq!(proxy.user, Some(("user".to_owned(), "p@ss".to_owned())));
    }

    #[test]
    fn an_invalid_variable_that_the_server_does_not_need_is_ignored() {
        let socks = ("ALL_PROXY", "socks://127.0.0.1:1080/");
        for (variables, server) in [
            (vec![socks], "https://x.test"),
            (vec![socks, ("HTTPS_PROXY", "http://proxy.test:1")], "https://x.test"),
            (vec![("HTTP_PROXY", "ftp://proxy.test")], "https://x.test"),
            (vec![("HTTPS_PROXY", "ftp://proxy.test")], "https://127.0.0.1:6443"),
            (vec![("HTTPS_PROXY", "ftp://proxy.test"), ("NO_PROXY", "*")], "https://10.0.0.1"),
        ] {
            let rules = rules(&variables);
            rules
                .check_for(&server.parse().unwrap())
                .unwrap_or_else(|error| panic!("{variables:?}: {error}"));
        }
        let found = rules(&[socks, ("HTTPS_PROXY", "http://proxy.test:1")]);
        assert!(found.proxy_for(&Uri::from_static("https://x.test")).is_some());
    }

    #[test]
    fn an_unusable_proxy_is_an_error_that_names_the_setting_and_no_password() {
        let environment = ProxyEnvironment {
            https: Some("ftp://me:s3cret@proxy".to_owned()),
            ..ProxyEnvironment::default()
        };
        assert!(!format!("{environment:?}").contains("s3cret"));
        let rules = ProxyRules::new(None, environment).unwrap();
        let error = rules.check_for(&Uri::from_static("https://x.test")).err().unwrap();
        assert_eq!(error.kind(), TransportErrorKind::Config);
        assert_eq!(error.to_string(), "HTTPS_PROXY is not the URL of an http, https or socks5 proxy");

        let url = Url::parse("http://me:s3cret@proxy.test").unwrap();
        let rules = ProxyRules::new(Some(&url), ProxyEnvironment::default()).unwrap();
        let proxy = rules.proxy_for(&Uri::from_static("https://x.test")).unwrap();
        assert!(!format!("{proxy:?}").contains("s3cret"));
    }
}
