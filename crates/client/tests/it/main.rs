//! Tests of the client from outside, one area per module.

mod config;
