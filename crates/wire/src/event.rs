//! The events of a watch, independent of the encoding.

use std::collections::BTreeMap;

use dogwatch_core::{ResourceVersion, Status};
use serde::{Deserialize, Deserializer};

/// The annotation of the bookmark that ends the initial events of a streamed list.
const INITIAL_EVENTS_END: &str = "k8s.io/initial-events-end";

/// One event of a watch.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum WatchEvent<T> {
    /// An object was created, or now matches the watch's selector.
    Added(T),
    /// An object changed.
    Modified(T),
    /// An object was deleted, or no longer matches the selector; this is its last state.
    Deleted(T),
    /// No change, but a newer version.
    Bookmark(Bookmark),
    /// The server ends the watch for this reason.
    Error(Status),
}

/// The kind of a [`WatchEvent`], without its content.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum EventKind {
    /// `ADDED`
    Added,
    /// `MODIFIED`
    Modified,
    /// `DELETED`
    Deleted,
    /// `BOOKMARK`
    Bookmark,
    /// `ERROR`
    Error,
}

/// The progress of a watch without a change.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bookmark {
    /// The version up to which all events have been sent.
    pub version: ResourceVersion,
    /// The annotations of the bookmark.
    pub annotations: BTreeMap<String, String>,
}

impl<T> WatchEvent<T> {
    /// Returns the kind of the event.
    pub fn kind(&self) -> EventKind {
        match self {
            Self::Added(_) => EventKind::Added,
            Self::Modified(_) => EventKind::Modified,
            Self::Deleted(_) => EventKind::Deleted,
            Self::Bookmark(_) => EventKind::Bookmark,
            Self::Error(_) => EventKind::Error,
        }
    }
}

impl EventKind {
    /// Parses the API's name of an event type; `None` if it is unknown.
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "ADDED" => Self::Added,
            "MODIFIED" => Self::Modified,
            "DELETED" => Self::Deleted,
            "BOOKMARK" => Self::Bookmark,
            "ERROR" => Self::Error,
            _ => return None,
        })
    }

    /// Returns the API's name of the event type.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "ADDED",
            Self::Modified => "MODIFIED",
            Self::Deleted => "DELETED",
            Self::Bookmark => "BOOKMARK",
            Self::Error => "ERROR",
        }
    }
}

impl Bookmark {
    /// Returns true for the bookmark that ends the initial events of a streamed list.
    pub fn initial_events_end(&self) -> bool {
        self.annotations.get(INITIAL_EVENTS_END).is_some_and(|it| it == "true")
    }
}

/// Decodes from the object that a bookmark event carries.
impl<'de> Deserialize<'de> for Bookmark {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Carrier {
            metadata: Metadata,
        }

        #[derive(Deserialize)]
        #[serde(rename_all = "camelCase")]
        struct Metadata {
            resource_version: ResourceVersion,
            #[serde(default)]
            annotations: Option<BTreeMap<String, String>>,
        }

        let Metadata { resource_version, annotations } = Carrier::deserialize(deserializer)?.metadata;
        Ok(Self { version: resource_version, annotations: annotations.unwrap_or_default() })
    }
}
