//! A response that was read whole.

use std::fmt;

use bytes::Bytes;
use dogwatch_wire::{Envelope, Fields};
use http::{HeaderMap, StatusCode};
use serde::de::DeserializeOwned;

use crate::error::Error;
use crate::exchange::error_response;

/// A response that was read whole.
///
/// `Debug` shows the code, the names of the headers and the length of the body; the body may hold
/// secrets.
///
/// ```
/// use k8s_openapi::api::core::v1::ConfigMap;
/// use serde_json::json;
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let server = dogwatch_apiserver::ApiServer::in_process().await?;
/// # let url = server.url().parse()?;
/// # let client = dogwatch_client::Client::from_service(url, "default", server.service());
/// let path = ["api", "v1", "namespaces", "default", "configmaps"];
/// let map = json!({ "apiVersion": "v1", "kind": "ConfigMap", "metadata": { "name": "settings" } });
/// let response = client.post().path(&path).json(&map).response().await?;
/// assert!(response.was_created());
/// assert_eq!(response.json::<ConfigMap>()?.metadata.name.as_deref(), Some("settings"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Response {
    /// The status code: always a success, because any other code is an error.
    pub code: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body, decompressed.
    pub body: Bytes,
    /// Method and path template, for messages.
    pub(crate) request: String,
}

impl Response {
    /// Returns true if the server created the object rather than changed it (201).
    pub fn was_created(&self) -> bool {
        self.code == StatusCode::CREATED
    }

    /// Decodes the body. A `Status` other than `Success` is returned as the error it describes.
    ///
    /// # Errors
    /// Returns an error if the body is empty, is not a `T`, or is a `Status` that reports a
    /// failure.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        self.decode(Fields::default().keep_managed_fields())
    }

    pub(crate) fn decode<T: DeserializeOwned>(&self, fields: Fields) -> Result<T, Error> {
        let malformed = |problem: String| Error::Malformed { request: self.request.clone(), problem };
        if self.body.is_empty() {
            return Err(malformed(format!("0-length response with status code {}", self.code.as_u16())));
        }
        if let Some(status) = error_response::failure_in_success(&self.body) {
            return Err(status.into());
        }
        let decoded = if self.body.starts_with(Envelope::MAGIC) {
            dogwatch_wire::from_protobuf(&self.body, fields)
        } else {
            dogwatch_wire::from_slice(&self.body, fields)
        };
        decoded.map_err(|bad| malformed(bad.to_string()))
    }
}

impl fmt::Debug for Response {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Response")
            .field("request", &self.request)
            .field("code", &self.code)
            .field("headers", &self.headers.keys().collect::<Vec<_>>())
            .field("body_bytes", &self.body.len())
            .finish()
    }
}
