//! Tokens for service accounts.

use dogwatch_core::WriteParams;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;

use super::Api;
use crate::error::Error;

impl Api<ServiceAccount> {
    /// Asks for a token of a service account; it comes back in `status`.
    ///
    /// # Errors
    /// `NotFound` when there is no such account; `Forbidden` when tokens may not be made for it.
    pub async fn create_token(&self, name: &str, request: &TokenRequest) -> Result<TokenRequest, Error> {
        self.create_subresource(name, "token", &WriteParams::default(), request).await
    }
}
