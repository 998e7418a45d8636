//! Credential plugins: programs that print a credential (rule AU-3).
//!
//! ```text
//! ExecConfig ─► policy, lookup ─► runner ─► process ─► protocol ─► Issued
//! ```
//!
//! [`Plugin`] is the [`Source`](super::renew::Source) that the rest of `auth` uses. There is no
//! background refresh: a plugin runs only when a request needs the credential.

mod protocol;
mod lookup;
mod policy;
mod hint;
mod stderr;
mod metrics;
mod runner;
mod plugin;

pub(super) use metrics::record_ttl;
pub(super) use plugin::{Plugin, PluginOptions};
