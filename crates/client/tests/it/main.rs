//! The tests of the client that go through its public face, one module per area.

mod auth;
