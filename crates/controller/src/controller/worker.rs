//! The worker: asks the guard about a key, calls the reconciler, and acts on the result.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use dogwatch_core::{ErrorChain, Gvk};
use dogwatch_workqueue::{AddOptions, Item};
use futures_util::FutureExt;
use tokio::time::Instant;
use tracing::Instrument;

use super::monitor::Reconciles;
use super::shards::Shards;
use crate::action::{Action, Failure};
use crate::causes::{Cause, Causes, KeyQueue};
use crate::guard::Guard;
use crate::metrics::ControllerMetrics;
use crate::reconciler::{BoxedReconciler, Concerns, Context, Key};
use crate::source::{Cache, LOW_PRIORITY, Source};

/// The state that the workers of one controller share.
pub(super) struct ControllerInner<K: Key> {
    pub(super) name: Arc<str>,
    pub(super) queue: KeyQueue<K>,
    pub(super) sources: Vec<Box<dyn Source<K>>>,
    /// Further caches that the reconciler reads.
    pub(super) needs: Vec<Box<dyn Cache>>,
    /// The kinds of the sources, in their order.
    pub(super) kinds: Arc<[Gvk]>,
    pub(super) reconciler: BoxedReconciler<K>,
    pub(super) guard: Guard<K>,
    /// Set when several replicas share the keys.
    pub(super) shards: Option<Shards<K>>,
    pub(super) timeout: Option<Duration>,
    pub(super) metrics: ControllerMetrics,
    pub(super) reconciles: Reconciles<K>,
    /// Set when keys that are still in the queue must not be reconciled.
    pub(super) abandoned: AtomicBool,
}

/// A key that a worker of a controller holds.
type KeyItem<'q, K> = Item<'q, K, Causes>;

/// The outcome of a call of the reconciler.
enum Outcome {
    Returned(Result<Action, Failure>),
    Panicked(String),
    TimedOut(Duration),
}

impl<K: Key> ControllerInner<K> {
    /// Reconciles keys until the queue is shut down and empty.
    pub(super) async fn work(self: Arc<Self>) {
        while let Some(item) = self.queue.take().await {
            if self.abandoned.load(Ordering::Relaxed) {
                continue;
            }
            if self.shards.as_ref().is_some_and(|it| !it.admits(&item, item.note())) {
                // The failures here say nothing about the next time that the key is ours.
                self.queue.forget(&item);
                self.guard.forget_returns(&item);
                continue;
            }
            let attempt = self.queue.requeues(&item);
            let concerns = concerns(Arc::downgrade(&self), item.key().clone());
            let mut causes = item.note().clone();
            let behind = self.guard.park(&item, item.priority(), &mut causes, &self.sources);
            let context = Context::new(&self.name, &self.kinds, attempt, item.priority(), concerns);
            let context = context.with_causes(causes);
            let id = context.reconcile_id();
            let span = tracing::info_span!(
                "reconcile",
                controller = &*self.name,
                key = ?item.key(),
                causes = %context.causes(),
                reconcile_id = format_args!("{id:016x}"),
            );
            self.handle(&item, &context, behind).instrument(span).await;
        }
    }

    /// Puts keys back that wait for a cache, until the future is dropped.
    pub(super) async fn guard(self: Arc<Self>) {
        self.guard.run(&self.sources, &self.queue).await;
    }

