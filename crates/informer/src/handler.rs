//! Who is told of changes: a trait, closures, and a handler that lets only some objects through.
//!
//! Nothing here knows how a change gets to a handler; that is the mailbox's.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use dogwatch_core::{Object, ObjectKey};

use crate::change::{Change, Deleted};

/// Reacts to changes of one collection.
///
/// Calls to one handler never overlap, and calls about one object come in the order in which the server made the
/// changes. The store already shows the change, or a later one of the object, when a call is made: an object that was added may be
/// gone again. A call runs on a task of its own
/// for this handler, so a slow one delays no other handler; it does hold a thread of the runtime, so put real work on a
/// queue. A call that panics is reported and counted, and the handler goes on with the next change.
///
/// All methods do nothing unless they are written.
pub trait EventHandler<T>: Send + 'static {
    /// An object is there that was not there before. `initial` is true for those of the first list, and for those that were
    /// there before the handler was.
    fn on_add(&mut self, object: &Arc<T>, initial: bool) {
        let _ = (object, initial);
    }

    /// An object changed. Both are the same when the handler asked to be told again of what did not change.
    fn on_update(&mut self, old: &Arc<T>, new: &Arc<T>) {
        let _ = (old, new);
    }

    /// An object is gone; the variant says whether that was seen, or only inferred from a later list.
    fn on_delete(&mut self, last: Deleted<T>) {
        let _ = last;
    }

    /// Any of the three. It calls the method that fits; write it instead of them to have everything in one place.
    fn on_change(&mut self, change: &Change<T>) {
        match change {
            Change::Added { object, initial } => self.on_add(object, *initial),
            Change::Updated { old, new } => self.on_update(old, new),
            Change::Deleted(last) => self.on_delete(last.clone()),
        }
    }
}

impl<T> EventHandler<T> for Box<dyn EventHandler<T>>
where
    T: 'static,
{
    fn on_change(&mut self, change: &Change<T>) {
        (**self).on_change(change);
    }
}

/// A closure that hears of additions only.
pub(crate) struct OnAdd<F>(pub(crate) F);

/// A closure that hears of updates only.
pub(crate) struct OnUpdate<F>(pub(crate) F);

/// A closure that hears of deletions only.
pub(crate) struct OnDelete<F>(pub(crate) F);

/// A closure that hears of everything.
pub(crate) struct OnChange<F>(pub(crate) F);

impl<T, F: FnMut(&Arc<T>) + Send + 'static> EventHandler<T> for OnAdd<F> {
    fn on_add(&mut self, object: &Arc<T>, _initial: bool) {
        (self.0)(object);
    }
}

impl<T, F: FnMut(&Arc<T>, &Arc<T>) + Send + 'static> EventHandler<T> for OnUpdate<F> {
    fn on_update(&mut self, old: &Arc<T>, new: &Arc<T>) {
        (self.0)(old, new);
    }
}

impl<T, F: FnMut(Deleted<T>) + Send + 'static> EventHandler<T> for OnDelete<F> {
    fn on_delete(&mut self, last: Deleted<T>) {
        (self.0)(last);
    }
}

impl<T, F: FnMut(&Change<T>) + Send + 'static> EventHandler<T> for OnChange<F> {
    fn on_change(&mut self, change: &Change<T>) {
        (self.0)(change);
    }
}

/// A handler that sees only the objects which a filter lets through (rule IN-12).
///
/// To the handler inside, an object that changes into the filter is new, and one that changes out of it is gone, with the
/// state it had before. It remembers the keys of those it has told of, so that every object it told of is told to be gone in the
/// end, whatever the object looks like then.
pub struct Filtered<H, F> {
    handler: H,
    filter: F,
    /// The objects that the handler inside takes to be there.
    told: HashSet<ObjectKey>,
}

impl<H, F> Filtered<H, F> {
    /// Lets through what the filter is true for.
    pub fn new(filter: F, handler: H) -> Self {
        Self { handler, filter, told: HashSet::new() }
    }
}

