//! `KubeChannel`: a channel for gRPC clients over whatever endpoints a target has.
//!
//! A call loads the snapshot, picks, and queues its frames on the connection: no lock of ours, no task and no channel on its way.
//! Everything else (following the set, connecting, ejecting) is the balancer's, beside the calls.

mod status;
mod retry;
mod methods;
mod meter;
mod head;
mod outgoing;
mod snapshot;
mod body;
mod core;
mod balancer;
mod exchange;
mod kube_channel;
mod builder;
pub mod measure;

pub use self::body::{Interrupted, ResponseBody};
pub use self::builder::{ChannelBuilder, ConfigError};
pub use self::core::EndpointStatus;
pub use self::head::WaitForReady;
pub use self::kube_channel::KubeChannel;
pub use self::retry::Retry;
pub use self::status::Code;
#[cfg(feature = "grpc-crate")]
pub(crate) use self::status::{ENDPOINT, Failure, TIMEOUT, timeout_value};
