//! HTTP/2 connections: one task per endpoint owns its connection, and calls open streams on it.
//!
//! [`state`] decides, [`task`] acts, [`dialler`] opens a connection, [`session`] drives it to its
//! end, and [`Backend`] is the view of an endpoint for the rest of the crate. Nothing here chooses
//! endpoints or interprets calls.

mod backoff;
mod state;
mod error;
mod parts;
mod frames;
mod counted;
mod corked;
mod wire;
mod keep_alive;
mod dial;
mod session;
mod dialler;
mod health;
mod backend;
mod task;
#[cfg(test)]
pub(crate) mod enforcer;

pub use backend::State;
pub(crate) use backend::{Backend, Standing};
pub use backoff::Backoff;
pub(crate) use counted::may_have_left;
#[cfg(test)]
pub(crate) use dialler::Pipes;
pub(crate) use dialler::{Dialler, LARGEST_WINDOW, Limits, Tls};
pub(crate) use keep_alive::{Complaints, KeepAlive};
pub use parts::{Parts, Turns};
pub(crate) use session::Link;
pub(crate) use state::{Timing, Wish};
pub(crate) use task::run;
