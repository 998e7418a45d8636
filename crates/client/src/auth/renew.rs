//! Renewal of credentials that expire: its time, and the callers that wait for it.
//!
//! ```text
//! Fresh               returned at once
//! Aging               returned at once; only the first caller waits briefly for a renewal
//! Expired, rejected   renewed before the next use; all callers wait for the same renewal
//! ```
//!
//! A [`Source`] obtains a new credential; [`Renewing`] decides when. It does not know tokens,
//! files, processes or providers.
//!
//! A renewal runs in its own task. A caller with a short time limit, or one that is dropped, would
//! otherwise cancel the renewal: a plugin that needs a second would never finish for callers that
//! wait half a second.

use parking_lot::{Mutex, MutexGuard};
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use jiff::Timestamp;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::error::AuthError;
use super::issued::{Freshness, Issued};

/// The time that a usable credential is kept after a failed renewal, before the next attempt.
const HOLD_OFF: Duration = Duration::from_secs(10);

/// The number of times that a renewal is repeated because its task was dropped.
const DROPPED_RENEWALS: u32 = 3;

/// The time that the caller that starts the renewal of a usable credential waits for the new one.
/// Reading a file takes less; a plugin or a provider may take a minute, which no request should
/// wait while its credential is good.
const AGING_WAIT: Duration = Duration::from_secs(1);

/// A source of credentials.
pub(super) trait Source: Send + Sync + 'static {
    /// The name of the source in log lines.
    const NAME: &'static str;

    /// True if a credential that the server rejected is still used when no newer one is available.
    const KEEPS_REJECTED: bool;

    /// Obtains a new credential. Calls never overlap; a call is cancelled when the last client is
    /// dropped.
    fn renew(&self) -> impl Future<Output = Result<Issued, AuthError>> + Send;
}

/// A credential in use, and its generation.
#[derive(Clone, Debug)]
pub(super) struct Held {
    pub(super) issued: Arc<Issued>,
    generation: u64,
}

/// One credential, shared and renewed.
///
/// A fresh one is returned at once. So is an aging one; only the caller that starts its renewal
/// waits briefly for the new one. Without a usable one, all callers wait for one renewal and share
/// its result, including an error. A caller that is dropped leaves the renewal running for the
/// others; dropping the last `Renewing` cancels it.
pub(super) struct Renewing<S> {
    source: Arc<S>,
    state: Arc<Mutex<State>>,
}

struct State {
    current: Option<Held>,
    /// Set when the server answered 401 to `current`.
    rejected: bool,
    /// The number of renewals that have ended, successfully or not.
    renewals: u64,
    /// The time until which `current` is used although its renewal failed.
    hold_off: Option<Instant>,
    /// The renewal in progress.
    running: Option<Running>,
}

struct Running {
    /// The result; `None` if the task was dropped with its runtime.
    outcome: Shared<BoxFuture<'static, Option<Result<Held, AuthError>>>>,
    task: AbortHandle,
}

impl Held {
    /// Returns true if the server would see a difference between this and `earlier`.
    pub(super) fn differs_from(&self, earlier: &Self) -> bool {
        !self.issued.is_equivalent(&earlier.issued)
    }
}

impl<S: Source> Renewing<S> {
    /// Creates a renewing credential that starts with `first`, if there is one.
    pub(super) fn new(source: S, first: Option<Issued>) -> Self {
        let current = first.map(|issued| Held { issued: Arc::new(issued), generation: 0 });
        let state = State { current, rejected: false, renewals: 0, hold_off: None, running: None };
        Self { source: Arc::new(source), state: Arc::new(Mutex::new(state)) }
    }

    /// Returns the source of the credentials.
    pub(super) fn source(&self) -> &S {
        &self.source
    }

