//! The task of an informer: takes deltas, has the store apply them and delivers the changes to the
//! handlers.
//!
//! Everything that involves both the store and the handlers happens here, sequentially. So a
//! handler that receives a change finds it in the store, and a handler that is added later receives
//! exactly the objects that the store shows at that moment.

use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Poll;
use std::time::Duration;

use dogwatch_core::Object;
use tokio::sync::watch;
use tokio::time::Instant;

use super::feed::{Feed, ReflectorEnd};
use super::inbox::SubscriptionReceiver;
use super::shared_state::SharedState;
use crate::backoff::instant_after;
use crate::change::Change;
use crate::delta::Delta;
use crate::fan_out::FanOut;
use crate::mailbox::Replay;
use crate::reflector::ReflectorEnded;
use crate::slow::is_slow_batch;
use crate::store::{Snapshot, StoreWriter};

/// The policy for the objects of a collection that the server does not serve any more.
///
/// [`NotFound`](crate::NotFound) decides when a collection counts as gone. Under either policy, the
/// informer's health reports it, the informer asks again from time to time, and when the collection
/// is back, handlers receive the difference.
///
/// ```
/// use dogwatch_client::Api;
/// use dogwatch_core::{Gvk, ResourceType};
/// use dogwatch_informer::{OnGone, SharedInformer};
/// use kube_core::DynamicObject;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let widgets = ResourceType::namespaced(Gvk::new("example.com", "v1", "Widget"), "widgets");
/// // When the definition is removed, the store forgets the widgets.
/// let informer = SharedInformer::builder(Api::<DynamicObject>::dynamic(client, widgets))
///     .on_gone(OnGone::Clear)
///     .build();
/// assert!(!informer.is_started());
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnGone {
    /// The store keeps the known objects, and no handler receives a deletion. When a definition is
    /// removed, the server deletes its objects first and the watch delivers the deletions; so the
    /// remaining objects are those that a misbehaving server would have made disappear.
    #[default]
    Keep,
    /// The store is emptied, and handlers receive a [`Deleted::Missed`](crate::Deleted::Missed) for
    /// every object. Meant for programs that display what exists rather than for those that clean
    /// up after deletions. Objects of built-in kinds are kept nevertheless: a server that does not
    /// serve them is not working properly.
    Clear,
}

/// The state that an informer's task owns.
pub(super) struct Pump<T: Object> {
    pub(super) feeds: Vec<Feed<T>>,
    pub(super) writer: StoreWriter<T>,
    pub(super) fan_out: FanOut<T>,
    pub(super) subscriptions: SubscriptionReceiver<T>,
    /// The maximal number of deltas that are applied at once.
    pub(super) batch: usize,
    /// The wait before a collection that is gone is asked for again.
    pub(super) retry_not_served_after: Option<Duration>,
    pub(super) on_gone: OnGone,
    /// The time that handlers have at the end to process their pending changes.
    pub(super) shutdown_timeout: Duration,
}

/// Marks the informer as stopped when dropped, however its task ends. It is created before the
/// task, because a runtime that shuts down may drop the task without polling it.
pub(super) struct StoppedGuard<T: Object>(pub(super) Arc<SharedState<T>>);

impl<T: Object> Drop for StoppedGuard<T> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<T: Object> Pump<T> {
    /// Runs until it is asked to stop, or until no reflector is left. Then the reflectors end, the
    /// handlers process what is left and end, and the store is closed (rule IN-10).
    pub(super) async fn run(mut self, stopping: StoppedGuard<T>) {
        let state = &stopping.0;
        self.feeds.iter_mut().for_each(Feed::start);
        self.follow(state).await;

        let accepted = self.subscriptions.close();
        for feed in self.feeds.drain(..) {
            feed.stop().await;
        }
        // Handlers whose registration was accepted are still served.
        for subscription in accepted {
            self.fan_out.join(subscription, replay(state.store.snapshot()));
        }
        self.fan_out.close(self.shutdown_timeout).await;
        drop(self.writer);
        tracing::debug!("informer stopped");
    }

    async fn follow(&mut self, state: &SharedState<T>) {
        let mut stop = state.stop.subscribe();
        let mut deltas = Vec::new();
        let mut first = 0;
        loop {
            let full = self.fan_out.is_full();
            let (resync, revival) =
                (self.fan_out.next_resync(), self.feeds.iter().filter_map(Feed::restart_at).min());
            tokio::select! {
                biased;
                () = stop_requested(&mut stop) => return,
                subscription = poll_fn(|cx| self.subscriptions.poll_recv(cx)) => self.fan_out.join(subscription, replay(state.store.snapshot())),
                () = sleep_until(resync) => self.fan_out.resync(Instant::now(), || unchanged(&state.store.snapshot())),
                () = sleep_until(revival) => self.restart(state),
                () = self.fan_out.room(), if full => {}
                (feed, open) = receive(&mut self.feeds, first, &mut deltas, self.batch), if !full => {
                    first = feed + 1;
                    if open {
                        self.process(state, feed, &mut deltas);
                    } else if !self.ended(feed, state).await {
                        return;
                    }
                }
            }
        }
    }

