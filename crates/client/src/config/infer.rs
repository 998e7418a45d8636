//! The entry points of the configuration, and the search for a cluster (rule KC-5): kubeconfig
//! first, then the pod the process runs in.
//!
//! They read small files and block meanwhile.

use std::path::Path;

use super::absent::given;
use super::environment::Environment;
use super::error::{ConfigError, NoCluster};
use super::incluster;
use super::kubeconfig::Kubeconfig;
use super::load::Loaded;
use super::overrides::Overrides;
use super::resolve::resolve;
use super::select::select;
use super::settings::Config;

impl Config {
    /// Infers the configuration of this process: from the files that `KUBECONFIG` lists, or
    /// `.kube/config` of the home directory, or the service account of the pod it runs in.
    pub fn from_env() -> Result<Self, ConfigError> {
        Self::infer(&Environment::from_process(), &Overrides::default())
    }

    /// Infers the configuration from any environment, with overrides. The pod is used only if
    /// neither the files nor the overrides name a cluster, and never if the caller names a file. A
    /// file that exists and cannot be used is an error, not a reason to search elsewhere.
    pub fn infer(environment: &Environment, overrides: &Overrides) -> Result<Self, ConfigError> {
        let explicit = given(&overrides.kubeconfig);
        let loaded = Kubeconfig::load(environment, explicit.map(|path| path.as_path()))?;
        if !loaded.broken.is_empty() {
            return Err(ConfigError::Files(loaded.broken));
        }
        let target = select(&loaded.kubeconfig, overrides)?;
        if let Some(target) = target.as_ref().filter(|target| !target.from_defaults || explicit.is_some()) {
            return resolve(target, overrides, environment);
        }
        let pod = match explicit {
            Some(_) => None,
            None => Some(incluster::possible(environment)),
        };
        match (pod, target) {
            (Some(Ok(())), _) => resolve(&incluster::target(environment, overrides)?, overrides, environment),
            (_, Some(target)) => resolve(&target, overrides, environment),
            (pod, None) => Err(ConfigError::NoCluster(searched_places(&loaded, pod.and_then(Result::err)))),
        }
    }

    /// Reads one kubeconfig file, which must exist.
    pub fn from_kubeconfig(path: impl AsRef<Path>, overrides: &Overrides) -> Result<Self, ConfigError> {
        let overrides = Overrides { kubeconfig: Some(path.as_ref().to_owned()), ..overrides.clone() };
        Self::infer(&Environment::from_process(), &overrides)
    }

    /// Parses a kubeconfig. Relative paths in it start at the working directory.
    pub fn from_kubeconfig_str(text: &str, overrides: &Overrides) -> Result<Self, ConfigError> {
        Self::resolve(&Kubeconfig::from_yaml(text)?, overrides, &Environment::from_process())
    }

    /// Resolves a kubeconfig that is already parsed.
    pub fn resolve(
        kubeconfig: &Kubeconfig,
        overrides: &Overrides,
        environment: &Environment,
    ) -> Result<Self, ConfigError> {
        match select(kubeconfig, overrides)? {
            Some(target) => resolve(&target, overrides, environment),
            None => {
                let mut searched_places = searched_places(&Loaded::default(), None);
                searched_places.looked_at.push("the given kubeconfig (names no cluster)".to_owned());
                searched_places.contexts = names(kubeconfig);
                Err(ConfigError::NoCluster(searched_places))
            }
        }
    }

    /// Returns the configuration of a pod: its cluster's API server with the pod's service account.
    pub fn in_cluster() -> Result<Self, ConfigError> {
        Self::in_cluster_from(&Environment::from_process(), &Overrides::default())
    }

    /// Returns the configuration of a pod in any environment, with overrides.
    pub fn in_cluster_from(environment: &Environment, overrides: &Overrides) -> Result<Self, ConfigError> {
        resolve(&incluster::target(environment, overrides)?, overrides, environment)
    }
}

/// Lists the places that were searched, for the error message.
fn searched_places(loaded: &Loaded, no_pod: Option<String>) -> NoCluster {
    let silent = loaded.files.iter().map(|file| format!("{} (names no cluster)", file.display()));
    let missing = loaded.missing.iter().map(|file| format!("{} (does not exist)", file.display()));
    NoCluster { looked_at: silent.chain(missing).collect(), contexts: names(&loaded.kubeconfig), no_pod }
}

fn names(kubeconfig: &Kubeconfig) -> Vec<String> {
    kubeconfig.contexts.iter().map(|entry| entry.name.clone()).collect()
}
