//! From one store to many handlers: a mailbox each, filled from one place.
//!
//! The informer's task owns it and is the only one who puts anything in, between two batches of the store; so whoever joins is
//! told exactly of what the store showed then, and of every change after it. It knows neither the store nor where changes come from.

use std::fmt;
use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::Object;
use futures_core::future::BoxFuture;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::backlog::{Batch, KeyHasher};
use crate::backoff::later;
use crate::change::Change;
use crate::handler::EventHandler;
use crate::mailbox::{Mailbox, Replay, Subscription};
use crate::metrics::InformerMetrics;
use crate::numbers::Numbers;
use crate::registration::{Changes, HandlerOptions, Reader, Registration, serve};

/// The end of a mailbox that is written to. Dropping it closes the mailbox: what is in it is still told.
#[derive(Debug)]
struct Slot<T>(Arc<Mailbox<T>>);

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A handler that is to be told of changes.
pub(crate) struct Joining<T> {
    slot: Slot<T>,
    resync_every: Option<Duration>,
    again_after_relist: bool,
    /// What calls it; a stream has no such task.
    task: Option<BoxFuture<'static, ()>>,
}

impl<T: Object> Joining<T> {
    /// A handler, and the handle on its place.
    pub(crate) fn handler(
        handler: impl EventHandler<T>,
        options: HandlerOptions,
        shared: &Shared,
    ) -> (Self, Registration) {
        let mut joining = Self::new(options, shared);
        let reader = Reader::new(Arc::clone(&joining.slot.0));
        let registration = Registration::new(Arc::clone(&joining.slot.0) as _);
        joining.task = Some(Box::pin(serve(handler, reader)));
        (joining, registration)
    }

    /// A stream.
    pub(crate) fn stream(options: HandlerOptions, shared: &Shared) -> (Self, Changes<T>) {
        let joining = Self::new(options, shared);
        let changes = Changes::new(Reader::new(Arc::clone(&joining.slot.0)));
        (joining, changes)
    }

    fn new(options: HandlerOptions, shared: &Shared) -> Self {
        let number = options.name.is_none().then(|| shared.numbers.take());
        let numbered = || number.as_ref().map(|it| it.get().to_string());
        let name: Arc<str> = options.name.or_else(numbered).unwrap_or_default().into();
        let metrics = shared.metrics.handler(&name);
        let mailbox = Mailbox::new(name, number, options.overflow, shared.hasher.clone(), metrics);
        Self {
            slot: Slot(Arc::new(mailbox)),
            resync_every: options.resync_every.or(shared.resync_every),
            again_after_relist: options.again_after_relist,
            task: None,
        }
    }
}

/// What the handlers of one informer have in common.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) hasher: KeyHasher,
    pub(crate) metrics: InformerMetrics,
    /// How often handlers that do not say are told of everything again.
    pub(crate) resync_every: Option<Duration>,
    /// Names handlers that have no name.
    numbers: Numbers,
}

impl Shared {
    pub(crate) fn new(metrics: InformerMetrics, resync_every: Option<Duration>) -> Self {
        Self { hasher: KeyHasher::default(), metrics, resync_every, numbers: Numbers::default() }
    }
}

/// The handlers of one informer.
#[derive(Debug)]
pub(crate) struct FanOut<T> {
    members: Vec<Member<T>>,
    tasks: JoinSet<()>,
    hasher: KeyHasher,
    /// Whether the first list was told.
    synced: bool,
}

#[derive(Debug)]
struct Member<T> {
    slot: Slot<T>,
    again_after_relist: bool,
    resync: Option<Resync>,
    /// Whether a task of ours calls it; a stream is read by its owner.
    called: bool,
}

#[derive(Debug)]
struct Resync {
    every: Duration,
    next: Instant,
}

impl<T: Object> FanOut<T> {
    /// Without handlers. The hasher is that of all mailboxes that will join.
    pub(crate) fn new(hasher: KeyHasher) -> Self {
        Self { members: Vec::new(), tasks: JoinSet::new(), hasher, synced: false }
    }