    /// Queues the keys again that this replica may own now, whenever ownership changes, until the
    /// future is dropped. Changes count from this call on, not from the first poll.
    pub(super) fn follow_shards(self: Arc<Self>) -> impl Future<Output = ()> + Send + 'static {
        let changes = self.shards.as_ref().map(Shards::changes);
        async move {
            let (Some(shards), Some(mut changes)) = (&self.shards, changes) else { return };
            while changes.changed().await.is_ok() {
                // The same cause for all, so that a key that is queued several times here counts it
                // once.
                let cause = Arc::new(Cause::OwnershipChanged);
                for (key, causes) in shards.take_deferred() {
                    self.queue.add_with_note(key, AddOptions::default(), causes.put_back(&cause));
                }
                // As for the objects of a replay, nothing happened to these keys.
                let options = AddOptions { priority: LOW_PRIORITY, ..AddOptions::default() };
                for key in shards.streamed() {
                    self.queue.add_with_note(key, options, Causes::of(&cause));
                }
                self.sources.iter().for_each(|it| it.replay(&self.queue, &cause));
            }
        }
    }

    /// Returns all caches that a reconcile reads.
    pub(super) fn caches(&self) -> impl Iterator<Item = &dyn Cache> {
        self.sources.iter().map(|it| it.cache()).chain(self.needs.iter().map(|it| &**it))
    }

    /// Reconciles a key, unless the guard has parked it because an informer is behind.
    async fn handle(&self, item: &KeyItem<'_, K>, context: &Context, behind: Option<&str>) {
        let _busy = self.metrics.busy();
        if let Some(informer) = behind {
            self.metrics.stale.increment(1);
            tracing::debug!(informer, "deferred: the cache does not show the key's own writes yet");
            return;
        }
        self.metrics.caused(context.causes());
        let _running = self.reconciles.begin(item.key(), context.causes());
        let begun = Instant::now();
        let call = self.call(item, context);
        let outcome = match &self.shards {
            None => Some(call.await),
            Some(shards) => shards.while_owning(item.key(), context.causes(), call).await,
        };
        let took = begun.elapsed();
        self.metrics.took(took);
        self.reconciles.ended(took);
        self.guard.record(item, context.take_writes(), &self.sources, &self.queue);
        match outcome {
            Some(outcome) => self.act(item, context, outcome),
            None => {
                self.queue.forget(item);
                // A lease that lapsed may be ours again, and the deferred keys may have been taken
                // before this one was deferred.
                if self.shards.as_ref().is_some_and(|it| it.owns(item.key())) {
                    let causes = context.causes().put_back(&Arc::new(Cause::OwnershipChanged));
                    self.queue.add_with_note(item.key().clone(), AddOptions::default(), causes);
                }
                tracing::debug!("reconcile dropped: another replica owns the key now");
            }
        }
    }

    /// Calls the reconciler, within the timeout.
    async fn call(&self, key: &K, context: &Context) -> Outcome {
        // The call to the reconciler may panic before it returns a future.
        let call = async { self.reconciler.reconcile(key, context).await };
        let call = AssertUnwindSafe(call).catch_unwind();
        let returned = match self.timeout {
            None => call.await,
            Some(limit) => match tokio::time::timeout(limit, call).await {
                Ok(returned) => returned,
                Err(_) => return Outcome::TimedOut(limit),
            },
        };
        match returned {
            Ok(result) => Outcome::Returned(result),
            Err(panic) => Outcome::Panicked(text_of(&*panic)),
        }
    }

    fn act(&self, item: &KeyItem<'_, K>, context: &Context, outcome: Outcome) {
        let attempt = context.attempt();
        let cause = match outcome {
            Outcome::Returned(Ok(Action::Done)) => {
                self.metrics.success.increment(1);
                self.queue.forget(item);
                return;
            }
            Outcome::Returned(Ok(Action::RequeueAfter(after))) => {
                self.metrics.requeue_after.increment(1);
                self.queue.forget(item);
                let options = AddOptions { after, ..AddOptions::default() };
                self.requeue(item, options, Cause::RequeueAfter(after));
                return;
            }
            Outcome::Returned(Err(Failure::Terminal(error))) => {
                self.metrics.terminal.increment(1);
                self.failed();
                self.queue.forget(item);
                tracing::error!(error = %ErrorChain(&*error), attempt, "reconcile failed permanently");
                return;
            }
            Outcome::Returned(Err(Failure::Retry(error))) => {
                tracing::warn!(error = %ErrorChain(&*error), attempt, "reconcile failed, retrying");
                Cause::retry(&ErrorChain(&*error))
            }
            Outcome::Panicked(panic) => {
                self.metrics.panics.increment(1);
                tracing::error!(panic, attempt, "reconcile panicked, retrying");
                Cause::panic(&panic)
            }
            Outcome::TimedOut(limit) => {
                self.metrics.timeouts.increment(1);
                tracing::warn!(?limit, attempt, "reconcile timed out, retrying");
                Cause::Timeout(limit)
            }
        };
        self.failed();
        self.requeue(item, AddOptions { rate_limited: true, ..AddOptions::default() }, cause);
    }

    fn failed(&self) {
        self.metrics.errors.increment(1);
        self.metrics.error.increment(1);
        self.reconciles.failed();
    }

    /// Adds the key again with its priority. Has no effect after a shutdown.
    fn requeue(&self, item: &KeyItem<'_, K>, options: AddOptions, cause: Cause) {
        let options = AddOptions { priority: item.priority(), ..options };
        self.queue.add_with_note(item.key().clone(), options, cause.into());
    }
}

