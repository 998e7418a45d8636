//! The numbers client-go keeps about plugins, under its names.

use metrics::{counter, gauge};

use crate::auth::error::PluginError;
use crate::auth::issued::Lifetime;

/// Counts one check against the policy, by its `status` as client-go calls it. (Kubernetes' own registration of this
/// number names two labels and fills one, so there is no other name to follow.)
pub(super) fn record_policy(allowed: bool) {
    let status = if allowed { "allowed" } else { "denied" };
    counter!("rest_client_exec_plugin_policy_call_total", "status" => status).increment(1);
}

/// Counts one run, by how it ended. A run that printed nonsense is a run that ended well.
pub(super) fn record_call<T>(result: &Result<T, PluginError>) {
    let (code, status) = match result {
        Ok(_) => (0, "no_error"),
        // A process that a signal ended has no code; -1 stands for it, as in Go.
        Err(PluginError::Failed { code, .. }) => (code.unwrap_or(-1), "plugin_execution_error"),
        Err(PluginError::TimedOut { .. }) => (-1, "plugin_execution_error"),
        Err(PluginError::NotFound { .. }) => (1, "plugin_not_found_error"),
        Err(_) => (1, "client_internal_error"),
    };
    counter!("rest_client_exec_plugin_call_total", "code" => code.to_string(), "call_status" => status)
        .increment(1);
}

/// Shows how long the credential in use still serves; infinity if nothing says.
pub(in crate::auth) fn record_ttl(lifetime: &Lifetime) {
    gauge!("rest_client_exec_plugin_ttl_seconds").set(lifetime.ttl_seconds());
}
