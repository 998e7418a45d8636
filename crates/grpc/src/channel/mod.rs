//! `KubeChannel`: a channel for gRPC clients over the endpoints of a target.
//!
//! A call loads the snapshot, picks an endpoint, and queues its frames on the connection, without a
//! lock, task or channel of ours in between. Everything else (following the set, connecting,
//! ejecting) is done by the balancer, concurrently with calls.

mod status;
mod retry;
mod methods;
mod metrics;
mod head;
mod request_body;
mod snapshot;
mod body;
mod channel_state;
mod balancer;
mod exchange;
mod monitor;
mod kube_channel;
mod config_error;
mod builder;
pub mod measure;

pub use self::body::{Interrupted, ResponseBody};
pub use self::builder::ChannelBuilder;
pub use self::channel_state::EndpointStatus;
pub use self::config_error::ChannelConfigError;
pub use self::head::WaitForReady;
pub use self::kube_channel::KubeChannel;
pub use self::monitor::{ChannelMonitor, ChannelStats};
pub use self::retry::Retry;
pub use self::status::Code;
#[cfg(feature = "grpc-crate")]
pub(crate) use self::status::{ENDPOINT, Failure, TIMEOUT, timeout_value};
