//! Why a body could not be decoded, by what the caller does next.
//!
//! Torn: the connection broke; ask again. Refused: the server said no in the place of an answer. Everything else: this
//! is not what was asked for, and asking again will not help. A single object that cannot be decoded is no
//! error of the body: see [`crate::BadItem`].

use dogwatch_core::Status;

/// Why a list could not be decoded to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The body ended in the middle; the same request may bring it whole.
    #[error("the list ended early, after {offset} bytes")]
    Torn {
        /// How many bytes there were.
        offset: u64,
    },
    /// The body is a `Status`: the server refused.
    #[error("the server answered with a status in the place of a list")]
    Refused(#[source] Box<Status>),
    /// The body is something else altogether: another kind of object, or a page of a proxy.
    #[error("expected a list, found {found}")]
    NotAList {
        /// The kind of the object that was found, or the beginning of the text.
        found: String,
    },
    /// The body began as a list and then broke the rules of JSON or of lists.
    #[error("malformed list at byte {offset}: {reason}")]
    Malformed {
        /// Where in the body.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// One item, or everything around the items, is larger than allowed.
    #[error("a value of the list at byte {offset} is larger than {limit} bytes")]
    TooLarge {
        /// Where in the body the value begins.
        offset: u64,
        /// How large a value may be.
        limit: usize,
    },
}

/// Why a watch could not be decoded any further.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The stream ended in the middle of an event; all events before it were told.
    #[error("the watch ended in the middle of an event, after {offset} bytes")]
    Torn {
        /// How many bytes there were.
        offset: u64,
    },
    /// The stream holds something that is no event; where the next event begins cannot be known.
    #[error("malformed watch at byte {offset}: {reason}")]
    Malformed {
        /// Where in the stream.
        offset: u64,
        /// What is wrong there.
        reason: String,
    },
    /// One event is larger than allowed.
    #[error("the event at byte {offset} is larger than {limit} bytes")]
    TooLarge {
        /// Where in the stream the event begins.
        offset: u64,
        /// How large an event may be.
        limit: usize,
    },
}
