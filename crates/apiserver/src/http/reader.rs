//! The read path: answers requests that read, from any backend.
//!
//! The verbs are in the files below, one for each: `list.rs`, `read.rs` and `watch.rs`.

use std::sync::Arc;

use http::HeaderMap;

use super::answer::{self, Answer};
use super::backend::Backend;
use super::guard::Panics;
use super::metrics::ServingMetrics;
use super::negotiated::Negotiated;
use super::query::Query;
use super::read_error::too_large;
use super::settings::Settings;
use crate::ApiError;
use crate::store::{CollectionName, History, KnownState, Store};

/// Answers requests that read. Clones share their backend and their counters.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    pub(super) backend: Arc<dyn Backend>,
    pub(super) settings: Arc<Settings>,
    pub(super) metrics: ServingMetrics,
    pub(super) panics: Panics,
}

impl Reader {
    /// Reads from a backend, with counters of its own.
    pub(crate) fn new(backend: Arc<dyn Backend>, settings: Arc<Settings>) -> Self {
        Self { backend, settings, metrics: ServingMetrics::default(), panics: Panics::default() }
    }

    /// Returns a reader with the same counters that reads from another backend.
    #[must_use]
    pub(crate) fn of(&self, backend: Arc<dyn Backend>) -> Self {
        Self { backend, ..self.clone() }
    }

    pub(super) fn store(&self) -> &Store {
        self.backend.store()
    }

    /// Reads a collection when the store knows its state at `least`, or later. Waits for that up to
    /// a limit.
    ///
    /// # Errors
    ///
    /// Returns 504 if the state is not known then.
    pub(super) async fn read_since<T>(
        &self,
        least: u64,
        collection: &CollectionName,
        look: impl Fn(&History, KnownState) -> T,
    ) -> Result<T, ApiError> {
        loop {
            self.reach_or_refuse(least).await?;
            let read = self.store().read_known(collection, |history, known| {
                // What was known may be gone: a copy begins anew, or its history was shortened.
                let is_old = known.version < least && !history.is_closed();
                (!is_old).then(|| look(history, known))
            });
            if let Some(read) = read {
                return Ok(read);
            }
        }
    }

    /// Waits until the store reaches a version, up to a limit.
    ///
    /// # Errors
    ///
    /// Returns 504 if it does not.
    pub(super) async fn reach_or_refuse(&self, version: u64) -> Result<(), ApiError> {
        self.reach(version).await;
        let known = self.store().known();
        if known < version { Err(too_large(version, known)) } else { Ok(()) }
    }

    /// Waits until the store reaches a version, up to a limit.
    pub(super) async fn reach(&self, version: u64) {
        if self.store().known() >= version {
            return;
        }
        let arrived = self.store().reach(version);
        let _ = tokio::time::timeout(self.settings.version_wait, arrived).await;
    }

    /// Builds an error response in the negotiated representation.
    pub(crate) fn refuse(
        &self,
        refusal: &ApiError,
        token: Option<&str>,
        headers: &HeaderMap,
        query: &Query,
    ) -> Answer {
        answer::refusal(refusal, token, &Negotiated::of_refusal(headers, query), &self.settings)
    }
}
