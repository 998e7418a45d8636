//! The conformance suite: behaviour that any Kubernetes API server guarantees, tested through the
//! public API of this crate.
//!
//! The server comes from the environment: `cargo xtask conformance --kubeconfig FILE`. By default
//! it is our own. No test knows which one it is (see `support`). Every test creates its own
//! namespace and requests its deletion at the end; tests wait for events, never for a fixed time.

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
