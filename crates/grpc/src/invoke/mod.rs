//! `KubeInvoke`: the same channel for clients of the official `grpc` crate, release 0.9.
//!
//! ```text
//! generated client ─► KubeInvoke ─► KubeSendStream ─ frames ─► KubeChannel ─► an endpoint
//!                               └─► KubeRecvStream ◄─ frames ─────────┘
//! ```
//!
//! That crate has no place yet where a name resolver could be registered, but what its generated clients ask for is a trait, `Invoke`, which
//! is implemented here over [`KubeChannel`](crate::KubeChannel): endpoints, policies, retries and counts are that channel's own. This folder knows
//! how messages are framed and how metadata, deadlines and statuses are written; it knows nothing of endpoints.

mod frame;
mod metadata;
mod trailers;
mod upload;
mod head;
mod opening;
mod send_stream;
mod recv_stream;
mod kube_invoke;

pub use self::kube_invoke::{KubeInvoke, channel};
pub use self::recv_stream::KubeRecvStream;
pub use self::send_stream::KubeSendStream;
