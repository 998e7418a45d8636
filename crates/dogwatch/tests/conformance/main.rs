//! The whole-pipeline suite: what any Kubernetes API server promises, seen through the public face of this crate.
//!
//! The server comes from the environment (see `support`), never from the test: `cargo xtask conformance --kubeconfig FILE`.
//! Every test makes a namespace of its own, waits for events and never for time, and asks for its removal at the end.

mod fixtures;
mod support;
mod cable;
mod login;
mod impersonation;
mod verbs;
mod lists;
mod expiry;
mod watches;
mod patches;
mod subresources;
mod custom_resources;
mod forms;
mod refusals;
mod discovery;
