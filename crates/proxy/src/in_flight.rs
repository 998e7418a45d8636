//! The number of requests in flight on a connection: one that has none for a while is closed.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use dogwatch_client::{BoxError, ResponseBody, boxed};
use http_body::{Body, Frame, SizeHint};
use tokio::sync::watch;

/// The number of requests in flight on one connection. Clones share it.
#[derive(Clone, Debug, Default)]
pub(crate) struct InFlight(watch::Sender<usize>);

/// One request in flight, until this is dropped.
#[derive(Debug)]
pub(crate) struct InFlightRequest(watch::Sender<usize>);

impl InFlight {
    /// Counts a request.
    pub(crate) fn begin(&self) -> InFlightRequest {
        self.0.send_modify(|count| *count = count.saturating_add(1));
        InFlightRequest(self.0.clone())
    }

    /// Resolves when there has been no request for this time.
    pub(crate) async fn idle(&self, time: Duration) {
        let mut count = self.0.subscribe();
        // The sender is `self`, so it cannot be closed.
        while count.wait_for(|it| *it == 0).await.is_ok() {
            if tokio::time::timeout(time, count.changed()).await.is_err() {
                return;
            }
        }
    }
}

impl InFlightRequest {
    /// Counts the request until its response has been sent, or its client is gone.
    pub(crate) fn until_end_of(self, body: ResponseBody) -> ResponseBody {
        boxed(CountedBody { body, _request: self })
    }
}

impl Drop for InFlightRequest {
    fn drop(&mut self) {
        self.0.send_modify(|count| *count = count.saturating_sub(1));
    }
}

struct CountedBody {
    body: ResponseBody,
    _request: InFlightRequest,
}

impl Body for CountedBody {
    type Data = Bytes;
    type Error = BoxError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BoxError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use dogwatch_client::RequestBody;
    use http_body_util::BodyExt;
    use tokio::time::Instant;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_connection_is_idle_when_its_last_response_was_sent_long_ago() {
        let requests = InFlight::default();
        let begun = Instant::now();
        let sent = requests.begin().until_end_of(boxed(RequestBody::from("a list")));
        let other = requests.begin();
        let working = async {
            tokio::time::sleep(Duration::from_secs(60)).await;
            assert_eq!(sent.collect().await.unwrap().to_bytes(), "a list");
            tokio::time::sleep(Duration::from_secs(30)).await;
            drop(other);
            tokio::time::sleep(Duration::from_secs(9)).await;
            drop(requests.begin());
        };
        tokio::join!(requests.idle(Duration::from_secs(10)), working);
        assert_eq!(begun.elapsed(), Duration::from_secs(60 + 30 + 9 + 10));
    }
}
