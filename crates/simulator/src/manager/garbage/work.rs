//! The work loop: takes objects from the queue, and processes them within the slots.

use std::any::Any;
use std::panic::AssertUnwindSafe;
use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_controller::BoxError;
use dogwatch_core::Object;
use dogwatch_workqueue::{Item, WorkQueue};
use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use futures_util::stream::{FuturesUnordered, StreamExt};

use super::collector::{Collector, Outcome};
use super::slots::{Group, Slots};
use super::tracked::{NAME, Uid};
use crate::health::Health;
use crate::supervise::Startup;

/// The number of objects that need no request after which other tasks run.
const YIELD_AFTER: usize = 100;

/// An object that is being processed: as long as its item exists, no other worker gets it.
type QueueItem = Item<'static, Uid>;

/// The result of processing an object.
type Processed = Result<Result<Outcome, Error>, Box<dyn Any + Send>>;

/// The objects that wait for a slot, and the turns between them and the queue.
struct Dispatcher<'c> {
    collector: &'c Collector,
    slots: Slots<QueueItem>,
    /// True if objects that have waited for a slot come before the queue next time.
    prefers_waiting: bool,
}

/// Processes objects once the caches are filled. Returns only if it fails.
pub(super) async fn run(collector: &Collector, startup: Startup, health: &Health) -> Result<(), BoxError> {
    collector.synced().await;
    startup.complete();
    let mut dispatcher = Dispatcher { collector, slots: Slots::default(), prefers_waiting: false };
    let mut running = FuturesUnordered::new();
    let queue = collector.tracker().queue.clone();
    loop {
        let mut skipped = 0_usize;
        while let Some(item) = dispatcher.next() {
            if let Some((item, group)) = dispatcher.start(item) {
                running.push(process(collector, item, group));
            }
            skipped = skipped.saturating_add(1);
            if skipped >= YIELD_AFTER {
                break;
            }
        }
        if skipped >= YIELD_AFTER {
            // Objects may be left that wait for a slot, and nothing wakes the loop for those.
            while let Some(Some((item, group, processed))) = running.next().now_or_never() {
                dispatcher.slots.finish(&group);
                finish(&queue, item, processed, health);
            }
            tokio::task::yield_now().await;
            continue;
        }
        let any_free = dispatcher.slots.any_free();
        tokio::select! {
            // In fixed order, so that runs with the same seed are identical. Requests come first: a
            // queue that always has objects must not keep them from being polled.
            biased;
            Some((item, group, processed)) = running.next() => {
                dispatcher.slots.finish(&group);
                finish(&queue, item, processed, health);
            }
            item = queue.take(), if any_free => {
                let Some(item) = item else { return Ok(()) };
                if let Some((item, group)) = dispatcher.start(item.into_owned()) {
                    running.push(process(collector, item, group));
                }
            }
        }
    }
}

/// Processes an object. Returns it with its group and the result.
fn process(
    collector: &Collector,
    item: QueueItem,
    group: Group,
) -> BoxFuture<'_, (QueueItem, Group, Processed)> {
    let processed = async move {
        let processed = AssertUnwindSafe(collector.process(item.key())).catch_unwind().await;
        (item, group, processed)
    };
    processed.boxed()
}

impl Dispatcher<'_> {
    /// Returns the next object, unless all slots are in use. Objects that have waited for a slot
    /// and those in the queue take turns.
    fn next(&mut self) -> Option<QueueItem> {
        if !self.slots.any_free() {
            return None;
        }
        self.prefers_waiting = !self.prefers_waiting;
        let queue = &self.collector.tracker().queue;
        let queued = || queue.try_take().map(|it| it.into_owned());
        if self.prefers_waiting {
            self.slots.take().or_else(queued)
        } else {
            queued().or_else(|| self.slots.take())
        }
    }

    /// Returns an object with the group in which it has a slot, or nothing if it needs no request
    /// or has to wait.
    fn start(&mut self, item: QueueItem) -> Option<(QueueItem, Group)> {
        let Some(node) = self.collector.unsettled(item.key()) else {
            self.collector.tracker().queue.forget(item.key());
            return None;
        };
        let namespace = node.object.header().namespace.map(str::to_owned);
        let group = Group { collection: node.collection, namespace };
        self.slots.admit(&group, item).map(|it| (it, group))
    }
}

/// Decides when an object is processed again.
fn finish(queue: &WorkQueue<Uid>, item: QueueItem, processed: Processed, health: &Health) {
    let uid = Uid::clone(item.key());
    match processed {
        Ok(Ok(Outcome::Done)) => queue.forget(&uid),
        Ok(Ok(Outcome::Again(after))) => {
            queue.forget(&uid);
            queue.add_after(uid, after.max(Duration::from_millis(1)));
        }
        Ok(Err(error)) => {
            tracing::debug!(%uid, %error, "failed; will retry");
            queue.add_rate_limited(uid);
        }
        Err(_) => {
            health.panicked(NAME);
            tracing::error!(controller = NAME, %uid, "a controller panicked; the object will be retried");
            queue.add_rate_limited(uid);
        }
    }
}
