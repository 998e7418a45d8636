//! A request that is ready to be sent, and the response before its body is read.

use std::time::Duration;

use bytes::Bytes;
use http::{Extensions, HeaderMap, Method, StatusCode};

use crate::body::ResponseBody;
use crate::config::Impersonation;
use crate::exchange::retry::Mode;

/// A request that is ready to be sent, any number of times. It has no `Debug`: headers and body may
/// hold secrets.
#[derive(Clone)]
pub(crate) struct Prepared {
    pub(crate) method: Method,
    /// Path and query, relative to the server's base path.
    pub(crate) target: String,
    /// The path with names replaced by placeholders.
    pub(crate) template: String,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) mode: Mode,
    pub(crate) timeout: Option<Duration>,
    pub(crate) max_retries: Option<u32>,
    pub(crate) impersonate: Option<Impersonation>,
    /// Resource and name, for messages.
    pub(crate) resource: String,
    pub(crate) name: String,
}

/// A successful response whose body has not been read.
pub(crate) struct OpenResponse {
    pub(crate) code: StatusCode,
    pub(crate) headers: HeaderMap,
    /// The extensions, including the upgraded connection if the server switched protocols.
    pub(crate) extensions: Extensions,
    pub(crate) body: ResponseBody,
}
