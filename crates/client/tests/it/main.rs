//! The tests of the client crate that need servers. One binary, one module per area.
#![allow(clippy::unwrap_used, reason = "the exemption for tests covers test functions, not what they share")]

mod support;

mod transport;
