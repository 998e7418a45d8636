//! A write that a cache has yet to show, and what follows if it shows it without the object.

use std::sync::Arc;

use crate::causes::{Cause, Causes, ObjectCause, ObjectEvent};
use crate::reconciler::{Key, Written};
use crate::source::Source;

/// A write that a cache has yet to show.
#[derive(Debug)]
pub(super) struct PendingWrite<K> {
    pub(super) key: K,
    pub(super) object: Option<Arc<Written>>,
    /// True if the object must then be in the cache, unless it was deleted.
    pub(super) is_expected: bool,
    /// True if the object mapped to the key when it was written, and so must still do so.
    pub(super) concerned: bool,
}

impl<K: Key> PendingWrite<K> {
    /// Returns true if the key must be reconciled again, given that the cache has reached the
    /// version.
    pub(super) fn is_missing(&self, source: &dyn Source<K>) -> bool {
        let object = self.object.as_ref().filter(|_| self.is_expected);
        object.is_some_and(|it| !source.holds(it, self.concerned.then_some(&self.key)))
    }

    /// Returns the cause of a reconcile because the object is missing.
    pub(super) fn missing_cause(&self, source: &dyn Source<K>) -> Causes {
        let cause = self.object.as_ref().map(|it| {
            let (kind, informer) = (source.kind().clone(), source.cache().name());
            Cause::Object(ObjectCause::new(kind, it.key.clone(), informer, ObjectEvent::Missing))
        });
        cause.map(Causes::from).unwrap_or_default()
    }
}