    /// Takes a handler in, and starts its task on the runtime this runs on. It is told first of what is there already.
    pub(crate) fn join(&mut self, joining: Joining<T>, there: Replay<T>) {
        while self.tasks.try_join_next().is_some() {}
        self.forget_removed();
        let Joining { slot, resync_every, again_after_relist, task } = joining;
        let mailbox = &slot.0;
        if mailbox.is_removed() {
            return;
        }
        let now = Instant::now();
        if there.len > 0 {
            mailbox.replay(there, now);
        }
        if self.synced {
            mailbox.first_list_is_in();
        }
        let resync = resync_every.map(|every| Resync { every, next: later(now, every) });
        self.members.push(Member { slot, again_after_relist, resync, called: task.is_some() });
        if let Some(task) = task {
            self.tasks.spawn(task);
        }
    }

    /// Delivers changes to all handlers.
    pub(crate) fn publish(&mut self, changes: Vec<Change<T>>) {
        self.forget_removed();
        self.deliver(changes, |member, batch| member.mailbox().push(batch));
    }

    /// Says that what was published until now is the first list. It counts once.
    pub(crate) fn first_list_is_in(&mut self) {
        if !std::mem::replace(&mut self.synced, true) {
            self.members.iter().for_each(|it| it.mailbox().first_list_is_in());
        }
    }

    /// When the next handler wants to be told of everything again.
    pub(crate) fn next_resync(&self) -> Option<Instant> {
        self.members.iter().filter_map(|it| it.resync.as_ref()).map(|it| it.next).min()
    }

    /// Delivers everything again to those whose time has come. A handler that still has the last resync before it, or that is
    /// full, is passed over.
    pub(crate) fn resync(&mut self, now: Instant, everything: impl FnOnce() -> Vec<Change<T>>) {
        self.forget_removed();
        if self.next_resync().is_some_and(|next| next <= now) {
            self.deliver(everything(), |member, batch| {
                if let Some(resync) = member.resync.as_mut().filter(|it| it.next <= now) {
                    resync.next = later(now, resync.every);
                    member.mailbox().push_resync(batch);
                }
            });
            // Also where there was nothing to deliver.
            for resync in self.members.iter_mut().filter_map(|it| it.resync.as_mut()) {
                if resync.next <= now {
                    resync.next = later(now, resync.every);
                }
            }
        }
    }

    /// Whether somebody wants to be told of everything again after a list.
    pub(crate) fn asks_after_relists(&self) -> bool {
        self.members.iter().any(|it| it.again_after_relist)
    }

