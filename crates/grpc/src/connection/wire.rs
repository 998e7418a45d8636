//! A connection of `h2` and the cork of its socket, polled as one.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::corked::Cork;

/// A connection that must be polled for anything to move. Ready when it has ended.
pub(crate) struct Wire {
    connection: Pin<Box<dyn Future<Output = Result<(), h2::Error>> + Send>>,
    cork: Box<dyn Cork>,
}

impl Wire {
    pub(crate) fn new(
        connection: impl Future<Output = Result<(), h2::Error>> + Send + 'static,
        cork: Box<dyn Cork>,
    ) -> Self {
        Self { connection: Box::pin(connection), cork }
    }

    /// Reads what came and sends what there is to send. `company`: there is more than one call.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, company: bool) -> Poll<Result<(), h2::Error>> {
        self.cork.push(company);
        if let Poll::Ready(end) = self.connection.as_mut().poll(cx) {
            return Poll::Ready(end);
        }
        match ready!(self.cork.poll_pull(cx)) {
            Ok(()) => Poll::Pending,
            // The connection hears of it when it flushes, and ends.
            Err(_) => self.connection.as_mut().poll(cx),
        }
    }
}
