//! The causes of a reconcile: why a key was queued.
//!
//! A cause is made where a key is added to the queue: by sources, streams, workers, the guard and
//! sharding. It travels with the key as the note of the queue, where the causes of one reconcile
//! are merged, and ends in the [`Context`](crate::Context) of the reconcile, its tracing span and
//! its metrics.

use std::fmt::{self, Write as _};
use std::mem::swap;
use std::sync::Arc;
use std::time::Duration;

use dogwatch_core::{Gvk, ObjectKey};
use dogwatch_workqueue::{Note, WorkQueue};

/// The queue of a controller: its keys, with the causes of their next reconciles.
pub(crate) type KeyQueue<K> = WorkQueue<K, Causes>;

/// The number of bytes of an error or a panic message that a cause keeps at most.
const TEXT_LIMIT: usize = 256;

/// The labels of all causes, for metrics.
pub(crate) const CAUSE_LABELS: [&str; 13] = [
    "added",
    "changed",
    "deferred",
    "deleted",
    "initial_list",
    "missing",
    "ownership",
    "panic",
    "requeue_after",
    "resync",
    "retry",
    "stream",
    "timeout",
];

/// The causes of one reconcile: the first, the last, and their number.
///
/// A key that is queued several times before a worker takes it is reconciled once. The causes are
/// those of all these times, in that order. Causes between the first and the last are only counted,
/// so that a key with a million causes takes no more memory than one with two. A change that maps
/// to the key twice, as an object that keeps its owner, counts once.
///
/// The causes of a reconcile that fails are answered by it: its retry has a cause of its own, and
/// those that came in the meantime. If a reconcile is deferred or moved before the reconciler is
/// called, its causes are kept for the next one.
///
/// ```
/// use dogwatch_controller::{Cause, Causes, ObjectCause, ObjectEvent};
/// use dogwatch_core::{Gvk, ObjectKey};
///
/// let pod = Gvk::new("", "v1", "Pod");
/// let web = ObjectCause::new(pod, ObjectKey::namespaced("default", "web-1"), "pods", ObjectEvent::Deleted);
/// let causes = Causes::from_iter([Cause::Object(web), Cause::Stream, Cause::Retry("connection refused".into())]);
/// assert_eq!(causes.count(), 3);
/// assert!(matches!(causes.first(), Some(Cause::Object(it)) if it.event() == ObjectEvent::Deleted));
/// assert_eq!(
///     causes.to_string(),
///     "pod default/web-1 deleted, and 2 more; last: retry after: connection refused"
/// );
/// ```
#[derive(Clone, Default)]
pub struct Causes {
    first: Option<Arc<Cause>>,
    /// `None` while there is only one.
    last: Option<Arc<Cause>>,
    count: u64,
    /// True if they belong to a turn of the key that was put back: the first of them is older than
    /// the causes that they are merged into, and only the last is younger.
    is_put_back: bool,
}

/// One cause of a reconcile.
///
/// ```
/// use dogwatch_controller::{Cause, Context};
///
/// /// Returns true if the key is reconciled only because a list or a resync contains its object.
/// fn is_routine(context: &Context) -> bool {
///     use dogwatch_controller::ObjectEvent::{InitialList, Resync};
///     let causes = context.causes();
///     causes.count() == 1
///         && matches!(causes.first(), Some(Cause::Object(it)) if matches!(it.event(), InitialList | Resync))
/// }
/// assert!(!is_routine(&Context::detached()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Cause {
    /// An event of an object that maps to the key.
    Object(ObjectCause),
    /// The last reconcile failed with this error. The text contains its sources, and is truncated
    /// to 256 bytes.
    Retry(String),
    /// The last reconcile took longer than this limit.
    Timeout(Duration),
    /// The last reconcile panicked with this message, truncated to 256 bytes.
    Panic(String),
    /// The last reconcile returned [`Action::RequeueAfter`](crate::Action::RequeueAfter) with this
    /// time.
    RequeueAfter(Duration),
    /// A [stream](crate::ControllerBuilder::reconcile_on) yielded the key.
    Stream,
    /// The [owner of keys](crate::ControllerBuilder::sharded) changed, and this replica may own the
    /// key now.
    OwnershipChanged,
    /// The key was taken before the cache of this informer showed the
    /// [writes](crate::Context::wrote) made under it, and waited for that. The causes for which it
    /// was taken come before this one.
    Deferred(String),
}

