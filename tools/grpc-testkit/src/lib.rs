//! gRPC servers for tests, benchmarks and interoperability tasks.
//!
//! A [`Handler`] has the methods of a service, and a [`Pod`] serves it on a loopback address.
//! Messages and clients belong to the programs that use this crate: a client is tonic's
//! [`Grpc`](tonic::client::Grpc) around any channel. It depends on no product crate, so that
//! product crates can test with it.
//!
//! The `mod` lines below are in layer order.

mod listeners;
mod service;
mod pod;

pub use listeners::{addresses, incoming, listeners_on_one_port};
pub use pod::Pod;
pub use service::{Handler, HandlerService, MessageStream, MethodKind};
