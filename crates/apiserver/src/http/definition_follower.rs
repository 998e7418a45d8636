//! The end of watches for a reason outside of their collection: those of a custom kind end when its
//! definition is deleted or its spec changes, and those of a view when the view ends.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use dogwatch_core::ObjectKey;

use crate::change_notifier::ChangeListener;
use crate::cluster::Cluster;
use crate::registry::Kind;
use crate::store::{Change, CollectionName, Cursor, Encoded};

/// Follows the definition of a custom kind. Built-in kinds have no definition, and nothing is
/// followed for them; the default follows nothing.
#[derive(Debug, Default)]
pub(crate) struct DefinitionFollower {
    followed: Option<(Cursor, ObjectKey)>,
    /// Notified when the view of the watch ends.
    view: Option<ChangeListener>,
    /// Set if the definition was deleted between the lookup of its kind and the start of this
    /// cursor, or if the view has ended.
    gone: bool,
}

impl DefinitionFollower {
    /// Follows the definition from now on.
    pub(super) fn of(cluster: &Cluster, kind: &Kind) -> Self {
        let collection: CollectionName = "apiextensions.k8s.io/customresourcedefinitions".into();
        let followed = kind.def.custom.then(|| {
            let cursor = cluster.store().watch(&collection, cluster.store().revision()).ok()?;
            let key = ObjectKey::from_parts(None, &format!("{}.{}", kind.def.plural, kind.def.group)).ok()?;
            Some((cursor, key))
        });
        let followed = followed.flatten();
        let gone = followed.as_ref().is_some_and(|(_, key)| cluster.store().get(&collection, key).is_none());
        Self { followed, gone, view: None }
    }

    /// Follows a view, which is over when the listener is notified, or already.
    pub(crate) fn of_view(view: ChangeListener, is_over: bool) -> Self {
        Self { followed: None, gone: is_over, view: Some(view) }
    }

    /// Ready when the view has ended: the client has to list again.
    pub(super) fn poll_view_ended(&mut self, context: &Context<'_>) -> Poll<()> {
        let Some(view) = &mut self.view else { return Poll::Pending };
        if !self.gone {
            ready!(view.poll_changed(context));
            self.gone = true;
        }
        Poll::Ready(())
    }

    /// Ready when the definition is deleted or its spec has changed.
    pub(super) fn poll_changed(&mut self, context: &Context<'_>) -> Poll<()> {
        let Some((cursor, key)) = &mut self.followed else { return Poll::Pending };
        if self.gone {
            return Poll::Ready(());
        }
        // A cursor that fell behind has missed changes, and one of them may be the one to look for.
        while let Ok(change) = ready!(cursor.poll_next(context)) {
            if ends(&change, key) {
                break;
            }
        }
        Poll::Ready(())
    }
}

/// Returns true if a change ends the watches of the kind that this definition serves. Changes to
/// its conditions do not.
fn ends(change: &Change, key: &ObjectKey) -> bool {
    let is_it = |object: &Option<Arc<Encoded>>| object.as_ref().is_some_and(|it| it.key() == key);
    match (&change.before, &change.after) {
        (before, None) => is_it(before),
        (Some(_), Some(after)) if after.key() == key => change.changes_spec(),
        _ => false,
    }
}
