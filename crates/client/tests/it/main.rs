//! Integration tests of the client: one binary, one module per area.
#![allow(clippy::unwrap_used, reason = "the exemption for tests covers test functions, not what they share")]

mod scripted;
mod support;

mod auth;
mod bodies;
mod compressed_watches;
mod config;
mod discovery;
mod discovery_cache;
mod discovery_errors;
mod discovery_http_cache;
mod discovery_mapper;
mod discovery_server;
mod encodings;
mod lists;
mod network_faults;
mod raw;
mod request_attempts;
mod request_building;
mod request_results;
mod request_retries;
mod retry_matrix;
mod transport;
mod until;
mod watches;
mod writes;
