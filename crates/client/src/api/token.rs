//! Tokens for service accounts.

use dogwatch_core::WriteParams;
use k8s_openapi::api::authentication::v1::TokenRequest;
use k8s_openapi::api::core::v1::ServiceAccount;

use super::Api;
use crate::error::Error;

impl Api<ServiceAccount> {
    /// Requests a token for a service account; it is returned in `status`.
    ///
    /// # Errors
    /// `NotFound` if the account does not exist; `Forbidden` if the caller may not create tokens
    /// for it.
    pub async fn create_token(&self, name: &str, request: &TokenRequest) -> Result<TokenRequest, Error> {
        self.create_subresource(name, "token", &WriteParams::default(), request).await
    }
}
