//! Everything between an HTTP request and the verbs of the cluster, and back.
//!
//! ```text
//! request ─► authenticate ─► authorize ─► (faults) ─┬─► read ──► list, object, table ──┐
//!                                                   ├─► watch ─► a body that is pulled ├─► response
//!                                                   ├─► write ─► the cluster's verbs ──┤
//!                                                   ├─► connect ─► a kubelet, a pod ───┤
//!                                                   └─► discovery, OpenAPI, health ────┘
//! ```
//!
//! [`Service::respond`] is the only entry point of this server. Reads go through a
//! [`reader::Reader`], which a copy of another server's collection uses too (`crate::mirror`).
//! Nothing here depends on sockets: a request is a value, and the body of its response produces
//! bytes only as fast as they are polled, so that a client that does not read costs no buffers.
//!
//! The `mod` lines below are in layer order.

mod pieces;
mod list_memory;
mod settings;
mod metrics;
mod body_meter;
mod connection_info;
mod web_guard;
mod indent;
mod document;
mod yaml;
mod content;
mod query;
mod access;
mod negotiated;
mod body;
mod stepping;
mod answer;
mod write_options;
mod delete_options;
mod incoming;
mod parsed_request;
mod pace;
mod show_protobuf;
mod show;
mod show_list;
mod definition_follower;
mod watch_encoder;
mod guard;
mod backend;
mod streamed_list;
mod read_error;
mod reader;
mod service;
mod backend_request;
mod backend_reply;
mod list;
mod pod_log;
mod read;
mod watch;
mod copy_service;
mod write;
mod delete;
mod discovery;
mod openapi;
mod health_checks;
mod non_resource;
mod fault_admin;
mod proxied_request;
mod stream_request;
mod respond;

pub(crate) use backend::Backend;
pub use backend::Freshness;
pub(crate) use body::Cut;
pub use body::ResponseBody;
pub(crate) use connection_info::ConnectionInfo;
pub(crate) use copy_service::CopyService;
pub(crate) use definition_follower::DefinitionFollower;
pub use list_memory::{ListMemory, ListShare};
pub(crate) use pace::Pace;
pub(crate) use service::Service;
pub(crate) use settings::Settings;
