//! The part of a cache that a write belongs to.

use std::cmp::Ordering;

use dogwatch_core::ObjectKey;

#[cfg(test)]
thread_local! {
    /// The number of comparisons of cache scopes on this thread.
    pub(super) static COMPARISONS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
}

/// A source and the namespace that was written to: a source with several namespaces follows each on
/// its own. A write of which only the version is known waits for the whole source.
#[derive(Clone, Debug)]
pub(super) struct CacheScope {
    pub(super) source: usize,
    pub(super) namespace: Option<String>,
    pub(super) whole: bool,
}

impl CacheScope {
    /// Creates the scope of an object, or of a write of which only the version is known.
    pub(super) fn new(source: usize, object: Option<&ObjectKey>) -> Self {
        let namespace = object.and_then(ObjectKey::namespace).map(str::to_owned);
        Self { source, namespace, whole: object.is_none() }
    }
}

impl Ord for CacheScope {
    fn cmp(&self, other: &Self) -> Ordering {
        #[cfg(test)]
        COMPARISONS.set(COMPARISONS.get() + 1);
        let parts = |it: &Self| (it.source, it.whole);
        parts(self).cmp(&parts(other)).then_with(|| self.namespace.cmp(&other.namespace))
    }
}

impl PartialOrd for CacheScope {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for CacheScope {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for CacheScope {}
