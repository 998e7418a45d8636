//! Tests of the API server, part by part, from outside.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod recording;

mod builtin;
mod discovery;
mod kinds;
mod openapi;
mod ownership;
mod patch;
