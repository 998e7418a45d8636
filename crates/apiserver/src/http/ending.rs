//! When the watches of a custom kind end: as soon as its definition is gone or says something else.

use std::sync::Arc;
use std::task::{Context, Poll, ready};

use dogwatch_core::ObjectKey;

use crate::cluster::Cluster;
use crate::registry::Kind;
use crate::store::{Change, CollectionName, Cursor, Encoded};

/// Follows the definition of a custom kind. Built-in kinds have none, and nothing is followed for them.
#[derive(Debug)]
pub(super) struct Definition {
    followed: Option<(Cursor, ObjectKey)>,
    /// It was gone before it could be followed: a request finds its kind a moment before it asks for the changes of it.
    gone: bool,
}

impl Definition {
    /// Follows from now on.
    pub(super) fn of(cluster: &Cluster, kind: &Kind) -> Self {
        let collection: CollectionName = "apiextensions.k8s.io/customresourcedefinitions".into();
        let followed = kind.def.custom.then(|| {
            let cursor = cluster.store().watch(&collection, cluster.store().revision()).ok()?;
            let key = ObjectKey::from_parts(None, &format!("{}.{}", kind.def.plural, kind.def.group)).ok()?;
            Some((cursor, key))
        });
        let followed = followed.flatten();
        let gone = followed.as_ref().is_some_and(|(_, key)| cluster.store().get(&collection, key).is_none());
        Self { followed, gone }
    }

    /// Ready when the definition is gone or says something else.
    pub(super) fn poll_changed(&mut self, context: &Context<'_>) -> Poll<()> {
        let Some((cursor, key)) = &mut self.followed else { return Poll::Pending };
        if self.gone {
            return Poll::Ready(());
        }
        // A cursor that was overtaken missed something: that may have been it.
        while let Ok(change) = ready!(cursor.poll_next(context)) {
            if ends(&change, key) {
                break;
            }
        }
        Poll::Ready(())
    }
}

/// Whether a change ends the watches of the kind that this definition makes. Conditions come and go without doing so.
fn ends(change: &Change, key: &ObjectKey) -> bool {
    let is_it = |object: &Option<Arc<Encoded>>| object.as_ref().is_some_and(|it| it.key() == key);
    match (&change.before, &change.after) {
        (before, None) => is_it(before),
        (Some(before), Some(after)) if after.key() == key => {
            before.to_value()["spec"] != after.to_value()["spec"]
        }
        _ => false,
    }
}
