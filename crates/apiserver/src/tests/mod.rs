//! Tests of the parts of the server together.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod test_cluster;
mod requests;
mod raw_http;
mod test_kubelet;

mod admission;
mod auth;
mod authorization;
mod cluster;
mod controllers;
mod early_responses;
mod faults;
mod http;
mod log;
mod mirror;
mod protection;
mod quotas;
mod server;
mod serving;
mod storage;
mod list_watch_under_faults;
mod single_faults;
mod browser_attacks;
mod kubelet;
