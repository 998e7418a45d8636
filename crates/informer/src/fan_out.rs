//! Delivery of a store's changes to many handlers, through one mailbox each.
//!
//! The informer's task owns it and is the only one that fills mailboxes, between two batches of the
//! store; so a handler that is added receives exactly the objects that the store shows at that
//! moment, and every change after it. It knows neither the store nor the source of changes.

use std::fmt;
use std::future::poll_fn;
use std::sync::{Arc, Weak};
use std::time::Duration;

use dogwatch_core::Object;
use futures_core::future::BoxFuture;
use parking_lot::Mutex;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::backlog::{Batch, KeyHasher};
use crate::backoff::instant_after;
use crate::change::Change;
use crate::handler::EventHandler;
use crate::mailbox::{Mailbox, Replay, Subscription};
use crate::metrics::InformerMetrics;
use crate::number_allocator::NumberAllocator;
use crate::registration::{Changes, HandlerOptions, Reader, Registration, serve};
use crate::stats::HandlerStats;

/// The writing end of a mailbox. Dropping it closes the mailbox: the changes in it are still
/// delivered.
#[derive(Debug)]
struct Slot<T>(Arc<Mailbox<T>>);

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A new subscription, before the informer's task has added it.
pub(crate) struct NewSubscription<T> {
    slot: Slot<T>,
    resync_every: Option<Duration>,
    replay_after_relist: bool,
    /// The task that calls the handler; a stream has none.
    task: Option<BoxFuture<'static, ()>>,
}

impl<T: Object> NewSubscription<T> {
    /// Creates the subscription of a handler, and its registration.
    pub(crate) fn handler(
        handler: impl EventHandler<T>,
        options: HandlerOptions,
        shared: &HandlerContext,
    ) -> (Self, Registration) {
        let mut subscription = Self::new(options, shared);
        let reader = Reader::new(Arc::clone(&subscription.slot.0));
        let registration = Registration::new(Arc::clone(&subscription.slot.0) as _);
        subscription.task = Some(Box::pin(serve(handler, reader)));
        (subscription, registration)
    }

    /// Creates the subscription of a stream.
    pub(crate) fn stream(options: HandlerOptions, shared: &HandlerContext) -> (Self, Changes<T>) {
        let subscription = Self::new(options, shared);
        let changes = Changes::new(Reader::new(Arc::clone(&subscription.slot.0)));
        (subscription, changes)
    }

    fn new(options: HandlerOptions, shared: &HandlerContext) -> Self {
        let number = options.name.is_none().then(|| shared.numbers.take());
        let numbered = || number.as_ref().map(|it| it.get().to_string());
        let name: Arc<str> = options.name.or_else(numbered).unwrap_or_default().into();
        let metrics = shared.metrics.handler(&name);
        let mailbox = Mailbox::new(name, number, options.overflow, shared.hasher.clone(), metrics);
        let mailbox = Arc::new(mailbox);
        shared.remember(&(Arc::clone(&mailbox) as Arc<dyn Subscription>));
        Self {
            slot: Slot(mailbox),
            resync_every: options.resync_every.or(shared.resync_every).filter(|it| !it.is_zero()),
            replay_after_relist: options.replay_after_relist,
            task: None,
        }
    }
}

/// The settings that the handlers of one informer have in common.
pub(crate) struct HandlerContext {
    pub(crate) hasher: KeyHasher,
    pub(crate) metrics: InformerMetrics,
    /// The default resync interval of handlers.
    pub(crate) resync_every: Option<Duration>,
    /// Names for handlers that have none.
    numbers: NumberAllocator,
    /// The mailboxes of the handlers, for diagnostics. Those that have ended are dropped from time to
    /// time.
    mailboxes: Mutex<Mailboxes>,
}

/// Mailboxes that are not kept alive.
#[derive(Default)]
struct Mailboxes {
    all: Vec<Weak<dyn Subscription>>,
    pruning: Pruning,
}

/// The decision when to look for entries of a list that have ended.
///
/// Looking whenever one is added would make adding `n` entries cost `n²`. So it is done when the list
/// has twice as many as the last look left, and each entry is looked at twice on average.
#[derive(Debug)]
struct Pruning {
    /// The length at which to look next.
    next: usize,
}

