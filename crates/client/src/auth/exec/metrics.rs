//! The numbers client-go keeps about plugins, under its names.

use jiff::Timestamp;
use metrics::{counter, gauge, histogram};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::ExposeSecret as _;
use x509_parser::prelude::{FromDer as _, X509Certificate};

use crate::auth::error::PluginError;
use crate::auth::issued::Lifetime;
use crate::config::{Identity, Pem};

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

/// Measures how old a certificate was when another, or none, took its place.
pub(super) fn record_rotation(previous: &Identity, now: Timestamp) {
    if let Some(since) = valid_since(&previous.certificate) {
        histogram!("rest_client_exec_plugin_certificate_rotation_age")
            .record((now.as_second() - since).max(0) as f64);
    }
}

/// From when on a certificate holds, in seconds since the epoch; `None` for what is none.
fn valid_since(certificate: &Pem) -> Option<i64> {
    let Pem::Data(text) = certificate else { return None };
    let der = CertificateDer::from_pem_slice(text.expose_secret().as_bytes()).ok()?;
    let (_, parsed) = X509Certificate::from_der(&der).ok()?;
    Some(parsed.validity().not_before.timestamp())
}