    /// Applies a batch of one feed to the store and delivers the changes to the handlers.
    fn process(&mut self, state: &SharedState<T>, feed: usize, deltas: &mut Vec<Delta<T>>) {
        let start = Instant::now();
        let (count, waiting): (_, usize) = (deltas.len(), self.feeds.iter().map(Feed::depth).sum());
        state.members.metrics.queued(waiting);
        let was_synced = state.store.is_synced();
        let relisted = was_synced
            && self.fan_out.asks_after_relists()
            && deltas.iter().any(|it| matches!(it, Delta::End { .. }));
        let mut changes = Vec::new();
        self.writer.apply_to(feed, deltas.drain(..), &mut changes);
        state.applied.fetch_add(count as u64, Ordering::Relaxed);
        self.fan_out.publish(changes);
        if !was_synced && state.store.is_synced() {
            self.fan_out.initial_list_delivered();
            tracing::debug!(objects = state.store.len(), version = %state.store.version(), "synced");
        }
        if relisted {
            self.fan_out.relisted(|| unchanged(&state.store.snapshot()));
        }
        let took = start.elapsed();
        if is_slow_batch(count, waiting, took) {
            tracing::info!(informer = state.name, deltas = count, waiting, ?took, "applying changes is slow");
        }
        state.members.metrics.processed(took);
        state.members.metrics.stored(&state.store.version(), state.store.memory());
    }

    /// Handles the end of a reflector. Returns `false` if it was the last one and none will be
    /// restarted.
    async fn ended(&mut self, feed: usize, state: &SharedState<T>) -> bool {
        let why = self.feeds[feed].ended().await;
        if matches!(why, ReflectorEnd::Cancelled) {
            tracing::debug!(informer = state.name, "the informer ends because the runtime shuts down");
            return false;
        }
        let Some(after) = self.retry_not_served_after else {
            tracing::warn!(informer = state.name, ?why, "a reflector has ended and is not restarted");
            state.healths.replace(feed, self.feeds[feed].health());
            return !self.feeds.iter().all(Feed::is_over);
        };
        match why {
            ReflectorEnd::Returned(ReflectorEnded::Gone(message)) => {
                tracing::info!(informer = state.name, %message, "the server does not serve the collection any more; retrying periodically");
                if self.on_gone == OnGone::Clear && !is_built_in(&state.resource.gvk.group) {
                    self.clear(state, feed);
                    self.feeds[feed].clear_unreadable();
                }
            }
            other => {
                tracing::error!(
                    informer = state.name,
                    ?other,
                    "a reflector ended unexpectedly; restarting it"
                )
            }
        }
        self.feeds[feed].schedule_restart(instant_after(Instant::now(), after));
        state.healths.replace(feed, self.feeds[feed].health());
        true
    }

    /// Removes all objects, as if an empty list had been received. A collection that was never
    /// synced stays so.
    fn clear(&mut self, state: &SharedState<T>, feed: usize) {
        let mut changes = Vec::new();
        self.writer.clear(feed, &mut changes);
        self.fan_out.publish(changes);
        state.members.metrics.stored(&state.store.version(), state.store.memory());
    }

    fn restart(&mut self, state: &SharedState<T>) {
        let now = Instant::now();
        for (index, feed) in self.feeds.iter_mut().enumerate() {
            if feed.restart_at().is_some_and(|due| due <= now) {
                state.healths.replace(index, feed.restart());
                if let Some(gauge) = state.queues.gauges.lock().get_mut(index) {
                    *gauge = feed.queue();
                }
            }
        }
    }
}

/// Returns true if kube-apiserver itself serves the group. Groups of custom resources have a dot,
/// and may end in `k8s.io` too.
fn is_built_in(group: &str) -> bool {
    const BUILT_IN: [&str; 18] = [
        "admissionregistration.k8s.io",
        "apiextensions.k8s.io",
        "apiregistration.k8s.io",
        "authentication.k8s.io",
        "authorization.k8s.io",
        "certificates.k8s.io",
        "coordination.k8s.io",
        "discovery.k8s.io",
        "events.k8s.io",
        "flowcontrol.apiserver.k8s.io",
        "internal.apiserver.k8s.io",
        "networking.k8s.io",
        "node.k8s.io",
        "rbac.authorization.k8s.io",
        "resource.k8s.io",
        "scheduling.k8s.io",
        "storage.k8s.io",
        "storagemigration.k8s.io",
    ];
    !group.contains('.') || BUILT_IN.contains(&group)
}

/// Takes waiting deltas of one of the feeds, starting with `first` so that none is starved. Returns
/// the index of the feed, and whether its reflector is still running.
async fn receive<T: Object>(
    feeds: &mut [Feed<T>],
    first: usize,
    batch: &mut Vec<Delta<T>>,
    max: usize,
) -> (usize, bool) {
    poll_fn(|cx| {
        let count = feeds.len();
        for index in (0..count).map(|it| (first + it) % count) {
            if let Poll::Ready(open) = feeds[index].poll_recv(batch, max, cx) {
                return Poll::Ready((index, open));
            }
        }
        Poll::Pending
    })
    .await
}

/// Waits until the informer is asked to stop.
async fn stop_requested(stop: &mut watch::Receiver<bool>) {
    // It fails if the sender is dropped, which also means to stop.
    let _ = stop.wait_for(|it| *it).await;
}

/// Waits until the given time, or for ever if there is none.
async fn sleep_until(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// Returns the additions that a handler which is added now receives first.
fn replay<T: Object>(snapshot: Snapshot<T>) -> Replay<T> {
    let len = snapshot.len();
    let added = |object: &Arc<T>| Change::Added { object: Arc::clone(object), initial: true };
    Replay { len, build: Box::new(move || snapshot.iter().map(added).collect()) }
}

/// Returns every object as an update in which nothing changed.
fn unchanged<T: Object>(snapshot: &Snapshot<T>) -> Vec<Change<T>> {
    snapshot.iter().map(|it| Change::Updated { old: Arc::clone(it), new: Arc::clone(it) }).collect()
}
