//! The version of a server.

use k8s_openapi::apimachinery::pkg::version::Info;

use super::source::TIMEOUT;
use crate::client::Client;
use crate::error::Error;

impl Client {
    /// Reads the server's version.
    ///
    /// # Errors
    /// Returns an error if the server cannot be reached, returns an error, or does not return a
    /// version.
    pub async fn server_version(&self) -> Result<Info, Error> {
        self.get().path(&["/version"]).timeout(TIMEOUT).send().await
    }
}
