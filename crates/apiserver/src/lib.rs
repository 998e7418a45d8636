//! A Kubernetes API server as a library: small, honest, instant.
//!
//! ```text
//! request ─► authenticate ─► decode ─► default, own, prepare, validate ─► store ─► answer
//!    (serving, http, auth)        (cluster: the verbs, kinds, custom)       │
//!                       lists and watches (reading) ◄───────────────────────┤
//!                       controllers, simulators ◄───────────────────────────┘
//! ```
//!
//! [`ApiServer`] is the whole of it: start one in a test, fork it, make bad weather with its [`faults`], ask its [`log`] what it was
//! asked. [`cluster`] has the verbs without HTTP. Below, each part is a set of functions over JSON values and bytes, held against
//! recorded answers of the original: [`request`] reads paths, queries and headers; [`builtin`] knows every built-in kind and its
//! [`schema`], [`kinds`] what is special about some, [`custom`] what a definition says about its own; [`patch`] and [`ownership`]
//! change objects; [`store`] keeps all their versions and [`reading`] tells them; [`discovery`], [`openapi`] and [`mod@print`]
//! describe them.
//!
//! # What it does not do
//!
//! - **Authorization.** Every authenticated user may do everything, whatever roles and bindings are stored. Access reviews
//!   allow everything, and their `reason` says so.
//! - **CEL.** Validation rules of definitions and admission policies are stored and not evaluated. A webhook with
//!   `matchConditions` is called as if all of them were true. Storing one of these gets a warning.
//! - **Containers.** Nothing runs in pods, simulated or not: `exec`, `attach`, `portforward`, `proxy` and logs are refused.
//! - **Persistence.** All objects are in memory, and end with the server.
//!
//! A server that needs no credentials refuses what a web page could send to it: see [`ApiServerBuilder::advertise`] for one
//! that is reached by another name than localhost.
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects, reason = "see the module `time`"))]

mod depth;
mod time;
mod panics;
mod health;
mod refusal;
mod bell;
mod strconv;
pub mod names;
pub mod schema;
pub mod protobuf;
pub mod store;
pub mod request;
pub mod reading;
pub mod builtin;
pub mod discovery;
pub mod openapi;
pub mod kinds;
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
pub mod simulators;
mod server;

pub use health::{BackgroundHealth, LoopHealth};
pub use refusal::{Problem, ProblemKind, Refusal};
pub use server::{ApiServer, ApiServerBuilder, StartError};
