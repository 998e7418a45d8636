//! A new subscription of a handler or a stream, before the informer's task has added it.
//!
//! Any task makes one, from the settings that the handlers of an informer have in common. The
//! fan-out joins it to the others between two batches.

use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use dogwatch_core::Object;
use futures_core::future::BoxFuture;
use parking_lot::Mutex;

use crate::backlog::KeyHasher;
use crate::handler::EventHandler;
use crate::mailbox::{Mailbox, Subscription};
use crate::metrics::InformerMetrics;
use crate::number_allocator::NumberAllocator;
use crate::pruning::Pruning;
use crate::registration::{Changes, HandlerOptions, Reader, Registration, serve};
use crate::stats::HandlerStats;

/// The writing end of a mailbox. Dropping it closes the mailbox: the changes in it are still
/// delivered.
#[derive(Debug)]
pub(crate) struct Slot<T>(pub(crate) Arc<Mailbox<T>>);

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// A new subscription, before the informer's task has added it.
pub(crate) struct NewSubscription<T> {
    pub(crate) slot: Slot<T>,
    pub(crate) resync_every: Option<Duration>,
    pub(crate) replay_after_relist: bool,
    /// The task that calls the handler; a stream has none.
    pub(crate) task: Option<BoxFuture<'static, ()>>,
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
    /// The mailboxes of the handlers, for diagnostics. Those that have ended are dropped from time
    /// to time.
    mailboxes: Mutex<Mailboxes>,
}

/// Mailboxes that are not kept alive.
#[derive(Default)]
struct Mailboxes {
    all: Vec<Weak<dyn Subscription>>,
    pruning: Pruning,
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

    /// Returns the number of mailboxes that are kept for diagnostics.
    #[cfg(test)]
    pub(crate) fn remembered(&self) -> usize {
        self.mailboxes.lock().all.len()
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
