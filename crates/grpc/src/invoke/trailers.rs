//! The end of a call for the `grpc` crate: a status and metadata, whether the server or our side
//! ended it.

use grpc::core::Trailers;
use grpc::metadata::MetadataMap;
use grpc::{StatusCodeError, StatusError};
use http::HeaderName;
use http::header::{HeaderMap, HeaderValue};
use percent_encoding::percent_decode;

use super::metadata::from_headers;
use crate::channel::{Code, ENDPOINT, Interrupted};

const MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Builds the end of a call that failed on our side.
pub(super) fn failed(code: StatusCodeError, message: impl Into<String>) -> Trailers {
    Trailers::new(Err(StatusError::new(code, message)))
}

/// Builds the end of a call from the server's trailers, or from its headers if there is nothing
/// else.
pub(super) fn from_server(headers: HeaderMap) -> Trailers {
    let status = match Code::of(&headers) {
        Some(Code::Ok) => Ok(()),
        Some(code) => Err(StatusError::new(StatusCodeError::from(code as i32), message(&headers))),
        None => Err(StatusError::new(StatusCodeError::Unknown, "the server sent no status")),
    };
    match from_headers(headers) {
        Ok(metadata) => Trailers::new(status).with_metadata(metadata),
        Err(why) if status.is_ok() => failed(StatusCodeError::Internal, why),
        Err(_) => Trailers::new(status),
    }
}

/// Builds the end of an interrupted response; the metadata names the endpoint.
pub(super) fn interrupted_trailers(interrupted: &Interrupted) -> Trailers {
    let mut metadata = MetadataMap::new();
    if let Ok(endpoint) = interrupted.endpoint().to_string().parse() {
        metadata.insert(ENDPOINT, endpoint);
    }
    failed(StatusCodeError::from(interrupted.code() as i32), interrupted.message()).with_metadata(metadata)
}

/// Returns the message of a status; invalid UTF-8 is replaced.
fn message(headers: &HeaderMap) -> String {
    let encoded = headers.get(MESSAGE).map(HeaderValue::as_bytes).unwrap_or_default();
    percent_decode(encoded).decode_utf8_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(all: &[(&'static str, &'static str)]) -> HeaderMap {
        let pair = |it: &(&'static str, &'static str)| {
            (HeaderName::from_static(it.0), HeaderValue::from_static(it.1))
        };
        all.iter().map(pair).collect()
    }

    fn shown(trailers: &Trailers) -> (i32, &str) {
        trailers.status().as_ref().map_or_else(|it| (it.code() as i32, it.message()), |()| (0, ""))
    }

    #[test]
    fn the_servers_status_has_its_message_and_metadata() {
        let trailers =
            from_server(headers(&[("grpc-status", "5"), ("grpc-message", "no %C3%BC%25"), ("why", "so")]));
        assert_eq!(shown(&trailers), (5, "no ü%"));
        assert_eq!(trailers.metadata().get("why").unwrap(), "so");
        assert_eq!(trailers.metadata().len(), 1);
        assert_eq!(shown(&from_server(headers(&[("grpc-status", "0")]))), (0, ""));
        assert_eq!(
            shown(&from_server(headers(&[("grpc-status", "77"), ("grpc-message", "odd")]))),
            (2, "odd")
        );
        assert_eq!(shown(&from_server(HeaderMap::new())), (2, "the server sent no status"));
    }

    #[test]
    fn invalid_metadata_fails_only_a_success() {
        let spoilt = from_server(headers(&[("grpc-status", "0"), ("blob-bin", "!")]));
        assert_eq!(shown(&spoilt).0, StatusCodeError::Internal as i32);
        let failed =
            from_server(headers(&[("grpc-status", "9"), ("grpc-message", "late"), ("blob-bin", "!")]));
        assert_eq!(shown(&failed), (9, "late"));
    }
}
