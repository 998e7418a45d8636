//! TLS: roots and client certificates, and rustls configurations that follow their files.
//!
//! Reads [`TlsSettings`](crate::config::TlsSettings) and a plugin's certificate; the transport gets
//! a rustls configuration per connection pool and replaces the pool when `CertificateReloader`
//! reports a change. Nothing here opens a socket, and nothing runs in the background: files are
//! read when a request or a handshake needs them.

mod error;
mod pem;
mod roots;
mod explain;
mod verifier;
mod identity;
mod reload;

pub use error::TlsError;
pub(crate) use explain::explain;
pub(crate) use reload::{Alpn, CertificateReloader, ReloadIntervals};
