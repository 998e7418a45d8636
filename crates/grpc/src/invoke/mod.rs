//! `KubeInvoke`: the same channel for clients of the official `grpc` crate, release 0.9.
//!
//! ```text
//! generated client ─► KubeInvoke ─► KubeSendStream ─ frames ─► KubeChannel ─► an endpoint
//!                               └─► KubeRecvStream ◄─ frames ─────────┘
//! ```
//!
//! That crate does not yet let programs register a name resolver, but its generated clients require
//! only a trait, `Invoke`, which is implemented here over [`KubeChannel`](crate::KubeChannel):
//! endpoints, policies, retries and counters are those of that channel. This module handles message
//! framing, metadata, deadlines and statuses; it knows nothing of endpoints.

mod frame;
mod metadata;
mod trailers;
mod upload;
mod head;
mod call_setup;
mod send_stream;
mod recv_stream;
mod kube_invoke;

pub use self::kube_invoke::{KubeInvoke, channel};
pub use self::recv_stream::KubeRecvStream;
pub use self::send_stream::KubeSendStream;
