//! The head of a request: method, metadata and deadline.

use grpc::client::CallOptions;
use grpc::core::RequestHeaders;
use grpc::{StatusCodeError, StatusError};
use http::header::{CONTENT_TYPE, HeaderMap, HeaderValue, TE};
use http::uri::PathAndQuery;
use http::{Method, Request, Uri};
use tokio::time::Instant;

use super::metadata::into_headers;
use super::upload::Upload;
use crate::channel::{Code, Failure, TIMEOUT, timeout_value};

/// The head of a call. The remaining time is computed when the call begins. Not `Debug`: metadata
/// contains tokens.
pub(super) struct Head {
    path: PathAndQuery,
    headers: HeaderMap,
    deadline: Option<Instant>,
}

impl Head {
    /// Creates the head of a call.
    ///
    /// # Errors
    /// Returns an error if the method cannot be the path of a request.
    pub(super) fn new(mut headers: RequestHeaders, options: &CallOptions) -> Result<Self, StatusError> {
        let metadata = std::mem::take(headers.metadata_mut());
        let method = headers.method_name().as_str();
        let path = method.starts_with('/').then(|| PathAndQuery::try_from(method).ok()).flatten();
        let Some(path) = path else {
            let message = format!("{method:?} is not a method; write /package.Service/Method");
            return Err(StatusError::new(StatusCodeError::Internal, message));
        };
        let mut headers = into_headers(metadata);
        headers.insert(TE, HeaderValue::from_static("trailers"));
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
        Ok(Self { path, headers, deadline: options.deadline().map(Instant::from_std) })
    }

    /// Builds the request.
    ///
    /// # Errors
    /// Returns an error if the deadline has already passed.
    pub(super) fn with(mut self, body: Upload) -> Result<Request<Upload>, Failure> {
        if let Some(deadline) = self.deadline {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                let message = "the deadline had passed before the call began";
                return Err(Failure::new(Code::DeadlineExceeded, message, None));
            }
            self.headers.insert(TIMEOUT, timeout_value(left));
        }
        let mut request = Request::new(body);
        *request.method_mut() = Method::POST;
        *request.uri_mut() = Uri::from(self.path);
        *request.headers_mut() = self.headers;
        Ok(request)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn head(method: &str, options: &CallOptions) -> Result<Head, StatusError> {
        Head::new(RequestHeaders::new().with_method_name(method), options)
    }

    #[test]
    fn the_method_is_the_path() {
        let head = |method: &str| head(method, &CallOptions::new());
        let request = head("/test.Echo/One")
            .unwrap_or_else(|_| panic!("the method is valid"))
            .with(Upload::Ended)
            .unwrap();
        assert_eq!((request.method(), request.uri().path()), (&Method::POST, "/test.Echo/One"));
        assert_eq!(
            (&request.headers()[TE], &request.headers()[CONTENT_TYPE]),
            (&HeaderValue::from_static("trailers"), &HeaderValue::from_static("application/grpc"))
        );
        assert!(!request.headers().contains_key(TIMEOUT));
        for odd in ["", "test.Echo/One", "/with a space"] {
            let error = head(odd).err().map(|it| it.code());
            assert_eq!(error, Some(StatusCodeError::Internal), "{odd:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_remaining_time_is_computed_when_the_call_begins() {
        let mut options = CallOptions::new();
        options.set_deadline((Instant::now() + Duration::from_secs(3)).into_std());
        let head = || head("/a/b", &options).unwrap_or_else(|_| panic!("the method is valid"));
        let (begun, late) = (head(), head());
        tokio::time::advance(Duration::from_secs(1)).await;
        assert_eq!(begun.with(Upload::Ended).unwrap().headers()[TIMEOUT], "2000000u");
        tokio::time::advance(Duration::from_secs(2)).await;
        assert_eq!(late.with(Upload::Ended).unwrap_err().code, Code::DeadlineExceeded);
    }
}
