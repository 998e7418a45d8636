//! Change notifications of one namespace: wakes the readers of a service when its objects change.

use std::fmt;
use std::sync::{Arc, Weak};

use compact_str::CompactString;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The readers of one namespace, by service. A notification that arrives while its reader is not
/// waiting is kept: the next wait returns at once. Several are merged into one.
#[derive(Default)]
pub(crate) struct ChangeNotifier(Mutex<HashMap<CompactString, Vec<Weak<Notify>>>>);

impl ChangeNotifier {
    /// Subscribes to changes of this service. The subscription lasts as long as the returned
    /// handle.
    pub(crate) fn subscribe(&self, service: &str) -> Arc<Notify> {
        let subscription = Arc::new(Notify::new());
        let mut notifier = self.0.lock();
        notifier.retain(|_, notifier| {
            notifier.retain(|it| it.strong_count() > 0);
            !notifier.is_empty()
        });
        notifier.entry(service.into()).or_default().push(Arc::downgrade(&subscription));
        subscription
    }

    /// Wakes the readers of this service.
    pub(crate) fn notify(&self, service: &str) {
        self.0.lock().get(service).into_iter().flatten().for_each(notify);
    }

    /// Wakes the readers of all services.
    pub(crate) fn notify_all(&self) {
        self.0.lock().values().flatten().for_each(notify);
    }
}

fn notify(subscription: &Weak<Notify>) {
    if let Some(subscription) = subscription.upgrade() {
        subscription.notify_one();
    }
}

impl fmt::Debug for ChangeNotifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ChangeNotifier").field("services", &self.0.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_notification_reaches_the_readers_of_its_service() {
        let notifier = ChangeNotifier::default();
        let (web, db) = (notifier.subscribe("web"), notifier.subscribe("db"));
        let notified = |subscription: &Notify| subscription.notified().now_or_never().is_some();
        notifier.notify("web");
        notifier.notify("web");
        notifier.notify("cache");
        assert!(notified(&web) && !notified(&web) && !notified(&db), "two notifications are merged");
        notifier.notify_all();
        assert!(notified(&web) && notified(&db));
    }

    #[test]
    fn a_dropped_subscription_is_removed() {
        let notifier = ChangeNotifier::default();
        drop(notifier.subscribe("web"));
        let _db = notifier.subscribe("db");
        assert_eq!(notifier.0.lock().len(), 1);
    }
}
