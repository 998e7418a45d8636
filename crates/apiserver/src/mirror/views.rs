//! The views that requests and watches use now, and what they show of recent versions.
//!
//! The result of a view is computed once for each version of an object, whatever the number of
//! watches that show it. Results are kept within a limit, oldest first: a watch needs those of
//! recent changes.

use parking_lot::Mutex;
use std::collections::{HashMap, VecDeque};
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

use dogwatch_core::ObjectKey;

use super::object::MirrorObject;
use super::view::{self, View};
use crate::change_notifier::{ChangeListener, ChangeNotifier};
use crate::registry::CopiedKind;
use crate::store::{Change, Encoded};

/// The number of results that are kept besides the limit of their size, and the maximum number:
/// hidden objects have no size.
const MAX_RESULTS: usize = 16 * 1024;

/// One version of an object.
type VersionOf = (ObjectKey, u64);

/// A result that is computed by the first caller while others wait.
type Shared<T> = Arc<OnceLock<Option<Arc<T>>>>;

/// The views in use, by their identity.
#[derive(Debug, Default)]
pub(super) struct Views {
    used: Mutex<HashMap<u64, Weak<UsedView>>>,
}

/// A view that a request or a watch uses.
pub(super) struct UsedView {
    change: view::Change,
    results: Mutex<Results>,
    is_ended: AtomicBool,
    ended: Arc<ChangeNotifier>,
}

/// The results of a view.
#[derive(Debug)]
struct Results {
    objects: HashMap<VersionOf, Shared<Encoded>>,
    changes: HashMap<VersionOf, Shared<Change>>,
    /// The keys of both maps, in order of arrival.
    order: VecDeque<(VersionOf, IsChange)>,
    /// The size of the objects.
    bytes: usize,
    limit: usize,
}

/// True for the key of a change.
type IsChange = bool;

impl Views {
    /// Returns the view of a request, with the results that others of its identity have. `limit` is
    /// the maximum size of the results.
    pub(super) fn of(&self, view: View, limit: usize) -> Option<Arc<UsedView>> {
        let (identity, change) = view.into_rewriting()?;
        let mut used = self.used.lock();
        if let Some(known) = used.get(&identity).and_then(Weak::upgrade) {
            return Some(known);
        }
        used.retain(|_, it| it.strong_count() > 0);
        let view = Arc::new(UsedView {
            change,
            results: Mutex::new(Results::new(limit)),
            is_ended: AtomicBool::new(false),
            ended: Arc::default(),
        });
        used.insert(identity, Arc::downgrade(&view));
        Some(view)
    }

    /// Ends the watches of a view. Later requests do not share its results.
    pub(super) fn end(&self, identity: u64) {
        let ended = self.used.lock().remove(&identity);
        if let Some(view) = ended.and_then(|it| it.upgrade()) {
            view.end();
        }
    }

    /// Ends the watches of all views.
    pub(super) fn end_all(&self) {
        let ended = std::mem::take(&mut *self.used.lock());
        ended.into_values().filter_map(|it| it.upgrade()).for_each(|it| it.end());
    }
}

impl UsedView {
    fn end(&self) {
        self.is_ended.store(true, Ordering::Release);
        self.ended.notify();
    }

    /// Returns a listener that is notified when the view ends.
    pub(super) fn listener(&self) -> ChangeListener {
        self.ended.subscribe()
    }

    /// Returns true if the view has ended.
    pub(super) fn is_ended(&self) -> bool {
        self.is_ended.load(Ordering::Acquire)
    }

    /// Returns an object as the view shows it.
    pub(super) fn object(&self, kind: &CopiedKind, object: &Arc<Encoded>) -> Option<Arc<Encoded>> {
        let key = (object.key().clone(), object.version());
        let shared = self.results.lock().object(&key);
        let mut size = None;
        let shown = shared.get_or_init(|| {
            let shown = self.compute(kind, object);
            size = Some(shown.as_ref().map_or(0, |it| it.length()));
            shown
        });
        if let Some(size) = size {
            self.results.lock().grow(&key, size);
        }
        shown.clone()
    }

    /// Returns an object as the view shows it. The result is not kept, unless others have it
    /// already: a list shows more objects than there are results.
    pub(super) fn listed(&self, kind: &CopiedKind, object: &Arc<Encoded>) -> Option<Arc<Encoded>> {
        let key = (object.key().clone(), object.version());
        let known = self.results.lock().objects.get(&key).map(Arc::clone);
        match known.as_ref().and_then(|it| it.get()) {
            Some(known) => known.clone(),
            None => self.compute(kind, object),
        }
    }