/// The length below which nothing is looked for.
const FIRST_PRUNING: usize = 16;

impl Pruning {
    fn is_due(&self, length: usize) -> bool {
        length >= self.next
    }

    /// Notes the number of entries that are left.
    fn pruned(&mut self, left: usize) {
        self.next = left.saturating_mul(2).max(FIRST_PRUNING);
    }
}

impl Default for Pruning {
    fn default() -> Self {
        Self { next: FIRST_PRUNING }
    }
}

impl Mailboxes {
    fn add(&mut self, mailbox: &Arc<dyn Subscription>) {
        if self.pruning.is_due(self.all.len()) {
            self.all.retain(|it| it.upgrade().is_some_and(|it| !it.has_ended()));
            self.pruning.pruned(self.all.len());
        }
        self.all.push(Arc::downgrade(mailbox));
    }
}

impl HandlerContext {
    pub(crate) fn new(metrics: InformerMetrics, resync_every: Option<Duration>) -> Self {
        Self {
            hasher: KeyHasher::default(),
            metrics,
            resync_every,
            numbers: NumberAllocator::default(),
            mailboxes: Mutex::default(),
        }
    }

    /// Adds the mailbox of a new handler.
    fn remember(&self, mailbox: &Arc<dyn Subscription>) {
        self.mailboxes.lock().add(mailbox);
    }

    /// Returns the numbers of the handlers that have not ended.
    pub(crate) fn handlers(&self) -> Vec<HandlerStats> {
        let mailboxes: Vec<_> = self.mailboxes.lock().all.iter().filter_map(Weak::upgrade).collect();
        mailboxes.iter().filter(|it| !it.has_ended()).map(|it| it.stats()).collect()
    }
}

/// The handlers of one informer.
#[derive(Debug)]
pub(crate) struct FanOut<T> {
    members: Vec<Member<T>>,
    /// When to look for members that were removed while nothing is published.
    pruning: Pruning,
    tasks: JoinSet<()>,
    hasher: KeyHasher,
    /// Set once the initial list was delivered.
    synced: bool,
}

#[derive(Debug)]
struct Member<T> {
    slot: Slot<T>,
    replay_after_relist: bool,
    resync: Option<Resync>,
    /// True if a task of ours calls the handler; a stream is read by its owner.
    called: bool,
}

#[derive(Debug)]
struct Resync {
    every: Duration,
    next: Instant,
}

impl<T: Object> FanOut<T> {
    /// Creates a fan-out without handlers. The hasher must be that of all mailboxes that will be
    /// added.
    pub(crate) fn new(hasher: KeyHasher) -> Self {
        let (members, pruning) = (Vec::new(), Pruning::default());
        Self { members, pruning, tasks: JoinSet::new(), hasher, synced: false }
    }

    /// Adds a handler, and starts its task on the current runtime. The handler first receives the
    /// existing objects.
    pub(crate) fn join(&mut self, subscription: NewSubscription<T>, there: Replay<T>) {
        while self.tasks.try_join_next().is_some() {}
        if self.pruning.is_due(self.members.len()) {
            self.forget_removed();
            self.pruning.pruned(self.members.len());
        }
        let NewSubscription { slot, resync_every, replay_after_relist, task } = subscription;
        let mailbox = &slot.0;
        if mailbox.is_removed() {
            return;
        }
        let now = Instant::now();
        if there.len > 0 {
            mailbox.replay(there, now);
        }
        if self.synced {
            mailbox.initial_list_delivered();
        }
        let resync = resync_every.map(|every| Resync { every, next: instant_after(now, every) });
        self.members.push(Member { slot, replay_after_relist, resync, called: task.is_some() });
        if let Some(task) = task {
            self.tasks.spawn(task);
        }
    }

    /// Delivers changes to all handlers.
    pub(crate) fn publish(&mut self, changes: Vec<Change<T>>) {
        self.forget_removed();
        self.deliver(changes, |member, batch| member.mailbox().push(batch));
    }

    /// Marks everything that was published so far as the initial list. Later calls have no effect.
    pub(crate) fn initial_list_delivered(&mut self) {
        if !std::mem::replace(&mut self.synced, true) {
            self.members.iter().for_each(|it| it.mailbox().initial_list_delivered());
        }
    }

