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
pub(crate) struct Bells(Mutex<HashMap<CompactString, Vec<Weak<Notify>>>>);

impl Bells {
    /// Subscribes to changes of this service. The subscription lasts as long as the returned
    /// handle.
    pub(crate) fn hang(&self, service: &str) -> Arc<Notify> {
        let bell = Arc::new(Notify::new());
        let mut bells = self.0.lock();
        bells.retain(|_, bells| {
            bells.retain(|it| it.strong_count() > 0);
            !bells.is_empty()
        });
        bells.entry(service.into()).or_default().push(Arc::downgrade(&bell));
        bell
    }

    /// Wakes the readers of this service.
    pub(crate) fn ring(&self, service: &str) {
        self.0.lock().get(service).into_iter().flatten().for_each(ring);
    }

    /// Wakes the readers of all services.
    pub(crate) fn ring_all(&self) {
        self.0.lock().values().flatten().for_each(ring);
    }
}

fn ring(bell: &Weak<Notify>) {
    if let Some(bell) = bell.upgrade() {
        bell.notify_one();
    }
}

impl fmt::Debug for Bells {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Bells").field("services", &self.0.lock().len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;

    #[test]
    fn a_notification_reaches_the_readers_of_its_service() {
        let bells = Bells::default();
        let (web, db) = (bells.hang("web"), bells.hang("db"));
        let rang = |bell: &Notify| bell.notified().now_or_never().is_some();
        bells.ring("web");
        bells.ring("web");
        bells.ring("nobody");
        assert!(rang(&web) && !rang(&web) && !rang(&db), "two notifications are merged");
        bells.ring_all();
        assert!(rang(&web) && rang(&db));
    }

    #[test]
    fn a_dropped_subscription_is_removed() {
        let bells = Bells::default();
        drop(bells.hang("web"));
        let _db = bells.hang("db");
        assert_eq!(bells.0.lock().len(), 1);
    }
}
