//! The questions about callers: who is it (`TokenReview`), and may they read that
//! (`SubjectAccessReview`). Upstream decides both.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dogwatch_client::{Client, Error};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::time::Instant;

use crate::read_target::ReadTarget;
use crate::review_cache::{Fresh, ReviewCache};
use crate::user::User;

/// The time limit of a review. A caller whose review takes longer is passed on.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The number of answers that are kept, of each kind.
const MAX_ANSWERS: usize = 20_000;

/// A reason for which callers cannot be reviewed now. Their requests are passed on.
#[derive(Clone, Debug, thiserror::Error)]
pub(crate) enum ReviewError {
    /// The proxy's own user may not create reviews.
    #[error("the proxy's user may not create {0}: {1}")]
    NotPermitted(&'static str, String),
    /// Upstream did not answer.
    #[error("the API server did not answer a review: {0}")]
    Unanswered(String),
}

/// Asks upstream about callers.
pub(crate) struct Reviews {
    client: Client,
    users: ReviewCache<Option<User>>,
    access: ReviewCache<bool>,
    asked: AtomicU64,
}

/// The decision about a request, and the time until which it may be relied upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    pub(crate) until: Instant,
}

impl Reviews {
    /// Creates reviews with this client, whose answers are used again for `ttl`.
    pub(crate) fn new(client: Client, ttl: Duration) -> Self {
        let (users, access) = (ReviewCache::new(ttl, MAX_ANSWERS), ReviewCache::new(ttl, MAX_ANSWERS));
        Self { client, users, access, asked: AtomicU64::new(0) }
    }

    /// Returns the number of reviews that were sent.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns an error if the proxy's user may not create reviews.
    pub(crate) async fn check_permission(&self) -> Result<(), ReviewError> {
        let probe = User { name: "dogwatch-proxy:probe".to_owned(), ..User::default() };
        let target = ReadTarget::of_path("/api/v1/namespaces").expect("it is a plain path");
        self.ask_user(&SecretString::from("dogwatch-proxy-probe")).await?;
        self.ask_access(&probe, &target).await.map(drop)
    }

    /// Returns the user of a token; `None` if upstream does not know it.
    pub(crate) async fn user(&self, token: &SecretString) -> Result<Fresh<Option<User>>, ReviewError> {
        let key = self.users.key([token.expose_secret().as_bytes()]);
        self.users.get(key, async || self.ask_user(token).await).await
    }

    /// Returns true if a user may do that to the target.
    pub(crate) async fn access(&self, user: &User, target: &ReadTarget) -> Result<Decision, ReviewError> {
        let (verb, user_json) = (target.verb.as_str(), serde_json::to_vec(user).unwrap_or_default());
        let text = |it: Option<&str>| it.map(|it| format!("/{it}")).unwrap_or_default();
        let (namespace, name) = (text(target.reviewed_namespace()), text(target.reviewed_name()));
        let subresource = &target.subresource;
        let parts = [verb, &target.group, &target.version, &target.resource, subresource, &namespace, &name];
        let key = self.access.key([&*user_json].into_iter().chain(parts.map(str::as_bytes)));
        let answer = self.access.get(key, async || self.ask_access(user, target).await).await?;
        Ok(Decision { allowed: answer.value, until: answer.until })
    }

    async fn ask_user(&self, token: &SecretString) -> Result<Option<User>, ReviewError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            authenticated: bool,
            user: User,
        }
        let review = json!({
            "apiVersion": "authentication.k8s.io/v1",
            "kind": "TokenReview",
            "spec": { "token": token.expose_secret() },
        });
        let status: Status = self.create("authentication.k8s.io", "tokenreviews", &review).await?;
        Ok(status.authenticated.then_some(status.user).filter(|it| !it.name.is_empty()))
    }

    async fn ask_access(&self, user: &User, target: &ReadTarget) -> Result<bool, ReviewError> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            allowed: bool,
            denied: bool,
        }
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SubjectAccessReview",
            "spec": {
                "user": user.name, "uid": user.uid, "groups": user.groups, "extra": user.extra,
                "resourceAttributes": {
                    "verb": target.verb.as_str(), "group": target.group, "version": target.version,
                    "resource": target.resource, "subresource": target.subresource,
                    "namespace": target.reviewed_namespace(), "name": target.reviewed_name(),
                },
            },
        });
        let status: Status = self.create("authorization.k8s.io", "subjectaccessreviews", &review).await?;
        Ok(status.allowed && !status.denied)
    }

    async fn create<S: Default + serde::de::DeserializeOwned>(
        &self,
        group: &str,
        resource: &'static str,
        review: &Value,
    ) -> Result<S, ReviewError> {
        #[derive(Deserialize)]
        struct Review<S> {
            #[serde(default)]
            status: S,
        }
        self.asked.fetch_add(1, Ordering::Relaxed);
        let request = self.client.post().path(&["apis", group, "v1", resource]).json(review);
        let answered: Result<Review<S>, Error> = request.timeout(TIMEOUT).max_retries(1).send().await;
        answered.map(|it| it.status).map_err(|error| {
            if error.is_forbidden() || error.is_unauthorized() {
                ReviewError::NotPermitted(resource, error.to_string())
            } else {
                ReviewError::Unanswered(error.to_string())
            }
        })
    }
}
