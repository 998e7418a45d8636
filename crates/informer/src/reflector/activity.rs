//! The current request to the source, one at a time, and the transformation of its objects.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;

use dogwatch_client::{Error, ListEvent};
use dogwatch_core::{Object, ObjectKey, ResourceVersion};
use dogwatch_wire::{EventKind, UndecodableItem, WatchEvent};
use futures_core::future::BoxFuture;
use futures_util::StreamExt;
use tokio::time::Sleep;

use super::options::Transform;
use super::signals::Input;
use crate::list_watch::{Lists, Watches};

/// The current activity.
pub(super) enum Activity<T> {
    Nothing,
    Listing(Lists<T>),
    Opening(BoxFuture<'static, Result<Watches<T>, Error>>),
    Watching(Watches<T>),
    Comparing(BoxFuture<'static, Result<Option<ResourceVersion>, Error>>),
    Discovering(BoxFuture<'static, Result<Option<bool>, Error>>),
    Waiting(Pin<Box<Sleep>>),
}

impl<T: Object> Activity<T> {
    /// Waits for the next input.
    ///
    /// # Cancel safety
    /// Dropping the future loses nothing.
    pub(super) async fn next(&mut self, transform: Option<&Transform<T>>) -> Input<T> {
        match self {
            Self::Nothing => std::future::pending().await,
            Self::Listing(list) => match list.next().await {
                Some(Ok(ListEvent::Item(object))) => match prepared(object, None, transform) {
                    Ok(object) => Input::Listed(ListEvent::Item(object)),
                    Err(bad) => Input::Listed(ListEvent::Bad(bad)),
                },
                Some(Ok(event)) => Input::Listed(event),
                Some(Err(error)) => Input::ListFailed(error),
                None => Input::ListFailed(Error::Malformed {
                    request: "the list".to_owned(),
                    problem: "it ended before it was complete".to_owned(),
                }),
            },
            Self::Opening(opening) => match opening.await {
                Ok(events) => {
                    *self = Self::Watching(events);
                    Input::Opened
                }
                Err(error) => Input::NotOpened(error),
            },
            Self::Watching(events) => match events.next().await {
                Some(Ok(event)) => event_of(event, transform),
                Some(Err(Error::Undecodable(bad))) => Input::Undecodable(bad),
                Some(Err(error)) => Input::Lost(error),
                None => Input::Closed,
            },
            Self::Comparing(asking) => Input::Newest(asking.await),
            Self::Discovering(asking) => Input::Served(asking.await),
            Self::Waiting(wait) => {
                wait.await;
                Input::Waited
            }
        }
    }
}

fn event_of<T: Object>(event: WatchEvent<T>, transform: Option<&Transform<T>>) -> Input<T> {
    let kind = event.kind();
    let (object, wrap): (T, fn(T) -> WatchEvent<T>) = match event {
        WatchEvent::Added(object) => (object, WatchEvent::Added),
        WatchEvent::Modified(object) => (object, WatchEvent::Modified),
        WatchEvent::Deleted(object) => (object, WatchEvent::Deleted),
        other => return Input::Event(other),
    };
    match prepared(object, Some(kind), transform) {
        Ok(object) => Input::Event(wrap(object)),
        Err(bad) => Input::Undecodable(bad),
    }
}

/// Returns the transformed object, or the reason why it is unusable.
fn prepared<T: Object>(
    object: T,
    event: Option<EventKind>,
    transform: Option<&Transform<T>>,
) -> Result<T, UndecodableItem> {
    let bad = |key: Option<ObjectKey>, version: ResourceVersion, reason: &str| UndecodableItem {
        key,
        version,
        event,
        path: String::new(),
        reason: reason.to_owned(),
    };
    // A response of another kind, a `Table` for example, decodes to an object without a name (rule
    // REF-7).
    if object.header().name.is_empty() {
        return Err(bad(None, object.version(), "it has no name"));
    }
    let Some(transform) = transform else { return Ok(object) };
    let (key, version) = (object.key(), object.version());
    match catch_unwind(AssertUnwindSafe(|| transform(object))) {
        Ok(object) if object.key() != key || object.version() != version => {
            Err(bad(key, version, "the transform changed its name or its version"))
        }
        Ok(object) => Ok(object),
        Err(_) => Err(bad(key, version, "the transform panicked")),
    }
}
