//! The informer, from outside. One binary, one module per area.
#![allow(clippy::unwrap_used, reason = "the exemption for tests covers test functions, not what they share")]

mod script;
mod queue;
mod reflector_initial;
mod store;
mod store_indexes;
mod store_readers;
mod live;
mod informer;
