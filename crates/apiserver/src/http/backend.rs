//! The source of what is read: the cluster of this server, or a copy of a collection of another
//! server.
//!
//! Lists, reads and watches know only this interface. What they read is a local [`Store`]; the
//! backend says what the objects in it look like to the client, and how new the state has to be.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::definition_follower::DefinitionFollower;
use crate::ApiError;
use crate::cluster::{Cluster, Source};
use crate::reading::Selection;
use crate::registry::Kind;
use crate::store::{Change, Encoded, Pending, Store};

/// The version that a consistent read must show at least.
///
/// A read without `resourceVersion` shows every change that was completed before it. The store that
/// it reads may be behind, and only the server that decides about changes knows by how much.
pub trait Freshness: Send + Sync {
    /// Returns the newest version: a read that begins now waits until the store has reached it.
    fn newest(&self) -> Pending<'_, Result<u64, ApiError>>;

    /// Returns the time for which a watch from a version that the store has not reached waits for
    /// it, before it ends with 410. By default that is `None`: the time in the settings.
    ///
    /// A server that is known to have the version may report it late: versions are those of all
    /// resources, and a resource that does not change reaches them with its bookmarks.
    fn watch_wait(&self) -> Option<Duration> {
        None
    }
}

/// The source of what is read.
pub(crate) trait Backend: fmt::Debug + Send + Sync + 'static {
    /// Returns the store that is read.
    fn store(&self) -> &Store;

    /// Returns the source of the time.
    fn source(&self) -> &Source;

    /// Returns the follower of the definition of a kind, whose changes end watches.
    fn definition(&self, kind: &Kind) -> DefinitionFollower;

    /// Returns true if a selection has to be evaluated on shown objects instead of stored ones.
    fn selects_shown(&self, kind: &Kind, selection: &Selection) -> bool;

    /// Returns true if [`Self::show`] may wait, and is needed for this kind and selection.
    fn waits_to_show(&self, kind: &Kind, selection: &Selection) -> bool;

    /// Returns stored objects as the client sees them, in order; `None` for those that it does not
    /// see.
    fn show<'a>(
        &'a self,
        kind: &'a Kind,
        stored: &'a [Arc<Encoded>],
    ) -> Pending<'a, Result<Vec<Option<Arc<Encoded>>>, ApiError>>;

    /// Returns a stored object as the client sees it, if that takes no waiting; `None` if it does
    /// not see it.
    fn show_now(&self, _kind: &Kind, stored: Arc<Encoded>) -> Option<Arc<Encoded>> {
        Some(stored)
    }

    /// Returns a change as the client sees it, if that takes no waiting; `None` if it sees none.
    fn show_change(&self, change: Arc<Change>) -> Option<Arc<Change>> {
        Some(change)
    }

    /// Returns true if the versions are those of another server.
    fn is_copy(&self) -> bool {
        false
    }
}

impl Freshness for Cluster {
    fn newest(&self) -> Pending<'_, Result<u64, ApiError>> {
        Box::pin(async { Ok(self.storage().newest().await) })
    }
}

impl Backend for Cluster {
    fn store(&self) -> &Store {
        Cluster::store(self)
    }

    fn source(&self) -> &Source {
        Cluster::source(self)
    }

    fn definition(&self, kind: &Kind) -> DefinitionFollower {
        DefinitionFollower::of(self, kind)
    }

    /// Only a webhook changes labels, but fields may have other names in the version in which an
    /// object was stored, or may not have been selectable or had another default then.
    fn selects_shown(&self, kind: &Kind, selection: &Selection) -> bool {
        let labels = kind.converted_by_webhook().is_some() && !selection.labels.is_everything();
        labels || (kind.is_evolved() && selection.selects_fields())
    }

    fn waits_to_show(&self, kind: &Kind, selection: &Selection) -> bool {
        kind.converted_by_webhook().is_some() || Backend::selects_shown(self, kind, selection)
    }

    fn show<'a>(
        &'a self,
        kind: &'a Kind,
        stored: &'a [Arc<Encoded>],
    ) -> Pending<'a, Result<Vec<Option<Arc<Encoded>>>, ApiError>> {
        Box::pin(async move {
            let shown = self.conversion().ready_to_show(kind, stored).await?;
            Ok(shown.into_iter().map(Some).collect())
        })
    }
}
