//! The tests of the client crate that need servers. One binary, one module per area.

mod support;

mod transport;