    /// Returns the credential to use now, after a renewal if necessary.
    pub(super) async fn get(&self) -> Result<Held, AuthError> {
        for _ in 0..=DROPPED_RENEWALS {
            let (outcome, meanwhile) = {
                let mut state = lock(&self.state);
                // A renewal that ended has removed itself. One that is finished and still here was
                // dropped with its runtime before it ran.
                state.running.take_if(|it| it.task.is_finished());
                match (state.decide::<S>(), &state.running) {
                    (Decision::Use(held), _) | (Decision::Renew { meanwhile: Some(held) }, Some(_)) => {
                        return Ok(held);
                    }
                    (Decision::Renew { .. }, Some(running)) => (running.outcome.clone(), None),
                    (Decision::Renew { meanwhile }, None) => {
                        let running = self.start();
                        (state.running.insert(running).outcome.clone(), meanwhile)
                    }
                }
            };
            let outcome = match meanwhile {
                None => outcome.await,
                Some(held) => tokio::time::timeout(AGING_WAIT, outcome).await.unwrap_or(Some(Ok(held))),
            };
            // The runtime of another caller ended and dropped the renewal: start again on this
            // caller's runtime. If it is this runtime that ends, it drops each of them at once.
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
        Err(AuthError::RuntimeEnded)
    }

    /// Starts a renewal in its own task. The task ends by itself; [`Drop`] cancels it earlier.
    fn start(&self) -> Running {
        let (source, state) = (Arc::clone(&self.source), Arc::clone(&self.state));
        let task = tokio::spawn(async move {
            // A guard, so that it also runs when the source panics: the next caller must not join a
            // renewal that has ended.
            let _guard = RenewalGuard(Arc::clone(&state));
            let result = source.renew().await;
            lock(&state).settle::<S>(result)
        });
        let abort = task.abort_handle();
        let outcome = task.map(|joined| match joined.map_err(tokio::task::JoinError::try_into_panic) {
            Ok(outcome) => Some(outcome),
            Err(Ok(panic)) => std::panic::resume_unwind(panic),
            Err(Err(_cancelled)) => None,
        });
        Running { outcome: outcome.boxed().shared(), task: abort }
    }

    /// Reports that the server answered 401 to this credential: it must be renewed, unless it
    /// already was.
    pub(super) fn reject(&self, held: &Held) {
        let mut state = lock(&self.state);
        if state.current.as_ref().is_some_and(|current| current.generation == held.generation) {
            state.rejected = true;
        }
    }
}

impl<S> Drop for Renewing<S> {
    fn drop(&mut self) {
        if let Some(running) = lock(&self.state).running.take() {
            running.task.abort();
        }
    }
}

/// A guard that removes a renewal from the state when the renewal ends.
struct RenewalGuard(Arc<Mutex<State>>);

impl Drop for RenewalGuard {
    fn drop(&mut self) {
        lock(&self.0).running = None;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // A poisoned lock is fine: every change of the state is complete before anything can panic.
    state.lock()
}

/// The decision about the current credential.
enum Decision {
    Use(Held),
    Renew {
        /// The credential to use while another caller waits for the renewal.
        meanwhile: Option<Held>,
    },
}

impl State {
    fn decide<S: Source>(&self) -> Decision {
        let renew = |meanwhile| Decision::Renew { meanwhile };
        let Some(current) = &self.current else { return renew(None) };
        let freshness = current.issued.lifetime.freshness(Timestamp::now(), Instant::now());
        if self.hold_off.is_some_and(|until| Instant::now() < until) && self.is_usable::<S>(freshness) {
            return Decision::Use(current.clone());
        }
        match freshness {
            _ if self.rejected => renew(None),
            Freshness::Fresh => Decision::Use(current.clone()),
            Freshness::Aging => renew(Some(current.clone())),
            Freshness::Expired => renew(None),
        }
    }

    /// Returns true if the current credential may be used when no newer one is available.
    fn is_usable<S: Source>(&self, freshness: Freshness) -> bool {
        freshness != Freshness::Expired && (S::KEEPS_REJECTED || !self.rejected)
    }

    fn settle<S: Source>(&mut self, result: Result<Issued, AuthError>) -> Result<Held, AuthError> {
        self.renewals += 1;
        match result {
            Ok(issued) => {
                let held = Held { issued: Arc::new(issued), generation: self.renewals };
                self.current = Some(held.clone());
                self.rejected = false;
                self.hold_off = None;
                Ok(held)
            }
            Err(error) => {
                self.hold_off = Some(Instant::now() + HOLD_OFF);
                let kept = self.fall_back::<S>(error.clone());
                if kept.is_ok() {
                    let error: &dyn std::error::Error = &error;
                    tracing::warn!(
                        source = S::NAME,
                        error,
                        "cannot renew the credentials, keeping the current ones"
                    );
                }
                kept
            }
        }
    }

    fn fall_back<S: Source>(&self, error: AuthError) -> Result<Held, AuthError> {
        match &self.current {
            Some(held)
                if self.is_usable::<S>(held.issued.lifetime.freshness(Timestamp::now(), Instant::now())) =>
            {
                Ok(held.clone())
            }
            _ => Err(error),
        }
    }
}

impl<S: Source> fmt::Debug for Renewing<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(S::NAME).field("current", &lock(&self.state).current).finish_non_exhaustive()
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

