//! Reading a watch until a condition holds.
//!
//! The loop is here; the caller chooses the source of events: one open watch, one that resumes, or
//! any stream. It does not use lists: [`crate::Api::wait_until`] waits for a state rather than for
//! an event.

use std::collections::VecDeque;
use std::pin::pin;

use dogwatch_wire::WatchEvent;
use futures_core::Stream;
use futures_util::StreamExt;

use crate::body::BoxError;
use crate::error::Error;

/// An error that ended a wait before its condition held.
///
/// ```
/// use dogwatch_client::{Api, UntilError, until};
/// use dogwatch_core::WatchParams;
/// use dogwatch_wire::WatchEvent;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let answer = r#"{"type":"ADDED","object":{"metadata":{"name":"a","resourceVersion":"8"}}}"#;
/// # let stack = tower::service_fn(move |_: http::Request<_>| async move {
/// #     let response = http::Response::builder().status(200);
/// #     let body = dogwatch_client::boxed(dogwatch_client::RequestBody::from(answer));
/// #     response.header("content-type", "application/json").body(body)
/// # });
/// # let url = "http://localhost".parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", stack);
/// let maps = Api::<ConfigMap>::all(client);
/// let events = maps.watch(&WatchParams::default()).await?;
/// match until(events, |event| matches!(event, WatchEvent::Deleted(_))).await {
///     Ok(_) => println!("deleted"),
///     Err(UntilError::Closed) => println!("the server ended the watch: watch again"),
///     Err(UntilError::Watch(error)) if error.is_expired() => println!("list again"),
///     Err(error) => return Err(error.into()),
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum UntilError {
    /// The server ended the watch first. Watch again from the last version, or use a watch that
    /// resumes.
    #[error("the watch ended before the condition held")]
    Closed,
    /// The condition returned an error: it can never hold, or cannot be checked.
    #[error("the condition returned an error")]
    Condition(#[source] BoxError),
    /// The watch or the list failed. This includes an `ERROR` event, as the status it carries.
    #[error("the watch failed")]
    Watch(#[from] Error),
}

/// The return type of a condition: `bool`, or a `Result` of it.
///
/// ```
/// use dogwatch_client::{BoxError, ConditionResult};
///
/// fn holds(result: impl ConditionResult) -> Result<bool, BoxError> {
///     result.judge()
/// }
/// assert!(matches!(holds(true), Ok(true)));
/// assert!(holds("no number".parse::<u32>().map(|it| it > 3)).is_err());
/// ```
pub trait ConditionResult {
    /// Returns true if the condition holds; an error ends the wait.
    ///
    /// # Errors
    /// Returns the error of the condition.
    fn judge(self) -> Result<bool, BoxError>;
}

impl ConditionResult for bool {
    fn judge(self) -> Result<bool, BoxError> {
        Ok(self)
    }
}

impl<E: Into<BoxError>> ConditionResult for Result<bool, E> {
    fn judge(self) -> Result<bool, BoxError> {
        self.map_err(Into::into)
    }
}

/// A condition on the events of a watch, for [`in_order`].
///
/// ```
/// use dogwatch_client::{EventCondition, in_order};
/// use dogwatch_wire::WatchEvent;
///
/// let added: EventCondition<&str> = Box::new(|it| Ok(matches!(it, WatchEvent::Added(_))));
/// let deleted: EventCondition<&str> = Box::new(|it| Ok(matches!(it, WatchEvent::Deleted(_))));
/// let mut replaced = in_order([added, deleted]);
/// assert!(matches!(replaced(&WatchEvent::Added("a")), Ok(false)));
/// assert!(matches!(replaced(&WatchEvent::Deleted("a")), Ok(true)));
/// ```
pub type EventCondition<K> = Box<dyn FnMut(&WatchEvent<K>) -> Result<bool, BoxError> + Send>;

/// Reads events until one meets the condition, and returns that event. client-go's
/// `UntilWithoutRetry`.
///
/// The condition sees every object event and bookmark, once each and in order, and none after the
/// one it accepted. An `ERROR` event is an error here, and so is an object that cannot be decoded:
/// it might have been the awaited one.
///
/// There is no time limit: wrap the call in `tokio::time::timeout`. Dropping the future drops the
/// stream and closes the watch.
///
/// ```
/// use dogwatch_client::{Api, until};
/// use dogwatch_core::{DeleteParams, WatchParams};
/// use dogwatch_wire::WatchEvent;
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let builder = dogwatch_apiserver::ApiServer::builder().in_process();
/// # let yaml = "{apiVersion: v1, kind: ConfigMap, metadata: {name: settings}, data: {colour: \
/// #     blue}}";
/// # let server = builder.yaml(yaml).start().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let maps = Api::<ConfigMap>::default_namespaced(client);
/// let events = maps.watch(&WatchParams::default()).await?;
/// maps.delete("settings", &DeleteParams::default()).await?;
/// let deleted = until(events, |event| matches!(event, WatchEvent::Deleted(_))).await?;
/// # let _ = deleted;
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// [`UntilError::Closed`] if the stream ends first, [`UntilError::Condition`] if the condition
/// returns an error, [`UntilError::Watch`] if the watch fails.
pub async fn until<K, J: ConditionResult>(
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

/// Combines conditions that must hold one after another into one.
///
/// Each is checked from the event that met the previous one, including that event: one event may
/// meet several in a row. Once all have been met it holds for every event; an empty sequence holds
/// at once.
///
/// ```
/// use dogwatch_client::{EventCondition, in_order};
/// use dogwatch_wire::WatchEvent;
///
/// let is = |wanted: &'static str| -> EventCondition<&str> {
///     Box::new(move |it| Ok(matches!(it, WatchEvent::Modified(state) if *state == wanted)))
/// };
/// let mut restarted = in_order([is("stopped"), is("running")]);
/// assert!(matches!(restarted(&WatchEvent::Modified("running")), Ok(false))); // too early
/// assert!(matches!(restarted(&WatchEvent::Modified("stopped")), Ok(false)));
/// assert!(matches!(restarted(&WatchEvent::Modified("running")), Ok(true)));
/// ```
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
