//! Authentication: from the headers of a request and the certificate of its connection to a
//! [`User`].
//!
//! ```text
//! certificate ─┐
//! token ───────┼─► the first credential with a user ─► impersonation ─► User
//! nothing ─────┘
//! ```
//!
//! Certificates are verified by the TLS layer; this module gets a verified [`PeerIdentity`]. What
//! the user may do is decided by `authorization`, which is asked here only about impersonation.
//!
//! The `mod` lines below are in layer order.

mod peer;
mod impersonation_mode;
mod impersonation;

use std::sync::Arc;

use dogwatch_core::Reason;
use http::HeaderMap;
use http::header::AUTHORIZATION;

pub(crate) use peer::PeerIdentity;

use self::impersonation_mode::LastModes;
use crate::ApiError;
use crate::authorization::{AccessRequest, AuthorizationMode};
use crate::cluster::Cluster;
use crate::user::User;

/// The paths that need no credentials: those that probes and version checks use.
const OPEN_PATHS: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// The treatment of requests without credentials. Requests with invalid credentials are always
/// rejected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Anonymous {
    /// Rejects them with 401, except for the paths that need no credentials.
    #[default]
    Refused,
    /// Treats them as requests of `system:anonymous`.
    Allowed,
    /// Treats them as requests of the administrator: for a server that only its own machine or
    /// process can reach.
    Admin,
}

/// Identifies the user of a request. Holds no secrets: the cluster knows the valid tokens.
#[derive(Clone, Debug, Default)]
pub(crate) struct Authenticator {
    anonymous: Anonymous,
    last_modes: Arc<LastModes>,
}

impl Authenticator {
    /// Creates an authenticator for certificates and for the cluster's tokens that rejects requests
    /// without credentials.
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Sets the treatment of requests without credentials. Defaults to [`Anonymous::Refused`].
    #[must_use]
    pub(crate) fn anonymous(mut self, anonymous: Anonymous) -> Self {
        self.anonymous = anonymous;
        self
    }

    /// Returns true if a path needs no credentials: a request for it without them is one of
    /// `system:anonymous`.
    pub(crate) fn is_open(path: &str) -> bool {
        let is_below = |rest: &str| rest.is_empty() || rest.starts_with('/');
        OPEN_PATHS.iter().any(|&open| path.strip_prefix(open).is_some_and(is_below))
    }

    /// Returns true if a request is authenticated by its connection alone, either by a client
    /// certificate or because no credentials are required, and not by a token of its own. Such a
    /// request could be one that a web page made a browser send. If roles are enforced, a request
    /// of `system:anonymous` is not trusted with anything.
    pub(crate) fn trusts_connection(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerIdentity>,
        mode: AuthorizationMode,
    ) -> bool {
        let trusts_anonymous = match self.anonymous {
            Anonymous::Refused => false,
            Anonymous::Allowed => mode == AuthorizationMode::AlwaysAllow,
            Anonymous::Admin => true,
        };
        bearer(headers).is_none() && (peer.is_some() || trusts_anonymous)
    }

    /// Returns the user of a request for a path, after impersonation. `access` is what the request
    /// asks for.
    ///
    /// A certificate takes precedence over a token. Paths that are open need neither.
    ///
    /// # Errors
    ///
    /// Returns 401 for invalid credentials, or missing ones that are required; 403 if the user may
    /// not impersonate; 400 for impersonation headers without a user name.
    pub(crate) fn authenticate(
        &self,
        path: &str,
        access: &AccessRequest<'_>,
        headers: &HeaderMap,
        peer: Option<&PeerIdentity>,
        cluster: &Cluster,
    ) -> Result<User, ApiError> {
        let nameless = peer.is_none() && !headers.contains_key(AUTHORIZATION);
        if nameless && self.anonymous == Anonymous::Refused && Self::is_open(path) {
            return Ok(User::anonymous());
        }
        let user = self.identify(headers, peer, |token| cluster.tokens().user(token))?;
        let authorize = |user: &User, access: &AccessRequest<'_>| cluster.authorize(user, access);
        impersonation::impersonate(user, headers, access, &self.last_modes, authorize)
    }

    fn identify(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerIdentity>,
        token_user: impl FnOnce(&str) -> Option<User>,
    ) -> Result<User, ApiError> {
        if let Some(user) = peer.and_then(PeerIdentity::user) {
            return Ok(user);
        }
        if let Some(token) = bearer(headers) {
            return token_user(token).ok_or_else(unauthorized);
        }
        match self.anonymous {
            _ if peer.is_some_and(PeerIdentity::is_stranger) => Err(unauthorized()),
            Anonymous::Refused => Err(unauthorized()),
            Anonymous::Allowed => Ok(User::anonymous()),
            Anonymous::Admin => Ok(User::admin()),
        }
    }
}

