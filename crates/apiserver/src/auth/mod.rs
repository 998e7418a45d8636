//! Who asks: from the headers of a request and the certificate of its connection to a [`User`].
//!
//! ```text
//! certificate ─┐
//! token ───────┼─► the first that stands for somebody ─► impersonation ─► User
//! nothing ─────┘
//! ```
//!
//! Certificates are verified where connections are; what comes here is a verified [`PeerIdentity`]. Nothing here decides
//! what a user may do, but for impersonation: whoever is in `system:masters` may act as anybody.
//!
//! The `mod` lines below are in layer order.

mod peer;
mod deed;
mod impersonation;

use dogwatch_core::Reason;
use http::HeaderMap;
use http::header::AUTHORIZATION;

pub use deed::Deed;
pub use peer::PeerIdentity;

use crate::cluster::{Cluster, User};
use crate::refusal::Refusal;

/// Paths that answer whoever asks: what probes and version checks look at before they have credentials.
const OPEN: [&str; 4] = ["/healthz", "/livez", "/readyz", "/version"];

/// What becomes of requests without credentials. Those with wrong ones are refused in any case.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Anonymous {
    /// 401, but for what answers whoever asks.
    #[default]
    Refused,
    /// They are those of `system:anonymous`.
    Allowed,
    /// They are those of the administrator: for a server that only its own machine or process can reach.
    Admin,
}

/// Finds out who asks. Holds no secrets: which tokens are good, the cluster knows.
#[derive(Clone, Copy, Debug, Default)]
pub struct Authenticator {
    anonymous: Anonymous,
}

impl Authenticator {
    /// Knows certificates, and the tokens that the cluster knows; refuses requests without credentials.
    pub fn new() -> Self {
        Self::default()
    }

    /// What becomes of requests without credentials; refused unless called.
    #[must_use]
    pub fn anonymous(mut self, anonymous: Anonymous) -> Self {
        self.anonymous = anonymous;
        self
    }

    /// Whether a path answers whoever asks: a request for it without credentials is that of `system:anonymous`.
    pub fn is_open(path: &str) -> bool {
        let is_below = |rest: &str| rest.is_empty() || rest.starts_with('/');
        OPEN.iter().any(|&open| path.strip_prefix(open).is_some_and(is_below))
    }

    /// Whether a request is let in for its connection alone, by a client certificate or because none needs credentials, and not for
    /// a token of its own: then a browser can be made to send it.
    pub fn trusts_connection(&self, headers: &HeaderMap, peer: Option<&PeerIdentity>) -> bool {
        bearer(headers).is_none() && (peer.is_some() || self.anonymous != Anonymous::Refused)
    }

    /// Who asks, with impersonation carried out.
    ///
    /// A certificate comes first, then a token. A path that answers whoever asks needs neither.
    ///
    /// # Errors
    /// 401 for wrong credentials, or none where they are needed; 403 for who may not impersonate; 400 for impersonation of
    /// nobody.
    pub fn authenticate(
        &self,
        deed: &Deed<'_>,
        headers: &HeaderMap,
        peer: Option<&PeerIdentity>,
        cluster: &Cluster,
    ) -> Result<User, Refusal> {
        let nameless = peer.is_none() && !headers.contains_key(AUTHORIZATION);
        if nameless && self.anonymous == Anonymous::Refused && Self::is_open(deed.path) {
            return Ok(User::anonymous());
        }
        let user = self.identify(headers, peer, |token| cluster.token_user(token))?;
        impersonation::act(user, headers, deed)
    }

