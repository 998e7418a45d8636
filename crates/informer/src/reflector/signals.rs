//! What the state machine is told, and what it answers: the whole of its contact with the world.

use std::time::Duration;

use dogwatch_client::Error;
use dogwatch_core::{FieldSelector, ListParams, ResourceVersion, WatchParams};
use dogwatch_wire::{BadItem, WatchEvent};
use tokio::time::Instant;

use crate::delta::Delta;
use crate::list_watch::ListEvent;

/// When something happened, and a chance in [0, 1) to spread what follows from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moment {
    pub(super) now: Instant,
    pub(super) chance: f64,
}

/// What happened.
#[derive(Debug)]
pub(super) enum Input<T> {
    Start,
    /// Something came of the list under way.
    Listed(ListEvent<T>),
    /// The list broke, or ended without an end.
    ListFailed(Error),
    /// The server accepted the watch.
    Opened,
    NotOpened(Error),
    /// The watch told something; an `ERROR` event is one too.
    Event(WatchEvent<T>),
    /// The watch told of an object that could not be decoded.
    Undecodable(BadItem),
    /// The connection of the watch broke.
    Lost(Error),
    /// The server ended the watch between two events.
    Closed,
    /// The version of the server's newest state, where the source can tell.
    Newest(Result<Option<ResourceVersion>, Error>),
    /// Whether the server's discovery has the collection, where the source can tell.
    Served(Result<Option<bool>, Error>),
    /// The wait asked for is over.
    Waited,
    /// Nothing came for this long, although something was under way.
    Silence(Duration),
    /// It is time to tell of every object again.
    ResyncDue,
}

/// What to do. `List`, `Watch`, `Newest`, `Discover`, `Wait` and `End` give up whatever is under way; between two inputs there is at most one of them.
#[derive(Debug, PartialEq)]
pub(super) enum Command<T> {
    Emit(Delta<T>),
    List(ListParams),
    Watch(WatchParams),
    /// Ask for the version of the server's newest state.
    Newest(FieldSelector),
    /// Ask whether the server serves the collection.
    Discover,
    Wait(Duration),
    Measure(Measure),
    End(Ended),
}

/// Numbers about something that is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Measure {
    /// A collection was read in whole.
    Listed { took: Duration, items: u64 },
    /// A watch ended; a short one brought nothing and ended within a second.
    Watched { took: Duration, events: u64, short: bool },
}

/// Why a reflector ended by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Ended {
    /// Nobody reads the queue any more.
    QueueClosed,
    /// The server does not serve the collection; the message says what was asked and what it answered.
    Gone(String),
}