    /// Returns the time of the next handler's resync.
    pub(crate) fn next_resync(&self) -> Option<Instant> {
        self.members.iter().filter_map(|it| it.resync.as_ref()).map(|it| it.next).min()
    }

    /// Delivers everything again to the handlers whose resync is due. A handler that has not
    /// finished its last resync, or that is full, is skipped.
    pub(crate) fn resync(&mut self, now: Instant, everything: impl FnOnce() -> Vec<Change<T>>) {
        self.forget_removed();
        if self.next_resync().is_some_and(|next| next <= now) {
            self.deliver(everything(), |member, batch| {
                if let Some(resync) = member.resync.as_mut().filter(|it| it.next <= now) {
                    resync.next = instant_after(now, resync.every);
                    member.mailbox().push_resync(batch);
                }
            });
            // Also if there was nothing to deliver.
            for resync in self.members.iter_mut().filter_map(|it| it.resync.as_mut()) {
                if resync.next <= now {
                    resync.next = instant_after(now, resync.every);
                }
            }
        }
    }

    /// Returns true if a handler wants every object again after a list.
    pub(crate) fn asks_after_relists(&self) -> bool {
        self.members.iter().any(|it| it.replay_after_relist)
    }

    /// Delivers everything again to the handlers that want it, after a list that was not the
    /// initial one.
    pub(crate) fn relisted(&mut self, everything: impl FnOnce() -> Vec<Change<T>>) {
        self.forget_removed();
        if self.asks_after_relists() {
            self.deliver(everything(), |member, batch| {
                if member.replay_after_relist {
                    member.mailbox().push(batch);
                }
            });
        }
    }

    fn deliver(&mut self, changes: Vec<Change<T>>, mut to: impl FnMut(&mut Member<T>, &Arc<Batch<T>>)) {
        if !changes.is_empty() {
            let batch = Arc::new(Batch::new(changes, Instant::now(), self.hasher.clone()));
            self.members.iter_mut().for_each(|member| to(member, &batch));
        }
    }

    /// Drops handlers that were removed, and streams that were dropped.
    fn forget_removed(&mut self) {
        self.members.retain(|it| !it.mailbox().is_removed());
    }

    /// Returns true if a handler with a blocking mailbox is full.
    pub(crate) fn is_full(&self) -> bool {
        self.members.iter().any(|it| it.mailbox().is_full())
    }

    /// Waits until every handler with a blocking mailbox has room.
    pub(crate) async fn room(&self) {
        for member in self.members.iter().filter(|it| it.mailbox().is_blocking()) {
            poll_fn(|cx| member.mailbox().poll_room(cx)).await;
        }
    }

    /// Closes all mailboxes and waits until every handler has processed its pending changes, at
    /// most for `grace`. The rest is then dropped; a running call is waited for. Streams keep the
    /// changes that they have not yielded yet.
    pub(crate) async fn close(mut self, grace: Duration) {
        let called: Vec<_> =
            self.members.iter().filter(|it| it.called).map(|it| Arc::clone(&it.slot.0)).collect();
        self.members.clear();
        let tasks = &mut self.tasks;
        let ended = async { while tasks.join_next().await.is_some() {} };
        if tokio::time::timeout(grace, ended).await.is_err() {
            for mailbox in called.iter().filter(|it| !it.is_removed()) {
                let (handler, left) = (mailbox.name(), mailbox.lag().pending);
                tracing::warn!(
                    handler,
                    left,
                    ?grace,
                    "the informer stops; dropping the pending changes of a slow handler"
                );
                mailbox.remove();
            }
            while self.tasks.join_next().await.is_some() {}
        }
    }
}

impl<T> Member<T> {
    fn mailbox(&self) -> &Mailbox<T> {
        &self.slot.0
    }
}

impl fmt::Debug for HandlerContext {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HandlerContext").field("resync_every", &self.resync_every).finish_non_exhaustive()
    }
}

