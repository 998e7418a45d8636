//! A request that the kubelet rejects, with the status and the text of its response.

use http::StatusCode;

/// A request that the kubelet rejects.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Rejection {
    pub(super) status: StatusCode,
    /// The body of the response. kube-apiserver makes it the message of its own response.
    pub(super) message: String,
}

impl Rejection {
    pub(super) fn new(status: StatusCode, message: impl Into<String>) -> Self {
        Self { status, message: message.into() }
    }

    pub(super) fn bad_request(message: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, message)
    }

    pub(super) fn not_found(message: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, message)
    }
}
