//! The caller of a request: its credentials, and its rights.
//!
//! Only a caller whom the proxy can name is answered from memory. Requests without credentials, with
//! others than a bearer token or a verified certificate, or as another user, are passed on, and
//! upstream decides about them.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use dogwatch_client::{BoxError, ResponseBody, boxed};
use http::HeaderMap;
use http::header::AUTHORIZATION;
use http_body::{Body, Frame};
use secrecy::SecretString;
use tokio::time::Instant;

use crate::client_certificate::ClientCertificate;
use crate::headers;
use crate::read_target::ReadTarget;
use crate::reviews::{Decision, ReviewError, Reviews};
use crate::user::User;

/// The pause after a review of an open watch that was not answered.
const RETRY: Duration = Duration::from_secs(1);

/// The shortest time between two reviews of an open watch.
const BETWEEN_REVIEWS: Duration = Duration::from_millis(100);

/// The time for which a watch stays open while its caller cannot be reviewed.
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
    /// The time until which this may be relied upon.
    pub(crate) until: Instant,
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

    /// Returns the caller's user, and the time until which that may be relied upon: unset for a
    /// certificate. `None` if the caller is unknown.
    pub(crate) async fn user(
        &self,
        reviews: &Reviews,
    ) -> Result<Option<(Arc<User>, Option<Instant>)>, ReviewError> {
        match self {
            Self::Certificate(certificate, user) => {
                Ok(certificate.is_valid().then(|| (Arc::clone(user), None)))
            }
            Self::Token(token) => {
                let known = reviews.user(token).await?;
                Ok(known.value.map(|user| (Arc::new(user), Some(known.until))))
            }
        }
    }

    /// Asks upstream if the caller may do that to the target.
    pub(crate) async fn review(
        &self,
        reviews: &Reviews,
        target: &ReadTarget,
    ) -> Result<Reviewed, ReviewError> {
        let Some((user, known_until)) = self.user(reviews).await? else { return Ok(Reviewed::Unknown) };
        let Decision { allowed, until } = reviews.access(&user, target).await?;
        let until = known_until.map_or(until, |it| it.min(until));
        Ok(if allowed { Reviewed::Allowed(Allowed { user, until }) } else { Reviewed::Denied(user) })
    }

    /// Resolves when the caller may not read the target any more, as another user may not: a token
    /// that names another user has lost its right too.
    pub(crate) async fn revoked(self, reviews: Arc<Reviews>, target: ReadTarget, mut allowed: Allowed) {
        loop {
            tokio::time::sleep_until(allowed.until).await;
            match self.review(&reviews, &target).await {
                Ok(Reviewed::Allowed(again)) if again.user == allowed.user => {
                    // A review that took longer than it counts must not become a busy loop.
                    allowed.until = again.until;
                    tokio::time::sleep(BETWEEN_REVIEWS).await;
                }
                Ok(_) => return,
                Err(ReviewError::NotPermitted(..)) => return,
                Err(error) => {
                    tracing::debug!(%error, "an open watch is not reviewed now");
                    if !self.is_reviewed_again(&reviews, &target, &mut allowed).await {
                        return;
                    }
                }
            }
        }
    }

    /// Repeats a review that was not answered; false if it stays so, or if the right is gone.
    async fn is_reviewed_again(&self, reviews: &Reviews, target: &ReadTarget, allowed: &mut Allowed) -> bool {
        let end = Instant::now() + UNREVIEWED;
        while Instant::now() < end {
            tokio::time::sleep(RETRY).await;
            match self.review(reviews, target).await {
                Ok(Reviewed::Allowed(again)) if again.user == allowed.user => {
                    allowed.until = again.until;
                    return true;
                }
                Ok(_) | Err(ReviewError::NotPermitted(..)) => return false,
                Err(ReviewError::Unanswered(_)) => {}
            }
        }
        false
    }
}

/// A watch that ends when its caller may not read any more.
pub(crate) fn revocable(
    body: ResponseBody,
    revoked: impl Future<Output = ()> + Send + 'static,
) -> ResponseBody {
    boxed(Revocable { body: Some(body), revoked: Box::pin(revoked) })
}

struct Revocable {
    /// `None` when the watch has ended.
    body: Option<ResponseBody>,
    revoked: Pin<Box<dyn Future<Output = ()> + Send>>,
}

impl Body for Revocable {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        let this = &mut *self;
        // Before the next event, which the caller may not see.
        if this.body.is_some() && this.revoked.as_mut().poll(context).is_ready() {
            this.body = None;
        }
        match &mut this.body {
            Some(body) => Pin::new(body).poll_frame(context),
            None => Poll::Ready(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use dogwatch_client::RequestBody;
    use http::HeaderName;
    use http_body_util::BodyExt;

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

    #[tokio::test]
    async fn a_revoked_watch_ends_before_its_next_event() {
        let body = || boxed(RequestBody::from("an event"));
        let open = revocable(body(), std::future::pending());
        assert_eq!(open.collect().await.unwrap().to_bytes(), "an event");
        let revoked = revocable(body(), std::future::ready(()));
        assert!(revoked.collect().await.unwrap().to_bytes().is_empty());
    }
}
