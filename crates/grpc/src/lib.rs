//! gRPC by names of Kubernetes: which endpoints a service has, connections to them, and which one takes the next call.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod endpoints;
mod chance;
mod load;
mod connection;
mod policy;
mod channel;

#[doc(hidden)]
pub use channel::measure;
pub use channel::{
    ChannelBuilder, Code, ConfigError, EndpointStatus, Interrupted, KubeChannel, ResponseBody, Retry,
};
pub use connection::{Backoff, State};
pub use endpoints::{Endpoint, EndpointId, EndpointSet, Unavailable};
pub use policy::ZoneAware;
pub use policy::{
    FailurePercentage, LeastRequest, Outlier, PeakEwma, Policy, RingHash, SlowStart, SuccessRate,
};
