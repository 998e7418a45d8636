//! A Kubernetes API server as a library, for tests and development.
//!
//! ```text
//! request ─► authenticate ─► decode ─► default, own, prepare, validate ─► store ─► answer
//!    (serving, http, auth)        (cluster: the verbs, kinds, custom)       │
//!                       lists and watches (reading) ◄───────────────────────┤
//!                       controllers ◄───────────────────────────────────────┘
//! ```
//!
//! [`ApiServer`] is the entry point: start one in a test, fork it, inject [`faults`], and inspect
//! its request [`log`]. [`cluster`] implements the verbs without HTTP. Below it, each module is a
//! set of functions over JSON values and bytes, tested against recorded responses of
//! kube-apiserver: [`request`] parses paths, queries and headers; [`builtin`] holds the names of
//! every built-in kind and its [`schema`]; [`kinds`] has an entry with the rules of each, and
//! [`custom`] implements CustomResourceDefinitions; [`patch`] and [`ownership`] change objects; [`store`]
//! keeps every version of them and [`reading`] serves lists and watches; [`discovery`], [`openapi`]
//! and [`mod@print`] describe them.
//!
//! # Limitations
//!
//! - **Authorization.** Every authenticated user may do everything, whatever roles and bindings are
//!   stored. Access reviews allow everything, and their `reason` says so.
//! - **CEL.** Validation rules of definitions and admission policies are stored but not evaluated.
//!   A webhook with `matchConditions` is called as if all of them were true. Storing one of these
//!   returns a warning.
//! - **Containers.** Nothing runs in pods, simulated or not: `exec`, `attach`, `portforward`,
//!   `proxy` and logs are rejected.
//! - **Persistence.** All objects are in memory and are lost when the server stops.
//! - **Long errors.** Of the validation errors of an object and the conflicts of an apply, the first
//!   thousand are reported, and of unknown fields the first hundred.
//!
//! A server that requires no credentials rejects requests that a web page could send to it: see
//! [`ApiServerBuilder::advertise`] for a server that clients reach by a name other than localhost.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects, reason = "see the module `time`"))]

mod depth;
mod time;
mod panics;
mod health;
mod api_error;
mod field_errors;
mod change_notifier;
mod strconv;
pub mod names;
pub mod kinds;
pub mod schema;
pub mod protobuf;
pub mod store;
pub mod request;
pub mod reading;
pub mod builtin;
pub mod discovery;
pub mod openapi;
pub mod admission;
pub mod print;
pub mod patch;
pub mod ownership;
pub mod custom;
pub mod registry;
mod webhook;
pub mod cluster;
pub mod auth;
pub mod faults;
pub mod log;
pub mod http;
pub mod serving;
pub mod controllers;
mod server;

pub use api_error::{ApiError, FieldError, FieldErrorKind};
pub use field_errors::FieldErrors;
pub use health::{BackgroundHealth, LoopHealth};
pub use server::{ApiServer, ApiServerBuilder, StartError};