    fn identify(
        &self,
        headers: &HeaderMap,
        peer: Option<&PeerIdentity>,
        token_user: impl FnOnce(&str) -> Option<User>,
    ) -> Result<User, Refusal> {
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

/// The bearer token of a request. A second blank before it makes it empty, as for the original.
fn bearer(headers: &HeaderMap) -> Option<&str> {
    let mut parts = headers.get(AUTHORIZATION)?.to_str().ok()?.trim().splitn(3, ' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// 401 as the original says it: without details.
fn unauthorized() -> Refusal {
    let mut refusal = Refusal::new(Reason::Unauthorized, "Unauthorized");
    refusal.0.details = None;
    refusal
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    /// The name of who asks, or the code of the refusal.
    fn who(
        it: &Authenticator,
        pairs: &[(&'static str, &str)],
        peer: Option<&PeerIdentity>,
    ) -> Result<String, u16> {
        let known = |token: &str| (token == "open-sesame").then(User::admin);
        it.identify(&headers(pairs), peer, known).map(|it| it.name).map_err(|it| it.0.code)
    }

    #[test]
    fn credentials_stand_for_somebody_or_are_refused() {
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
            let found = who(&it, &[("authorization", authorization)], None);
            assert_eq!(found, expected.map(str::to_owned), "{authorization:?}");
        }
        assert_eq!(who(&it, &[], None), Err(401));
    }

    #[test]
    fn a_certificate_comes_before_a_token() {
        let peer = PeerIdentity::new("alice", &["devs"]);
        let found = who(&Authenticator::new(), &[("authorization", "Bearer wrong")], Some(&peer));
        assert_eq!(found.as_deref(), Ok("alice"));
        let nameless = PeerIdentity::new("", &["devs"]);
        assert_eq!(who(&Authenticator::new(), &[], Some(&nameless)), Err(401));
    }

    #[test]
    fn a_certificate_nobody_vouches_for_is_a_wrong_credential_that_a_token_makes_up_for() {
        let it = Authenticator::new().anonymous(Anonymous::Allowed);
        let stranger = PeerIdentity::stranger();
        assert_eq!(who(&it, &[], Some(&stranger)), Err(401));
        let found = who(&it, &[("authorization", "Bearer open-sesame")], Some(&stranger));
        assert_eq!(found.as_deref(), Ok("admin"));
    }

    #[test]
    fn requests_without_credentials_are_whose_the_server_says() {
        for (anonymous, expected) in [
            (Anonymous::Refused, Err(401)),
            (Anonymous::Allowed, Ok("system:anonymous")),
            (Anonymous::Admin, Ok("admin")),
        ] {
            let it = Authenticator::new().anonymous(anonymous);
            assert_eq!(who(&it, &[], None), expected.map(str::to_owned));
            // A mistake is not covered up by that.
            assert_eq!(who(&it, &[("authorization", "Bearer wrong")], None), Err(401));
        }
    }

    #[test]
    fn a_request_with_a_token_of_its_own_is_not_let_in_for_its_connection() {
        let peer = PeerIdentity::new("alice", &[]);
        for (anonymous, peer, authorization, expected) in [
            (Anonymous::Admin, None, None, true),
            (Anonymous::Allowed, None, None, true),
            (Anonymous::Refused, None, None, false),
            (Anonymous::Refused, Some(&peer), None, true),
            (Anonymous::Admin, None, Some("Bearer x"), false),
            (Anonymous::Refused, Some(&peer), Some("Bearer x"), false),
            // These are no tokens: such a request is let in as one without credentials.
            (Anonymous::Admin, None, Some("Basic YTpi"), true),
            (Anonymous::Admin, None, Some("Bearer "), true),
        ] {
            let pairs: Vec<_> = authorization.map(|it| ("authorization", it)).into_iter().collect();
            let it = Authenticator::new().anonymous(anonymous);
            let found = it.trusts_connection(&headers(&pairs), peer);
            assert_eq!(found, expected, "{anonymous:?} {peer:?} {authorization:?}");
        }
    }

    #[test]
    fn a_401_is_worded_as_the_original_words_it() {
        let status = serde_json::to_value(&*unauthorized().0).unwrap();
        let expected = serde_json::json!({
            "status": "Failure", "message": "Unauthorized", "reason": "Unauthorized", "code": 401,
        });
        assert_eq!(status, expected);
    }

    #[test]
    fn probes_and_the_version_are_open_and_nothing_that_only_begins_alike() {
        for path in ["/healthz", "/livez", "/livez/ping", "/readyz", "/version"] {
            assert!(Authenticator::is_open(path), "{path}");
        }
        for path in ["/", "/healthzz", "/api", "/versions", "/metrics"] {
            assert!(!Authenticator::is_open(path), "{path}");
        }
    }
}