    /// A source of `Bearer 1`, `Bearer 2`, … with the given lifetime; each renewal takes one
    /// permit, if there is a semaphore.
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
            if *self.fails.lock() {
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

    /// A runtime that shuts down drops every task that is spawned on it, and waits for its blocking
    /// threads.
    #[test]
    fn a_renewal_on_a_runtime_that_shuts_down_fails() {
        let mut source = script(expired());
        source.permits = Some(Semaphore::new(0));
        let renewing = Renewing::new(source, None);
        let (ended, has_ended) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).build().unwrap();
            let handle = runtime.handle().clone();
            let (begun, has_begun) = std::sync::mpsc::channel();
            runtime.spawn_blocking(move || {
                begun.send(()).unwrap();
                ended.send(handle.block_on(renewing.get())).unwrap();
            });
            has_begun.recv().unwrap();
            drop(runtime);
        });
        let result = has_ended.recv_timeout(Duration::from_secs(30)).expect("the renewal has ended");
        assert!(matches!(result, Err(AuthError::RuntimeEnded)), "{:?}", result.map(|it| it.generation));
    }

    #[tokio::test]
    async fn au_2_only_the_credential_that_was_rejected_is_renewed() {
        let renewing = Renewing::new(script(Lifetime::UntilRejected), None);
        let first = renewing.get().await.unwrap();
        renewing.reject(&first);
        let second = renewing.get().await.unwrap();
        assert_eq!(text(&second), "Bearer 2");
        // The response to an older request arrives late.
        renewing.reject(&first);
        assert_eq!(text(&renewing.get().await.unwrap()), "Bearer 2");
    }

    #[tokio::test]
    async fn one_caller_renews_an_aging_credential_and_the_others_do_not_wait() {
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

    #[tokio::test(start_paused = true)]
    async fn a_slow_renewal_does_not_hold_up_a_request_whose_credential_still_works() {
        let mut source = script(aging());
        source.permits = Some(Semaphore::new(1));
        let renewing = Renewing::new(source, None);
        renewing.get().await.unwrap();
        let limit = Duration::from_secs(2);
        let held = tokio::time::timeout(limit, renewing.get())
            .await
            .expect("the request does not wait for the source");
        assert_eq!(text(&held.unwrap()), "Bearer 1");
        renewing.source.permits.as_ref().unwrap().add_permits(1);
        tokio::time::sleep(Duration::from_millis(1)).await;
        assert_eq!(renewing.source.renewals.load(Ordering::SeqCst), 2);
        assert_eq!(lock(&renewing.state).current.as_ref().map(text), Some("Bearer 2"));
    }

    #[tokio::test]
    async fn waiters_share_one_renewal_even_if_it_fails_or_is_expired_on_arrival() {
        for fails in [false, true] {
            let mut source = script(expired());
            source.permits = Some(Semaphore::new(0));
            *source.fails.lock() = fails;
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
        *renewing.source.fails.lock() = true;
        for _ in 0..5 {
            assert_eq!(text(&renewing.get().await.unwrap()), "Bearer 1");
        }
        assert_eq!(renewing.source.renewals.load(Ordering::SeqCst), 2);
        tokio::time::advance(HOLD_OFF).await;
        *renewing.source.fails.lock() = false;
        assert_eq!(text(&renewing.get().await.unwrap()), "Bearer 3");
    }

    #[tokio::test]
    async fn a_rejected_credential_is_not_kept_when_its_renewal_fails() {
        let renewing = Renewing::new(script(Lifetime::UntilRejected), None);
        let held = renewing.get().await.unwrap();
        renewing.reject(&held);
        *renewing.source.fails.lock() = true;
        assert!(renewing.get().await.is_err());
    }

    #[tokio::test]
    async fn a_dropped_caller_leaves_the_renewal_to_the_next() {
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
        assert_eq!(text(&renewing.get().await.unwrap()), "Bearer 1");
        assert_eq!(renewing.source.renewals.load(Ordering::SeqCst), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn callers_with_short_timeouts_get_the_credential_once_a_slow_renewal_ends() {
        let mut source = script(Lifetime::UntilRejected);
        source.permits = Some(Semaphore::new(0));
        let renewing = Renewing::new(source, None);
        for _ in 0..5 {
            let short = tokio::time::timeout(Duration::from_millis(400), renewing.get());
            assert!(short.await.is_err());
        }
        renewing.source.permits.as_ref().unwrap().add_permits(1);
        assert_eq!(text(&renewing.get().await.unwrap()), "Bearer 1");
    }

    #[tokio::test]
    async fn dropping_the_last_handle_ends_the_renewal() {
        let mut source = script(Lifetime::UntilRejected);
        source.permits = Some(Semaphore::new(0));
        let renewing = Renewing::new(source, None);
        assert!(futures_util::poll!(Box::pin(renewing.get())).is_pending());
        let source = Arc::clone(&renewing.source);
        tokio::task::yield_now().await;
        assert_eq!(Arc::strong_count(&source), 3, "the handle, the task and this test");
        drop(renewing);
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
        assert_eq!(Arc::strong_count(&source), 1);
    }

    #[test]
    fn a_renewal_whose_runtime_ended_is_restarted_on_another_runtime() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let mut source = script(Lifetime::UntilRejected);
        source.permits = Some(Semaphore::new(0));
        let renewing = Renewing::new(source, None);
        let (first, second) = (runtime(), runtime());
        let mut get = Box::pin(renewing.get());
        first.block_on(async {
            assert!(futures_util::poll!(&mut get).is_pending());
            tokio::task::yield_now().await;
        });
        drop(first);
        renewing.source.permits.as_ref().unwrap().add_permits(1);
        assert_eq!(text(&second.block_on(get).unwrap()), "Bearer 2");
    }

    #[test]
    fn a_renewal_whose_runtime_ended_before_it_ran_is_restarted() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let renewing = Renewing::new(script(Lifetime::UntilRejected), None);
        let first = runtime();
        first.block_on(async {
            let mut get = Box::pin(renewing.get());
            // The task exists but has not run.
            assert!(futures_util::poll!(&mut get).is_pending());
        });
        drop(first);
        assert_eq!(text(&runtime().block_on(renewing.get()).unwrap()), "Bearer 1");
    }
}
