//! Predicates: filters over the changes that trigger a reconcile.

use std::fmt;
use std::ops;
use std::sync::Arc;

use dogwatch_core::Object;
use dogwatch_informer::Change;
use kube_core::Resource;

/// A filter over the changes of a source. Clones are cheap.
///
/// Predicates from [`Self::updated`] and the named constructors built on it look at updates only:
/// additions and deletions always pass. A predicate sees each change of the cache with the state
/// before it. Changes that the cache did not see one by one, for example when a list follows an
/// interrupted watch, arrive as one: from the last cached state to the newest, or to the deletion.
///
/// Predicates combine with [`and`](Self::and), [`or`](Self::or) and `!`. Note that the negation
/// of a predicate over updates rejects all additions and deletions.
///
/// ```
/// use std::sync::Arc;
///
/// use dogwatch_controller::Predicate;
/// use dogwatch_informer::Change;
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// let wanted = Predicate::<Deployment>::generation_changed().or(Predicate::labels_changed());
/// let old = Arc::new(Deployment::default());
/// let mut new = Deployment::default();
/// new.metadata.generation = Some(2);
/// assert!(wanted.test(&Change::Updated { old, new: Arc::new(new) }));
/// ```
pub struct Predicate<T>(Arc<Test<T>>);

type Test<T> = dyn Fn(&Change<T>) -> bool + Send + Sync;

impl<T: Object> Predicate<T> {
    /// Creates a predicate from a function. It runs in the task that delivers changes to the
    /// controller, so it should return quickly. If it panics, the panic is reported and the change
    /// is lost.
    pub fn new(test: impl Fn(&Change<T>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(test))
    }

    /// Passes all additions and deletions, and the updates for which the function, called with the
    /// old and the new state, returns true.
    pub fn updated(test: impl Fn(&T, &T) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |change| match change {
            Change::Updated { old, new } => test(old, new),
            _ => true,
        })
    }

    /// Passes the changes of objects for which the function returns true. For an update, either
    /// state is enough, so that the controller also sees objects that stop matching.
    pub fn matching(test: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |change| match change {
            Change::Updated { old, new } => test(new) || test(old),
            other => test(other.object()),
        })
    }

    /// Passes updates with a new resource version; drops those of a resync, in which nothing
    /// changed.
    pub fn version_changed() -> Self {
        Self::updated(|old, new| old.header().version != new.header().version)
    }

    /// Passes updates that change a label.
    pub fn labels_changed() -> Self {
        Self::updated(|old, new| !old.header().labels.iter().eq(new.header().labels.iter()))
    }

    /// Returns true if the change passes.
    pub fn test(&self, change: &Change<T>) -> bool {
        (self.0)(change)
    }

    /// Passes what both predicates pass; `other` is called only for changes that pass this one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |change| self.test(change) && other.test(change))
    }

    /// Passes what either predicate passes; `other` is called only for changes that do not pass
    /// this one.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |change| self.test(change) || other.test(change))
    }
}

impl<T: Resource + Object> Predicate<T> {
    /// Passes updates that change `metadata.generation`, which the server increments when the spec
    /// changes and leaves alone when only the status does.
    ///
    /// Many kinds have no generation, such as services and config maps; every update of those
    /// passes.
    pub fn generation_changed() -> Self {
        Self::updated(|old, new| {
            let (old, new) = (old.meta().generation.unwrap_or(0), new.meta().generation.unwrap_or(0));
            old != new || new == 0
        })
    }

    /// Passes updates that change an annotation.
    pub fn annotations_changed() -> Self {
        Self::updated(|old, new| {
            let annotations = |it: &T| it.meta().annotations.clone().unwrap_or_default();
            let (old_ones, new_ones) = (&old.meta().annotations, &new.meta().annotations);
            old_ones != new_ones && annotations(old) != annotations(new)
        })
    }
}

impl<T: Object> ops::Not for Predicate<T> {
    type Output = Self;

