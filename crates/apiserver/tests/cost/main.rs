//! The cost of a request is proportional to its size.
//!
//! Each shape of request is sent at two sizes, and the allocated bytes and the CPU time are
//! compared. Both are counted for the thread of the test, so that a loaded machine does not matter:
//! the server has no other threads.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod measure;

mod builtin;
mod changes;
mod collections;
mod custom;
mod protobuf;
mod queries;
mod responses;
mod watches;
mod webhooks;
