//! The client, from outside. One binary, one module per area.
#![allow(clippy::unwrap_used, reason = "the exemption for tests covers test functions, not what they share")]

mod scripted;
mod support;

mod auth;
mod config;
mod discovery;
mod discovery_cache;
mod discovery_http_cache;
mod discovery_mapper;
mod discovery_server;
mod lists;
mod raw;
mod request_attempts;
mod request_building;
mod request_results;
mod request_retries;
mod retry_matrix;
mod served;
mod transport;
mod until;
mod watches;
mod weather;
mod writes;
