//! Integration tests of the proxy. One binary, one module per area.
#![allow(clippy::unwrap_used, reason = "the exemption for tests covers test functions, not their helpers")]

mod support;
mod upstream_double;
mod map_server;
mod forwarding;
mod identities;
mod hostile_requests;
mod tunnels;
mod cached_reads;
mod rules;
mod survival;
mod changed_upstream;
