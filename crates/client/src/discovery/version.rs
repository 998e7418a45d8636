//! Which Kubernetes a server is.

use k8s_openapi::apimachinery::pkg::version::Info;

use super::source::TIMEOUT;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Asks the server for its version.
    ///
    /// # Errors
    /// When it cannot be reached, refuses, or does not answer with a version.
    pub async fn server_version(&self) -> Result<Info, Error> {
        self.get().path(&["/version"]).timeout(TIMEOUT).send().await
    }
}
