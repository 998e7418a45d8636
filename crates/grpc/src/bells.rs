//! Who is to look again when something of a service changed: one bell per reader, by the name of the service.

use std::fmt;
use std::sync::{Arc, Weak};

use compact_str::CompactString;
use hashbrown::HashMap;
use parking_lot::Mutex;
use tokio::sync::Notify;

/// The bells of one namespace. A bell that rang while nobody listened rings once for whoever listens next.
#[derive(Default)]
pub(crate) struct Bells(Mutex<HashMap<CompactString, Vec<Weak<Notify>>>>);

impl Bells {
    /// A bell that rings for this service, as long as somebody has it.
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

    /// Something of this service changed.
    pub(crate) fn ring(&self, service: &str) {
        self.0.lock().get(service).into_iter().flatten().for_each(ring);
    }

    /// Something changed that concerns all.
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
    fn a_bell_rings_for_its_service_and_for_all() {
        let bells = Bells::default();
        let (web, db) = (bells.hang("web"), bells.hang("db"));
        let rang = |bell: &Notify| bell.notified().now_or_never().is_some();
        bells.ring("web");
        bells.ring("web");
        bells.ring("nobody");
        assert!(rang(&web) && !rang(&web) && !rang(&db), "twice is once");
        bells.ring_all();
        assert!(rang(&web) && rang(&db));
    }

    #[test]
    fn a_bell_that_nobody_has_is_forgotten() {
        let bells = Bells::default();
        drop(bells.hang("web"));
        let _db = bells.hang("db");
        assert_eq!(bells.0.lock().len(), 1);
    }
}