/// Returns the bearer token of a request. A second space before the token makes it empty, as in
/// k8s.io/apiserver v0.36.4 pkg/authentication/request/bearertoken/bearertoken.go.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Returns 401 without details: `NewUnauthorized` in k8s.io/apimachinery v0.36.4
/// pkg/api/errors/errors.go.
fn unauthorized() -> ApiError {
    let mut refusal = ApiError::new(Reason::Unauthorized, "Unauthorized");
    refusal.0.details = None;
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    /// Returns the name of the authenticated user, or the status code of the error.
    fn authenticated(
        it: &Authenticator,
        pairs: &[(&'static str, &str)],
        peer: Option<&PeerIdentity>,
    ) -> Result<String, u16> {
        let known = |token: &str| (token == "open-sesame").then(User::admin);
        it.identify(&headers(pairs), peer, known).map(|it| it.name).map_err(|it| it.0.code)
    }

    #[test]
    fn a_valid_token_authenticates_and_others_are_rejected() {
        let it = Authenticator::new();
        for (authorization, expected) in [
            ("Bearer open-sesame", Ok("admin")),
            ("bearer open-sesame", Ok("admin")),
            ("  Bearer open-sesame  ", Ok("admin")),
            ("Bearer open-sesam", Err(401)),
            ("Bearer  open-sesame", Err(401)),
            ("Bearer", Err(401)),
            ("Bearer ", Err(401)),
            ("Basic YTpi", Err(401)),
            ("open-sesame", Err(401)),
        ] {
            let found = authenticated(&it, &[("authorization", authorization)], None);
            assert_eq!(found, expected.map(str::to_owned), "{authorization:?}");
        }
        assert_eq!(authenticated(&it, &[], None), Err(401));
    }

    #[test]
    fn a_certificate_comes_before_a_token() {
        let peer = PeerIdentity::new("alice", &["devs"]);
        let found = authenticated(&Authenticator::new(), &[("authorization", "Bearer wrong")], Some(&peer));
        assert_eq!(found.as_deref(), Ok("alice"));
        let nameless = PeerIdentity::new("", &["devs"]);
        assert_eq!(authenticated(&Authenticator::new(), &[], Some(&nameless)), Err(401));
    }

    #[test]
    fn an_untrusted_certificate_is_an_invalid_credential_unless_there_is_a_token() {
        let it = Authenticator::new().anonymous(Anonymous::Allowed);
        let stranger = PeerIdentity::stranger();
        assert_eq!(authenticated(&it, &[], Some(&stranger)), Err(401));
        let found = authenticated(&it, &[("authorization", "Bearer open-sesame")], Some(&stranger));
        assert_eq!(found.as_deref(), Ok("admin"));
    }

    #[test]
    fn requests_without_credentials_get_the_configured_user() {
        for (anonymous, expected) in [
            (Anonymous::Refused, Err(401)),
            (Anonymous::Allowed, Ok("system:anonymous")),
            (Anonymous::Admin, Ok("admin")),
        ] {
            let it = Authenticator::new().anonymous(anonymous);
            assert_eq!(authenticated(&it, &[], None), expected.map(str::to_owned));
            // An invalid token is rejected in any case.
            assert_eq!(authenticated(&it, &[("authorization", "Bearer wrong")], None), Err(401));
        }
    }

    #[test]
    fn a_request_with_a_token_is_not_authenticated_by_its_connection() {
        let peer = PeerIdentity::new("alice", &[]);
        for (anonymous, peer, authorization, expected) in [
            (Anonymous::Admin, None, None, true),
            (Anonymous::Allowed, None, None, true),
            (Anonymous::Refused, None, None, false),
            (Anonymous::Refused, Some(&peer), None, true),
            (Anonymous::Admin, None, Some("Bearer x"), false),
            (Anonymous::Refused, Some(&peer), Some("Bearer x"), false),
            // These are not tokens: such a request is treated as one without credentials.
            (Anonymous::Admin, None, Some("Basic YTpi"), true),
            (Anonymous::Admin, None, Some("Bearer "), true),
        ] {
            let pairs: Vec<_> = authorization.map(|it| ("authorization", it)).into_iter().collect();
            let it = Authenticator::new().anonymous(anonymous);
            let found = it.trusts_connection(&headers(&pairs), peer, AuthorizationMode::AlwaysAllow);
            assert_eq!(found, expected, "{anonymous:?} {peer:?} {authorization:?}");
            let found = it.trusts_connection(&headers(&pairs), peer, AuthorizationMode::Rbac);
            let expected = expected && anonymous != Anonymous::Allowed;
            assert_eq!(found, expected, "RBAC {anonymous:?} {peer:?} {authorization:?}");
        }
    }

    #[test]
    fn a_401_is_the_status_of_kube_apiserver() {
        let status = serde_json::to_value(&*unauthorized().0).unwrap();
        let expected = serde_json::json!({
            "status": "Failure", "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
        });
        assert_eq!(status, expected);
    }

    #[test]
    fn only_health_and_version_paths_are_open() {
        for path in ["/healthz", "/livez", "/livez/ping", "/readyz", "/version"] {
            assert!(Authenticator::is_open(path), "{path}");
        }
        for path in ["/", "/healthzz", "/api", "/versions", "/metrics"] {
            assert!(!Authenticator::is_open(path), "{path}");
        }
    }
}
