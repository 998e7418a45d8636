//! The questions about callers: who is it (`TokenReview`), and may they read that
//! (`SubjectAccessReview`). Upstream decides both.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use dogwatch_client::{Client, Error};
use secrecy::{ExposeSecret, SecretString};
use serde::Deserialize;
use serde_json::{Value, json};
use tokio::sync::{Semaphore, SemaphorePermit};
use tokio::time::Instant;

use crate::read_target::ReadTarget;
use crate::review_cache::{Fresh, LONGEST, ReviewCache};
use crate::user::User;

/// The time limit of a review. A caller whose review takes longer is passed on.
const TIMEOUT: Duration = Duration::from_secs(5);

/// The number of reviews that are asked at the same time for new requests. More of them wait: many
/// wrong tokens must not take the share of upstream that other callers need.
const MAX_NEW: usize = 48;

/// The number of reviews that are asked at the same time for open watches, which wait for no
/// others.
const MAX_OPEN: usize = 16;

/// The least part of the time between two reviews of an open watch, which differs so that those of
/// many watches do not come at once.
const LEAST_PART: f64 = 0.8;

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
    /// Set if users of client certificates are passed on by impersonation: the right to act as each
    /// of them.
    impersonation: Option<ReviewCache<bool>>,
    slots: Slots,
    times: ReviewTimes,
    asked: AtomicU64,
}

/// The request that a review is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Purpose {
    NewRequest,
    OpenWatch,
}

/// The times for which answers count.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ReviewTimes {
    /// For new requests.
    pub(crate) requests: Duration,
    /// For open watches; at least the other one.
    pub(crate) watches: Duration,
}

/// The decision about a request, and the time at which it was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) allowed: bool,
    pub(crate) asked: Instant,
}

/// The slots of the reviews that are asked at the same time.
#[derive(Debug)]
struct Slots {
    new: Semaphore,
    open: Semaphore,
}

impl Slots {
    /// Waits for a slot. Reviews for open watches do not wait for those of new requests.
    async fn take(&self, purpose: Purpose) -> Result<SemaphorePermit<'_>, ReviewError> {
        let slots = if purpose == Purpose::OpenWatch { &self.open } else { &self.new };
        match tokio::time::timeout(TIMEOUT, slots.acquire()).await {
            Ok(Ok(slot)) => Ok(slot),
            _ => Err(ReviewError::Unanswered("too many callers are reviewed now".to_owned())),
        }
    }
}

/// The decision of a review of access.
#[derive(Default, Deserialize)]
#[serde(default)]
struct AccessStatus {
    allowed: bool,
    denied: bool,
}

impl Reviews {
    /// Creates reviews with this client. `impersonates` is true if upstream learns the users of
    /// client certificates by impersonation.
    pub(crate) fn new(client: Client, times: ReviewTimes, impersonates: bool) -> Self {
        let ttl = times.requests;
        let (users, access) = (ReviewCache::new(ttl, MAX_ANSWERS), ReviewCache::new(ttl, MAX_ANSWERS));
        let impersonation = impersonates.then(|| ReviewCache::new(ttl, MAX_ANSWERS));
        let slots = Slots { new: Semaphore::new(MAX_NEW), open: Semaphore::new(MAX_OPEN) };
        Self { client, users, access, impersonation, slots, times, asked: AtomicU64::new(0) }
    }

    /// Returns the time until which an open watch may rely on an answer. It is later for some
    /// watches than for others.
    pub(crate) fn open_until(&self, asked: Instant) -> Instant {
        let ReviewTimes { requests, watches } = self.times;
        let longer = watches.min(LONGEST).saturating_sub(requests);
        // Never before the answer expires for new requests: a new one would be the same answer.
        let part = LEAST_PART + (1.0 - LEAST_PART) * rand::random::<f64>();
        let counts = requests.min(LONGEST).saturating_add(longer.mul_f64(part));
        asked.checked_add(counts).unwrap_or(asked)
    }

    /// Returns the number of reviews that were sent.
    pub(crate) fn asked(&self) -> u64 {
        self.asked.load(Ordering::Relaxed)
    }

    /// Returns an error if the proxy's user may not create reviews.
    pub(crate) async fn check_permission(&self) -> Result<(), ReviewError> {
        let probe = User { name: "dogwatch-proxy:probe".to_owned(), ..User::default() };
        let target = ReadTarget::of_path("/api/v1/namespaces").expect("it is a plain path");
        let purpose = Purpose::NewRequest;
        self.ask_user(&SecretString::from("dogwatch-proxy-probe"), purpose).await?;
        self.ask_access(&probe, &target, purpose).await.map(drop)
    }

    /// Returns the user of a token; `None` if upstream does not know it.
    pub(crate) async fn user(
        &self,
        token: &SecretString,
        purpose: Purpose,
    ) -> Result<Fresh<Option<User>>, ReviewError> {
        let key = self.users.key([token.expose_secret().as_bytes()]);
        self.users.get(key, async || self.ask_user(token, purpose).await).await
    }

