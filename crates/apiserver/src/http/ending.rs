//! When the watches of a custom kind end: as soon as its definition is gone or says something else.

use std::sync::Arc;

use dogwatch_core::ObjectKey;

use crate::cluster::Cluster;
use crate::registry::Kind;
use crate::store::{Change, CollectionName, Cursor, Encoded};

/// Follows the definition of a custom kind. Built-in kinds have none, and nothing is followed for them.
#[derive(Debug)]
pub(super) struct Definition {
    followed: Option<(Cursor, ObjectKey)>,
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
        Self { followed: followed.flatten() }
    }

    /// Waits until the definition is gone or says something else; for ever if that does not happen. Dropping the future
    /// loses nothing.
    pub(super) async fn changed(&mut self) {
        let Some((cursor, key)) = &mut self.followed else { return std::future::pending().await };
        // A cursor that was overtaken missed something: that may have been it.
        while let Ok(change) = cursor.next().await {
            if ends(&change, key) {
                return;
            }
        }
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
