//! Webhooks: external programs that are called over HTTPS to admit an object, or to convert it to
//! another version.
//!
//! ```text
//! clientConfig ─► target ─┐
//!          rules ─► review ─► call (connections, trust) ─► verdict
//!              conversion ─┘
//! ```
//!
//! This module locates and calls webhooks and reads their responses. The
//! [`cluster`](crate::cluster) decides which are called when, and acts on the result. Everything
//! except [`call`] and [`connections`] is pure.
//!
//! The `mod` lines below are in layer order.

mod trust;
pub(crate) mod target;
pub(crate) mod connections;
pub(crate) mod call;
pub(crate) mod rules;
pub(crate) mod review;
pub(crate) mod conversion;
