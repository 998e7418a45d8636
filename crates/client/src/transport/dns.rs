//! Name resolution by the system, timed, with an error type that is distinct from a failed
//! connection.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};

use hyper_util::client::legacy::connect::dns::{GaiAddrs, GaiResolver, Name};
use metrics::histogram;
use tokio::time::Instant;
use tower_service::Service;

/// A resolver that uses the system's and records its duration.
#[derive(Clone, Debug)]
pub(super) struct TimedResolver {
    inner: GaiResolver,
}

/// An error of name resolution.
#[derive(Debug, thiserror::Error)]
#[error("cannot resolve {host}")]
pub(super) struct DnsError {
    host: String,
    #[source]
    source: std::io::Error,
}

impl TimedResolver {
    pub(super) fn new() -> Self {
        Self { inner: GaiResolver::new() }
    }
}

impl Service<Name> for TimedResolver {
    type Response = GaiAddrs;
    type Error = DnsError;
    type Future = Pin<Box<dyn Future<Output = Result<GaiAddrs, DnsError>> + Send>>;

    fn poll_ready(&mut self, _cx: &mut Context<'_>) -> Poll<Result<(), DnsError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let host = name.as_str().to_owned();
        let started = Instant::now();
        let resolving = self.inner.call(name);
        Box::pin(async move {
            let found = resolving.await;
            histogram!("rest_client_dns_resolution_duration_seconds", "host" => host.clone())
                .record(started.elapsed().as_secs_f64());
            found.map_err(|source| DnsError { host, source })
        })
    }
}
