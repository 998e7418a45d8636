//! gRPC by names of Kubernetes: which endpoints a service has, connections to them, and which one takes the next call.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod endpoints;
mod target;
mod slices;
mod topology;
mod fold;
mod subset;

pub use endpoints::{Endpoint, EndpointId, EndpointSet, Unavailable};
pub use subset::subset;
pub use target::{Port, Schemes, Target, TargetError, TargetProblem};
pub use topology::Topology;
