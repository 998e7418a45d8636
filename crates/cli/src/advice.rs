//! What to do about a failure, in terms of this command's flags.
//!
//! The libraries say what happened and name the file or the field; only the command knows which flags there are.

use dogwatch::Error;
use dogwatch::config::ConfigError;

/// The advice for an error, where there is something to be said that its own text does not say.
pub(crate) fn on(error: &anyhow::Error) -> Option<&'static str> {
    let error = error.downcast_ref::<Error>()?;
    match error {
        Error::Config(ConfigError::NoCluster(_)) => {
            Some("on the command line that is --kubeconfig FILE, --context NAME or --server URL")
        }
        Error::Unreachable { .. } | Error::TimedOut(_) => Some(
            "check that the server runs and that its address is right, or choose another with --context or --server",
        ),
        Error::Credentials(_) => Some("log in again, or choose other credentials with --context or --token"),
        _ if error.is_unauthorized() => {
            Some("log in again, or choose other credentials with --context or --token")
        }
        _ if error.is_forbidden() => {
            Some("ask for the permission, or choose another user with --context or --token")
        }
        _ => None,
    }
}
