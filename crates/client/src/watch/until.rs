//! Reading a watch until something is true.
//!
//! The loop is here; where the events come from is the caller's choice: one open watch, one that resumes, or any stream.
//! It does not know lists: [`crate::Api::wait_until`] waits for a state rather than for an event.

use std::collections::VecDeque;
use std::pin::pin;

use dogwatch_wire::WatchEvent;
use futures_core::Stream;
use futures_util::StreamExt;

use crate::body::BoxError;
use crate::error::Error;

/// Why a wait ended before its condition held.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UntilError {
    /// The watch ended first, in good order. Watch again from the last version, or use one that resumes.
    #[error("the watch ended before the condition held")]
    Closed,
    /// The condition itself failed: it will never hold, or cannot be checked.
    #[error("the condition cannot be met")]
    Condition(#[source] BoxError),
    /// The watch or the list failed. An `ERROR` event is among these, as the refusal it carries.
    #[error("cannot follow what is waited for")]
    Watch(#[from] Error),
}

/// What a condition may return: whether it holds, or why that cannot be said.
pub trait Judgement {
    /// Whether the condition holds; an error ends the wait.
    ///
    /// # Errors
    /// Whatever the condition reports.
    fn judge(self) -> Result<bool, BoxError>;
}

impl Judgement for bool {
    fn judge(self) -> Result<bool, BoxError> {
        Ok(self)
    }
}

impl<E: Into<BoxError>> Judgement for Result<bool, E> {
    fn judge(self) -> Result<bool, BoxError> {
        self.map_err(Into::into)
    }
}

/// A condition on the events of a watch, for [`in_order`].
pub type EventCondition<K> = Box<dyn FnMut(&WatchEvent<K>) -> Result<bool, BoxError> + Send>;

/// Reads events until one meets the condition, and gives that event. client-go's `UntilWithoutRetry`.
///
/// The condition sees every object event and bookmark, once each and in order, and nothing behind the one it accepted. An
/// `ERROR` event is an error here, and so is an object that cannot be decoded: it might have been the one waited for.
///
/// There is no time limit: put `tokio::time::timeout` around it. The stream is dropped with the future, and with it the
/// watch.
///
/// ```no_run
/// # async fn example(pods: dogwatch_client::Api<k8s_openapi::api::core::v1::Pod>) -> Result<(), dogwatch_client::UntilError> {
/// use dogwatch_client::until;
/// use dogwatch_core::WatchParams;
/// use dogwatch_wire::WatchEvent;
///
/// let events = pods.watch(&WatchParams::default()).await?;
/// let deleted = until(events, |event| matches!(event, WatchEvent::Deleted(_))).await?;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`UntilError::Closed`] when the stream ends first, [`UntilError::Condition`] when the condition fails,
/// [`UntilError::Watch`] when the watch does.
pub async fn until<K, J: Judgement>(
    events: impl Stream<Item = Result<WatchEvent<K>, Error>>,
    mut condition: impl FnMut(&WatchEvent<K>) -> J,
) -> Result<WatchEvent<K>, UntilError> {
    let mut events = pin!(events);
    while let Some(event) = events.next().await {
        match event? {
            WatchEvent::Error(status) => return Err(Error::from(status).into()),
            event if condition(&event).judge().map_err(UntilError::Condition)? => return Ok(event),
            _ => {}
        }
    }
    Err(UntilError::Closed)
}

/// One condition out of several that must hold one after another.
///
/// Each is asked from the event on that met the one before it, that event included: one event may meet several in a row.
/// Holds for every event once all have been met; an empty sequence holds at once.
pub fn in_order<K>(
    conditions: impl IntoIterator<Item = EventCondition<K>>,
) -> impl FnMut(&WatchEvent<K>) -> Result<bool, BoxError> {
    let mut open: VecDeque<_> = conditions.into_iter().collect();
    move |event| {
        while let Some(next) = open.front_mut() {
            if !next(event)? {
                return Ok(false);
            }
            open.pop_front();
        }
        Ok(true)
    }
}
