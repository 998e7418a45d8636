//! The inputs and commands of the state machine: its whole interface.

use std::time::Duration;

use dogwatch_client::{Error, ListEvent};
use dogwatch_core::{FieldSelector, ListParams, ResourceVersion, WatchParams};
use dogwatch_wire::{UndecodableItem, WatchEvent};
use tokio::time::Instant;

use crate::delta::Delta;
use crate::history::Relist;

/// The time of an input, and a random number in [0, 1) for jitter.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Instant,
    pub(super) chance: f64,
}

/// An event that the state machine reacts to.
#[derive(Debug)]
pub(super) enum Input<T> {
    Start,
    /// An event of the current list.
    Listed(ListEvent<T>),
    /// The list failed, or its stream ended without an end.
    ListFailed(Error),
    /// The server accepted the watch.
    Opened,
    NotOpened(Error),
    /// An event of the watch, which may be an `ERROR` event.
    Event(WatchEvent<T>),
    /// An event of the watch whose object could not be decoded.
    Undecodable(UndecodableItem),
    /// The connection of the watch was lost.
    Lost(Error),
    /// The server ended the watch between two events.
    Closed,
    /// The version of the server's newest state, if the source supports reading it.
    Newest(Result<Option<ResourceVersion>, Error>),
    /// The answer of discovery as to whether the collection is served, if the source supports
    /// asking.
    Served(Result<Option<bool>, Error>),
    /// The requested wait is over.
    Waited,
    /// Nothing was received for this long during a request.
    Silence(Duration),
    /// A resync is due.
    ResyncDue,
}

/// An action for the loop to perform. `List`, `Watch`, `Newest`, `Discover`, `Wait` and `End`
/// cancel the current activity; between two inputs there is at most one of them.
#[derive(Debug, PartialEq)]
pub(super) enum Command<T> {
    Emit(Delta<T>),
    List(ListParams),
    Watch(WatchParams),
    /// Read the version of the server's newest state.
    Newest(FieldSelector),
    /// Ask discovery whether the server serves the collection.
    Discover,
    Wait(Duration),
    Measure(Measure),
    End(ReflectorEnded),
}

/// Measurements of something that is over.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Measure {
    /// A collection was listed. The list has no number yet.
    Listed(Box<Relist>),
    /// A watch ended before its timeout, for this reason.
    Interrupted(String),
    /// A watch ended; a short one brought nothing and ended within a second.
    Watched { took: Duration, events: u64, short: bool },
}

/// The reason why a reflector ended by itself.
///
/// ```
/// use std::sync::Arc;
///
/// use dogwatch_client::Api;
/// use dogwatch_informer::{DeltaQueue, ReflectorEnded, Reflector, ReflectorOptions};
/// use k8s_openapi::api::core::v1::ConfigMap;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let (sender, receiver) = DeltaQueue::channel(DeltaQueue::CAPACITY);
/// let maps = Arc::new(Api::<ConfigMap>::all(client));
/// let reflector = Reflector::new(maps, ReflectorOptions::default(), sender);
/// drop(receiver);
/// match reflector.run().await {
///     ReflectorEnded::QueueClosed => println!("no reader is left"),
///     ReflectorEnded::Gone(message) => return Err(message.into()),
///     _ => {}
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ReflectorEnded {
    /// The receiver of the queue was dropped.
    QueueClosed,
    /// The server does not serve the collection; the message contains the request and the answer.
    Gone(String),
}
