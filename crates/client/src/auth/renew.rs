//! Credentials that wear out: who renews them, who waits, and who goes on with what is there.
//!
//! ```text
//! Fresh               handed out at once
//! Aging               handed out at once, while one caller renews it
//! Expired, rejected   renewed before the next use; everybody waits for the one renewal
//! ```
//!
//! A [`Source`] knows how to get a new credential; [`Renewing`] decides when, and lets one caller at a time do it.
//! It does not know tokens, files, processes or providers.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use jiff::Timestamp;
use tokio::time::Instant;

use super::error::AuthError;
use super::issued::{Issued, Wear};

/// After a failed renewal, how long a credential that still works is used before the next try.
const HOLD_OFF: Duration = Duration::from_secs(10);

/// Where credentials come from.
pub(super) trait Source: Send + Sync + 'static {
    /// What log lines call it.
    const NAME: &'static str;

    /// Whether an old credential the server has rejected is still sent when no newer one can be had.
    const KEEPS_REJECTED: bool;

    /// Gets a new credential. Calls never overlap; a call may be dropped half-way.
    fn renew(&self) -> impl Future<Output = Result<Issued, AuthError>> + Send;
}

/// A credential in use, and which one it is.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) issued: Arc<Issued>,
    generation: u64,
}

/// One credential, shared and kept fresh.
///
/// A fresh one is handed out at once. An aging one too, except to the one caller who renews it. Where there is none to
/// hand out, all callers wait for one renewal and share its outcome, failure included. A caller that is dropped while
/// it renews leaves the work to the next.
pub(super) struct Renewing<S> {
    source: S,
    state: Mutex<State>,
    /// Held by the caller who renews; the state lock never is, across an await.
    gate: tokio::sync::Mutex<()>,
}

struct State {
    current: Option<Held>,
    /// The server answered 401 to `current`.
    rejected: bool,
    /// How many renewals have ended, well or badly. A waiter sees by it that one ended while it waited.
    renewals: u64,
    /// Why the last renewal failed; none if it did not.
    failure: Option<AuthError>,
    /// Until when `current` serves although its renewal failed.
    hold_off: Option<Instant>,
}

impl Held {
    /// Whether sending this instead of `earlier` could get another answer.
    pub(super) fn differs_from(&self, earlier: &Self) -> bool {
        !self.issued.says_the_same(&earlier.issued)
    }
}

impl<S: Source> Renewing<S> {
    /// Starts with what is at hand, if anything.
    pub(super) fn new(source: S, first: Option<Issued>) -> Self {
        let current = first.map(|issued| Held { issued: Arc::new(issued), generation: 0 });
        Self {
            source,
            state: Mutex::new(State { current, rejected: false, renewals: 0, failure: None, hold_off: None }),
            gate: tokio::sync::Mutex::new(()),
        }
    }

    /// The credential to use now, renewed first if it has to be.
    pub(super) async fn get(&self) -> Result<Held, AuthError> {
        let (meanwhile, seen) = match self.state().look::<S>() {
            Look::Use(held) => return Ok(held),
            Look::Renew { meanwhile, seen } => (meanwhile, seen),
        };
        let _gate = match meanwhile {
            Some(held) => match self.gate.try_lock() {
                Ok(gate) => gate,
                Err(_) => return Ok(held),
            },
            None => self.gate.lock().await,
        };
        if let Some(outcome) = self.state().outcome_since::<S>(seen) {
            return outcome;
        }
        let result = self.source.renew().await;
        self.state().settle::<S>(result)
    }

