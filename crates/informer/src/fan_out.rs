//! Delivery of a store's changes to many handlers, through one mailbox each.
//!
//! The informer's task owns it and is the only one that fills mailboxes, between two batches of the
//! store; so a handler that is added receives exactly the objects that the store shows at that
//! moment, and every change after it. It knows neither the store nor the source of changes.

use std::future::poll_fn;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::Object;
use tokio::task::JoinSet;
use tokio::time::Instant;

use crate::backlog::{Batch, KeyHasher};
use crate::backoff::instant_after;
use crate::change::Change;
use crate::mailbox::{Mailbox, Replay, Subscription};
use crate::pruning::Pruning;
use crate::subscription::{NewSubscription, Slot};

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

#[cfg(test)]
mod tests;