    /// Returns a change as the view shows it; `None` if the object is hidden before and after it.
    pub(super) fn change(&self, kind: &CopiedKind, change: &Arc<Change>) -> Option<Arc<Change>> {
        let object = change.after.as_ref().or(change.before.as_ref())?;
        let shared = self.results.lock().change(&(object.key().clone(), change.version));
        shared.get_or_init(|| self.shown_change(kind, change)).clone()
    }

    fn shown_change(&self, kind: &CopiedKind, change: &Arc<Change>) -> Option<Arc<Change>> {
        let show = |it: &Option<Arc<Encoded>>| it.as_ref().and_then(|it| self.object(kind, it));
        let (before, after) = (show(&change.before), show(&change.after));
        let last = match (&before, &after) {
            (None, None) => return None,
            (Some(before), None) => {
                // The last state of a deleted object may itself be hidden, unlike the one before.
                let last = change.last();
                let version = last.as_ref().map_or(change.version, |it| it.version());
                let deleted = last.filter(|_| change.after.is_none());
                let shown = deleted.and_then(|it| self.compute(kind, &it));
                Some(shown.unwrap_or_else(|| Arc::new(before.with_version(version))))
            }
            _ => None,
        };
        let shown = Change::new(change.version, before, after);
        Some(Arc::new(match last {
            Some(last) => shown.with_last(last),
            None => shown,
        }))
    }

    /// Applies the view to an object.
    fn compute(&self, kind: &CopiedKind, object: &Arc<Encoded>) -> Option<Arc<Encoded>> {
        let stored = MirrorObject::stored(object);
        let changed = (self.change)(&stored)?;
        if changed == stored {
            return Some(Arc::clone(object));
        }
        let shown = kind.store(object.event_type(), changed.received());
        let problem = match shown {
            Ok(shown) if shown.key() == object.key() && shown.version() == object.version() => {
                return Some(Arc::new(shown));
            }
            Ok(_) => "the view has changed its name, its namespace or its resourceVersion".to_owned(),
            Err(error) => error.to_string(),
        };
        // An object that was not rewritten must not be shown.
        tracing::error!(key = %object.key(), problem, "a view hides an object that it cannot rewrite");
        None
    }
}

impl fmt::Debug for UsedView {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UsedView").field("results", &self.results.lock().order.len()).finish_non_exhaustive()
    }
}

impl Results {
    fn new(limit: usize) -> Self {
        let (objects, changes, order) = (HashMap::new(), HashMap::new(), VecDeque::new());
        Self { objects, changes, order, bytes: 0, limit }
    }

    fn object(&mut self, key: &VersionOf) -> Shared<Encoded> {
        if let Some(known) = self.objects.get(key) {
            return Arc::clone(known);
        }
        self.make_room(key, false);
        Arc::clone(self.objects.entry(key.clone()).or_default())
    }

    fn change(&mut self, key: &VersionOf) -> Shared<Change> {
        if let Some(known) = self.changes.get(key) {
            return Arc::clone(known);
        }
        self.make_room(key, true);
        Arc::clone(self.changes.entry(key.clone()).or_default())
    }

    fn make_room(&mut self, key: &VersionOf, is_change: IsChange) {
        while self.order.len() >= MAX_RESULTS {
            self.drop_oldest();
        }
        self.order.push_back((key.clone(), is_change));
    }

    /// Counts the size of a new result, and drops the oldest ones beyond the limit.
    fn grow(&mut self, key: &VersionOf, size: usize) {
        if !self.objects.contains_key(key) {
            // It was dropped while it was computed.
            return;
        }
        self.bytes = self.bytes.saturating_add(size);
        // The newest result may have any size: its watches need it now.
        while self.bytes > self.limit && self.order.len() > 1 {
            self.drop_oldest();
        }
    }

    fn drop_oldest(&mut self) {
        match self.order.pop_front() {
            Some((key, true)) => {
                self.changes.remove(&key);
            }
            Some((key, false)) => {
                let dropped = self.objects.remove(&key);
                let shown = dropped.as_ref().and_then(|it| it.get()).and_then(Option::as_ref);
                self.bytes = self.bytes.saturating_sub(shown.map_or(0, |it| it.length()));
            }
            None => {}
        }
    }
}
