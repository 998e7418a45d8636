//! Tests of the work queue through its public API, rule by rule, on a paused clock.

mod basics;
mod shutdown;
mod snapshots;
mod order;
mod delays;
mod waiting;
mod limits;
mod metrics;
mod model;
mod notes;
mod handshake;
