//! The task of an informer: takes deltas, has the store apply them, tells the handlers, and does nothing else.
//!
//! Whatever touches store and handlers together happens here, one after the other. So a handler that is told of a change finds it
//! in the store, and one that comes late is told exactly of what the store shows at that moment.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use dogwatch_core::Object;
use tokio::sync::{mpsc, watch};
use tokio::time::Instant;

use super::core::Core;
use super::feed::{End, Feed};
use crate::backoff::later;
use crate::change::Change;
use crate::delta::Delta;
use crate::fan_out::{FanOut, Joining};
use crate::mailbox::Replay;
use crate::reflector::Ended;
use crate::slow::is_slow_batch;
use crate::store::{Snapshot, StoreWriter};

/// The policy for the objects of a collection that the server does not serve any more.
///
/// A collection counts as gone as [`NotFound`](crate::NotFound) says. The health of the informer says so under either policy, the
/// informer asks again from time to time, and when the collection is back, handlers receive the difference.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum OnGone {
    /// The store keeps what is known, and no handler receives a deletion. Where a definition is removed, the server deletes its
    /// objects first, and the watch delivers that; so what is left is what a server that misbehaves would have deleted.
    #[default]
    Keep,
    /// The store is emptied, and handlers receive a [`Deleted::Missed`](crate::Deleted::Missed) for every object. For readers that show
    /// what is there, rather than those that clean up after what went. Built-in kinds are kept all the same: a server that
    /// does not serve them is no whole server.
    Clear,
}

/// Everything that an informer's task owns.
pub(super) struct Pump<T: Object> {
    pub(super) feeds: Vec<Feed<T>>,
    pub(super) writer: StoreWriter<T>,
    pub(super) fan_out: FanOut<T>,
    pub(super) joins: mpsc::UnboundedReceiver<Joining<T>>,
    /// How many deltas are applied at once, at most.
    pub(super) batch: usize,
    /// How long after the collection was found to be gone it is asked for again.
    pub(super) revive_after: Option<Duration>,
    pub(super) on_gone: OnGone,
    /// How long handlers may take in the end for what waits for them.
    pub(super) stop_grace: Duration,
}

/// Says that the informer has stopped, however its task ends. It is made before the task, which a runtime that ends drops unpolled.
pub(super) struct Stopping<T: Object>(pub(super) Arc<Core<T>>);

impl<T: Object> Drop for Stopping<T> {
    fn drop(&mut self) {
        self.0.end();
    }
}

impl<T: Object> Pump<T> {
    /// Runs until it is asked to stop, or there is nothing more to come. Then: the reflectors end, the handlers are told of what
    /// is left and end, the store is closed (rule IN-10).
    pub(super) async fn run(mut self, stopping: Stopping<T>) {
        let core = &stopping.0;
        self.feeds.iter_mut().for_each(Feed::start);
        self.follow(core).await;

        self.joins.close();
        for feed in self.feeds.drain(..) {
            feed.stop().await;
        }
        // Who was taken on is told, be it late.
        while let Ok(joining) = self.joins.try_recv() {
            self.fan_out.join(joining, replay(core.store.snapshot()));
        }
        self.fan_out.close(self.stop_grace).await;
        drop(self.writer);
        tracing::debug!("the informer has stopped");
    }

    async fn follow(&mut self, core: &Core<T>) {
        let mut stop = core.stop.subscribe();
        let mut deltas = Vec::new();
        let mut first = 0;
        loop {
            let full = self.fan_out.is_full();
            let (resync, revival) =
                (self.fan_out.next_resync(), self.feeds.iter().filter_map(Feed::due).min());
            tokio::select! {
                biased;
                () = asked(&mut stop) => return,
                Some(joining) = self.joins.recv() => self.fan_out.join(joining, replay(core.store.snapshot())),
                () = at(resync) => self.fan_out.resync(Instant::now(), || unchanged(&core.store.snapshot())),
                () = at(revival) => self.revive(core),
                () = self.fan_out.room(), if full => {}
                (feed, open) = receive(&mut self.feeds, first, &mut deltas, self.batch), if !full => {
                    first = feed + 1;
                    if open {
                        self.turn(core, feed, &mut deltas);
                    } else if !self.ended(feed, core).await {
                        return;
                    }
                }
            }
        }
    }

