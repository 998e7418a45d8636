//! HTTP/2 connections: one task per endpoint owns its connection, and calls open streams on it.
//!
//! [`state`] decides, [`task`] acts, [`connector`] opens a connection, [`session`] drives it to its
//! end, and [`Backend`] is the view of an endpoint for the rest of the crate. Nothing here chooses
//! endpoints or interprets calls.

mod backoff;
mod state;
mod error;
mod features;
mod frames;
mod stream_tracker;
mod write_coalescer;
mod driver;
mod keep_alive;
mod happy_eyeballs;
mod session;
mod connector;
mod health;
mod backend;
mod task;
#[cfg(test)]
pub(crate) mod enforcing_server;

pub use backend::ConnectionState;
pub(crate) use backend::{Backend, BackendStatus};
pub use backoff::Backoff;
#[cfg(test)]
pub(crate) use connector::TestPipes;
pub(crate) use connector::{Connector, LARGEST_WINDOW, Limits, Tls};
pub use features::{Parts, Turns};
pub(crate) use keep_alive::{KeepAlive, PingComplaints};
pub(crate) use session::Link;
pub(crate) use state::{DesiredState, Timing};
pub(crate) use stream_tracker::may_have_been_sent;
pub(crate) use task::run;
