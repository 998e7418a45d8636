//! Trust and identity: rustls configurations that follow their files.
//!
//! Reads [`TlsSettings`](crate::config::TlsSettings) and a plugin's certificate; the transport asks for a rustls
//! configuration per pool of connections and replaces the pool when `Follower` says that something changed. Nothing
//! here opens a socket, and nothing runs in the background: files are looked at when a request or a handshake needs them.

mod error;
mod pem;
mod roots;
mod explain;
mod verifier;
mod identity;
mod follow;

pub use error::TlsError;
pub(crate) use explain::explain;
pub(crate) use follow::{Follower, Offer, Pace};
