//! Connections of our own, over HTTP/2: one task per endpoint holds its connection, and calls take streams from it.
//!
//! [`state`] decides, [`task`] performs, [`session`] is one connection from the dial to its end, and [`Backend`] is what the rest
//! of the crate sees of an endpoint. Nothing here chooses endpoints or knows what a call means.

mod backoff;
mod state;
mod error;
mod counted;
mod corked;
mod wire;
mod dial;
mod session;
mod health;
mod backend;
mod task;

pub use backend::State;
pub(crate) use backend::{Backend, Standing};
pub use backoff::Backoff;
pub(crate) use counted::may_have_left;
pub(crate) use session::{Dialler, Link, Tls};
pub(crate) use state::{Timing, Wish};
pub(crate) use task::run;