    fn not(self) -> Self {
        Self::new(move |change| !self.test(change))
    }
}

impl<T> Clone for Predicate<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<T> fmt::Debug for Predicate<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Predicate")
    }
}

#[cfg(test)]
mod tests {
    use dogwatch_informer::Deleted;
    use k8s_openapi::api::apps::v1::Deployment;

    use super::*;

    type Wanted = Predicate<Deployment>;

    fn object(generation: i64, version: &str, label: &str, annotation: Option<&str>) -> Arc<Deployment> {
        let mut it = Deployment::default();
        it.metadata.generation = (generation > 0).then_some(generation);
        it.metadata.resource_version = Some(version.to_owned());
        it.metadata.labels = Some([("label".to_owned(), label.to_owned())].into());
        it.metadata.annotations = annotation.map(|it| [("note".to_owned(), it.to_owned())].into());
        Arc::new(it)
    }

    fn passes(wanted: &Wanted, old: &Arc<Deployment>, new: &Arc<Deployment>) -> bool {
        wanted.test(&Change::Updated { old: Arc::clone(old), new: Arc::clone(new) })
    }

    #[test]
    fn each_predicate_compares_the_field_in_its_name() {
        let old = object(1, "1", "a", Some("x"));
        let news = [
            object(1, "1", "a", Some("x")),
            object(1, "2", "a", Some("x")),
            object(2, "2", "a", Some("x")),
            object(1, "2", "b", Some("x")),
            object(1, "2", "a", None),
        ];
        for (wanted, expected) in [
            (Wanted::version_changed(), [false, true, true, true, true]),
            (Wanted::generation_changed(), [false, false, true, false, false]),
            (Wanted::labels_changed(), [false, false, false, true, false]),
            (Wanted::annotations_changed(), [false, false, false, false, true]),
            (Wanted::generation_changed().or(Wanted::labels_changed()), [false, false, true, true, false]),
            (Wanted::version_changed().and(!Wanted::labels_changed()), [false, true, true, false, true]),
        ] {
            assert_eq!(news.each_ref().map(|new| passes(&wanted, &old, new)), expected);
        }
    }

    #[test]
    fn additions_and_deletions_pass_predicates_over_updates() {
        let object = object(1, "1", "a", None);
        let added = Change::Added { object: Arc::clone(&object), initial: false };
        let deleted = Change::Deleted(Deleted::Seen(object));
        for wanted in [
            Wanted::version_changed(),
            Wanted::generation_changed(),
            Wanted::labels_changed(),
            Wanted::annotations_changed(),
        ] {
            assert!(wanted.test(&added) && wanted.test(&deleted));
            let held_back = !wanted;
            assert!(!held_back.test(&added) && !held_back.test(&deleted));
        }
    }

    /// In controller-runtime, an object without a generation never passes again after its addition.
    #[test]
    fn kinds_without_a_generation_are_not_filtered_by_it() {
        let (old, new) = (object(0, "1", "a", None), object(0, "2", "a", None));
        assert!(passes(&Wanted::generation_changed(), &old, &new));
    }

    #[test]
    fn an_object_that_stops_matching_still_passes_once() {
        let labelled = |it: &Deployment| it.metadata.labels.iter().flatten().any(|(_, value)| value == "a");
        let wanted = Wanted::matching(labelled);
        let (inside, out) = (object(1, "1", "a", None), object(1, "2", "b", None));
        assert!(passes(&wanted, &inside, &out) && passes(&wanted, &out, &inside));
        assert!(!passes(&wanted, &out, &out));
        assert!(!wanted.test(&Change::Added { object: out, initial: true }));
    }

    #[test]
    fn missing_and_empty_annotations_are_equal() {
        let (none, mut empty) = (object(1, "1", "a", None), Deployment::clone(&object(1, "1", "a", None)));
        empty.metadata.annotations = Some([].into());
        assert!(!passes(&Wanted::annotations_changed(), &none, &Arc::new(empty)));
    }
}
