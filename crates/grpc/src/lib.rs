//! gRPC channels addressed by Kubernetes names: resolves the endpoints of a service, connects to
//! them and balances calls over them.
//!
//! ```text
//! Target ─► Resolver: slices of its namespace ─► fold ─► EndpointSet ─► connections ─► policy ─► your call
//! ```
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

mod time;
mod random;
mod endpoints;
mod target;
mod slices;
mod topology;
mod fold;
mod subset;
mod notifier;
mod collection;
mod service_lookup;
mod namespace;
mod gauges;
mod dns;
mod resolver;
#[cfg(feature = "tonic")]
mod feed;
mod load;
mod connection;
mod policy;
mod channel;
mod dial;
#[cfg(feature = "grpc-crate")]
pub mod invoke;
#[cfg(test)]
mod stress;
#[cfg(test)]
mod test_channel;
#[cfg(test)]
mod ping_policy;
#[cfg(test)]
mod peer_faults;

#[doc(hidden)]
pub use channel::measure;
pub use channel::{
    ChannelBuilder, Code, ConfigError, EndpointStatus, Interrupted, KubeChannel, ResponseBody, Retry,
    WaitForReady,
};
pub use connection::{Backoff, State};
pub use dial::{DialError, channel, channel_builder};
pub use endpoints::{Endpoint, EndpointId, EndpointSet, Unavailable};
#[cfg(feature = "tonic")]
pub use feed::Feed;
pub use policy::ZoneAware;
pub use policy::{
    FailurePercentage, LeastRequest, OutlierDetection, PeakEwma, Policy, RingHash, SlowStart, SuccessRate,
};
pub use resolver::{EndpointWatch, Resolver, ResolverOptions};
pub use subset::subset;
pub use target::{Port, Schemes, Target, TargetError, TargetProblem};
pub use topology::Topology;