/// An event of an object, as a cause. Cheap to clone.
///
/// ```
/// use dogwatch_controller::{ObjectCause, ObjectEvent};
/// use dogwatch_core::{Gvk, ObjectKey};
///
/// let kind = Gvk::new("apps", "v1", "ReplicaSet");
/// let cause = ObjectCause::new(kind, ObjectKey::namespaced("shop", "web"), "replicasets", ObjectEvent::Changed);
/// assert_eq!((cause.kind().kind.as_str(), cause.key().name()), ("ReplicaSet", "web"));
/// assert_eq!((cause.informer(), cause.event()), ("replicasets", ObjectEvent::Changed));
/// assert_eq!(cause.to_string(), "replicaset shop/web changed");
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectCause {
    origin: Arc<Origin>,
    key: ObjectKey,
    event: ObjectEvent,
}

/// The informer of an object, shared by all causes of a source.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Origin {
    pub(crate) kind: Gvk,
    pub(crate) informer: String,
}

/// The event of an object that caused a reconcile.
///
/// ```
/// use dogwatch_controller::ObjectEvent;
///
/// assert_eq!(ObjectEvent::Resync.to_string(), "resynced");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ObjectEvent {
    /// The object was created, or has come into the informer's selection.
    Added,
    /// The object changed.
    Changed,
    /// The object was deleted, or has left the informer's selection.
    Deleted,
    /// Nothing happened to the object: it was in the cache when the controller began to watch.
    InitialList,
    /// Nothing happened to the object: it was in the cache at a resync.
    Resync,
    /// An earlier reconcile of the key [wrote](crate::Context::wrote) the object, and the cache
    /// shows that it is gone or no longer maps to the key.
    Missing,
}

impl Causes {
    /// Creates the causes of one add. Merging the same cause again has no effect.
    pub(crate) fn of(cause: &Arc<Cause>) -> Self {
        Self { first: Some(Arc::clone(cause)), last: None, count: 1, is_put_back: false }
    }

    /// Returns the causes of a key that was taken, and now goes back into the queue because of
    /// `cause`.
    pub(crate) fn put_back(&self, cause: &Arc<Cause>) -> Self {
        let mut causes = self.clone();
        causes.merge(&mut Self::of(cause));
        Self { is_put_back: true, ..causes }
    }

    /// Returns the first cause since the key was last reconciled. A delayed one, such as a retry,
    /// counts from the time when it was requested.
    ///
    /// It is `None` only in a [detached](crate::Context::detached) context.
    pub fn first(&self) -> Option<&Cause> {
        self.first.as_deref()
    }

    /// Returns the last cause, which is the first one if there is only one.
    pub fn last(&self) -> Option<&Cause> {
        self.last.as_deref().or(self.first())
    }

    /// Returns the number of causes.
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Iterates over the first cause and, if there are several, the last one.
    pub fn iter(&self) -> impl Iterator<Item = &Cause> {
        self.first().into_iter().chain(self.last.as_deref())
    }

    /// Returns true if it is one cause, and among those that `self` knows.
    fn repeats(&self, later: &Self) -> bool {
        let is_known = |it: &Arc<Cause>| {
            [&self.first, &self.last].into_iter().flatten().any(|known| Arc::ptr_eq(known, it))
        };
        later.count == 1 && later.first.as_ref().is_some_and(is_known)
    }
}

impl Note for Causes {
    fn merge(&mut self, later: &mut Self) {
        if later.count == 0 || self.repeats(later) {
            return;
        }
        if self.count == 0 {
            swap(self, later);
            self.is_put_back = false;
            return;
        }
        if later.is_put_back && later.last.is_some() {
            swap(&mut self.first, &mut later.first);
        }
        let youngest = if later.last.is_some() { &mut later.last } else { &mut later.first };
        swap(&mut self.last, youngest);
        self.count = self.count.saturating_add(later.count);
    }
}

impl From<Cause> for Causes {
    fn from(cause: Cause) -> Self {
        Self::of(&Arc::new(cause))
    }
}

impl FromIterator<Cause> for Causes {
    fn from_iter<I: IntoIterator<Item = Cause>>(causes: I) -> Self {
        let mut merged = Self::default();
        causes.into_iter().for_each(|it| merged.merge(&mut it.into()));
        merged
    }
}

impl fmt::Display for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first(), self.last.as_deref()) {
            (None, _) => f.write_str("none"),
            (Some(only), None) => write!(f, "{only}"),
            (Some(first), Some(last)) => {
                write!(f, "{first}, and {} more; last: {last}", self.count.saturating_sub(1))
            }
        }
    }
}

impl fmt::Debug for Causes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Causes")
            .field("first", &self.first())
            .field("last", &self.last())
            .field("count", &self.count)
            .finish()
    }
}

