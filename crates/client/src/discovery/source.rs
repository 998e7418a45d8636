//! The source of discovery documents: the server, or the HTTP cache if the server reports no
//! change.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_wire::Fields;
use http::StatusCode;
use http::header::{HeaderName, IF_NONE_MATCH};
use serde::de::DeserializeOwned;

use super::http_cache::{CachedResponse, HttpCache};
use crate::client::Client;
use crate::error::Error;
use crate::response::Response;

/// The time limit of one discovery request, unless the client has its own. `defaultTimeout` in
/// client-go v0.36.4 `discovery/discovery_client.go`, an odd number that is easily distinguished
/// from other limits.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(32);

/// A source of documents. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct DiscoverySource {
    client: Client,
    kept: Option<Arc<HttpCache>>,
}

/// A response: from the server, or from the cache after the server confirmed it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum DocumentResponse<'a> {
    Fresh(&'a Response),
    Cached(&'a CachedResponse),
}

impl DiscoverySource {
    /// Creates a source without a cache.
    pub(crate) fn of(client: Client) -> Self {
        Self { client, kept: None }
    }

    /// Creates a source that transfers only changed documents.
    pub(crate) fn with_cache(client: Client, cache: HttpCache) -> Self {
        Self { client, kept: Some(Arc::new(cache)) }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Requests a document and parses it. With a caller's own ETag, an unchanged document is an
    /// error for which [`is_not_modified`] holds. Only documents that can be parsed are cached.
    ///
    /// # Errors
    /// Returns an error if the request fails, or the error of `read` for the server's response.
    pub(crate) async fn get<R>(
        &self,
        path: &[&str],
        accept: &str,
        tag: Option<&str>,
        read: impl Fn(DocumentResponse<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let timeout = self.client.timeout().unwrap_or(TIMEOUT);
        let request = self.client.get().path(path).accept(accept).timeout(timeout);
        let url = self.client.server().as_str().trim_end_matches('/').to_owned() + &request.target()?;
        let kept = match (&self.kept, tag) {
            (Some(cache), None) => cache.get(&url, accept).await,
            _ => None,
        };
        let answer = match tag.or(kept.as_ref().and_then(CachedResponse::tag)) {
            Some(tag) => request.clone().header(IF_NONE_MATCH, tag).response().await,
            None => request.clone().response().await,
        };
        let answer = match (answer, &kept) {
            (Err(error), Some(kept)) if is_not_modified(&error) => match read(DocumentResponse::Cached(kept))
            {
                Ok(read) => return Ok(read),
                // The cached entry is not a valid document: request it again without the ETag.
                Err(_) => request.response().await,
            },
            (answer, _) => answer,
        };
        self.take(&url, accept, answer, read).await
    }

    /// Parses the server's response, and caches it for the next time.
    async fn take<R>(
        &self,
        url: &str,
        accept: &str,
        answer: Result<Response, Error>,
        read: impl Fn(DocumentResponse<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let result = answer.and_then(|it| Ok((read(DocumentResponse::Fresh(&it))?, it)));
        match (&self.kept, result) {
            (Some(cache), Ok((read, answer))) if answer.code == StatusCode::OK => {
                let entry = CachedResponse { headers: answer.headers, body: answer.body };
                cache.put(url, accept, &entry).await;
                Ok(read)
            }
            (Some(cache), Err(error)) if error.is_not_found() => {
                cache.remove(url).await;
                Err(error)
            }
            (_, result) => result.map(|it| it.0),
        }
    }
}

/// Returns true for a 304; for any other request that status is an error.
pub(crate) fn is_not_modified(error: &Error) -> bool {
    error.status().is_some_and(|it| it.code == StatusCode::NOT_MODIFIED.as_u16())
}

impl DocumentResponse<'_> {
    /// Returns a header that is text.
    pub(crate) fn header(&self, name: HeaderName) -> Option<&str> {
        let headers = match self {
            Self::Fresh(answer) => &answer.headers,
            Self::Cached(entry) => &entry.headers,
        };
        headers.get(name)?.to_str().ok()
    }

    /// Decodes the body.
    ///
    /// # Errors
    /// Returns an error if the body is not a `T`.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        match self {
            Self::Fresh(answer) => answer.json(),
            Self::Cached(entry) => {
                let fields = Fields::default().keep_managed_fields();
                Ok(dogwatch_wire::from_slice(&entry.body, fields)?)
            }
        }
    }
}
