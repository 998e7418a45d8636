//! Event handlers: the trait, closures, and a handler that filters objects.
//!
//! Delivering changes to a handler is the mailbox's task.

use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

use dogwatch_core::{Object, ObjectKey};

use crate::change::{Change, Deleted};

/// Reacts to changes of one collection.
///
/// Calls to one handler never overlap, and calls about one object come in the order in which the
/// server made the changes. When a call is made, the store already shows the change or a later one
/// of the object: an object that was added may already be deleted again. Each handler is called
/// from a task of its own, so a slow handler does not delay the others. A call occupies a thread of
/// the runtime, so put expensive work on a queue. A call that panics is logged and counted, and the
/// handler continues with the next change.
///
/// All methods do nothing by default.
///
/// ```
/// use std::sync::Arc;
///
/// use dogwatch_client::Api;
/// use dogwatch_informer::{EventHandler, SharedInformer};
/// use k8s_openapi::api::core::v1::ConfigMap;
/// # use tokio::sync::mpsc::{self, UnboundedSender};
///
/// struct Names(UnboundedSender<Option<String>>);
///
/// impl EventHandler<ConfigMap> for Names {
///     fn on_add(&mut self, map: &Arc<ConfigMap>, _initial: bool) {
///         let _ = self.0.send(map.metadata.name.clone());
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// # let (sender, mut names) = mpsc::unbounded_channel();
/// # let api = Api::<ConfigMap>::all(client);
/// # let settings = "metadata.name=settings".parse()?;
/// # let maps = SharedInformer::builder(api).fields(settings).build();
/// let handler = maps.add_handler(Names(sender))?;
/// maps.start();
/// handler.synced().await?;
/// assert_eq!(names.recv().await.flatten().as_deref(), Some("settings"));
/// # Ok(())
/// # }
/// ```
pub trait EventHandler<T>: Send + 'static {
    /// Called when an object appears. `initial` is true for objects of the initial list, and for
    /// those that existed before the handler was added.
    fn on_add(&mut self, object: &Arc<T>, initial: bool) {
        let _ = (object, initial);
    }

    /// Called when an object changed. On a resync, `old` and `new` are the same.
    fn on_update(&mut self, old: &Arc<T>, new: &Arc<T>) {
        let _ = (old, new);
    }

    /// Called when an object was deleted. The variant says whether the deletion was observed or
    /// only inferred from a later list.
    fn on_delete(&mut self, last: Deleted<T>) {
        let _ = last;
    }

    /// Called for every change. By default it calls the method for the kind of the change;
    /// implement it instead of them to handle all changes in one place.
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

/// A closure that receives additions only.
pub(crate) struct OnAdd<F>(pub(crate) F);

/// A closure that receives updates only.
pub(crate) struct OnUpdate<F>(pub(crate) F);

/// A closure that receives deletions only.
pub(crate) struct OnDelete<F>(pub(crate) F);

/// A closure that receives all changes.
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

/// A handler that receives only the objects that pass a filter (rule IN-12).
///
/// If an update makes an object pass the filter, the inner handler receives an addition; if an
/// update makes it fail the filter, the inner handler receives a deletion with the previous state.
/// The keys of the delivered objects are remembered, so that the inner handler receives a deletion
/// for each of them in the end, whatever their last state is.
///
/// ```
/// use std::sync::Arc;
///
/// use dogwatch_client::Api;
/// use dogwatch_informer::{EventHandler, Filtered, SharedInformer};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// struct Print;
/// impl EventHandler<ConfigMap> for Print {
///     fn on_add(&mut self, map: &Arc<ConfigMap>, _initial: bool) {
///         assert!(map.metadata.labels.is_some(), "others do not pass the filter");
///     }
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml =
/// #     "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, labels: {app: web}}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = SharedInformer::new(Api::<ConfigMap>::all(client));
/// let handler = Filtered::new(|map: &ConfigMap| map.metadata.labels.is_some(), Print);
/// let registration = maps.add_handler(handler)?;
/// maps.start();
/// registration.synced().await?;
/// # Ok(())
/// # }
/// ```
pub struct Filtered<H, F> {
    handler: H,
    filter: F,
    /// The objects that exist from the inner handler's point of view.
    delivered: HashSet<ObjectKey>,
}

impl<H, F> Filtered<H, F> {
    /// Creates a handler that passes on the objects for which the filter returns true.
    pub fn new(filter: F, handler: H) -> Self {
        Self { handler, filter, delivered: HashSet::new() }
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
            self.delivered.insert(key);
            self.handler.on_add(object, initial);
        }
    }

    fn on_update(&mut self, old: &Arc<T>, new: &Arc<T>) {
        let Some(key) = new.key() else { return };
        let passes = (self.filter)(new);
        if passes && self.delivered.contains(&key) {
            self.handler.on_update(old, new);
        } else if passes {
            self.delivered.insert(key);
            self.handler.on_add(new, false);
        } else if self.delivered.remove(&key) {
            self.handler.on_delete(Deleted::Seen(Arc::clone(old)));
        }
    }

    fn on_delete(&mut self, last: Deleted<T>) {
        if last.last().key().is_some_and(|key| self.delivered.remove(&key)) {
            self.handler.on_delete(last);
        }
    }
}

impl<H, F> fmt::Debug for Filtered<H, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Filtered").field("delivered", &self.delivered.len()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use k8s_openapi::api::core::v1::ConfigMap;

    use super::*;

    /// Returns a config map `a` that passes the filter if it has the label `in`.
    fn map(version: &str, passes: bool) -> Arc<ConfigMap> {
        let mut map = ConfigMap::default();
        map.metadata.name = Some("a".to_owned());
        map.metadata.resource_version = Some(version.to_owned());
        map.metadata.labels = passes.then(|| [("in".to_owned(), String::new())].into());
        Arc::new(map)
    }

    fn delivered(changes: &[Change<ConfigMap>]) -> Vec<Change<ConfigMap>> {
        let delivered = Arc::new(Mutex::new(Vec::new()));
        let inner = OnChange({
            let delivered = Arc::clone(&delivered);
            move |change: &Change<ConfigMap>| delivered.lock().unwrap().push(change.clone())
        });
        // The inner handler is called through its three methods, so that they are covered too.
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
        Arc::try_unwrap(delivered).expect("the handler is gone").into_inner().unwrap()
    }

    #[test]
    fn in_12_an_update_that_crosses_the_filter_is_an_addition_or_a_deletion() {
        let (out, inside, newer, out_again) =
            (map("1", false), map("2", true), map("3", true), map("4", false));
        let update = |old: &Arc<ConfigMap>, new: &Arc<ConfigMap>| Change::Updated {
            old: old.clone(),
            new: new.clone(),
        };
        let seen = delivered(&[
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

    /// The server may report a deletion with a last state that the handler never saw, and that does
    /// not pass.
    #[test]
    fn in_12_a_delivered_object_is_reported_deleted_whatever_its_last_state_is() {
        let (inside, out) = (map("1", true), map("2", false));
        let seen = delivered(&[
            Change::Added { object: inside.clone(), initial: true },
            Change::Deleted(Deleted::Missed(out.clone())),
        ]);
        assert_eq!(
            seen,
            [Change::Added { object: inside, initial: true }, Change::Deleted(Deleted::Missed(out)),]
        );
    }
}