impl Cause {
    pub(crate) fn retry(error: &dyn fmt::Display) -> Self {
        Self::Retry(truncated(error))
    }

    pub(crate) fn panic(message: &str) -> Self {
        Self::Panic(truncated(&message))
    }

    /// Returns the value of the label `cause` in the metric `controller_reconcile_causes_total`.
    pub fn label(&self) -> &'static str {
        match self {
            Self::Object(it) => match it.event {
                ObjectEvent::Added => "added",
                ObjectEvent::Changed => "changed",
                ObjectEvent::Deleted => "deleted",
                ObjectEvent::InitialList => "initial_list",
                ObjectEvent::Resync => "resync",
                ObjectEvent::Missing => "missing",
            },
            Self::Retry(_) => "retry",
            Self::Timeout(_) => "timeout",
            Self::Panic(_) => "panic",
            Self::RequeueAfter(_) => "requeue_after",
            Self::Stream => "stream",
            Self::OwnershipChanged => "ownership",
            Self::Deferred(_) => "deferred",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Object(it) => write!(f, "{it}"),
            Self::Retry(error) => write!(f, "retry after: {error}"),
            Self::Timeout(limit) => write!(f, "retry after a timeout of {limit:?}"),
            Self::Panic(message) => write!(f, "retry after a panic: {message}"),
            Self::RequeueAfter(after) => write!(f, "requeued by the reconciler after {after:?}"),
            Self::Stream => f.write_str("yielded by a stream"),
            Self::OwnershipChanged => f.write_str("ownership changed"),
            Self::Deferred(informer) => write!(f, "waited for informer {informer} to show its own writes"),
        }
    }
}

impl ObjectCause {
    /// Creates a cause, for a test of a reconciler that reads
    /// [`Context::causes`](crate::Context::causes).
    pub fn new(kind: Gvk, key: ObjectKey, informer: impl Into<String>, event: ObjectEvent) -> Self {
        Self::from_origin(&Arc::new(Origin { kind, informer: informer.into() }), key, event)
    }

    pub(crate) fn from_origin(origin: &Arc<Origin>, key: ObjectKey, event: ObjectEvent) -> Self {
        Self { origin: Arc::clone(origin), key, event }
    }

    /// Returns the kind of the object.
    pub fn kind(&self) -> &Gvk {
        &self.origin.kind
    }

    /// Returns the key of the object, which is not the key that is reconciled if the object is a
    /// child or is mapped otherwise.
    pub fn key(&self) -> &ObjectKey {
        &self.key
    }

    /// Returns the name of the informer that reported the event.
    pub fn informer(&self) -> &str {
        &self.origin.informer
    }

    /// Returns what happened to the object.
    pub fn event(&self) -> ObjectEvent {
        self.event
    }
}

impl fmt::Display for ObjectCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.kind().kind.chars().flat_map(char::to_lowercase).try_for_each(|it| f.write_char(it))?;
        write!(f, " {} {}", self.key, self.event)
    }
}

impl fmt::Display for ObjectEvent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Added => "added",
            Self::Changed => "changed",
            Self::Deleted => "deleted",
            Self::InitialList => "in the initial list",
            Self::Resync => "resynced",
            Self::Missing => "missing after it was written",
        })
    }
}

/// Returns the beginning of a text.
fn truncated(text: &dyn fmt::Display) -> String {
    let mut truncated = Truncated { kept: String::new(), room: TEXT_LIMIT };
    // Fails only if `text` does, and then its beginning is all there is.
    let _ = write!(truncated, "{text}");
    truncated.kept
}

/// A text of which only the beginning is kept.
struct Truncated {
    kept: String,
    /// The number of bytes that may still follow.
    room: usize,
}

impl fmt::Write for Truncated {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let end = part.floor_char_boundary(self.room);
        self.kept.push_str(&part[..end]);
        // After a part that was cut, nothing follows, even if a shorter part would fit.
        self.room = if end < part.len() { 0 } else { self.room.saturating_sub(end) };
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(event: ObjectEvent) -> Cause {
        let key = ObjectKey::namespaced("default", "web-1");
        Cause::Object(ObjectCause::new(Gvk::new("", "v1", "Pod"), key, "pods", event))
    }

    fn retry(error: &str) -> Cause {
        Cause::Retry(error.to_owned())
    }

