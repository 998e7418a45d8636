//! Tests of the page over HTTP, on loopback, with informers of our own server.
#![allow(clippy::unwrap_used, reason = "a test binary")]

mod browser;
mod security;
mod snapshots;
mod streams;
