//! Errors of decoding a body, by what the caller can do.
//!
//! Torn: the connection was lost; retry. Refused: the server answered with an error instead.
//! Everything else: this is not the requested data, and a retry will not help. A single object that
//! cannot be decoded is not an error of the body: see [`crate::UndecodableItem`].

use dogwatch_core::Status;

/// An error that ends the decoding of a list.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ListError {
    /// The body was truncated; the same request may succeed if repeated.
    #[error("the list ended early, after {offset} bytes")]
    Torn {
        /// The number of bytes received.
        offset: u64,
    },
    /// The body is a `Status`: the server rejected the request.
    #[error("the server answered with a status instead of a list")]
    Refused(#[source] Box<Status>),
    /// The body is something else: another kind of object, or the page of a proxy.
    #[error("expected a list, found {found}")]
    NotAList {
        /// The kind of the object that was found, or the beginning of the text.
        found: String,
    },
    /// The body started as a list, but is not valid JSON or not a valid list.
    #[error("malformed list at byte {offset}: {reason}")]
    Malformed {
        /// The position in the body.
        offset: u64,
        /// A description of the problem.
        reason: String,
    },
    /// One item, or everything around the items, is larger than allowed.
    #[error("a value of the list at byte {offset} is larger than {limit} bytes")]
    TooLarge {
        /// The position of the value in the body.
        offset: u64,
        /// The maximal size of a value.
        limit: usize,
    },
}

/// An error that ends the decoding of a watch.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WatchError {
    /// The stream ended in the middle of an event; all events before it were delivered.
    #[error("the watch ended in the middle of an event, after {offset} bytes")]
    Torn {
        /// The number of bytes received.
        offset: u64,
    },
    /// The stream contains something that is not an event, so the start of the next event is
    /// unknown.
    #[error("malformed watch at byte {offset}: {reason}")]
    Malformed {
        /// The position in the stream.
        offset: u64,
        /// A description of the problem.
        reason: String,
    },
    /// One event is larger than allowed.
    #[error("the event at byte {offset} is larger than {limit} bytes")]
    TooLarge {
        /// The position of the event in the stream.
        offset: u64,
        /// The maximal size of an event.
        limit: usize,
    },
}
