//! A record of what one client of the demo's pods received from the server: the measurements behind
//! the lines of the story and its closing table.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use dogwatch::Object;
use dogwatch::api::WatchEvent;
use dogwatch::k8s_openapi::api::core::v1::Pod;
use parking_lot::{Mutex, MutexGuard};

/// The maximum number of recorded events. The story has a few hundred; more come only from a user
/// who changes pods meanwhile.
const MAX_EVENTS: usize = 20_000;

/// The status code of a version that is too old.
const GONE: u16 = 410;

/// A record of what one client received; a clone shows the same record.
#[derive(Clone, Debug, Default)]
pub(super) struct Tap(Arc<Mutex<Record>>);

/// One change of one pod.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct PodEvent {
    pub(super) version: u64,
    pub(super) uid: String,
    pub(super) is_deletion: bool,
}

#[derive(Debug, Default)]
struct Record {
    /// Set once the story is over, so that the record does not grow for as long as the demo runs.
    closed: bool,
    /// The events and the listed states.
    events: BTreeSet<PodEvent>,
    /// The pods that exist according to these events: the version of each, by name.
    pods: BTreeMap<String, u64>,
    is_connected: bool,
    /// The number of watches that were opened.
    opened: u64,
    /// The version after which the last watch was opened; empty for none.
    resumed_at: String,
    /// The version for which the server answered 410.
    expired_at: Option<String>,
}

impl Tap {
    /// Records a watch that was opened after this version.
    pub(super) fn opened(&self, version: &str) {
        let mut record = self.0.lock();
        record.is_connected = true;
        record.opened += 1;
        version.clone_into(&mut record.resumed_at);
    }

    /// Records that the client lost its watch, or could not open one.
    pub(super) fn disconnected(&self) {
        self.0.lock().is_connected = false;
    }

    /// Records a pod of a list.
    pub(super) fn listed(&self, pod: &Pod) {
        self.0.lock().add(pod, false);
    }

    /// Records an event of a watch.
    pub(super) fn received(&self, event: &WatchEvent<Pod>) {
        let mut record = self.0.lock();
        match event {
            WatchEvent::Added(pod) | WatchEvent::Modified(pod) => record.add(pod, false),
            WatchEvent::Deleted(pod) => record.add(pod, true),
            WatchEvent::Error(status) if status.code == GONE => {
                record.expired_at = Some(record.resumed_at.clone());
            }
            _ => {}
        }
    }

    /// Ends the record.
    pub(super) fn close(&self) {
        self.0.lock().closed = true;
    }

    /// Returns true if the record is complete: it was never full.
    pub(super) fn is_complete(&self) -> bool {
        self.lock().events.len() < MAX_EVENTS
    }

    /// Returns true while a watch is open.
    pub(super) fn is_connected(&self) -> bool {
        self.lock().is_connected
    }

    /// Returns the number of watches that were opened.
    pub(super) fn watches(&self) -> u64 {
        self.lock().opened
    }

    /// Returns the version after which the last watch was opened.
    pub(super) fn resumed_at(&self) -> String {
        self.lock().resumed_at.clone()
    }

    /// Returns the version for which the server answered 410, if it did.
    pub(super) fn expired_at(&self) -> Option<String> {
        self.lock().expired_at.clone()
    }

    /// Returns all events.
    pub(super) fn events(&self) -> BTreeSet<PodEvent> {
        self.lock().events.clone()
    }

    /// Returns the events after a version.
    pub(super) fn events_after(&self, version: u64) -> BTreeSet<PodEvent> {
        self.lock().events.iter().filter(|it| it.version > version).cloned().collect()
    }

    /// Returns the pods that exist as far as the client knows, with their versions.
    pub(super) fn pods(&self) -> BTreeMap<String, u64> {
        self.lock().pods.clone()
    }

    fn lock(&self) -> MutexGuard<'_, Record> {
        self.0.lock()
    }
}

impl Record {
    fn add(&mut self, pod: &Pod, is_deletion: bool) {
        if self.closed || self.events.len() >= MAX_EVENTS {
            return;
        }
        let (header, version) = (pod.header(), version_of(pod));
        if is_deletion {
            self.pods.remove(header.name);
        } else {
            self.pods.insert(header.name.to_owned(), version);
        }
        let uid = header.uid.to_owned();
        self.events.insert(PodEvent { version, uid, is_deletion });
    }
}

/// Returns the version of an object as a number, which it is on the demo's server.
pub(super) fn version_of(object: &impl Object) -> u64 {
    object.header().version.parse().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use dogwatch::api::{Reason, Status};

    use super::*;

    fn pod(name: &str, version: u64) -> Pod {
        let mut pod = Pod::default();
        pod.metadata.name = Some(name.to_owned());
        pod.metadata.uid = Some(format!("uid-{name}"));
        pod.metadata.resource_version = Some(version.to_string());
        pod
    }

    #[test]
    fn a_tap_knows_the_events_and_the_pods_that_follow_from_them() {
        let tap = Tap::default();
        tap.listed(&pod("a", 3));
        tap.opened("5");
        tap.received(&WatchEvent::Added(pod("b", 6)));
        tap.received(&WatchEvent::Modified(pod("a", 7)));
        tap.received(&WatchEvent::Deleted(pod("b", 8)));
        assert_eq!(tap.pods(), [("a".to_owned(), 7)].into());
        let versions: Vec<u64> = tap.events_after(6).iter().map(|it| it.version).collect();
        assert_eq!((tap.events().len(), versions), (4, vec![7, 8]));
        assert_eq!(tap.expired_at(), None);
        let mut gone = Status::failure(Reason::Expired, "too old");
        gone.code = 410;
        tap.received(&WatchEvent::Error(gone));
        assert_eq!(tap.expired_at().as_deref(), Some("5"));
        tap.close();
        tap.received(&WatchEvent::Added(pod("c", 9)));
        assert_eq!(tap.events().len(), 4, "a closed record does not grow");
    }
}
