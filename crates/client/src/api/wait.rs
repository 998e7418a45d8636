//! Waiting: for an event of a collection, or for a collection or one object to reach a state.
//!
//! ```text
//! list ──► condition? ──true──► done
//!  ▲          │ false
//!  │        watch from the list's version: condition after each change? ──true──► done
//!  └── the history was compacted, or the list failed temporarily
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use dogwatch_core::{
    ExponentialDelay, FieldSelector, ListParams, Object, ObjectKey, ResourceVersion, WatchParams,
};
use dogwatch_wire::WatchEvent;
use futures_util::TryStreamExt;
use serde::de::DeserializeOwned;
use tokio::time::Instant;

use super::Api;
use crate::error::Error;
use crate::watch::{ConditionResult, RetryWatcher, UntilError, until};

/// The wait after a failed list.
const LIST_AGAIN: ExponentialDelay =
    ExponentialDelay::doubling(Duration::from_secs(1), Duration::from_secs(30));

impl<K: DeserializeOwned + Object> Api<K> {
    /// Waits for an event after a version, over as many watches as necessary, and returns that
    /// event. client-go's `Until`.
    ///
    /// The condition sees every event after the version, in order, but no bookmarks. For a state
    /// rather than an event use [`Self::wait_until`] or [`Self::wait_for`], which survive a
    /// compacted history. There is no time limit: wrap the call in `tokio::time::timeout`. Dropping
    /// the future closes the watch.
    ///
    /// # Errors
    /// [`UntilError::Watch`] if the version is not a specific one, if the server no longer keeps it
    /// (`Expired`), if the caller may not watch, or if an object cannot be decoded;
    /// [`UntilError::Condition`] if the condition returns an error.
    pub async fn until<J: ConditionResult>(
        &self,
        params: WatchParams,
        condition: impl FnMut(&WatchEvent<K>) -> J,
    ) -> Result<WatchEvent<K>, UntilError> {
        until(self.watch_from(params)?, condition).await
    }

    /// Waits until the collection reaches a state, and returns the collection in that state.
    /// client-go's `UntilWithSync`.
    ///
    /// The condition is checked for whole states only: the list, and then the list after each
    /// change. It may not see every state in between, but it sees the last one: lost connections
    /// are resumed, and after a compaction the collection is listed again. All selected objects are
    /// held in memory meanwhile.
    ///
    /// `params` select the objects; their version and limit apply to the first list only. There is
    /// no time limit: wrap the call in `tokio::time::timeout`. Dropping the future cancels the
    /// request in progress.
    ///
    /// # Errors
    /// [`UntilError::Condition`] if the condition returns an error; [`UntilError::Watch`] if the
    /// server's error is permanent, for example missing permissions, or if an object cannot be
    /// decoded. Temporary errors are retried for ever.
    pub async fn wait_until<J: ConditionResult>(
        &self,
        params: &ListParams,
        mut condition: impl FnMut(&BTreeMap<ObjectKey, K>) -> J,
    ) -> Result<BTreeMap<ObjectKey, K>, UntilError> {
        let mut params = params.clone();
        let mut earliest = Instant::now();
        loop {
            // A pause, in case the server expires every version at once.
            tokio::time::sleep_until(earliest).await;
            earliest = Instant::now() + LIST_AGAIN.first;
            let (mut state, watch) = self.list_patiently(&params).await?;
            // The caller's version applies to the first list only: it may be compacted by now.
            params.version = ResourceVersion::UNSET;
            params.version_match = None;
            if condition(&state).judge().map_err(UntilError::Condition)? {
                return Ok(state);
            }
            let mut events = RetryWatcher::<K>::ending_when_gone(self.watch_source(), watch)?;
            while let Some(event) = events.try_next().await? {
                match event {
                    WatchEvent::Added(object) | WatchEvent::Modified(object) => {
                        state.extend(object.key().map(|key| (key, object)));
                    }
                    WatchEvent::Deleted(object) => {
                        object.key().map(|key| state.remove(&key));
                    }
                    WatchEvent::Error(status) if status.code == 410 || status.is_expired() => break,
                    WatchEvent::Error(status) => return Err(Error::from(status).into()),
                    _ => continue,
                }
                if condition(&state).judge().map_err(UntilError::Condition)? {
                    return Ok(state);
                }
            }
        }
    }

    /// Waits until one object reaches a state, and returns it; `None` is an object that does not
    /// exist.
    ///
    /// Like [`Self::wait_until`] for the object of this name. The handle must be on the object's
    /// own namespace.
    ///
    /// ```
    /// use std::time::Duration;
    ///
    /// use dogwatch_client::Api;
    /// use k8s_openapi::api::core::v1::Pod;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
    /// # let url = server.url().parse()?;
    /// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
    /// let pods = Api::<Pod>::default_namespaced(client);
    /// let gone = pods.wait_for("web-0", |pod| pod.is_none());
    /// tokio::time::timeout(Duration::from_secs(30), gone).await??;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// See [`Self::wait_until`]; also if the name is not a valid path segment.
    pub async fn wait_for<J: ConditionResult>(
        &self,
        name: &str,
        mut condition: impl FnMut(Option<&K>) -> J,
    ) -> Result<Option<K>, UntilError> {
        self.on_object(self.client.get(), name).target().map_err(Error::from)?;
        let one = ListParams::default().fields(FieldSelector::name(name));
        let state = self.wait_until(&one, |state| condition(state.values().next())).await?;
        Ok(state.into_values().next())
    }

    /// Lists the objects by key, with the parameters of the watch that follows; retries while the
    /// server cannot answer.
    async fn list_patiently(
        &self,
        params: &ListParams,
    ) -> Result<(BTreeMap<ObjectKey, K>, WatchParams), Error> {
        let mut failures = 0_u32;
        let list = loop {
            match self.list_all(params).await {
                Ok(list) => break list,
                Err(error) if may_pass(&error) => {
                    let asked = error.status().and_then(|it| it.suggested_delay()).unwrap_or_default();
                    failures = failures.saturating_add(1);
                    let wait = LIST_AGAIN.after(failures).max(asked);
                    tracing::debug!(%error, ?wait, "cannot list, retrying");
                    tokio::time::sleep(wait).await;
                }
                Err(error) => return Err(error),
            }
        };
        if let Some(bad) = list.bad.into_iter().next() {
            return Err(bad.into());
        }
        let watch = WatchParams::after(list.metadata.version).selectors(params.selectors.clone());
        let state = list.items.into_iter().filter_map(|it| Some((it.key()?, it))).collect();
        Ok((state, watch))
    }
}

/// Returns true if the same list may succeed later: a connection error, or a server that is
/// overloaded, starting or failing.
fn may_pass(error: &Error) -> bool {
    match error {
        Error::Unreachable { .. } => !error.is_permanent(),
        Error::TimedOut(_) => true,
        Error::Refused(status) => status.code == 429 || status.code >= 500,
        Error::AfterRetries(error) => may_pass(&error.current),
        _ => false,
    }
}