    /// Brings a batch of one feed into the store and to the handlers.
    fn turn(&mut self, core: &Core<T>, feed: usize, deltas: &mut Vec<Delta<T>>) {
        let start = Instant::now();
        let (count, waiting): (_, usize) = (deltas.len(), self.feeds.iter().map(Feed::depth).sum());
        core.members.metrics.queued(waiting);
        let was_synced = core.store.synced();
        let relisted = was_synced
            && self.fan_out.asks_after_relists()
            && deltas.iter().any(|it| matches!(it, Delta::End { .. }));
        let mut changes = Vec::new();
        self.writer.apply_to(feed, deltas.drain(..), &mut changes);
        self.fan_out.publish(changes);
        if !was_synced && core.store.synced() {
            self.fan_out.first_list_is_in();
            tracing::debug!(objects = core.store.len(), version = %core.store.version(), "synced");
        }
        if relisted {
            self.fan_out.relisted(|| unchanged(&core.store.snapshot()));
        }
        let took = start.elapsed();
        if is_slow_batch(count, waiting, took) {
            tracing::info!(informer = core.name, deltas = count, waiting, ?took, "changes are slow to apply");
        }
        core.members.metrics.processed(took, &core.store.version());
    }

    /// A reflector has ended by itself. `false`: that was the last one, and none will come back.
    async fn ended(&mut self, feed: usize, core: &Core<T>) -> bool {
        let why = self.feeds[feed].ended().await;
        if matches!(why, End::Cancelled) {
            tracing::debug!(informer = core.name, "the runtime ends, and the informer with it");
            return false;
        }
        let Some(after) = self.revive_after else {
            tracing::warn!(informer = core.name, ?why, "a reflector has ended for good");
            core.healths.replace(feed, self.feeds[feed].health());
            return !self.feeds.iter().all(Feed::is_over);
        };
        match why {
            End::Said(Ended::Gone(message)) => {
                tracing::info!(informer = core.name, %message, "the collection is gone; asking again from time to time");
                if self.on_gone == OnGone::Clear && !is_built_in(&core.resource.gvk.group) {
                    self.clear(core, feed);
                    self.feeds[feed].cleared();
                }
            }
            other => {
                tracing::error!(informer = core.name, ?other, "a reflector ended badly; it begins again")
            }
        }
        self.feeds[feed].rest_until(later(Instant::now(), after));
        core.healths.replace(feed, self.feeds[feed].health());
        true
    }

    /// What the server does not serve any more is not there any more. What was never read in whole stays that way.
    fn clear(&mut self, core: &Core<T>, feed: usize) {
        if let Some(version) = self.writer.reached(feed) {
            let nothing = Delta::End { version, unreadable: Vec::new() };
            self.turn(core, feed, &mut vec![Delta::Begin, nothing]);
        }
    }

    fn revive(&mut self, core: &Core<T>) {
        let now = Instant::now();
        for (index, feed) in self.feeds.iter_mut().enumerate() {
            if feed.due().is_some_and(|due| due <= now) {
                core.healths.replace(index, feed.revive());
            }
        }
    }
}

/// Whether kube-apiserver itself serves the group. The group of a definition has a dot, and may end in `k8s.io` too.
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

/// Takes what waits in one of the feeds, beginning with `first` so that none is passed over for ever; which one it was, and whether its
/// reflector goes on.
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
async fn asked(stop: &mut watch::Receiver<bool>) {
    // It fails when nobody can ask any more, which is the same.
    let _ = stop.wait_for(|it| *it).await;
}

/// Waits until then; for ever where there is no such time.
async fn at(time: Option<Instant>) {
    match time {
        Some(time) => tokio::time::sleep_until(time).await,
        None => std::future::pending().await,
    }
}

/// What a handler that comes now is told first.
fn replay<T: Object>(snapshot: Snapshot<T>) -> Replay<T> {
    let len = snapshot.len();
    let added = |object: &Arc<T>| Change::Added { object: Arc::clone(object), initial: true };
    Replay { len, build: Box::new(move || snapshot.iter().map(added).collect()) }
}

/// Every object, as an update in which nothing changed.
fn unchanged<T: Object>(snapshot: &Snapshot<T>) -> Vec<Change<T>> {
    snapshot.iter().map(|it| Change::Updated { old: Arc::clone(it), new: Arc::clone(it) }).collect()
}
