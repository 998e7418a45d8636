//! Connections to backends: the kubelets of nodes, and programs in pods and behind services.
//!
//! ```text
//! request ─► location (cluster) ─► dialer ─► TCP, TLS ─► exchange ─┬─► response, as it arrives
//!                                                                  └─► tunnel, after 101
//! ```
//!
//! Each request has a connection of its own, which ends with the body of its response or with its
//! tunnel. By default only loopback addresses are connected to ([`Reach`]). No proxy of the
//! environment is used.
//!
//! Nothing here depends on the Kubernetes API: the [`cluster`](crate::cluster) finds the address of
//! a backend. The texts of errors are those of Go's `net` and `net/http`, since clients of
//! kube-apiserver see them.
//!
//! The `mod` lines below are in layer order.

mod reach;
mod origin;
mod backend_tls;
mod stream;
mod exchange;
mod dialer;
mod tunnel;
mod forwarded_headers;

pub(crate) use backend_tls::{KubeletTls, Peer};
pub(crate) use dialer::Dialer;
pub(crate) use exchange::{BackendRequest, Failure, ReplyBody, RequestBody};
pub(crate) use forwarded_headers::{
    announce_upgrade, append_forwarded_for, remove_credentials, remove_hop_by_hop, requests_upgrade,
};
pub(crate) use origin::{Location, Origin, Protocol};
pub(crate) use reach::Reach;
pub(crate) use tunnel::tunnel;
