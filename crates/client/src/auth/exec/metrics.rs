//! The metrics of plugins, with client-go's names.

use jiff::Timestamp;
use metrics::{counter, gauge, histogram};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::ExposeSecret as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::auth::error::PluginError;
use crate::auth::issued::Lifetime;
use crate::config::{Identity, Pem};

/// Counts one policy check, with client-go's label `status`. (The registration in component-base
/// v0.36.4 `metrics/prometheus/restclient/metrics.go` declares two labels and sets one, so it
/// defines no other name.)
pub(super) fn record_policy(allowed: bool) {
    let status = if allowed { "allowed" } else { "denied" };
    counter!("rest_client_exec_plugin_policy_call_total", "status" => status).increment(1);
}

/// Counts one run by its result. A run with invalid output counts as successful.
pub(super) fn record_call<T>(result: &Result<T, PluginError>) {
    let (code, status) = match result {
        Ok(_) => (0, "no_error"),
        // A process that a signal ended has no exit code; -1 stands for it, as in Go.
        Err(PluginError::Failed { code, .. }) => (code.unwrap_or(-1), "plugin_execution_error"),
        Err(PluginError::TimedOut { .. }) => (-1, "plugin_execution_error"),
        Err(PluginError::NotFound { .. }) => (1, "plugin_not_found_error"),
        Err(_) => (1, "client_internal_error"),
    };
    counter!("rest_client_exec_plugin_call_total", "code" => code.to_string(), "call_status" => status)
        .increment(1);
}

/// Sets the remaining lifetime of the credential in use; infinity if it is not known.
pub(in crate::auth) fn record_ttl(lifetime: &Lifetime) {
    gauge!("rest_client_exec_plugin_ttl_seconds").set(lifetime.ttl_seconds());
}

/// Records the age of a certificate when it is replaced or removed.
pub(super) fn record_rotation(previous: &Identity, now: Timestamp) {
    if let Some(since) = valid_since(&previous.certificate) {
        histogram!("rest_client_exec_plugin_certificate_rotation_age")
            .record((now.as_second() - since).max(0) as f64);
    }
}

/// Returns the start of a certificate's validity, in seconds since the epoch; `None` if it cannot
/// be parsed.
fn valid_since(certificate: &Pem) -> Option<i64> {
    let Pem::Data(text) = certificate else { return None };
    let der = CertificateDer::from_pem_slice(text.expose_secret().as_bytes()).ok()?;
    let (_, parsed) = X509Certificate::from_der(&der).ok()?;
    Some(parsed.validity().not_before.timestamp())
}
