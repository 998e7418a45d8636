//! Where documents of discovery come from: the server, or the disk if the server says that nothing changed.

use std::sync::Arc;
use std::time::Duration;

use dogwatch_wire::Fields;
use http::StatusCode;
use http::header::{HeaderName, IF_NONE_MATCH};
use serde::de::DeserializeOwned;

use super::http_cache::{Entry, HttpCache};
use crate::client::Client;
use crate::error::Error;
use crate::request::Response;

/// How long one request of discovery may take, unless the client has a limit of its own. client-go's number, chosen to be
/// told apart from other limits.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(32);

/// Asks for documents. Cheap to clone.
#[derive(Clone, Debug)]
pub(crate) struct Source {
    client: Client,
    kept: Option<Arc<HttpCache>>,
}

/// An answer: what the server said now, or what it said earlier and stands by.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Answer<'a> {
    Now(&'a Response),
    Kept(&'a Entry),
}

impl Source {
    /// Asks the server each time.
    pub(crate) fn of(client: Client) -> Self {
        Self { client, kept: None }
    }

    /// Asks the server each time, but for what changed only.
    pub(crate) fn kept(client: Client, cache: HttpCache) -> Self {
        Self { client, kept: Some(Arc::new(cache)) }
    }

    pub(crate) fn client(&self) -> &Client {
        &self.client
    }

    /// Asks for a document and reads it. With a tag of the caller's own, an answer without one is an error for which
    /// [`is_not_modified`] holds. Only what can be read is kept.
    ///
    /// # Errors
    /// When the server refuses or cannot be reached, and what `read` returns of the server's answer.
    pub(crate) async fn get<R>(
        &self,
        path: &[&str],
        accept: &str,
        tag: Option<&str>,
        read: impl Fn(Answer<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let timeout = self.client.timeout().unwrap_or(TIMEOUT);
        let request = self.client.get().path(path).accept(accept).timeout(timeout);
        let url = self.client.server().as_str().trim_end_matches('/').to_owned() + &request.target()?;
        let kept = match (&self.kept, tag) {
            (Some(cache), None) => cache.find(&url, accept).await,
            _ => None,
        };
        let answer = match tag.or(kept.as_ref().and_then(Entry::tag)) {
            Some(tag) => request.clone().header(IF_NONE_MATCH, tag).response().await,
            None => request.clone().response().await,
        };
        let answer = match (answer, &kept) {
            (Err(error), Some(kept)) if is_not_modified(&error) => match read(Answer::Kept(kept)) {
                Ok(read) => return Ok(read),
                // Whoever wrote it wrote no document. The server must say it again.
                Err(_) => request.response().await,
            },
            (answer, _) => answer,
        };
        self.take(&url, accept, answer, read).await
    }

    /// Reads what the server said, and keeps it for the next time.
    async fn take<R>(
        &self,
        url: &str,
        accept: &str,
        answer: Result<Response, Error>,
        read: impl Fn(Answer<'_>) -> Result<R, Error>,
    ) -> Result<R, Error> {
        let result = answer.and_then(|it| Ok((read(Answer::Now(&it))?, it)));
        match (&self.kept, result) {
            (Some(cache), Ok((read, answer))) if answer.code == StatusCode::OK => {
                let entry = Entry { headers: answer.headers, body: answer.body };
                cache.keep(url, accept, &entry).await;
                Ok(read)
            }
            (Some(cache), Err(error)) if error.is_not_found() => {
                cache.forget(url).await;
                Err(error)
            }
            (_, result) => result.map(|it| it.0),
        }
    }
}

/// An answer without a body that says that nothing changed; for any other request it would be a refusal.
pub(crate) fn is_not_modified(error: &Error) -> bool {
    error.status().is_some_and(|it| it.code == StatusCode::NOT_MODIFIED.as_u16())
}

impl Answer<'_> {
    /// A header that is text.
    pub(crate) fn header(&self, name: HeaderName) -> Option<&str> {
        let headers = match self {
            Self::Now(answer) => &answer.headers,
            Self::Kept(entry) => &entry.headers,
        };
        headers.get(name)?.to_str().ok()
    }

    /// Decodes the body.
    ///
    /// # Errors
    /// When it is not what was asked for.
    pub(crate) fn json<T: DeserializeOwned>(&self) -> Result<T, Error> {
        match self {
            Self::Now(answer) => answer.json(),
            Self::Kept(entry) => {
                let fields = Fields::default().keep_managed_fields();
                Ok(dogwatch_wire::from_slice(&entry.body, fields)?)
            }
        }
    }
}
