//! Integration tests: targets and endpoints against an in-process API server, and whole calls to
//! real tonic servers on the loopback.
#![allow(clippy::unwrap_used, reason = "the exemption for tests covers test functions, not their helpers")]

mod town;
mod resolve;
mod resolve_faults;
mod resolve_churn;
mod resolve_ports;
mod selecting;
#[cfg(feature = "tonic")]
mod feed;
mod still;
mod echo;
mod pods;
mod traffic;
mod calling;
mod failing;
mod killing;
mod silence;
mod rolling;
mod idling;
mod emptiness;
mod loading;
mod judging;
mod strangers;
mod limits;
mod refusing;
mod crowded;
mod patience;
mod sharing;
mod tls;
mod threads;
mod churning;
mod whole;
#[cfg(feature = "grpc-crate")]
mod invoke_client;
#[cfg(feature = "grpc-crate")]
mod invoke_server;
#[cfg(feature = "grpc-crate")]
mod invoke_calling;
#[cfg(feature = "grpc-crate")]
mod invoke_ending;
#[cfg(feature = "grpc-crate")]
mod invoke_wire;
mod families;
mod outage;
mod offline;
mod definite;
mod stand_ins;
mod models;
