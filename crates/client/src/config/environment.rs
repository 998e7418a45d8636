//! The configuration's view of the process: a few environment variables, the home directory, the
//! service account's files.
//!
//! It is a value, so that a test or an embedding program can supply its own; nothing else in the
//! configuration reads the process's environment.

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};

/// The variable with the list of kubeconfig files.
pub(super) const KUBECONFIG: &str = "KUBECONFIG";
/// The variable with the API server's host, set in every pod.
pub(super) const SERVICE_HOST: &str = "KUBERNETES_SERVICE_HOST";
/// The variable with the API server's port.
pub(super) const SERVICE_PORT: &str = "KUBERNETES_SERVICE_PORT";
/// The variable with the pod's namespace, if its author sets it.
pub(super) const POD_NAMESPACE: &str = "POD_NAMESPACE";
/// The variable that turns HTTP/2 off if it has any value.
pub(super) const DISABLE_HTTP2: &str = "DISABLE_HTTP2";

/// The only variables that are read.
const VARIABLES: [&str; 5] = [KUBECONFIG, SERVICE_HOST, SERVICE_PORT, POD_NAMESPACE, DISABLE_HTTP2];

/// The directory where the kubelet mounts the service account of a pod.
const SERVICE_ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";

/// The environment variables and directories that a configuration is inferred from.
///
/// ```
/// use dogwatch_client::Config;
/// use dogwatch_client::config::{Environment, Overrides};
///
/// // A test that does not depend on the variables and files of the machine.
/// let environment = Environment::empty().with_var("KUBECONFIG", "/does/not/exist");
/// let result = Config::infer(&environment, &Overrides::default());
/// assert!(result.is_err_and(|error| error.is_empty()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Environment {
    variables: BTreeMap<String, OsString>,
    home: Option<PathBuf>,
    service_account: PathBuf,
}

impl Environment {
    /// Returns an environment without variables and home directory, and with the usual path of the
    /// service account.
    pub fn empty() -> Self {
        Self { variables: BTreeMap::new(), home: None, service_account: SERVICE_ACCOUNT.into() }
    }

    /// Captures the environment of this process. Later changes are not followed.
    pub fn from_process() -> Self {
        let variables =
            VARIABLES.iter().filter_map(|name| Some(((*name).to_owned(), std::env::var_os(name)?))).collect();
        Self { variables, home: std::env::home_dir(), ..Self::empty() }
    }

    /// Sets a variable.
    #[must_use]
    pub fn with_var(mut self, name: impl Into<String>, value: impl Into<OsString>) -> Self {
        self.variables.insert(name.into(), value.into());
        self
    }

    /// Sets the home directory.
    #[must_use]
    pub fn with_home(mut self, home: impl Into<PathBuf>) -> Self {
        self.home = Some(home.into());
        self
    }

    /// Sets the directory of the service account's files.
    #[must_use]
    pub fn with_service_account(mut self, directory: impl Into<PathBuf>) -> Self {
        self.service_account = directory.into();
        self
    }

    /// Returns a variable, unless it is unset or empty.
    pub(super) fn var(&self, name: &str) -> Option<&OsStr> {
        self.variables.get(name).map(OsString::as_os_str).filter(|value| !value.is_empty())
    }

    /// Returns a variable, unless it is unset, empty or not Unicode.
    pub(super) fn text(&self, name: &str) -> Option<&str> {
        self.var(name)?.to_str()
    }

    /// Returns the directory `.kube` of the home directory.
    pub(super) fn kube_dir(&self) -> Option<PathBuf> {
        self.home.as_ref().filter(|home| !home.as_os_str().is_empty()).map(|home| home.join(".kube"))
    }

    /// Returns the path of a file of the service account.
    pub(super) fn service_account_file(&self, name: &str) -> PathBuf {
        Path::new(&self.service_account).join(name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_empty_variable_is_unset() {
        let environment = Environment::empty().with_var(KUBECONFIG, "").with_var(POD_NAMESPACE, "a");
        assert_eq!(environment.var(KUBECONFIG), None);
        assert_eq!(environment.text(POD_NAMESPACE), Some("a"));
        assert_eq!(environment.text(SERVICE_HOST), None);
    }

    #[test]
    fn only_the_known_variables_are_captured_from_the_process() {
        let environment = Environment::from_process();
        assert!(environment.variables.keys().all(|name| VARIABLES.contains(&name.as_str())));
    }
}
