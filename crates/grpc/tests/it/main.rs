//! Integration tests: targets and endpoints against an in-process API server, and whole calls to
//! real tonic servers on the loopback.
#![allow(clippy::unwrap_used, reason = "the exemption for tests covers test functions, not their helpers")]

mod cluster;
mod resolve;
mod resolve_faults;
mod resolve_churn;
mod resolve_ports;
mod watches;
#[cfg(feature = "tonic")]
mod feed;
mod manual_clock;
mod echo;
mod pods;
mod traffic;
mod calls;
mod failing_pods;
mod killed_pods;
mod silent_pods;
mod rollouts;
mod idle_channels;
mod no_endpoints;
mod in_flight;
mod unhealthy_pods;
mod non_grpc_servers;
mod flow_control;
mod retries;
mod stream_limits;
mod timeouts;
mod load_shares;
mod tls;
mod threads;
mod churn;
mod end_to_end;
#[cfg(feature = "grpc-crate")]
mod invoke_client;
#[cfg(feature = "grpc-crate")]
mod invoke_test_server;
#[cfg(feature = "grpc-crate")]
mod invoke_calls;
#[cfg(feature = "grpc-crate")]
mod invoke_failures;
#[cfg(feature = "grpc-crate")]
mod invoke_wire;
mod dual_stack;
mod outage;
mod without_cluster;
mod definite_errors;
mod unreachable_endpoints;
mod loom_models;
