//! Tests of the API server's parts from outside, one module for each area.
#![allow(clippy::unwrap_used, reason = "the exemption for tests covers test functions, not what they share")]

mod ownership;