impl<T> fmt::Debug for NewSubscription<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewSubscription").field("resync_every", &self.resync_every).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use dogwatch_core::ResourceType;
    use futures_util::{FutureExt, StreamExt};
    use k8s_openapi::api::core::v1::ConfigMap;
    use tokio::task::yield_now;

    use super::*;
    use crate::change::Deleted;
    use crate::handler::OnChange;
    use crate::mailbox::{Lag, Overflow};

    fn shared() -> HandlerContext {
        let resource = ResourceType::namespaced(dogwatch_core::Gvk::new("", "v1", "ConfigMap"), "configmaps");
        HandlerContext::new(InformerMetrics::new("test", &resource), None)
    }

    fn map(name: &str, version: u64) -> Arc<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some(name.to_owned());
        map.metadata.resource_version = Some(version.to_string());
        Arc::new(map)
    }

    fn added(name: &str, version: u64) -> Change<ConfigMap> {
        Change::Added { object: map(name, version), initial: false }
    }

    fn updated(name: &str, old: u64, new: u64) -> Change<ConfigMap> {
        Change::Updated { old: map(name, old), new: map(name, new) }
    }

    fn nothing() -> Replay<ConfigMap> {
        Replay { len: 0, build: Box::new(Vec::new) }
    }

    fn there(changes: Vec<Change<ConfigMap>>) -> Replay<ConfigMap> {
        Replay { len: changes.len(), build: Box::new(move || changes) }
    }

    /// Returns a handler that records the changes it receives, and the record.
    fn recorder() -> (impl EventHandler<ConfigMap>, Arc<Mutex<Vec<Change<ConfigMap>>>>) {
        let received = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&received);
        (OnChange(move |change: &Change<ConfigMap>| to.lock().unwrap().push(change.clone())), received)
    }

    fn with(overflow: Overflow) -> HandlerOptions {
        HandlerOptions::default().overflow(overflow)
    }

    #[tokio::test(start_paused = true)]
    async fn in_4_every_handler_receives_every_change_in_order() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let mut all = Vec::new();
        for overflow in [Overflow::Coalesce, Overflow::Grow, Overflow::Block(1)] {
            let (handler, received) = recorder();
            let (subscription, registration) = NewSubscription::handler(handler, with(overflow), &shared);
            fan_out.join(subscription, nothing());
            all.push((received, registration));
        }
        let changes: Vec<_> = (0..200).map(|it| added(&it.to_string(), it + 1)).collect();
        fan_out.publish(changes.clone());
        fan_out.initial_list_delivered();
        for (_, registration) in &all {
            registration.synced().await.expect("the handler is running");
            assert_eq!(registration.lag(), Lag::default());
        }
        fan_out.publish(vec![updated("7", 8, 300)]);
        fan_out.close(Duration::MAX).await;
        for (received, _) in all {
            let received = received.lock().unwrap();
            assert_eq!((&received[..200], &received[200..]), (&changes[..], &[updated("7", 8, 300)][..]));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn pending_changes_are_merged_under_coalesce_and_kept_under_grow() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (merged, mut merging) = NewSubscription::stream(with(Overflow::Coalesce), &shared);
        let (grown, mut growing) = NewSubscription::stream(with(Overflow::Grow), &shared);
        fan_out.join(merged, nothing());
        fan_out.join(grown, nothing());
        let history = [added("a", 1), added("b", 2), updated("a", 1, 3), updated("a", 3, 4)];
        fan_out.publish(vec![history[0].clone(), history[1].clone()]);
        fan_out.publish(vec![history[2].clone()]);
        fan_out.publish(vec![history[3].clone()]);
        assert_eq!(growing.registration().lag().pending, 4);

        assert_eq!(merging.next().await, Some(added("a", 1)));
        assert_eq!(merging.registration().lag().pending, 3, "two of the taken object, and one pending");
        assert_eq!(merging.next().await, Some(updated("a", 1, 4)));
        assert_eq!(merging.next().await, Some(added("b", 2)));
        for change in history {
            assert_eq!(growing.next().await, Some(change));
        }
        fan_out.close(Duration::MAX).await;
        assert_eq!((merging.next().await, growing.next().await), (None, None));
    }

    /// A batch may contain several changes of one object, if the informer itself was behind.
    #[tokio::test(start_paused = true)]
    async fn a_handler_that_keeps_up_receives_every_change_of_a_batch() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (subscription, mut changes) = NewSubscription::stream(with(Overflow::Coalesce), &shared);
        fan_out.join(subscription, nothing());
        let gone = Change::Deleted(Deleted::Seen(map("a", 4)));
        let batch = vec![added("a", 1), updated("a", 1, 2), updated("a", 2, 3), gone];
        fan_out.publish(batch.clone());
        for change in batch {
            assert_eq!(changes.next().await, Some(change));
        }
    }

    /// The handler may own the object, or have written it: the deletion matters even if the
    /// addition was never delivered.
    #[tokio::test(start_paused = true)]
    async fn a_slow_handler_receives_an_object_that_was_created_and_deleted() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (subscription, mut changes) = NewSubscription::stream(with(Overflow::Coalesce), &shared);
        fan_out.join(subscription, nothing());
        let gone = Change::Deleted(Deleted::Seen(map("a", 2)));
        fan_out.publish(vec![added("a", 1)]);
        fan_out.publish(vec![gone.clone()]);
        assert_eq!(changes.next().await, Some(added("a", 1)));
        assert_eq!(changes.next().await, Some(gone));
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_never_reads_keeps_at_most_three_changes_of_each_object() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (subscription, mut changes) = NewSubscription::stream(with(Overflow::Coalesce), &shared);
        fan_out.join(subscription, nothing());
        fan_out.publish(vec![added("a", 1)]);
        // Some objects are created and deleted, and one changes all the time.
        let gone = |name: &str, version| Change::Deleted(Deleted::Seen(map(name, version)));
        let mut objects = 1;
        for version in 1..20_000 {
            let mut batch = vec![updated("a", version, version + 1)];
            if version % 1000 == 0 {
                objects += 1;
                batch.extend([added("passing", version), updated("passing", version, version + 1)]);
                batch.push(gone("passing", version + 1));
            }
            fan_out.publish(batch);
            assert!(changes.registration().lag().pending < 15_000);
        }
        assert_eq!(changes.next().await, Some(added("a", 1)));
        assert_eq!(changes.registration().lag().pending, 3 * objects - 1, "the first object was not deleted");
        assert_eq!(changes.next().await, Some(updated("a", 1, 20_000)));
        for version in (1000..20_000).step_by(1000) {
            assert_eq!(changes.next().await, Some(added("passing", version)));
            assert_eq!(changes.next().await, Some(updated("passing", version, version + 1)));
            assert_eq!(changes.next().await, Some(gone("passing", version + 1)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn in_6_a_late_handler_receives_existing_objects_first_and_then_later_changes() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        fan_out.initial_list_delivered();
        let (subscription, mut changes) = NewSubscription::stream(with(Overflow::Coalesce), &shared);
        let initial = |name, version| Change::Added { object: map(name, version), initial: true };
        fan_out.join(subscription, there(vec![initial("a", 1), initial("b", 2)]));
        fan_out.publish(vec![updated("b", 2, 3)]);
        fan_out.publish(vec![added("c", 4)]);
        let registration = changes.registration();
        assert_eq!(registration.lag().pending, 4);
        assert_eq!(changes.next().await, Some(initial("a", 1)));
        assert_eq!(changes.next().await, Some(initial("b", 2)));
        assert_eq!(changes.next().await, Some(updated("b", 2, 3)));
        assert!(!registration.is_synced(), "the last change is not finished");
        assert_eq!(changes.next().await, Some(added("c", 4)));
        assert!(registration.is_synced());
    }

    /// Merging the backlog before the late handler's task has built its replay must not reorder the
    /// two.
    #[tokio::test(start_paused = true)]
    async fn in_6_existing_objects_come_first_even_after_many_later_changes() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (subscription, mut changes) = NewSubscription::stream(with(Overflow::Coalesce), &shared);
        fan_out.join(subscription, there(vec![added("a", 1), added("b", 2)]));
        for version in 2..20_000 {
            fan_out.publish(vec![updated("b", version, version + 1)]);
        }
        assert_eq!(changes.next().await, Some(added("a", 1)));
        assert_eq!(changes.next().await, Some(added("b", 2)));
        assert_eq!(changes.next().await, Some(updated("b", 2, 20_000)));
    }

    #[tokio::test(start_paused = true)]
    async fn in_5_a_handler_that_panics_is_counted_and_goes_on_and_is_synced() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (mut inner, received) = recorder();
        let handler = OnChange(move |change: &Change<ConfigMap>| {
            assert_ne!(change.object().header().name, "bad", "the handler panics on this object");
            inner.on_change(change);
        });
        let (subscription, registration) =
            NewSubscription::handler(handler, HandlerOptions::default(), &shared);
        fan_out.join(subscription, nothing());
        fan_out.publish(vec![added("a", 1), added("bad", 2), added("c", 3)]);
        fan_out.publish(vec![added("d", 4)]);
        fan_out.initial_list_delivered();
        registration.synced().await.expect("the handler goes on");
        assert_eq!(registration.lag().panics, 1);
        assert_eq!(*received.lock().unwrap(), [added("a", 1), added("c", 3), added("d", 4)]);
    }

    #[tokio::test(start_paused = true)]
    async fn in_8_a_removed_handler_receives_nothing_more() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let slot = Arc::new(Mutex::new(None::<Registration>));
        let (mut inner, received) = recorder();
        let handler = OnChange({
            let slot = Arc::clone(&slot);
            move |change: &Change<ConfigMap>| {
                inner.on_change(change);
                // From inside a call, so that one is certainly running.
                slot.lock().unwrap().as_ref().expect("set before the first change").remove();
            }
        });
        let (subscription, registration) =
            NewSubscription::handler(handler, HandlerOptions::default(), &shared);
        *slot.lock().unwrap() = Some(registration.clone());
        fan_out.join(subscription, nothing());
        fan_out.publish(vec![added("a", 1), added("b", 2)]);
        assert!(registration.synced().await.is_err(), "the handler ends before it is synced");
        assert_eq!(*received.lock().unwrap(), [added("a", 1)]);
        registration.remove();
        registration.shut_down().await;
        fan_out.publish(vec![added("c", 3)]);
        assert!(fan_out.members.is_empty());
        assert_eq!(received.lock().unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn handlers_that_have_ended_are_forgotten_although_not_all_are_looked_at_each_time() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        for _ in 0..1_000 {
            let (subscription, changes) = NewSubscription::stream(HandlerOptions::default(), &shared);
            fan_out.join(subscription, nothing());
            drop::<Changes<ConfigMap>>(changes);
        }
        let kept = shared.mailboxes.lock().all.len();
        assert!(kept <= FIRST_PRUNING && fan_out.members.len() <= FIRST_PRUNING, "{kept} are kept");
        assert_eq!(shared.handlers(), []);
        let mut all = Vec::new();
        for _ in 0..1_000 {
            let (subscription, changes) = NewSubscription::stream(HandlerOptions::default(), &shared);
            fan_out.join(subscription, nothing());
            all.push(changes);
        }
        assert_eq!((shared.handlers().len(), fan_out.members.len()), (1_000, 1_000));
        let next = shared.mailboxes.lock().pruning.next;
        assert!(next > 1_000, "with {next} handlers they are looked at again, not with each one");
    }

    #[tokio::test(start_paused = true)]
    async fn in_8_a_handler_whose_informer_never_ran_can_be_shut_down() {
        let shared = shared();
        let (handler, _) = recorder();
        let (subscription, registration) =
            NewSubscription::handler(handler, HandlerOptions::default(), &shared);
        registration.shut_down().await;
        drop(subscription);
    }

    #[tokio::test(start_paused = true)]
    async fn a_blocking_handler_makes_the_informer_wait_and_a_removed_one_does_not() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (subscription, mut changes) = NewSubscription::stream(with(Overflow::Block(2)), &shared);
        fan_out.join(subscription, nothing());
        fan_out.publish(vec![added("a", 1), added("b", 2)]);
        fan_out.room().await;
        fan_out.publish(vec![added("c", 3)]);
        {
            let mut room = std::pin::pin!(fan_out.room());
            assert!(futures_util::poll!(room.as_mut()).is_pending());
            changes.next().await;
            assert!(
                futures_util::poll!(room.as_mut()).is_pending(),
                "the first change is taken, not finished"
            );
            changes.next().await;
            room.await;
        }
        fan_out.publish(vec![added("d", 4), added("e", 5)]);
        let registration = changes.registration();
        let (_, ()) = tokio::join!(fan_out.room(), async {
            yield_now().await;
            registration.remove();
        });
        assert_eq!(changes.next().await, None);
    }

    #[tokio::test(start_paused = true)]
    async fn in_9_each_handler_is_resynced_at_its_own_interval() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let mut handlers = Vec::new();
        for period in [Some(2), Some(3), None] {
            let mut options = with(Overflow::Grow);
            if let Some(period) = period {
                options = options.resync_every(Duration::from_secs(period));
            }
            let (subscription, changes) = NewSubscription::stream(options, &shared);
            fan_out.join(subscription, nothing());
            handlers.push(changes);
        }
        let start = Instant::now();
        let (mut received, mut counts) = (Vec::new(), [0; 3]);
        while start.elapsed() < Duration::from_secs(6) {
            let next = fan_out.next_resync().expect("two handlers have an interval");
            tokio::time::sleep_until(next).await;
            fan_out.resync(Instant::now(), || vec![updated("a", 1, 1)]);
            for (count, changes) in counts.iter_mut().zip(&mut handlers) {
                while changes.next().now_or_never().flatten().is_some() {
                    *count += 1;
                }
            }
            received.push((start.elapsed().as_secs(), counts));
        }
        assert_eq!(received, [(2, [1, 0, 0]), (3, [1, 1, 0]), (4, [2, 1, 0]), (6, [3, 2, 0])]);
    }

    /// client-go drops pending changes at once. Here, a handler that is only a little behind may
    /// finish, and one that is far behind must not delay the end of a program.
    #[tokio::test(start_paused = true)]
    async fn in_10_the_end_waits_for_slow_handlers_at_most_for_the_grace_period() {
        for (grace, calls) in [(Duration::MAX, 1000), (Duration::from_secs(5), 1000), (Duration::ZERO, 0)] {
            let shared = shared();
            let mut fan_out = FanOut::new(shared.hasher.clone());
            let (handler, received) = recorder();
            let (subscription, registration) =
                NewSubscription::handler(handler, HandlerOptions::default(), &shared);
            fan_out.join(subscription, nothing());
            let (subscription, mut changes) = NewSubscription::stream(HandlerOptions::default(), &shared);
            fan_out.join(subscription, nothing());
            fan_out.publish((0..1000).map(|it| added(&it.to_string(), it + 1)).collect());
            fan_out.close(grace).await;
            assert_eq!(received.lock().unwrap().len(), calls, "with a grace of {grace:?}");
            registration.shut_down().await;
            assert!(changes.next().await.is_some(), "a stream keeps the changes that it has not yielded");
        }
    }

    #[test]
    fn in_9_a_resync_is_at_most_once_a_second() {
        let options = HandlerOptions::default().resync_every(Duration::from_millis(5));
        assert_eq!(options.resync_every, Some(Duration::from_secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn the_numbers_of_a_handler_add_up_and_disappear_with_it() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let options = with(Overflow::Coalesce).name("slow");
        let (subscription, mut changes) = NewSubscription::stream(options, &shared);
        fan_out.join(subscription, there(vec![added("z", 1)]));
        for change in [added("a", 2), updated("a", 2, 3), updated("a", 3, 4)] {
            fan_out.publish(vec![change]);
        }
        let numbers = || {
            let handlers = shared.handlers();
            let it = handlers.first().expect("there is a handler");
            assert_eq!((handlers.len(), it.name.as_str()), (1, "slow"));
            (it.received, it.delivered, it.merged, it.pending)
        };
        assert_eq!(numbers(), (4, 0, 0, 4));
        for expected in [added("z", 1), added("a", 2), updated("a", 2, 4)] {
            assert_eq!(changes.next().await, Some(expected));
        }
        assert!(changes.next().now_or_never().is_none());
        assert_eq!(numbers(), (4, 3, 1, 0));
        drop(changes);
        assert!(shared.handlers().is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn lag_reports_how_long_the_oldest_change_has_waited() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (subscription, mut changes) = NewSubscription::stream(with(Overflow::Coalesce), &shared);
        fan_out.join(subscription, nothing());
        fan_out.publish(vec![added("a", 1)]);
        tokio::time::advance(Duration::from_secs(5)).await;
        fan_out.publish(vec![updated("a", 1, 2), added("b", 3)]);
        assert_eq!(changes.registration().lag().oldest, Some(Duration::from_secs(5)));
        changes.next().await;
        assert_eq!(changes.registration().lag().oldest, Some(Duration::ZERO));
    }
}