    /// Tells those who want it of everything again, after a list that was not the first.
    pub(crate) fn relisted(&mut self, everything: impl FnOnce() -> Vec<Change<T>>) {
        self.forget_removed();
        if self.asks_after_relists() {
            self.deliver(everything(), |member, batch| {
                if member.again_after_relist {
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

    /// Lets go of handlers that were removed, and of streams that were dropped.
    fn forget_removed(&mut self) {
        self.members.retain(|it| !it.mailbox().is_removed());
    }

    /// Whether a handler that may make the informer wait does so.
    pub(crate) fn is_full(&self) -> bool {
        self.members.iter().any(|it| it.mailbox().is_full())
    }

    /// Waits until every handler that may make the informer wait has room.
    pub(crate) async fn room(&self) {
        for member in self.members.iter().filter(|it| it.mailbox().is_blocking()) {
            poll_fn(|cx| member.mailbox().poll_room(cx)).await;
        }
    }

    /// Nothing more will come: waits until every handler has worked off what waits for it, for as long as the grace lasts. What is
    /// left then is dropped; a call that is under way is waited for. Streams keep what they have not given out.
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
                    "the informer stops; a slow handler loses what waits for it"
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

impl<T> fmt::Debug for Joining<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Joining").field("resync_every", &self.resync_every).finish_non_exhaustive()
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

    fn shared() -> Shared {
        let resource = ResourceType::namespaced(dogwatch_core::Gvk::new("", "v1", "ConfigMap"), "configmaps");
        Shared::new(InformerMetrics::new("test", &resource), None)
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

    /// A handler that writes down what it is told, and what it wrote.
    fn recorder() -> (impl EventHandler<ConfigMap>, Arc<Mutex<Vec<Change<ConfigMap>>>>) {
        let told = Arc::new(Mutex::new(Vec::new()));
        let to = Arc::clone(&told);
        (OnChange(move |change: &Change<ConfigMap>| to.lock().unwrap().push(change.clone())), told)
    }

    fn with(overflow: Overflow) -> HandlerOptions {
        HandlerOptions::default().overflow(overflow)
    }

    #[tokio::test(start_paused = true)]
    async fn in_4_every_handler_is_told_of_everything_in_order() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let mut all = Vec::new();
        for overflow in [Overflow::Coalesce, Overflow::Grow, Overflow::Block(1)] {
            let (handler, told) = recorder();
            let (joining, registration) = Joining::handler(handler, with(overflow), &shared);
            fan_out.join(joining, nothing());
            all.push((told, registration));
        }
        let changes: Vec<_> = (0..200).map(|it| added(&it.to_string(), it + 1)).collect();
        fan_out.publish(changes.clone());
        fan_out.first_list_is_in();
        for (_, registration) in &all {
            registration.synced().await.expect("nothing ends");
            assert_eq!(registration.lag(), Lag::default());
        }
        fan_out.publish(vec![updated("7", 8, 300)]);
        fan_out.close(Duration::MAX).await;
        for (told, _) in all {
            let told = told.lock().unwrap();
            assert_eq!((&told[..200], &told[200..]), (&changes[..], &[updated("7", 8, 300)][..]));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn what_waits_is_merged_where_the_policy_says_so_and_kept_where_it_does_not() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (merged, mut merging) = Joining::stream(with(Overflow::Coalesce), &shared);
        let (grown, mut growing) = Joining::stream(with(Overflow::Grow), &shared);
        fan_out.join(merged, nothing());
        fan_out.join(grown, nothing());
        let history = [added("a", 1), added("b", 2), updated("a", 1, 3), updated("a", 3, 4)];
        fan_out.publish(vec![history[0].clone(), history[1].clone()]);
        fan_out.publish(vec![history[2].clone()]);
        fan_out.publish(vec![history[3].clone()]);
        assert_eq!(growing.registration().lag().pending, 4);

        assert_eq!(merging.next().await, Some(added("a", 1)));
        assert_eq!(merging.registration().lag().pending, 3, "both of the object in hand, and one waits");
        assert_eq!(merging.next().await, Some(updated("a", 1, 4)));
        assert_eq!(merging.next().await, Some(added("b", 2)));
        for change in history {
            assert_eq!(growing.next().await, Some(change));
        }
        fan_out.close(Duration::MAX).await;
        assert_eq!((merging.next().await, growing.next().await), (None, None));
    }

    /// A batch may carry several changes of one object, when the informer was behind itself.
    #[tokio::test(start_paused = true)]
    async fn a_handler_that_keeps_up_receives_every_change_of_a_batch() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (joining, mut changes) = Joining::stream(with(Overflow::Coalesce), &shared);
        fan_out.join(joining, nothing());
        let gone = Change::Deleted(Deleted::Seen(map("a", 4)));
        let batch = vec![added("a", 1), updated("a", 1, 2), updated("a", 2, 3), gone];
        fan_out.publish(batch.clone());
        for change in batch {
            assert_eq!(changes.next().await, Some(change));
        }
    }

    /// The handler may own the object, or have written it: that it saw no addition does not make the deletion meaningless.
    #[tokio::test(start_paused = true)]
    async fn a_slow_handler_learns_of_an_object_that_came_and_went() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (joining, mut changes) = Joining::stream(with(Overflow::Coalesce), &shared);
        fan_out.join(joining, nothing());
        let gone = Change::Deleted(Deleted::Seen(map("a", 2)));
        fan_out.publish(vec![added("a", 1)]);
        fan_out.publish(vec![gone.clone()]);
        assert_eq!(changes.next().await, Some(added("a", 1)));
        assert_eq!(changes.next().await, Some(gone));
    }

    #[tokio::test(start_paused = true)]
    async fn a_handler_that_never_comes_back_keeps_three_changes_of_each_object_at_most() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (joining, mut changes) = Joining::stream(with(Overflow::Coalesce), &shared);
        fan_out.join(joining, nothing());
        fan_out.publish(vec![added("a", 1)]);
        // Some objects come and go, and one changes all the time.
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
        assert_eq!(changes.registration().lag().pending, 3 * objects - 1, "nothing went of the first");
        assert_eq!(changes.next().await, Some(updated("a", 1, 20_000)));
        for version in (1000..20_000).step_by(1000) {
            assert_eq!(changes.next().await, Some(added("passing", version)));
            assert_eq!(changes.next().await, Some(updated("passing", version, version + 1)));
            assert_eq!(changes.next().await, Some(gone("passing", version + 1)));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn in_6_who_comes_late_is_told_first_of_what_is_there_and_then_of_what_came_since() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        fan_out.first_list_is_in();
        let (joining, mut changes) = Joining::stream(with(Overflow::Coalesce), &shared);
        let initial = |name, version| Change::Added { object: map(name, version), initial: true };
        fan_out.join(joining, there(vec![initial("a", 1), initial("b", 2)]));
        fan_out.publish(vec![updated("b", 2, 3)]);
        fan_out.publish(vec![added("c", 4)]);
        let registration = changes.registration();
        assert_eq!(registration.lag().pending, 4);
        assert_eq!(changes.next().await, Some(initial("a", 1)));
        assert_eq!(changes.next().await, Some(initial("b", 2)));
        assert_eq!(changes.next().await, Some(updated("b", 2, 3)));
        assert!(!registration.is_synced(), "the last is still in hand");
        assert_eq!(changes.next().await, Some(added("c", 4)));
        assert!(registration.is_synced());
    }

    /// Whoever had to merge what waits before the late handler's task came to be told the past must not turn the two around.
    #[tokio::test(start_paused = true)]
    async fn in_6_what_was_there_comes_first_even_when_much_came_since() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (joining, mut changes) = Joining::stream(with(Overflow::Coalesce), &shared);
        fan_out.join(joining, there(vec![added("a", 1), added("b", 2)]));
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
        let (mut inner, told) = recorder();
        let handler = OnChange(move |change: &Change<ConfigMap>| {
            assert_ne!(change.object().header().name, "bad", "this one is too much");
            inner.on_change(change);
        });
        let (joining, registration) = Joining::handler(handler, HandlerOptions::default(), &shared);
        fan_out.join(joining, nothing());
        fan_out.publish(vec![added("a", 1), added("bad", 2), added("c", 3)]);
        fan_out.publish(vec![added("d", 4)]);
        fan_out.first_list_is_in();
        registration.synced().await.expect("it goes on");
        assert_eq!(registration.lag().panics, 1);
        assert_eq!(*told.lock().unwrap(), [added("a", 1), added("c", 3), added("d", 4)]);
    }

    #[tokio::test(start_paused = true)]
    async fn in_8_a_removed_handler_is_told_nothing_more() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let slot = Arc::new(Mutex::new(None::<Registration>));
        let (mut inner, told) = recorder();
        let handler = OnChange({
            let slot = Arc::clone(&slot);
            move |change: &Change<ConfigMap>| {
                inner.on_change(change);
                // From inside a call, so that it is sure to be under way.
                slot.lock().unwrap().as_ref().expect("set before the first change").remove();
            }
        });
        let (joining, registration) = Joining::handler(handler, HandlerOptions::default(), &shared);
        *slot.lock().unwrap() = Some(registration.clone());
        fan_out.join(joining, nothing());
        fan_out.publish(vec![added("a", 1), added("b", 2)]);
        assert!(registration.synced().await.is_err(), "it ends before it could be synced");
        assert_eq!(*told.lock().unwrap(), [added("a", 1)]);
        registration.remove();
        registration.shut_down().await;
        fan_out.publish(vec![added("c", 3)]);
        assert!(fan_out.members.is_empty());
        assert_eq!(told.lock().unwrap().len(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn in_8_a_handler_whose_informer_never_ran_can_be_shut_down() {
        let shared = shared();
        let (handler, _) = recorder();
        let (joining, registration) = Joining::handler(handler, HandlerOptions::default(), &shared);
        registration.shut_down().await;
        drop(joining);
    }

    #[tokio::test(start_paused = true)]
    async fn a_blocking_handler_makes_the_informer_wait_and_a_removed_one_does_not() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (joining, mut changes) = Joining::stream(with(Overflow::Block(2)), &shared);
        fan_out.join(joining, nothing());
        fan_out.publish(vec![added("a", 1), added("b", 2)]);
        fan_out.room().await;
        fan_out.publish(vec![added("c", 3)]);
        {
            let mut room = std::pin::pin!(fan_out.room());
            assert!(futures_util::poll!(room.as_mut()).is_pending());
            changes.next().await;
            assert!(futures_util::poll!(room.as_mut()).is_pending(), "the first is in hand, not done");
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
    async fn in_9_each_handler_is_told_of_everything_again_at_its_own_pace() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let mut handlers = Vec::new();
        for period in [Some(2), Some(3), None] {
            let mut options = with(Overflow::Grow);
            if let Some(period) = period {
                options = options.resync_every(Duration::from_secs(period));
            }
            let (joining, changes) = Joining::stream(options, &shared);
            fan_out.join(joining, nothing());
            handlers.push(changes);
        }
        let start = Instant::now();
        let (mut told, mut counts) = (Vec::new(), [0; 3]);
        while start.elapsed() < Duration::from_secs(6) {
            let next = fan_out.next_resync().expect("two have a period");
            tokio::time::sleep_until(next).await;
            fan_out.resync(Instant::now(), || vec![updated("a", 1, 1)]);
            for (count, changes) in counts.iter_mut().zip(&mut handlers) {
                while changes.next().now_or_never().flatten().is_some() {
                    *count += 1;
                }
            }
            told.push((start.elapsed().as_secs(), counts));
        }
        assert_eq!(told, [(2, [1, 0, 0]), (3, [1, 1, 0]), (4, [2, 1, 0]), (6, [3, 2, 0])]);
    }

    /// client-go drops what waits at once; a handler that is only a little behind deserves better, and one that is far behind must not
    /// hold up the end of a program.
    #[tokio::test(start_paused = true)]
    async fn in_10_the_end_waits_for_slow_handlers_no_longer_than_the_grace() {
        for (grace, calls) in [(Duration::MAX, 1000), (Duration::from_secs(5), 1000), (Duration::ZERO, 0)] {
            let shared = shared();
            let mut fan_out = FanOut::new(shared.hasher.clone());
            let (handler, told) = recorder();
            let (joining, registration) = Joining::handler(handler, HandlerOptions::default(), &shared);
            fan_out.join(joining, nothing());
            let (joining, mut changes) = Joining::stream(HandlerOptions::default(), &shared);
            fan_out.join(joining, nothing());
            fan_out.publish((0..1000).map(|it| added(&it.to_string(), it + 1)).collect());
            fan_out.close(grace).await;
            assert_eq!(told.lock().unwrap().len(), calls, "with a grace of {grace:?}");
            registration.shut_down().await;
            assert!(changes.next().await.is_some(), "a stream keeps what it has not given out");
        }
    }

    #[test]
    fn in_9_a_resync_is_at_most_once_a_second() {
        let options = HandlerOptions::default().resync_every(Duration::from_millis(5));
        assert_eq!(options.resync_every, Some(Duration::from_secs(1)));
    }

    #[tokio::test(start_paused = true)]
    async fn lag_says_how_long_the_oldest_waits() {
        let shared = shared();
        let mut fan_out = FanOut::new(shared.hasher.clone());
        let (joining, mut changes) = Joining::stream(with(Overflow::Coalesce), &shared);
        fan_out.join(joining, nothing());
        fan_out.publish(vec![added("a", 1)]);
        tokio::time::advance(Duration::from_secs(5)).await;
        fan_out.publish(vec![updated("a", 1, 2), added("b", 3)]);
        assert_eq!(changes.registration().lag().oldest, Some(Duration::from_secs(5)));
        changes.next().await;
        assert_eq!(changes.registration().lag().oldest, Some(Duration::ZERO));
    }
}
