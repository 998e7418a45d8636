//! The caller of a request: its credentials, and its rights.
//!
//! Only a caller whom the proxy can name is answered from memory. Requests without credentials,
//! with others than a bearer token or a verified certificate, or as another user, are passed on,
//! and upstream decides about them.

use std::sync::Arc;
use std::time::Duration;

use http::HeaderMap;
use http::header::AUTHORIZATION;
use secrecy::SecretString;
use tokio::time::Instant;

use crate::client_certificate::ClientCertificate;
use crate::ending_body::Trust;
use crate::headers;
use crate::read_target::ReadTarget;
use crate::reviews::{Decision, Purpose, ReviewError, Reviews};
use crate::user::User;

/// The pause after a review of an open watch that was not answered.
const RETRY: Duration = Duration::from_secs(1);

/// The shortest time between two reviews of an open watch.
const BETWEEN_REVIEWS: Duration = Duration::from_millis(100);

/// The time for which a watch stays open, and sends nothing, while its caller cannot be reviewed.
const UNREVIEWED: Duration = Duration::from_secs(30);

/// The credentials of a caller whom the proxy can name.
#[derive(Clone, Debug)]
pub(crate) enum Caller {
    /// A verified client certificate, and its user.
    Certificate(Arc<ClientCertificate>, Arc<User>),
    /// A bearer token.
    Token(SecretString),
}

/// The answer of upstream about a caller.
#[derive(Clone, Debug)]
pub(crate) enum Reviewed {
    /// The credentials are not valid.
    Unknown,
    /// The user may not do that.
    Denied(Arc<User>),
    Allowed(Allowed),
}

/// A caller who may do what was asked for.
#[derive(Clone, Debug)]
pub(crate) struct Allowed {
    pub(crate) user: Arc<User>,
    /// The time at which upstream was asked.
    pub(crate) asked: Instant,
}

impl Caller {
    /// Returns the caller of a request; `None` if it has to be passed on.
    pub(crate) fn of(headers: &HeaderMap, certificate: Option<&Arc<ClientCertificate>>) -> Option<Self> {
        if headers::impersonates(headers) || headers::names_callers_twice(headers) {
            return None;
        }
        // As in kube-apiserver, a certificate counts before a token.
        if let Some(certificate) = certificate {
            let user = certificate.user().as_ref().clone().authenticated();
            return Some(Self::Certificate(Arc::clone(certificate), Arc::new(user)));
        }
        let mut given = headers.get_all(AUTHORIZATION).iter();
        let text = given.next()?.to_str().ok()?;
        if given.next().is_some() {
            return None;
        }
        // kube-apiserver splits at single spaces: with two of them, it finds no token.
        let (scheme, token) = text.split_once(' ')?;
        let is_bearer = scheme.eq_ignore_ascii_case("bearer")
            && !token.is_empty()
            && !token.contains(char::is_whitespace);
        is_bearer.then(|| Self::Token(token.into()))
    }

    /// Returns the caller's user, and the time at which upstream was asked: unset for a
    /// certificate. `None` if the caller is unknown.
    async fn user(
        &self,
        reviews: &Reviews,
        purpose: Purpose,
    ) -> Result<Option<(Arc<User>, Option<Instant>)>, ReviewError> {
        match self {
            Self::Certificate(certificate, user) => {
                Ok(certificate.is_valid().then(|| (Arc::clone(user), None)))
            }
            Self::Token(token) => {
                let known = reviews.user(token, purpose).await?;
                Ok(known.value.map(|user| (Arc::new(user), Some(known.asked))))
            }
        }
    }

    /// Asks upstream if the caller may do that to the target.
    pub(crate) async fn review(
        &self,
        reviews: &Reviews,
        target: &ReadTarget,
        purpose: Purpose,
    ) -> Result<Reviewed, ReviewError> {
        let Some((user, mut known)) = self.user(reviews, purpose).await? else {
            return Ok(Reviewed::Unknown);
        };
        if let Self::Certificate(certificate, _) = self
            && let Some(acting) = reviews.may_act_as(certificate.user(), purpose).await?
        {
            if !acting.allowed {
                return Ok(Reviewed::Denied(user));
            }
            known = Some(acting.asked);
        }
        let Decision { allowed, asked } = reviews.access(&user, target, purpose).await?;
        let asked = known.map_or(asked, |it| it.min(asked));
        Ok(if allowed { Reviewed::Allowed(Allowed { user, asked }) } else { Reviewed::Denied(user) })
    }

    /// Resolves when the caller may not read the target any more, as another user may not: a token
    /// that names another user has lost its right too. Extends `trust` with every review before
    /// that.
    pub(crate) async fn revoked(
        self,
        reviews: Arc<Reviews>,
        target: ReadTarget,
        user: Arc<User>,
        trust: Trust,
    ) {
        // The time since which upstream has not answered.
        let mut unanswered: Option<Instant> = None;
        loop {
            tokio::time::sleep_until(trust.end()).await;
            // In a box: every open watch would have room for a request otherwise.
            match Box::pin(self.review(&reviews, &target, Purpose::OpenWatch)).await {
                Ok(Reviewed::Allowed(again)) if again.user == user => {
                    trust.extend(reviews.open_until(again.asked));
                    unanswered = None;
                    // A review that took longer than it counts must not become a busy loop.
                    tokio::time::sleep(BETWEEN_REVIEWS).await;
                }
                Ok(_) | Err(ReviewError::NotPermitted(..)) => return,
                Err(error @ ReviewError::Unanswered(_)) => {
                    tracing::debug!(%error, "an open watch is not reviewed now");
                    if unanswered.get_or_insert_with(Instant::now).elapsed() >= UNREVIEWED {
                        return;
                    }
                    tokio::time::sleep(RETRY).await;
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use http::HeaderName;

    use super::*;

    fn caller(lines: &[(&'static str, &str)]) -> Option<Caller> {
        let lines = lines.iter().map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap()));
        Caller::of(&lines.collect(), None)
    }

    #[test]
    fn only_a_single_bearer_token_names_a_caller() {
        assert!(matches!(caller(&[("authorization", "Bearer abc")]), Some(Caller::Token(_))));
        assert!(matches!(caller(&[("authorization", "bearer abc")]), Some(Caller::Token(_))));
        for lines in [
            &[][..],
            &[("authorization", "Basic YTpi")],
            &[("authorization", "Bearer ")],
            &[("authorization", "Bearer a b")],
            &[("authorization", "Bearer  a")],
            &[("authorization", "Bearer a"), ("connection", "close, Authorization")],
            &[
                ("authorization", "Bearer a"),
                ("sec-websocket-protocol", "v4.channel.k8s.io, base64url.bearer.authorization.k8s.io.Yg"),
            ],
            &[("authorization", "Bearer a"), ("authorization", "Bearer b")],
            &[("authorization", "Bearer a"), ("impersonate-user", "admin")],
            &[("authorization", "Bearer a"), ("impersonate-group", "system:masters")],
        ] {
            assert!(caller(lines).is_none(), "{lines:?}");
        }
    }
}
