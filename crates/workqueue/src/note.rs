//! Notes: what the adds of a key leave for the worker that takes it, such as their reasons.

/// A value that travels with a key through a queue and is merged as adds of the key are.
///
/// Every add has a note: the one that
/// [`add_with_note`](crate::WorkQueue::add_with_note) passes, and the default for every other kind
/// of add. The adds that one take answers are one note, in the order of the calls; the worker reads
/// it with [`Item::note`](crate::Item::note). A key that is added while a worker holds it begins a
/// new note for its next turn.
///
/// - A delayed add keeps its note apart until it is due, so that a take in between does not see it.
///   It is then merged behind the notes that are already waiting. With
///   [`earliest_wins`](crate::WorkQueueBuilder::earliest_wins), an immediate add that replaces a
///   delayed one is merged behind the note of the delayed one.
/// - The note of a delayed add that is cancelled, replaced
///   ([`replace_after`](crate::WorkQueue::replace_after)) or ended by a shutdown is dropped.
///
/// A queue without notes has the note `()`, for which nothing is stored.
///
/// ```
/// use dogwatch_workqueue::{AddOptions, Note, WorkQueue};
///
/// /// The first reason to work on a key, and the number of reasons.
/// #[derive(Debug, Default, PartialEq)]
/// struct Reasons {
///     first: Option<&'static str>,
///     count: u32,
/// }
///
/// impl Reasons {
///     fn of(reason: &'static str) -> Self {
///         Self { first: Some(reason), count: 1 }
///     }
/// }
///
/// impl Note for Reasons {
///     fn merge(&mut self, later: &mut Self) {
///         self.first = self.first.or(later.first);
///         self.count += later.count;
///     }
/// }
///
/// let queue = WorkQueue::builder().build_with_notes::<Reasons>();
/// for reason in ["created", "labelled", "deleted"] {
///     queue.add_with_note("web", AddOptions::default(), Reasons::of(reason));
/// }
/// let item = queue.try_take().expect("the key is ready");
/// assert_eq!(*item.note(), Reasons { first: Some("created"), count: 3 });
/// ```
pub trait Note: Default + Send + 'static {
    /// Merges the note of a later add into this one. Merging into the default note must have the
    /// result `later`, and merging the default note must change nothing.
    ///
    /// It runs while the queue is locked, so it should only move values, and must neither panic nor
    /// call the queue. Whatever it leaves in `later` is dropped after the queue is unlocked: swap
    /// values that have a destructor instead of overwriting them.
    ///
    /// A key that is added again and again is merged again and again: keep the size of a note
    /// bounded.
    fn merge(&mut self, later: &mut Self);
}

impl Note for () {
    #[inline]
    fn merge(&mut self, (): &mut Self) {}
}
