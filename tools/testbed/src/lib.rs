//! API servers for benchmarks and interoperability tasks: `dogwatch serve` and kube-apiserver as
//! processes, and plain HTTP connections to them.

#![allow(clippy::print_stderr, reason = "a task reports to the terminal")]

pub mod connector;
pub mod server;
pub mod runtime;
