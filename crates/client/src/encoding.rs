//! The encodings of objects in responses and in request bodies.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use http::HeaderMap;
use http::header::CONTENT_TYPE;

use dogwatch_wire::{Fields, UndecodableItem};

/// The media type of protobuf in Kubernetes.
pub(crate) const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The encoding that a handle prefers: for lists and watches, and for the objects that it sends.
///
/// ```
/// use dogwatch_client::{Api, Encoding};
/// use k8s_openapi::api::core::v1::Pod;
///
/// # let url = "http://localhost".parse()?;
/// # let client = dogwatch_client::Client::new(dogwatch_client::Config::new(url))?;
/// let pods = Api::<Pod>::all(client);
/// assert_eq!(pods.encoding(), Encoding::Protobuf);
/// assert_eq!(pods.with_encoding(Encoding::Json).encoding(), Encoding::Json);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Encoding {
    /// JSON, which every server and every kind supports.
    Json,
    /// Protobuf, which is smaller and faster to decode. Only the built-in kinds of Kubernetes have
    /// it; a server that does not send it answers with JSON, which is decoded as well.
    Protobuf,
}

impl Encoding {
    /// Returns the encoding of a response.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        let media = headers.get(CONTENT_TYPE).and_then(|it| it.to_str().ok()).unwrap_or_default();
        match media.split(';').next() {
            Some(media) if media.trim().eq_ignore_ascii_case(PROTOBUF) => Self::Protobuf,
            _ => Self::Json,
        }
    }
}

/// The encoding that a handle uses, for responses or for bodies. Clones share the discovery that
/// protobuf does not work, after which all of them use JSON.
#[derive(Clone, Debug)]
pub(crate) struct EncodingChoice {
    preferred: Encoding,
    json_only: Arc<AtomicBool>,
}

impl EncodingChoice {
    pub(crate) fn new(preferred: Encoding) -> Self {
        Self { preferred, json_only: Arc::default() }
    }

    /// Returns the encoding that the user of the handle prefers.
    pub(crate) fn preferred(&self) -> Encoding {
        self.preferred
    }

    /// Returns the encoding to use next.
    pub(crate) fn current(&self) -> Encoding {
        if self.json_only.load(Ordering::Relaxed) { Encoding::Json } else { self.preferred }
    }

    /// Requests JSON from now on: an object has a field that is unknown in protobuf, because the
    /// server is newer. It would be lost.
    pub(crate) fn found_unknown_field(&self, bad: &UndecodableItem) {
        if !self.json_only.swap(true, Ordering::Relaxed) {
            tracing::info!(problem = %bad, "requesting JSON instead of protobuf from now on");
        }
    }

    /// Sends JSON from now on: the server does not decode protobuf.
    pub(crate) fn refused_by_server(&self, error: &impl std::fmt::Display) {
        if !self.json_only.swap(true, Ordering::Relaxed) {
            tracing::info!(%error, "sending JSON instead of protobuf from now on");
        }
    }
}

/// The `Accept` headers of a request, by encoding, and which of them to send.
#[derive(Clone, Debug)]
pub(crate) struct Accept {
    pub(crate) json: &'static str,
    pub(crate) protobuf: &'static str,
    pub(crate) encoding: EncodingChoice,
}

impl Accept {
    /// Returns the encoding to request, and its header.
    pub(crate) fn current(&self) -> (Encoding, &'static str) {
        match self.encoding.current() {
            Encoding::Json => (Encoding::Json, self.json),
            Encoding::Protobuf => (Encoding::Protobuf, self.protobuf),
        }
    }
}

/// Returns the fields to decode in the response to a request for an encoding. If JSON was requested
/// and the server sends protobuf all the same, there is no better way to get unknown fields.
pub(crate) fn fields_to_decode(fields: Fields, requested: Encoding) -> Fields {
    match requested {
        Encoding::Json => fields,
        Encoding::Protobuf => fields.reject_unknown(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_content_type_of_a_response_is_its_encoding() {
        for (media, encoding) in [
            ("application/json", Encoding::Json),
            ("application/vnd.kubernetes.protobuf", Encoding::Protobuf),
            ("Application/vnd.kubernetes.Protobuf; stream=watch", Encoding::Protobuf),
            ("text/plain", Encoding::Json),
        ] {
            let headers = HeaderMap::from_iter([(CONTENT_TYPE, media.parse().expect("a header"))]);
            assert_eq!(Encoding::of(&headers), encoding, "{media}");
        }
        assert_eq!(Encoding::of(&HeaderMap::new()), Encoding::Json);
    }
}
