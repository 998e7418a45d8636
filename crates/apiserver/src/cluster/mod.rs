//! The cluster: the stored objects, the served kinds, and every verb that changes them.
//!
//! ```text
//! create ─┐
//! update ─┤  decode ─► own ─► mutate ─► (roles) ─► prepare ─► validate ─► review ─► admit ─► commit, retried on a conflict
//! patch  ─┤              plugins    escalation                        plugins    quotas
//!         │              webhooks                                     webhooks
//! apply  ─┘                             delete ─► webhooks ─► finalizers, grace ─► commit
//! ```
//!
//! `pipeline.rs` is the list of these stages; each stage is a method of [`write::Write`] in a file
//! of its own. [`Cluster`] has the state and the verbs. What the verbs need besides is a value or a
//! function in a file of its own, which borrows the parts of the cluster that it uses: admission
//! webhooks, conversion, tokens, definitions, policies, the addresses of services.
//!
//! Requests and controllers change objects through the same verbs, so the same rules apply to all
//! of them. Nothing here knows HTTP. A verb has finished its write when it returns. Dropping its
//! future earlier leaves either the whole change or none of it.
//!
//! The `mod` lines below are in layer order.

mod source;
mod advertised;
mod service_network;
mod addresses;
mod charges;
mod signing_key;
mod token_key;
mod webhook_cache;
mod policy_cache;
mod decode;
mod place;
mod conflict;
mod name_checks;
mod selector;
mod object_fields;
mod delete_options;
mod deletion_step;
mod state;
mod policies;
mod service_addresses;
mod namespaces;
mod write;
mod webhook_calls;
mod conversion;
mod own;
mod admission_attributes;
mod configured_webhooks;
mod request_authorizer;
mod seen_objects;
mod policy_matching;
mod policy_params;
mod param_permissions;
mod admission_policies;
mod mutating_policies;
mod admission_webhooks;
mod admission_plugins;
mod escalation;
mod prepare;
mod signers;
mod claim_status;
mod validate;
mod admission;
mod warnings;
mod definition_checks;
mod ip_addresses;
mod after_removal;
mod commit;
mod pipeline;
mod patch_body;
mod scale;
mod update;
mod patch;
mod delete;
mod tokens;
mod access_reviews;
mod reviews;
mod binding;
mod disruption_budget;
mod eviction;
mod kubelet;
mod proxied_backend;
mod subresources;
mod create;
mod definitions;
mod fork;
mod add;
mod aggregation;
mod local_api_services;
mod bootstrap_flow_control;
mod identity_lease;
mod bootstrap;

pub(crate) use aggregation::{is_selected, selectors};
pub(crate) use bootstrap::own_service;
pub(crate) use decode::{Body, FieldValidation, decode, decode_as};
pub(crate) use delete::Deleted;
pub(crate) use delete_options::{Admission, DeleteOptions, Propagation, warning_of_deleting};
pub(crate) use kubelet::KubeletRequest;
pub(crate) use patch_body::PatchBody;
pub(crate) use place::{ObjectRef, RefusedWarnings, ResponseObject, WriteOutcome, Writer};
pub(crate) use proxied_backend::ProxiedBackend;
pub use service_network::{InvalidServiceNetwork, ServiceNetwork};
pub use signing_key::{InvalidKey, ServiceAccountKeys};
pub(crate) use source::Source;
pub(crate) use state::Cluster;
