//! Tests of the API server's parts from outside, one module per part.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod recording;
mod builtin;
mod discovery;
mod openapi;
//! Tests of the server's parts against recorded answers of the original.

mod kinds;
//! Tests of the API server's parts from outside, one module for each area.

mod ownership;