/// Returns the lookup for the context of one call. It holds a weak reference, so that a context
/// that outlives its call does not keep the controller alive.
fn concerns<K: Key>(inner: Weak<ControllerInner<K>>, key: K) -> Concerns {
    Box::new(move |source, object| inner.upgrade()?.sources.get(source)?.concerns(object, &key))
}

/// Returns the message of a panic.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|it| (*it).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "no message".to_owned())
}

#[cfg(test)]
mod tests {
    use std::pin::pin;

    use dogwatch_workqueue::WorkQueue;
    use futures_util::poll;
    use metrics::Counter;
    use parking_lot::Mutex;

    use super::*;
    use crate::action::BoxError;
    use crate::leader::clock::Clock;
    use crate::sharding::{ShardMember, manual};

    const LEASE: Duration = Duration::from_secs(10);

    type Calls = Arc<Mutex<Vec<&'static str>>>;

    /// A controller without caches, whose reconciles never end: its keys are those of objects that
    /// were deleted, so nothing but the queue leads to them.
    fn controller(member: &ShardMember) -> (Arc<ControllerInner<&'static str>>, Calls) {
        let calls = Calls::default();
        let recorded = Arc::clone(&calls);
        let reconciler = move |key: &'static str, _: Context| {
            recorded.lock().push(key);
            std::future::pending::<Result<Action, BoxError>>()
        };
        let inner = ControllerInner {
            name: "test".into(),
            queue: WorkQueue::builder().build_with_notes(),
            sources: Vec::new(),
            needs: Vec::new(),
            kinds: Arc::from([]),
            reconciler: BoxedReconciler::new(reconciler),
            guard: Guard::new(LEASE, Counter::noop()),
            shards: Some(Shards::new(member.clone(), |it: &&'static str| (*it).to_owned())),
            timeout: None,
            metrics: ControllerMetrics::new("test", 1),
            reconciles: Reconciles::default(),
            abandoned: AtomicBool::new(false),
        };
        (Arc::new(inner), calls)
    }

    /// The worker is not polled between the lapse of the lease and its renewal, as on a busy
    /// runtime: the deferred keys are taken before the worker defers this one.
    #[tokio::test(start_paused = true)]
    async fn a_key_that_was_lost_and_regained_during_its_reconcile_is_reconciled_again() {
        let clock = Clock::new();
        let member = manual::member(clock.clone());
        member.renew_until(clock.now() + LEASE);
        let (inner, calls) = controller(&member);
        let (mut work, mut follow) =
            (pin!(Arc::clone(&inner).work()), pin!(Arc::clone(&inner).follow_shards()));
        inner.queue.add("deleted");
        assert!(poll!(work.as_mut()).is_pending() && poll!(follow.as_mut()).is_pending());
        assert_eq!(*calls.lock(), ["deleted"]);

        tokio::time::advance(2 * LEASE).await;
        member.renew_until(clock.now() + LEASE);
        assert!(poll!(follow.as_mut()).is_pending());
        assert!(poll!(work.as_mut()).is_pending());
        assert_eq!(*calls.lock(), ["deleted", "deleted"], "the key is lost");
    }

    #[tokio::test(start_paused = true)]
    async fn a_key_that_was_lost_during_its_reconcile_is_reconciled_when_it_comes_back() {
        let clock = Clock::new();
        let member = manual::member(clock.clone());
        member.renew_until(clock.now() + LEASE);
        let (inner, calls) = controller(&member);
        let (mut work, mut follow) =
            (pin!(Arc::clone(&inner).work()), pin!(Arc::clone(&inner).follow_shards()));
        inner.queue.add("deleted");
        assert!(poll!(work.as_mut()).is_pending() && poll!(follow.as_mut()).is_pending());
        tokio::time::advance(2 * LEASE).await;
        assert!(poll!(work.as_mut()).is_pending());
        assert_eq!(*calls.lock(), ["deleted"], "no member owns the key");
        // A key that arrives meanwhile is deferred too.
        inner.queue.add("late");
        assert!(poll!(work.as_mut()).is_pending());
        assert_eq!(*calls.lock(), ["deleted"], "no member owns the key");

        member.renew_until(clock.now() + LEASE);
        assert!(poll!(follow.as_mut()).is_pending());
        let others = pin!(Arc::clone(&inner).work());
        assert!(poll!(work.as_mut()).is_pending() && poll!(others).is_pending());
        let mut calls = calls.lock().clone();
        calls.sort_unstable();
        assert_eq!(calls, ["deleted", "deleted", "late"]);
    }
}
