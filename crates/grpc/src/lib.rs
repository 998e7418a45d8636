//! gRPC by names of Kubernetes: which endpoints a service has, connections to them, and which one takes the next call.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod endpoints;

pub use endpoints::{Endpoint, EndpointId, EndpointSet, Unavailable};
