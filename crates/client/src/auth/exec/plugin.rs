//! A credential plugin as a source of credentials.
//!
//! Reads the `exec` section, returns headers in [`Issued`] and sends certificates through a watch
//! channel. [`Renewing`] decides when the plugin runs, and [`Runner`] runs it.
//!
//! Clients with the same plugin configuration share the plugin, as in client-go (`globalCache` in
//! v0.36.4 `plugin/pkg/client/auth/exec/exec.go`): an interactive login happens once.

use parking_lot::Mutex;
use std::sync::{Arc, Weak};
use std::time::Duration;

use jiff::Timestamp;
use tokio::sync::watch;

use super::metrics::record_rotation;
use super::policy;
use super::protocol::{self, Version};
use super::runner::Runner;
use crate::auth::error::{AuthError, PluginError};
use crate::auth::issued::{Issued, same_identity};
use crate::auth::renew::{Renewing, Source};
use crate::config::{ExecConfig, Identity, InteractiveMode, PluginPolicy};

/// The default time limit of a plugin without a terminal. A login over a slow network takes
/// seconds; after a minute the plugin probably waits for input that never comes.
const DEFAULT_LIMIT: Duration = Duration::from_secs(60);

/// A plugin, and the channel of its certificates.
pub(in crate::auth) struct Plugin {
    runner: Runner,
    version: Version,
    options: PluginOptions,
    identity: watch::Sender<Option<Identity>>,
}

/// The plugins of this process that a client uses.
static RUNNING: Mutex<Vec<Weak<Renewing<Plugin>>>> = Mutex::new(Vec::new());

/// The program's options for plugins.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::auth) struct PluginOptions {
    /// The time limit of a non-interactive run.
    pub(in crate::auth) time_limit: Option<Duration>,
    /// Set when the program reads standard input itself.
    pub(in crate::auth) stdin_unavailable: bool,
}

impl Plugin {
    /// Validates the section; the plugin itself runs when the first request needs it.
    pub(in crate::auth) fn follow(
        config: &ExecConfig,
        policy: &PluginPolicy,
        options: PluginOptions,
    ) -> Result<Arc<Renewing<Self>>, AuthError> {
        if config.command.is_empty() {
            return Err(misconfigured("names no command"));
        }
        let version = Version::parse(&config.api_version).ok_or_else(|| {
            misconfigured(format_args!(
                "asks for API version `{}`; client.authentication.k8s.io/v1 and /v1beta1 are known",
                config.api_version
            ))
        })?;
        let mode = match (config.interactive_mode, version) {
            (Some(mode), _) => mode,
            (None, Version::V1Beta1) => InteractiveMode::IfAvailable,
            (None, Version::V1) => {
                return Err(misconfigured("names no interactiveMode: Never, IfAvailable or Always"));
            }
        };
        if config.env.iter().any(|variable| variable.name.is_empty() || variable.name.contains(['=', '\0'])) {
            return Err(misconfigured("has a variable with an invalid name"));
        }
        policy::check(policy)?;
        let mut running = RUNNING.lock();
        running.retain(|it| it.strong_count() > 0);
        let same = |it: &Arc<Renewing<Self>>| it.source().is_started_by(config, policy, options);
        if let Some(found) = running.iter().filter_map(Weak::upgrade).find(same) {
            return Ok(found);
        }
        let limit = options.time_limit.unwrap_or(DEFAULT_LIMIT);
        let runner = Runner::new(config.clone(), policy.clone(), mode, limit, options.stdin_unavailable);
        let plugin = Self { runner, version, options, identity: watch::Sender::new(None) };
        let renewing = Arc::new(Renewing::new(plugin, None));
        running.push(Arc::downgrade(&renewing));
        Ok(renewing)
    }

    /// Returns the channel of the plugin's certificate.
    pub(in crate::auth) fn identity(&self) -> &watch::Sender<Option<Identity>> {
        &self.identity
    }

    fn is_started_by(&self, config: &ExecConfig, policy: &PluginPolicy, options: PluginOptions) -> bool {
        self.runner.config() == config && self.runner.policy() == policy && self.options == options
    }
}

impl Source for Plugin {
    const NAME: &'static str = "exec plugin";

    /// The plugin's error is more helpful than a second 401.
    const KEEPS_REJECTED: bool = false;

    async fn renew(&self) -> Result<Issued, AuthError> {
        let interactive = self.runner.interactive()?;
        let config = self.runner.config();
        let cluster = config.cluster.as_ref().filter(|_| config.provide_cluster_info);
        let info = protocol::exec_info(self.version, cluster, interactive);
        let stdout = self.runner.run(&info, interactive).await?;
        let issued = protocol::parse_output(self.version, &stdout, Timestamp::now())
            .map_err(|problem| PluginError::Malformed { command: self.runner.command(), problem })?;
        self.identity.send_if_modified(|current| {
            let changed = !same_identity(current.as_ref(), issued.identity.as_ref());
            if changed {
                if let Some(previous) = current {
                    record_rotation(previous, Timestamp::now());
                }
                current.clone_from(&issued.identity);
            }
            changed
        });
        Ok(issued)
    }
}

fn misconfigured(what: impl std::fmt::Display) -> AuthError {
    AuthError::Misconfigured(format!("the exec section of the user {what}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(change: impl FnOnce(&mut ExecConfig)) -> Result<(), String> {
        let mut config = ExecConfig {
            api_version: "client.authentication.k8s.io/v1".to_owned(),
            command: "plugin".to_owned(),
            interactive_mode: Some(InteractiveMode::Never),
            ..ExecConfig::default()
        };
        change(&mut config);
        Plugin::follow(&config, &PluginPolicy::AllowAll, PluginOptions::default())
            .map(|_| ())
            .map_err(|error| error.to_string())
    }

    #[test]
    fn kc_8_an_exec_section_must_be_complete() {
        assert_eq!(check(|_| ()), Ok(()));
        assert!(check(|it| it.command.clear()).unwrap_err().ends_with("names no command"));
        assert!(check(|it| it.interactive_mode = None).unwrap_err().contains("interactiveMode"));
        let beta = "client.authentication.k8s.io/v1beta1";
        assert_eq!(
            check(|it| {
                it.api_version = beta.to_owned();
                it.interactive_mode = None;
            }),
            Ok(())
        );
        for version in ["", "v1", "client.authentication.k8s.io/v1alpha1"] {
            let error = check(|it| it.api_version = version.to_owned()).unwrap_err();
            assert!(error.contains("API version"), "{error}");
        }
    }
}
