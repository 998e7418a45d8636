//! The configuration of a process in a pod: two variables and the files of its service account
//! (rules KC-5, KC-6 and KC-9).
//!
//! It becomes a [`Target`] like a kubeconfig does, so that overrides mean the same inside and
//! outside of a pod.

use std::net::Ipv6Addr;
use std::path::PathBuf;

use tracing::error;

use super::environment::{Environment, POD_NAMESPACE, SERVICE_HOST, SERVICE_PORT};
use super::error::ConfigError;
use super::kubeconfig::Cluster;
use super::overrides::Overrides;
use super::select::Target;
use super::user::User;

/// The name of the entries in messages; no file defines them.
const NAME: &str = "in-cluster";

/// Checks that this process runs in a pod with a service account; the error names the missing part.
pub(super) fn possible(environment: &Environment) -> Result<(), String> {
    address(environment)?;
    let token = environment.service_account_file("token");
    if token.is_file() { Ok(()) } else { Err(format!("{} does not exist", token.display())) }
}

/// Returns the target of this pod: its cluster's API server with the pod's service account.
pub(super) fn target(environment: &Environment, overrides: &Overrides) -> Result<Target, ConfigError> {
    let server = address(environment).map_err(|reason| ConfigError::NotInCluster { reason })?;
    let cluster = Cluster {
        server: Some(server),
        certificate_authority: certificate_authority(environment),
        ..Cluster::default()
    };
    let user = User { token_file: Some(environment.service_account_file("token")), ..User::default() };
    Ok(Target::new(NAME, cluster, user, overrides))
}

/// Returns the namespace of this pod, if it is known.
pub(super) fn namespace(environment: &Environment) -> Option<String> {
    if let Some(namespace) = environment.text(POD_NAMESPACE) {
        return Some(namespace.to_owned());
    }
    let text = std::fs::read_to_string(environment.service_account_file("namespace")).ok()?;
    Some(text.trim().to_owned()).filter(|namespace| !namespace.is_empty())
}

fn address(environment: &Environment) -> Result<String, String> {
    let variable = |name| environment.text(name).ok_or_else(|| format!("{name} is not set"));
    let (host, port) = (variable(SERVICE_HOST)?, variable(SERVICE_PORT)?);
    Ok(match host.parse::<Ipv6Addr>() {
        Ok(address) => format!("https://[{address}]:{port}"),
        Err(_) => format!("https://{host}:{port}"),
    })
}

/// Returns the path of the cluster's roots. Without them the system's roots are used, which most
/// likely do not verify the server: an error is logged here, where the cause is known, but the
/// configuration is not rejected.
fn certificate_authority(environment: &Environment) -> Option<PathBuf> {
    let path = environment.service_account_file("ca.crt");
    match std::fs::read_to_string(&path) {
        Ok(text) if text.contains("-----BEGIN CERTIFICATE-----") => Some(path),
        Ok(_) => {
            error!(path = %path.display(), "the service account's ca.crt contains no certificate; using the system's roots");
            None
        }
        Err(cause) => {
            error!(path = %path.display(), %cause, "cannot read the service account's ca.crt; using the system's roots");
            None
        }
    }
}
