//! gRPC channels addressed by Kubernetes names: resolves the endpoints of a service, connects to
//! them and balances calls over them.
//!
//! ```text
//! Target ─► Resolver: slices of its namespace ─► fold ─► EndpointSet ─► connections ─► policy ─► your call
//! ```
//!
//! ```
//! use dogwatch_grpc::{LeastRequest, Resolver};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let yaml = "{apiVersion: discovery.k8s.io/v1, kind: EndpointSlice, addressType: IPv4, \
//! #     metadata: {name: greeter-1, namespace: default, labels: {kubernetes.io/service-name: greeter}}, \
//! #     ports: [{name: grpc, port: 50051}], endpoints: [{addresses: [127.0.0.1]}]}";
//! # let server = dogwatch_apiserver::ApiServer::builder().in_process().yaml(yaml).start().await?;
//! # let client = dogwatch_client::Client::from_service(server.url().parse()?, "default", server.service());
//! // `dogwatch_grpc::channel("kubernetes:///greeter:grpc").await?` does the same with all defaults.
//! let resolver = Resolver::new(client); // for example from Client::from_env
//! let target = "kubernetes:///greeter:grpc".parse()?;
//! assert_eq!(resolver.watch(&target).known().await.usable().count(), 1);
//! let channel = resolver.channel(&target).policy(LeastRequest::default()).build()?;
//! // let mut client = GreeterClient::new(channel); // any client that tonic generates
//! # drop(channel);
//! # Ok(())
//! # }
//! ```
//!
//! **Ports.** `kubernetes:///greeter.shop:grpc` names a port of the EndpointSlices, and
//! `kubernetes:///greeter.shop:80` the number of a port of the Service, or of the pods if the
//! Service cannot be read. Without a port, pods with several ports are called at the first port of
//! the Service. See [`Target`].
//!
//! **Topology.** A caller that knows its node or zone follows the hints of the slices, for all
//! endpoints of a service or for none; one that knows its node also follows
//! `internalTrafficPolicy: Local`. [`channel`](fn@channel) reads the location from the environment.
//! See [`Topology`].
//!
//! **Waiting.** A call waits for an endpoint for a limited time, or for one second if waiting does
//! not help. With [`WaitForReady`] it waits until its deadline.
//!
//! **Permissions.** The verbs list and watch for EndpointSlices (`discovery.k8s.io`) in the
//! namespaces of the targets, or for Endpoints instead; and for Services, to find ports by number,
//! the first of several ports and local traffic policies, and to explain why there are no
//! endpoints. Without those for Services, everything else works. See [`Resolver`].
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
mod metrics;
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
    ChannelBuilder, ChannelConfigError, ChannelMonitor, ChannelStats, Code, EndpointStatus, Interrupted,
    KubeChannel, ResponseBody, Retry, WaitForReady,
};
pub use connection::{Backoff, ConnectionState};
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

/// The code in the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
