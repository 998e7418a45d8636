//! What was asked.

/// What was asked.
#[derive(Clone, Debug, Default)]
pub struct RequestLog;

/// The requests that were kept.
#[derive(Clone, Debug, Default)]
pub struct Requests;

impl RequestLog {
    /// A log that keeps the newest `capacity` requests.
    pub fn keeping(_: usize) -> Self {
        Self
    }

    /// The requests that are kept now.
    pub fn requests(&self) -> Requests {
        Requests
    }
}
