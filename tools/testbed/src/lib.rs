//! API servers for benchmarks and interoperability tasks: `dogwatch serve`, kube-apiserver and
//! `dogwatch proxy` as processes, and plain HTTP connections to them.

#![allow(clippy::print_stderr, reason = "a task reports to the terminal")]

pub mod connector;
pub mod server;
pub mod metrics;
pub mod proxy;
pub mod runtime;
