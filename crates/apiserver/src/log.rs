//! The request log: until it is joined in, nothing is kept.

use std::time::Duration;

/// What a server was asked.
#[derive(Clone, Debug, Default)]
pub struct RequestLog {}

/// One request and how it ended.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Record {
    /// The verb.
    pub verb: String,
    /// The group of the resource.
    pub group: String,
    /// The plural of the resource.
    pub resource: String,
    /// The namespace.
    pub namespace: Option<String>,
    /// The object.
    pub name: Option<String>,
    /// The part of the object.
    pub part: String,
    /// The path of the request.
    pub path: String,
    /// The query as it was sent.
    pub query: String,
    /// Who asked.
    pub user: String,
    /// Who owns what was written.
    pub manager: String,
    /// The code of the answer; 0 when the connection was cut instead.
    pub status: u16,
    /// How long it took until the answer began.
    pub duration: Duration,
}

impl RequestLog {
    /// Keeps a request.
    pub fn record(&self, _record: impl FnOnce() -> Record) {}
}
