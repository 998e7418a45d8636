//! The form in which a class of callers sees the objects of a mirror.

use std::fmt;
use std::sync::Arc;

use super::object::MirrorObject;

/// A function that rewrites an object, or hides it.
pub(super) type Change = Arc<dyn Fn(&MirrorObject) -> Option<MirrorObject> + Send + Sync>;

/// The form in which a class of callers sees the objects of a mirror, in reads, lists and watches
/// alike.
///
/// The function of a view gets an object in its stored encoding, with kind and API version, and
/// returns it in either encoding; `None` hides it. It must depend on the object alone, because
/// results are kept for each version of an object. It must keep the namespace, the name and the
/// resource version: an object for which it does not is hidden, and the error is logged. Selectors
/// apply to its result. In a watch, an object that becomes hidden is deleted, and one that appears
/// is added.
///
/// Requests with views of the same identity share the results, and use the function of the one that
/// came first. The results are dropped when no request or watch uses them. When the rules behind an
/// identity change, [`Mirror::end_watches_of`](super::Mirror::end_watches_of) ends its watches.
///
/// ```
/// use dogwatch_apiserver::mirror::{MirrorObject, View};
///
/// let without_data = View::new(1, |object| {
///     let mut value = object.to_value().ok()?;
///     value.as_object_mut()?.remove("data");
///     Some(MirrorObject::from_value(&value))
/// });
/// assert_eq!(without_data.identity(), Some(1));
/// assert_eq!(View::unchanged().identity(), None);
/// ```
#[derive(Clone)]
pub struct View {
    rewriting: Option<(u64, Change)>,
}

impl View {
    /// Returns the view that shows all objects as they are. It costs nothing.
    pub fn unchanged() -> Self {
        Self { rewriting: None }
    }

    /// Creates a view. Views of the same identity must do the same.
    pub fn new(
        identity: u64,
        change: impl Fn(&MirrorObject) -> Option<MirrorObject> + Send + Sync + 'static,
    ) -> Self {
        Self { rewriting: Some((identity, Arc::new(change))) }
    }

    /// Returns the identity; `None` for the view that changes nothing.
    pub fn identity(&self) -> Option<u64> {
        self.rewriting.as_ref().map(|it| it.0)
    }

    pub(super) fn into_rewriting(self) -> Option<(u64, Change)> {
        self.rewriting
    }
}

impl fmt::Debug for View {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("View").field("identity", &self.identity()).finish_non_exhaustive()
    }
}
