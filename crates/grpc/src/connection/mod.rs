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

pub use backend::State;
pub(crate) use backend::{Backend, Standing};
pub use backoff::Backoff;
#[cfg(test)]
pub(crate) use connector::Pipes;
pub(crate) use connector::{Dialler, LARGEST_WINDOW, Limits, Tls};
pub use features::{Parts, Turns};
pub(crate) use keep_alive::{Complaints, KeepAlive};
pub(crate) use session::Link;
pub(crate) use state::{Timing, Wish};
pub(crate) use stream_tracker::may_have_left;
pub(crate) use task::run;
