//! The work queue from outside, rule by rule, on a paused clock.

mod basics;
mod shutdown;
mod order;
mod delays;
mod waiting;
mod limits;
mod metrics;
mod model;
mod handshake;
