//! The whole-pipeline suite: what any Kubernetes API server promises, seen through the public face of this crate.
//!
//! The server comes from the environment: `cargo xtask conformance --kubeconfig FILE`. Where that names none, it is our own.
//! No test knows which one it is (see `support`).
//! Every test makes a namespace of its own, waits for events and never for time, and asks for its removal at the end.

mod fixtures;
mod support;
mod proxy;
mod login;
mod impersonation;
mod verbs;
mod lists;
mod expiry;
mod watches;
mod patches;
mod subresources;
mod custom_resources;
mod informers;
mod representations;
mod api_errors;
mod discovery;
mod leader_election;
mod events;
mod finalizers;
mod owner_references;
