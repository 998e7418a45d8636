//! The state that the read path of a mirror reads.

use std::sync::Arc;

use super::views::UsedView;
use crate::ApiError;
use crate::cluster::Source;
use crate::http::{Backend, DefinitionFollower, Pace};
use crate::reading::Selection;
use crate::registry::{CopiedKind, Kind};
use crate::store::{Change, Encoded, Pending, Store};

/// A copy, and the view of it that a request has.
#[derive(Clone, Debug)]
pub(super) struct CopyBackend {
    pub(super) store: Store,
    pub(super) kind: Arc<CopiedKind>,
    pub(super) source: Arc<Source>,
    /// `None` for the view that changes nothing.
    pub(super) view: Option<Arc<UsedView>>,
}

impl Backend for CopyBackend {
    fn store(&self) -> &Store {
        &self.store
    }

    fn source(&self) -> &Source {
        &self.source
    }

    fn definition(&self, _kind: &Kind) -> DefinitionFollower {
        self.view.as_ref().map_or_else(DefinitionFollower::default, |it| {
            // The listener first, so that an end in between is not missed.
            let listener = it.listener();
            DefinitionFollower::of_view(listener, it.is_ended())
        })
    }

    fn selects_shown(&self, _kind: &Kind, _selection: &Selection) -> bool {
        self.view.is_some()
    }

    fn waits_to_show(&self, _kind: &Kind, _selection: &Selection) -> bool {
        false
    }

    fn show<'a>(
        &'a self,
        _kind: &'a Kind,
        stored: &'a [Arc<Encoded>],
    ) -> Pending<'a, Result<Vec<Option<Arc<Encoded>>>, ApiError>> {
        Box::pin(async move {
            let Some(view) = &self.view else { return Ok(stored.iter().cloned().map(Some).collect()) };
            let (mut shown, mut pace) = (Vec::with_capacity(stored.len()), Pace::default());
            for object in stored {
                shown.push(view.listed(&self.kind, object));
                pace.after(object.length()).await;
            }
            Ok(shown)
        })
    }

    fn show_now(&self, _kind: &Kind, stored: Arc<Encoded>) -> Option<Arc<Encoded>> {
        match &self.view {
            Some(view) => view.listed(&self.kind, &stored),
            None => Some(stored),
        }
    }

    fn show_change(&self, change: Arc<Change>) -> Option<Arc<Change>> {
        match &self.view {
            Some(view) => view.change(&self.kind, &change),
            None => Some(change),
        }
    }

    fn is_copy(&self) -> bool {
        true
    }
}
