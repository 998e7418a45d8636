//! The encodings of objects in responses.

use http::HeaderMap;
use http::header::CONTENT_TYPE;

/// The media type of protobuf in Kubernetes.
const PROTOBUF: &str = "application/vnd.kubernetes.protobuf";

/// The encoding that a handle prefers for responses.
///
/// ```
/// use dogwatch_client::{Api, Encoding};
/// use k8s_openapi::api::core::v1::Pod;
///
/// # let url = "http://localhost".parse()?;
/// # let client = dogwatch_client::Client::new(dogwatch_client::Config::new(url))?;
/// let pods = Api::<Pod>::all(client).with_encoding(Encoding::Protobuf);
/// assert_eq!(pods.encoding(), Encoding::Protobuf);
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