    #[test]
    fn causes_are_shown_as_the_first_the_number_and_the_last() {
        let deleted = object(ObjectEvent::Deleted);
        for (causes, expected) in [
            (vec![], "none"),
            (vec![deleted.clone()], "pod default/web-1 deleted"),
            (
                vec![deleted.clone(), retry("busy")],
                "pod default/web-1 deleted, and 1 more; last: retry after: busy",
            ),
            (
                vec![Cause::Stream, retry("a"), retry("b"), deleted],
                "yielded by a stream, and 3 more; last: pod default/web-1 deleted",
            ),
        ] {
            let (count, causes) = (causes.len() as u64, Causes::from_iter(causes));
            assert_eq!((causes.to_string().as_str(), causes.count()), (expected, count));
            assert_eq!(causes.iter().count() as u64, count.min(2));
            assert_eq!(causes.iter().last(), causes.last());
        }
    }

    #[test]
    fn a_change_that_maps_to_a_key_twice_counts_once() {
        let change = Arc::new(object(ObjectEvent::Changed));
        let mut causes = Causes::of(&change);
        causes.merge(&mut Causes::of(&change));
        assert_eq!(causes.count(), 1);
        causes.merge(&mut Cause::Stream.into());
        causes.merge(&mut Causes::of(&change));
        assert_eq!((causes.count(), causes.last()), (2, Some(&Cause::Stream)));
        causes.merge(&mut object(ObjectEvent::Changed).into());
        assert_eq!(causes.count(), 3, "an equal change is another one");
    }

    #[test]
    fn the_causes_of_a_key_that_is_put_back_are_older_than_those_that_came_meanwhile() {
        let deferred = Arc::new(Cause::Deferred("pods".to_owned()));
        let taken = Causes::from_iter([retry("first"), retry("second")]);
        let mut waiting = Causes::from_iter([retry("third"), retry("fourth")]);
        waiting.merge(&mut taken.put_back(&deferred));
        assert_eq!(waiting.count(), 5);
        assert_eq!((waiting.first(), waiting.last()), (Some(&retry("first")), Some(&*deferred)));

        let mut queued = Causes::default();
        queued.merge(&mut taken.put_back(&deferred));
        let mut earlier = Causes::from(Cause::Stream);
        earlier.merge(&mut queued);
        assert_eq!(earlier.first(), Some(&Cause::Stream), "they were in the queue in between");
    }

    #[test]
    fn a_million_causes_take_no_more_memory_than_two() {
        let causes: Vec<_> = (0..1_000_000).map(|_| Arc::new(Cause::Stream)).collect();
        let mut merged = Causes::default();
        for cause in &causes {
            merged.merge(&mut Causes::of(cause));
        }
        assert_eq!(merged.count(), 1_000_000);
        let kept = causes.iter().filter(|it| Arc::strong_count(it) > 1).count();
        assert_eq!(kept, 2);
    }

    #[test]
    fn texts_are_truncated_at_a_character() {
        struct Parts<'a>(&'a [&'a str]);
        impl fmt::Display for Parts<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.iter().try_for_each(|it| f.write_str(it))
            }
        }
        assert_eq!(Cause::retry(&"busy"), retry("busy"));
        let long = "x".repeat(255);
        assert_eq!(Cause::panic(&format!("{long}yz")), Cause::Panic(format!("{long}y")));
        assert_eq!(Cause::panic(&format!("{long}\u{e9}z")), Cause::Panic(long.clone()));
        assert_eq!(Cause::retry(&Parts(&["a", "b"])), retry("ab"));
        assert_eq!(Cause::retry(&Parts(&[&long, "\u{e9}", "z"])), retry(&long), "nothing follows a gap");
    }

    #[test]
    fn every_cause_has_a_label_and_a_text_of_its_own() {
        use ObjectEvent::{Added, Changed, Deleted, InitialList, Missing, Resync};
        let events = [Added, Changed, Deleted, InitialList, Missing, Resync].map(object);
        let others = [
            retry("e"),
            Cause::Timeout(Duration::from_secs(1)),
            Cause::Panic("p".to_owned()),
            Cause::RequeueAfter(Duration::from_secs(1)),
            Cause::Stream,
            Cause::OwnershipChanged,
            Cause::Deferred("pods".to_owned()),
        ];
        let causes: Vec<_> = events.into_iter().chain(others).collect();
        let mut labels: Vec<_> = causes.iter().map(Cause::label).collect();
        labels.sort_unstable();
        assert_eq!(labels, CAUSE_LABELS);
        let mut texts: Vec<_> = causes.iter().map(Cause::to_string).collect();
        texts.sort_unstable();
        texts.dedup();
        assert_eq!(texts.len(), causes.len());
    }
}
