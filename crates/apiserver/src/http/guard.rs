//! Panic isolation: a request that panics is answered with 500, counted and logged, and does not
//! affect others.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};

use futures_core::Stream;

use super::body::Cut;
use super::pieces::Pieces;
use super::watch_encoder::WatchEncoder;
use crate::ApiError;
use crate::panics::{Panicked, caught_in};
use crate::registry::Kind;
use crate::request::Encoding;

/// kube-apiserver's message (`WithPanicRecovery` in k8s.io/apiserver v0.36.4
/// pkg/server/filters/wrap.go).
const PANIC_MESSAGE: &str = "This request caused apiserver to panic. Look in the logs for details.";

/// The number of requests that panicked. Clones share the count.
#[derive(Clone, Debug, Default)]
pub(super) struct Panics(Arc<AtomicU64>);

impl Panics {
    /// Counts and logs a panic, and returns the error for the client. `subject` is the path or the
    /// resource of the request.
    pub(super) fn answer(&self, panic: &Panicked, method: &str, subject: &str) -> ApiError {
        self.0.fetch_add(1, Ordering::Relaxed);
        tracing::error!(method, subject, panic = panic.0, "panic while serving a request");
        ApiError::internal(PANIC_MESSAGE)
    }

    /// Returns the count in the Prometheus text format.
    pub(super) fn text(&self) -> String {
        let count = self.0.load(Ordering::Relaxed);
        format!(
            "# HELP apiserver_request_panics_total Counter of requests that panicked and were answered with 500.\n\
             # TYPE apiserver_request_panics_total counter\napiserver_request_panics_total {count}\n"
        )
    }
}

/// The events of a watch. A panic ends them with an event of type `ERROR`, as other failures do, so
/// that the connection survives.
pub(super) struct GuardedEvents<S> {
    /// `None` after a panic.
    events: Option<S>,
    panics: Panics,
    kind: Arc<Kind>,
    encoding: Encoding,
}

impl<S> GuardedEvents<S> {
    pub(super) fn new(events: S, panics: Panics, kind: Arc<Kind>, encoding: Encoding) -> Self {
        Self { events: Some(events), panics, kind, encoding }
    }
}

impl<S: Stream<Item = Result<Pieces, Cut>> + Unpin> Stream for GuardedEvents<S> {
    type Item = Result<Pieces, Cut>;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        let Some(events) = &mut this.events else { return Poll::Ready(None) };
        caught_in(|| Pin::new(events).poll_next(context)).unwrap_or_else(|panic| {
            this.events = None;
            let refusal = this.panics.answer(&panic, "WATCH", &this.kind.def.plural);
            Poll::Ready(Some(Ok(Pieces::from_iter([WatchEncoder::error(&refusal, this.encoding)]))))
        })
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt;
    use futures_util::stream;
    use serde_json::Value;

    use super::*;
    use crate::registry::Catalog;

    #[tokio::test]
    async fn a_watch_that_panics_ends_with_an_error_event() {
        let panics = Panics::default();
        let events = stream::iter([1, 2, 3]).map(|it| match it {
            1 => Ok(Pieces::from(b"{}\n".to_vec())),
            _ => panic!("number {it}"),
        });
        let kind = Catalog::default().kind("", "v1", "pods").expect("pods are always served");
        let all: Vec<_> = GuardedEvents::new(events, panics.clone(), kind, Encoding::Json).collect().await;
        let [Ok(_), Ok(last)] = &all[..] else { panic!("{} events", all.len()) };
        let last: Vec<u8> = last.clone().into_iter().flatten().collect();
        let event: Value = serde_json::from_slice(&last).expect("JSON");
        assert_eq!((&event["type"], &event["object"]["code"]), (&"ERROR".into(), &500.into()), "{event}");
        assert!(panics.text().ends_with("\napiserver_request_panics_total 1\n"), "{}", panics.text());
    }
}
