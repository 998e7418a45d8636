//! Webhooks: programs of others that are asked over HTTPS whether an object may be written, and how one version of it becomes
//! another.
//!
//! ```text
//! clientConfig ─► target ─┐
//!          rules ─► review ─► call (connections, trust) ─► verdict
//!              conversion ─┘
//! ```
//!
//! Here is how they are found, asked and understood. Which are asked when, and what becomes of an object, is for the
//! [`cluster`](crate::cluster) to say. Everything but [`call`] and [`connections`] is pure.
//!
//! The `mod` lines below are in layer order.

mod trust;
pub(crate) mod target;
pub(crate) mod connections;
pub(crate) mod call;
pub(crate) mod rules;
pub(crate) mod review;
pub(crate) mod conversion;
