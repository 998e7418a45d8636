//! A handler that counts the changes after the first list.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use dogwatch::informer::{Change, EventHandler, HandlerOptions, InformerStopped, Overflow};
use dogwatch::{Object, SharedInformer};
use tokio::sync::Notify;

/// Counts the changes after the first list.
#[derive(Debug)]
pub struct ChangeCounter {
    wanted: u64,
    seen: Arc<(AtomicU64, Notify)>,
}

impl ChangeCounter {
    /// Starts to count the changes of an informer, which has not been started yet.
    ///
    /// # Errors
    ///
    /// Returns an error if the informer is stopped.
    pub fn start<T: Object>(informer: &SharedInformer<T>, wanted: u64) -> Result<Self, InformerStopped> {
        let seen = Arc::new((AtomicU64::new(0), Notify::new()));
        let every = HandlerOptions::default().name("bench").overflow(Overflow::Grow);
        informer.add_handler_with(Count { wanted, seen: Arc::clone(&seen) }, every)?;
        Ok(Self { wanted, seen })
    }

    /// Waits for the wanted number of changes, and returns the actual number.
    pub async fn reached(&self) -> u64 {
        loop {
            let notified = self.seen.1.notified();
            let seen = self.seen.0.load(Ordering::Acquire);
            if seen >= self.wanted {
                return seen;
            }
            notified.await;
        }
    }
}

/// The handler of a [`ChangeCounter`].
struct Count {
    wanted: u64,
    seen: Arc<(AtomicU64, Notify)>,
}

impl<T> EventHandler<T> for Count {
    fn on_change(&mut self, change: &Change<T>) {
        if matches!(change, Change::Added { initial: true, .. }) {
            return;
        }
        let seen = self.seen.0.fetch_add(1, Ordering::AcqRel) + 1;
        if seen == self.wanted {
            self.seen.1.notify_one();
        }
    }
}
