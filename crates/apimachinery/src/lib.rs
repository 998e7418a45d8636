//! The rules of the Kubernetes API as functions over JSON values and bytes.
//!
//! The API server applies them to requests; nothing here does I/O, starts a task or reads a clock.
//! Each module is tested against recorded responses of kube-apiserver:
//!
//! - [`request`] parses paths, queries, headers and bodies.
//! - [`builtin`] holds the names of every built-in kind and its [`schema`]; [`kinds`] has an entry
//!   with the rules of each, and [`custom`] implements CustomResourceDefinitions.
//! - [`cel`] compiles and evaluates expressions.
//! - [`patch`] and [`ownership`] change objects; [`admission`] computes quotas and limits.
//! - [`admission_policy`] decides about requests, and changes their objects, by expressions.
//! - [`discovery`], [`openapi`] and [`mod@print`] describe the kinds and print objects as tables.
//!
//! ```
//! use dogwatch_apimachinery::kinds::defaults;
//! use serde_json::json;
//!
//! let mut pod = json!({ "spec": { "containers": [{ "name": "web", "image": "nginx:1.29" }] } });
//! defaults::apply("", "v1", "Pod", &mut pod);
//! assert_eq!(pod["spec"]["restartPolicy"], "Always");
//! assert_eq!(pod["spec"]["containers"][0]["imagePullPolicy"], "IfNotPresent");
//! ```
//!
//! The `mod` lines below are in layer order: a module uses only modules declared above it.

#![cfg_attr(not(test), warn(clippy::arithmetic_side_effects, reason = "values come from requests"))]
#![allow(clippy::exhaustive_enums, reason = "the API server has to handle every variant")]

pub mod depth;
pub mod memory;
pub mod object_limits;
mod weight;
pub mod strconv;
mod scalar_syntax;
pub mod plain_json;
mod api_error;
mod field_errors;
pub mod names;
pub mod kinds;
pub mod schema;
pub mod protobuf;
pub mod request;
pub mod builtin;
pub mod discovery;
pub mod openapi;
pub mod admission;
pub mod print;
pub mod patch;
pub mod ownership;
pub mod cel;
pub mod custom;
pub mod admission_policy;

pub use api_error::{ApiError, FieldError, FieldErrorKind};
pub use field_errors::FieldErrors;

/// The code in the README, compiled as tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
pub struct Readme;