impl<T, H, F> EventHandler<T> for Filtered<H, F>
where
    T: Object,
    H: EventHandler<T>,
    F: FnMut(&T) -> bool + Send + 'static,
{
    fn on_add(&mut self, object: &Arc<T>, initial: bool) {
        if let (true, Some(key)) = ((self.filter)(object), object.key()) {
            self.told.insert(key);
            self.handler.on_add(object, initial);
        }
    }

    fn on_update(&mut self, old: &Arc<T>, new: &Arc<T>) {
        let Some(key) = new.key() else { return };
        let passes = (self.filter)(new);
        if passes && self.told.contains(&key) {
            self.handler.on_update(old, new);
        } else if passes {
            self.told.insert(key);
            self.handler.on_add(new, false);
        } else if self.told.remove(&key) {
            self.handler.on_delete(Deleted::Seen(Arc::clone(old)));
        }
    }

    fn on_delete(&mut self, last: Deleted<T>) {
        if last.last().key().is_some_and(|key| self.told.remove(&key)) {
            self.handler.on_delete(last);
        }
    }
}

impl<H, F> fmt::Debug for Filtered<H, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filtered").field("told", &self.told.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    /// A map `a` whose label `in` says whether it passes.
    fn map(version: &str, passes: bool) -> Arc<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".to_owned());
        map.metadata.resource_version = Some(version.to_owned());
        map.metadata.labels = passes.then(|| [("in".to_owned(), String::new())].into());
        Arc::new(map)
    }

    fn told(changes: &[Change<ConfigMap>]) -> Vec<Change<ConfigMap>> {
        let told = Arc::new(Mutex::new(Vec::new()));
        let inner = OnChange({
            let told = Arc::clone(&told);
            move |change: &Change<ConfigMap>| told.lock().unwrap().push(change.clone())
        });
        // What is inside is told by its three methods, so that they are tried too.
        struct Split<H>(H);
        impl<H: EventHandler<ConfigMap>> EventHandler<ConfigMap> for Split<H> {
            fn on_add(&mut self, object: &Arc<ConfigMap>, initial: bool) {
                self.0.on_change(&Change::Added { object: object.clone(), initial });
            }
            fn on_update(&mut self, old: &Arc<ConfigMap>, new: &Arc<ConfigMap>) {
                self.0.on_change(&Change::Updated { old: old.clone(), new: new.clone() });
            }
            fn on_delete(&mut self, last: Deleted<ConfigMap>) {
                self.0.on_change(&Change::Deleted(last));
            }
        }
        let mut filtered = Filtered::new(
            |it: &ConfigMap| it.metadata.labels.as_ref().is_some_and(|it| it.contains_key("in")),
            Split(inner),
        );
        changes.iter().for_each(|it| filtered.on_change(it));
        drop(filtered);
        Arc::try_unwrap(told).expect("the handler is gone").into_inner().unwrap()
    }

    #[test]
    fn in_12_an_update_that_crosses_the_filter_is_an_addition_or_a_deletion() {
        let (out, inside, newer, out_again) =
            (map("1", false), map("2", true), map("3", true), map("4", false));
        let update = |old: &Arc<ConfigMap>, new: &Arc<ConfigMap>| Change::Updated {
            old: old.clone(),
            new: new.clone(),
        };
        let seen = told(&[
            Change::Added { object: out.clone(), initial: true },
            update(&out, &inside),
            update(&inside, &newer),
            update(&newer, &out_again),
            Change::Deleted(Deleted::Seen(out_again)),
        ]);
        assert_eq!(
            seen,
            [
                Change::Added { object: inside.clone(), initial: false },
                update(&inside, &newer),
                Change::Deleted(Deleted::Seen(newer)),
            ]
        );
    }

    /// The server may report a deletion with a last state that the handler never saw, and that does not pass.
    #[test]
    fn in_12_what_was_told_is_told_to_be_gone_whatever_its_last_state_is() {
        let (inside, out) = (map("1", true), map("2", false));
        let seen = told(&[
            Change::Added { object: inside.clone(), initial: true },
            Change::Deleted(Deleted::Missed(out.clone())),
        ]);
        assert_eq!(
            seen,
            [Change::Added { object: inside, initial: true }, Change::Deleted(Deleted::Missed(out)),]
        );
    }
}