    /// The server answered 401 to this credential: it must be renewed, unless it has been already.
    pub(super) fn reject(&self, held: &Held) {
        let mut state = self.state();
        if state.current.as_ref().is_some_and(|current| current.generation == held.generation) {
            state.rejected = true;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // Every change of the state is complete before anything can panic.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a caller does about the credential at hand.
enum Look {
    Use(Held),
    Renew {
        /// What to use if somebody else is at it already.
        meanwhile: Option<Held>,
        /// The number of renewals that had ended.
        seen: u64,
    },
}

impl State {
    fn look<S: Source>(&self) -> Look {
        let renew = |meanwhile| Look::Renew { meanwhile, seen: self.renewals };
        let Some(current) = &self.current else { return renew(None) };
        let wear = current.issued.lifetime.wear(Timestamp::now(), Instant::now());
        if self.hold_off.is_some_and(|until| Instant::now() < until) && self.serves::<S>(wear) {
            return Look::Use(current.clone());
        }
        match wear {
            _ if self.rejected => renew(None),
            Wear::Fresh => Look::Use(current.clone()),
            Wear::Aging => renew(Some(current.clone())),
            Wear::Expired => renew(None),
        }
    }

    /// Whether the current credential may be used although no newer one can be had.
    fn serves<S: Source>(&self, wear: Wear) -> bool {
        wear != Wear::Expired && (S::KEEPS_REJECTED || !self.rejected)
    }

    /// How the renewal ended that ended while the caller waited, if one did.
    fn outcome_since<S: Source>(&self, seen: u64) -> Option<Result<Held, AuthError>> {
        if self.renewals == seen {
            return None;
        }
        match &self.failure {
            Some(failure) => Some(self.fall_back::<S>(failure.clone())),
            None if self.rejected => None,
            None => self.current.clone().map(Ok),
        }
    }

    fn settle<S: Source>(&mut self, result: Result<Issued, AuthError>) -> Result<Held, AuthError> {
        self.renewals += 1;
        match result {
            Ok(issued) => {
                let held = Held { issued: Arc::new(issued), generation: self.renewals };
                self.current = Some(held.clone());
                self.rejected = false;
                self.failure = None;
                self.hold_off = None;
                Ok(held)
            }
            Err(error) => {
                self.failure = Some(error.clone());
                self.hold_off = Some(Instant::now() + HOLD_OFF);
                let kept = self.fall_back::<S>(error);
                if kept.is_ok()
                    && let Some(error) = &self.failure
                {
                    let error: &dyn std::error::Error = error;
                    tracing::warn!(
                        source = S::NAME,
                        error,
                        "cannot renew the credentials, keeping the last good ones"
                    );
                }
                kept
            }
        }
    }

    fn fall_back<S: Source>(&self, error: AuthError) -> Result<Held, AuthError> {
        match &self.current {
            Some(held) if self.serves::<S>(held.issued.lifetime.wear(Timestamp::now(), Instant::now())) => {
                Ok(held.clone())
            }
            _ => Err(error),
        }
    }
}

impl<S: Source> fmt::Debug for Renewing<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(S::NAME).field("current", &self.state().current).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};

    use futures_util::future::{join, join_all};
    use http::HeaderValue;
    use tokio::sync::Semaphore;

    use super::super::issued::Lifetime;
    use super::*;

    /// Issues `Bearer 1`, `Bearer 2`, … with the lifetime given; each renewal takes one permit, if there are any to take.
    struct Script {
        renewals: AtomicU64,
        lifetime: Lifetime,
        fails: Mutex<bool>,
        permits: Option<Semaphore>,
    }

    impl Source for Script {
        const NAME: &'static str = "script";
        const KEEPS_REJECTED: bool = false;

        async fn renew(&self) -> Result<Issued, AuthError> {
            let number = self.renewals.fetch_add(1, Ordering::SeqCst) + 1;
            if let Some(permits) = &self.permits {
                permits.acquire().await.expect("never closed").forget();
            }
            if *self.fails.lock().unwrap() {
                return Err(AuthError::Misconfigured(format!("failure {number}")));
            }
            let header = HeaderValue::from_str(&format!("Bearer {number}")).unwrap();
            Ok(Issued { header: Some(header), identity: None, lifetime: self.lifetime })
        }
    }

    fn script(lifetime: Lifetime) -> Script {
        Script { renewals: AtomicU64::new(0), lifetime, fails: Mutex::new(false), permits: None }
    }

    fn text(held: &Held) -> &str {
        held.issued.header.as_ref().and_then(|header| header.to_str().ok()).unwrap_or_default()
    }

    fn aging() -> Lifetime {
        Lifetime::Until { renew_from: Timestamp::MIN, expires: Timestamp::MAX }
    }

    fn expired() -> Lifetime {
        Lifetime::Until { renew_from: Timestamp::MIN, expires: Timestamp::MIN }
    }

    #[tokio::test]
    async fn a_fresh_credential_is_fetched_once() {
        let renewing = Renewing::new(script(Lifetime::UntilRejected), None);
        assert_eq!(text(&renewing.get().await.unwrap()), "Bearer 1");
        assert_eq!(text(&renewing.get().await.unwrap()), "Bearer 1");
    }

    #[tokio::test]
    async fn au_2_only_the_credential_that_was_rejected_is_renewed() {
        let renewing = Renewing::new(script(Lifetime::UntilRejected), None);
        let first = renewing.get().await.unwrap();
        renewing.reject(&first);
        let second = renewing.get().await.unwrap();
        assert_eq!(text(&second), "Bearer 2");
        // The answer to an older request arrives late.
        renewing.reject(&first);
        assert_eq!(text(&renewing.get().await.unwrap()), "Bearer 2");
    }

    #[tokio::test]
    async fn one_caller_renews_an_aging_credential_and_nobody_waits() {
        let mut source = script(aging());
        source.permits = Some(Semaphore::new(1));
        let renewing = Arc::new(Renewing::new(source, None));
        assert_eq!(text(&renewing.get().await.unwrap()), "Bearer 1");
        let slow = tokio::spawn({
            let renewing = renewing.clone();
            async move { renewing.get().await }
        });
        tokio::task::yield_now().await;
        assert_eq!(text(&renewing.get().await.unwrap()), "Bearer 1");
        renewing.source.permits.as_ref().unwrap().add_permits(1);
        assert_eq!(text(&slow.await.unwrap().unwrap()), "Bearer 2");
    }

    #[tokio::test]
    async fn waiters_share_one_renewal_even_if_it_fails_or_is_expired_on_arrival() {
        for fails in [false, true] {
            let mut source = script(expired());
            source.permits = Some(Semaphore::new(0));
            *source.fails.lock().unwrap() = fails;
            let renewing = Renewing::new(source, None);
            let permits = renewing.source.permits.as_ref().unwrap();
            let all = join_all((0..20).map(|_| renewing.get()));
            // All twenty are waiting before the renewal may end.
            let (results, ()) = join(all, async { permits.add_permits(20) }).await;
            assert!(results.iter().all(|result| result.is_err() == fails));
            assert_eq!(renewing.source.renewals.load(Ordering::SeqCst), 1);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_failed_renewal_keeps_a_credential_that_still_works_and_is_not_repeated_at_once() {
        let renewing = Renewing::new(script(aging()), None);
        renewing.get().await.unwrap();
        *renewing.source.fails.lock().unwrap() = true;
        for _ in 0..5 {
            assert_eq!(text(&renewing.get().await.unwrap()), "Bearer 1");
        }
        assert_eq!(renewing.source.renewals.load(Ordering::SeqCst), 2);
        tokio::time::advance(HOLD_OFF).await;
        *renewing.source.fails.lock().unwrap() = false;
        assert_eq!(text(&renewing.get().await.unwrap()), "Bearer 3");
    }

    #[tokio::test]
    async fn a_rejected_credential_is_not_kept_when_its_renewal_fails() {
        let renewing = Renewing::new(script(Lifetime::UntilRejected), None);
        let held = renewing.get().await.unwrap();
        renewing.reject(&held);
        *renewing.source.fails.lock().unwrap() = true;
        assert!(renewing.get().await.is_err());
    }

    #[tokio::test]
    async fn a_dropped_renewal_is_taken_over_by_the_next_caller() {
        let mut source = script(Lifetime::UntilRejected);
        source.permits = Some(Semaphore::new(0));
        let renewing = Arc::new(Renewing::new(source, None));
        let dropped = tokio::spawn({
            let renewing = renewing.clone();
            async move { renewing.get().await.map(|_| ()) }
        });
        tokio::task::yield_now().await;
        dropped.abort();
        assert!(dropped.await.unwrap_err().is_cancelled());
        renewing.source.permits.as_ref().unwrap().add_permits(1);
        assert_eq!(text(&renewing.get().await.unwrap()), "Bearer 2");
    }
}
