//! Tests of the API server through its public API.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should stop where it is")]

mod recording;
mod test_cluster;
mod requests;
mod raw_http;

mod admission;
mod auth;
mod autoscaling;
mod builtin;
mod cluster;
mod controllers;
mod custom_definition;
mod custom_object;
mod custom_properties;
mod custom_representations;
mod discovery;
mod early_responses;
mod faults;
mod http;
mod kinds;
mod log;
mod openapi;
mod ownership;
mod patch;
mod protection;
mod protobuf;
mod quotas;
mod server;
mod serving;
mod storage;
mod list_watch_under_faults;
mod single_faults;
mod browser_attacks;
