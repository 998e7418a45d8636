//! Clients of the demo's server, each with connections of its own.

use dogwatch::config::Overrides;
use dogwatch::{Client, Config};
use dogwatch_apiserver::ApiServer;

/// The namespace of the story.
pub(super) const NAMESPACE: &str = "demo";
/// The field manager of the demo's writes.
pub(super) const FIELD_MANAGER: &str = "dogwatch-demo";

/// Returns a client with connections of its own. With a user, its requests are logged as that
/// user's.
///
/// # Errors
/// Returns an error if the configuration of the server cannot be read.
pub(super) fn connect(server: &ApiServer, user: Option<&str>) -> anyhow::Result<Client> {
    let mut overrides = Overrides::default();
    overrides.user_info.impersonate = user.map(str::to_owned);
    let config = Config::from_kubeconfig_str(&server.kubeconfig(), &overrides)?;
    Ok(Client::new(config)?)
}