    /// Returns true if a user may do that to the target.
    pub(crate) async fn access(
        &self,
        user: &User,
        target: &ReadTarget,
        purpose: Purpose,
    ) -> Result<Decision, ReviewError> {
        let (verb, user_json) = (target.verb.as_str(), serde_json::to_vec(user).unwrap_or_default());
        let text = |it: Option<&str>| it.map(|it| format!("/{it}")).unwrap_or_default();
        let (namespace, name) = (text(target.reviewed_namespace()), text(target.reviewed_name()));
        let subresource = &target.subresource;
        let parts = [verb, &target.group, &target.version, &target.resource, subresource, &namespace, &name];
        let key = self.access.key([&*user_json].into_iter().chain(parts.map(str::as_bytes)));
        let answer = self.access.get(key, async || self.ask_access(user, target, purpose).await).await?;
        Ok(Decision { allowed: answer.value, asked: answer.asked })
    }

    /// Returns true if upstream would let the proxy act as the user of a client certificate, whose
    /// groups are those of the certificate. Without impersonation nothing has to be asked.
    ///
    /// What is passed on is checked by upstream; an answer from memory would skip that check.
    pub(crate) async fn may_act_as(
        &self,
        user: &User,
        purpose: Purpose,
    ) -> Result<Option<Decision>, ReviewError> {
        let Some(cache) = &self.impersonation else { return Ok(None) };
        let mut decision: Option<Decision> = None;
        for part in user.impersonated() {
            let (resource, namespace, name) = part;
            let key = cache.key([resource, namespace, name].map(str::as_bytes));
            let answer = cache.get(key, async || self.ask_impersonation(part, purpose).await).await?;
            let asked = decision.map_or(answer.asked, |it| it.asked.min(answer.asked));
            decision = Some(Decision { allowed: answer.value, asked });
            if !answer.value {
                break;
            }
        }
        Ok(decision)
    }

    async fn ask_impersonation(
        &self,
        (resource, namespace, name): (&str, &str, &str),
        purpose: Purpose,
    ) -> Result<bool, ReviewError> {
        let review = json!({
            "apiVersion": "authorization.k8s.io/v1",
            "kind": "SelfSubjectAccessReview",
            "spec": {
                "resourceAttributes": {
                    "verb": "impersonate", "resource": resource, "namespace": namespace, "name": name,
                },
            },
        });
        let status: AccessStatus =
            self.create("authorization.k8s.io", "selfsubjectaccessreviews", &review, purpose).await?;
        Ok(status.allowed && !status.denied)
    }

    async fn ask_user(&self, token: &SecretString, purpose: Purpose) -> Result<Option<User>, ReviewError> {
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
        let status: Status = self.create("authentication.k8s.io", "tokenreviews", &review, purpose).await?;
        Ok(status.authenticated.then_some(status.user).filter(|it| !it.name.is_empty()))
    }

    async fn ask_access(
        &self,
        user: &User,
        target: &ReadTarget,
        purpose: Purpose,
    ) -> Result<bool, ReviewError> {
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
        let status: AccessStatus =
            self.create("authorization.k8s.io", "subjectaccessreviews", &review, purpose).await?;
        Ok(status.allowed && !status.denied)
    }

    async fn create<S: Default + serde::de::DeserializeOwned>(
        &self,
        group: &str,
        resource: &'static str,
        review: &Value,
        purpose: Purpose,
    ) -> Result<S, ReviewError> {
        #[derive(Deserialize)]
        struct Review<S> {
            #[serde(default)]
            status: S,
        }
        let _slot = self.slots.take(purpose).await?;
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

#[cfg(test)]
mod tests {
    use dogwatch_client::Config;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn open_watches_are_reviewed_while_new_callers_wait() {
        let slots = Slots { new: Semaphore::new(2), open: Semaphore::new(1) };
        let _taken =
            [slots.take(Purpose::NewRequest).await.unwrap(), slots.take(Purpose::NewRequest).await.unwrap()];
        let refused = slots.take(Purpose::NewRequest).await.unwrap_err();
        assert!(matches!(refused, ReviewError::Unanswered(_)));
        assert!(slots.take(Purpose::OpenWatch).await.is_ok());
    }

    #[tokio::test]
    async fn open_watches_rely_on_an_answer_for_longer_and_not_all_for_the_same_time() {
        let client = || Client::new(Config::new("http://127.0.0.1:1".parse().unwrap())).unwrap();
        let (ten, hundred) = (Duration::from_secs(10), Duration::from_secs(100));
        let reviews = Reviews::new(client(), ReviewTimes { requests: ten, watches: hundred }, false);
        let asked = Instant::now();
        let times: std::collections::BTreeSet<_> =
            (0..50).map(|_| reviews.open_until(asked) - asked).collect();
        assert!(times.len() > 10, "{times:?}");
        assert!(times.iter().all(|it| (Duration::from_secs(82)..=hundred).contains(it)), "{times:?}");
        let reviews = Reviews::new(client(), ReviewTimes { requests: hundred, watches: ten }, false);
        assert_eq!(reviews.open_until(asked) - asked, hundred, "never shorter than for new requests");
    }
}
