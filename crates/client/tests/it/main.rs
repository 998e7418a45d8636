//! Tests of the client from outside, one area per module.
#![allow(clippy::unwrap_used, reason = "a test that cannot be set up has failed")]

mod config;
