//! Credentials that expire: when they are renewed, and which callers wait for it.
//!
//! ```text
//! Fresh               handed out at once
//! Aging               handed out at once, while the first caller to notice waits a moment for a renewal
//! Expired, rejected   renewed before the next use; all callers wait for the same renewal
//! ```
//!
//! A [`Source`] knows how to get a new credential; [`Renewing`] decides when. It does not know tokens, files, processes
//! or providers.
//!
//! A renewal runs in a task of its own. A caller with a short time limit, or one that is dropped, would otherwise take
//! the renewal down with it: a plugin that needs a second would never finish for callers that wait half of one.

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use futures_util::FutureExt;
use futures_util::future::{BoxFuture, Shared};
use jiff::Timestamp;
use tokio::task::AbortHandle;
use tokio::time::Instant;

use super::error::AuthError;
use super::issued::{Issued, Wear};

/// After a failed renewal, how long a credential that still works is used before the next try.
const HOLD_OFF: Duration = Duration::from_secs(10);

/// How long the caller that starts the renewal of a credential that still works waits for the new one. A file is read in
/// less; a plugin or a provider may take a minute, which no request has to spare while its credential is good.
const AGING_WAIT: Duration = Duration::from_secs(1);

/// Where credentials come from.
pub(super) trait Source: Send + Sync + 'static {
    /// What log lines call it.
    const NAME: &'static str;

    /// Whether an old credential the server has rejected is still sent when no newer one can be had.
    const KEEPS_REJECTED: bool;

    /// Gets a new credential. Calls never overlap; a call is dropped half-way when the last client is.
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
/// A fresh one is handed out at once. An aging one too; only the caller that starts its renewal waits a moment for the new
/// one. Where there is none to hand out, all callers wait for one renewal and share its outcome, failure included. A caller that is dropped
/// leaves the renewal running for the others; dropping the last `Renewing` ends it.
pub(super) struct Renewing<S> {
    source: Arc<S>,
    state: Arc<Mutex<State>>,
}

struct State {
    current: Option<Held>,
    /// The server answered 401 to `current`.
    rejected: bool,
    /// How many renewals have ended, well or badly.
    renewals: u64,
    /// Until when `current` serves although its renewal failed.
    hold_off: Option<Instant>,
    /// The renewal under way.
    running: Option<Running>,
}

struct Running {
    /// `None` when the task was dropped with its runtime.
    outcome: Shared<BoxFuture<'static, Option<Result<Held, AuthError>>>>,
    task: AbortHandle,
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
        let state = State { current, rejected: false, renewals: 0, hold_off: None, running: None };
        Self { source: Arc::new(source), state: Arc::new(Mutex::new(state)) }
    }

    /// Where the credentials come from.
    pub(super) fn source(&self) -> &S {
        &self.source
    }

    /// The credential to use now, renewed first if it has to be.
    pub(super) async fn get(&self) -> Result<Held, AuthError> {
        loop {
            let (outcome, meanwhile) = {
                let mut state = lock(&self.state);
                // A renewal that ended left the state by itself. One that is over and still there was dropped with its
                // runtime before it ran.
                state.running.take_if(|it| it.task.is_finished());
                match (state.look::<S>(), &state.running) {
                    (Look::Use(held), _) | (Look::Renew { meanwhile: Some(held) }, Some(_)) => {
                        return Ok(held);
                    }
                    (Look::Renew { .. }, Some(running)) => (running.outcome.clone(), None),
                    (Look::Renew { meanwhile }, None) => {
                        let running = self.start();
                        (state.running.insert(running).outcome.clone(), meanwhile)
                    }
                }
            };
            let outcome = match meanwhile {
                None => outcome.await,
                Some(held) => tokio::time::timeout(AGING_WAIT, outcome).await.unwrap_or(Some(Ok(held))),
            };
            // A renewal that was dropped with the runtime of another caller is begun anew on ours.
            if let Some(outcome) = outcome {
                return outcome;
            }
        }
    }

    /// Renews in a task of its own. The task ends by itself; [`Drop`] ends it earlier.
    fn start(&self) -> Running {
        let (source, state) = (Arc::clone(&self.source), Arc::clone(&self.state));
        let task = tokio::spawn(async move {
            // Also when the source panics, so that the next caller starts anew instead of joining what has ended.
            let _ended = Ended(Arc::clone(&state));
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

    /// The server answered 401 to this credential: it must be renewed, unless it has been already.
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

/// Takes the renewal that ends out of the state.
struct Ended(Arc<Mutex<State>>);

impl Drop for Ended {
    fn drop(&mut self) {
        lock(&self.0).running = None;
    }
}

fn lock(state: &Mutex<State>) -> MutexGuard<'_, State> {
    // Every change of the state is complete before anything can panic.
    state.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a caller does about the credential at hand.
enum Look {
    Use(Held),
    Renew {
        /// What to use while another caller waits for the renewal.
        meanwhile: Option<Held>,
    },
}

impl State {
    fn look<S: Source>(&self) -> Look {
        let renew = |meanwhile| Look::Renew { meanwhile };
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

    #[tokio::test(start_paused = true)]
    async fn a_slow_renewal_does_not_hold_up_a_request_whose_credential_still_works() {
        let mut source = script(aging());
        source.permits = Some(Semaphore::new(1));
        let renewing = Renewing::new(source, None);
        renewing.get().await.unwrap();
        let limit = Duration::from_secs(2);
        let held =
            tokio::time::timeout(limit, renewing.get()).await.expect("it does not wait for the source");
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
    async fn a_caller_that_gives_up_leaves_the_renewal_to_the_next() {
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
    async fn callers_with_less_time_than_a_renewal_takes_are_served_once_it_is_over() {
        let mut source = script(Lifetime::UntilRejected);
        source.permits = Some(Semaphore::new(0));
        let renewing = Renewing::new(source, None);
        for _ in 0..5 {
            let impatient = tokio::time::timeout(Duration::from_millis(400), renewing.get());
            assert!(impatient.await.is_err());
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
    fn a_renewal_whose_runtime_ended_is_begun_anew_for_a_caller_of_another() {
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
    fn a_renewal_whose_runtime_ended_before_it_began_is_begun_anew() {
        let runtime = || tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let renewing = Renewing::new(script(Lifetime::UntilRejected), None);
        let first = runtime();
        first.block_on(async {
            let mut get = Box::pin(renewing.get());
            // The task exists and has not run.
            assert!(futures_util::poll!(&mut get).is_pending());
        });
        drop(first);
        assert_eq!(text(&runtime().block_on(renewing.get()).unwrap()), "Bearer 1");
    }
}
