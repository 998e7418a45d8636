//! Which changes are worth a reconcile.

use std::fmt;
use std::ops;
use std::sync::Arc;

use dogwatch_core::Object;
use dogwatch_informer::Change;
use kube_core::Resource;

/// Says which changes of a source are worth a reconcile. Clones are cheap.
///
/// Those made by [`Self::updated`] and its named siblings look at updates only: additions and deletions always pass, and so does
/// nothing else that they cannot judge. They are asked about every change of the cache by itself, with the state before it. Changes
/// that the cache itself did not see one by one, as when a list follows an interruption, come as one: from the last state that
/// it knew to the newest, or to the deletion.
///
/// They combine as the truth values they are: [`and`](Self::and), [`or`](Self::or), `!`. Note that `!` of one that looks at updates
/// holds back additions and deletions.
///
/// ```
/// use dogwatch_controller::Predicate;
/// use k8s_openapi::api::apps::v1::Deployment;
///
/// let wanted = Predicate::<Deployment>::generation_changed().or(Predicate::labels_changed());
/// # let _ = wanted;
/// ```
pub struct Predicate<T>(Arc<Test<T>>);

type Test<T> = dyn Fn(&Change<T>) -> bool + Send + Sync;

impl<T: Object> Predicate<T> {
    /// Whatever the function says. It runs in the task that tells the controller of changes, so it should be quick; a change at
    /// which it panics is reported and lost.
    pub fn new(test: impl Fn(&Change<T>) -> bool + Send + Sync + 'static) -> Self {
        Self(Arc::new(test))
    }

    /// All additions and deletions, and the updates for which the function, given the old state and the new one, says so.
    pub fn updated(test: impl Fn(&T, &T) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |change| match change {
            Change::Updated { old, new } => test(old, new),
            _ => true,
        })
    }

    /// All changes of objects for which the function says so; of an update, either state is enough, so that a controller also
    /// hears of objects that no longer match.
    pub fn matching(test: impl Fn(&T) -> bool + Send + Sync + 'static) -> Self {
        Self::new(move |change| match change {
            Change::Updated { old, new } => test(new) || test(old),
            other => test(other.object()),
        })
    }

    /// Updates that come from the server; not those in which nothing changed, as a resync tells them.
    pub fn version_changed() -> Self {
        Self::updated(|old, new| old.header().version != new.header().version)
    }

    /// Updates that change a label.
    pub fn labels_changed() -> Self {
        Self::updated(|old, new| !old.header().labels.iter().eq(new.header().labels.iter()))
    }

    /// Whether a change passes.
    pub fn test(&self, change: &Change<T>) -> bool {
        (self.0)(change)
    }

    /// What passes both; the other is asked only about what passes this one.
    #[must_use]
    pub fn and(self, other: Self) -> Self {
        Self::new(move |change| self.test(change) && other.test(change))
    }

    /// What passes either; the other is asked only about what does not pass this one.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self::new(move |change| self.test(change) || other.test(change))
    }
}

impl<T: Resource + Object> Predicate<T> {
    /// Updates that change `metadata.generation`, which the server counts up when the wish changes and not when its status does.
    ///
    /// Many kinds have no generation, such as services and config maps; of those every update passes, since nothing can be told.
    pub fn generation_changed() -> Self {
        Self::updated(|old, new| {
            let (old, new) = (old.meta().generation.unwrap_or(0), new.meta().generation.unwrap_or(0));
            old != new || new == 0
        })
    }

    /// Updates that change an annotation.
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
    fn each_predicate_looks_at_what_it_is_named_after() {
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
    fn additions_and_deletions_pass_what_looks_at_updates() {
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

    /// In controller-runtime an object without generations never passes again once it is there.
    #[test]
    fn kinds_without_generations_are_not_filtered_by_them() {
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
    fn no_annotations_and_an_empty_set_of_them_are_the_same() {
        let (none, mut empty) = (object(1, "1", "a", None), Deployment::clone(&object(1, "1", "a", None)));
        empty.metadata.annotations = Some([].into());
        assert!(!passes(&Wanted::annotations_changed(), &none, &Arc::new(empty)));
    }
}
