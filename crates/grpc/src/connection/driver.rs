//! An `h2` connection and the write coalescing of its socket, polled as one.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use super::write_coalescer::CoalescerControl;

/// A connection that makes progress only while it is polled. Ready when it has ended.
pub(crate) struct ConnectionDriver {
    connection: Pin<Box<dyn Future<Output = Result<(), h2::Error>> + Send>>,
    control: Box<dyn CoalescerControl>,
    /// False only in benchmarks, to measure the effect of coalescing.
    coalesces: bool,
}

impl ConnectionDriver {
    pub(crate) fn new(
        connection: impl Future<Output = Result<(), h2::Error>> + Send + 'static,
        control: Box<dyn CoalescerControl>,
        coalesces: bool,
    ) -> Self {
        Self { connection: Box::pin(connection), control, coalesces }
    }

    /// Reads what has arrived and sends what is queued. With `coalesce`, in as few writes as
    /// possible.
    pub(crate) fn poll(&mut self, cx: &mut Context<'_>, coalesce: bool) -> Poll<Result<(), h2::Error>> {
        self.control.start_turn(coalesce && self.coalesces);
        if let Poll::Ready(end) = self.connection.as_mut().poll(cx) {
            return Poll::Ready(end);
        }
        match ready!(self.control.poll_flush_buffer(cx)) {
            Ok(()) => Poll::Pending,
            // The connection gets the error from its next flush, and ends.
            Err(_) => self.connection.as_mut().poll(cx),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
    use std::time::Duration;

    use bytes::Bytes;
    use tokio::io::{AsyncRead, AsyncWrite, DuplexStream, ReadBuf};
    use tokio::time::timeout;

    use super::*;
    use crate::connection::features::Turns;
    use crate::connection::write_coalescer::WriteCoalescer;

    /// Counts writes, and fails them once it is broken.
    struct CountingSocket {
        inner: DuplexStream,
        writes: Arc<AtomicUsize>,
        broken: Arc<AtomicBool>,
    }

    impl AsyncRead for CountingSocket {
        fn poll_read(
            mut self: Pin<&mut Self>,
            cx: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            Pin::new(&mut self.inner).poll_read(cx, buf)
        }
    }

    impl AsyncWrite for CountingSocket {
        fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
            self.writes.fetch_add(1, Ordering::Relaxed);
            if self.broken.load(Ordering::Relaxed) {
                return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
            }
            Pin::new(&mut self.inner).poll_write(cx, buf)
        }

        fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.inner).poll_flush(cx)
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
            Pin::new(&mut self.inner).poll_shutdown(cx)
        }
    }

    /// One system call per call would dominate the cost of a call.
    #[tokio::test(start_paused = true)]
    async fn calls_that_are_queued_together_are_sent_together() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let server = tokio::spawn(async move {
            let mut connection = h2::server::handshake(theirs).await.unwrap();
            poll_fn(|cx| connection.poll_closed(cx).map(|_| ())).await;
        });
        let writes = Arc::new(AtomicUsize::new(0));
        let counting = CountingSocket { inner: ours, writes: Arc::clone(&writes), broken: Arc::default() };
        let (socket, control) = WriteCoalescer::new(counting, Turns::OneWorker);
        let (sender, connection) = h2::client::handshake(socket).await.unwrap();
        let mut driver = ConnectionDriver::new(connection, control, true);
        // The handshake completes.
        assert!(timeout(Duration::from_secs(1), poll_fn(|cx| driver.poll(cx, false))).await.is_err());
        let before = writes.load(Ordering::Relaxed);
        let mut answers = Vec::new();
        for _ in 0..10 {
            let request = http::Request::post("http://a/b").body(()).unwrap();
            let (answer, mut body) = sender.clone().send_request(request, false).unwrap();
            body.send_data(Bytes::from(vec![7; 1_024]), true).unwrap();
            answers.push(answer);
        }
        assert!(poll_fn(|cx| Poll::Ready(driver.poll(cx, true))).await.is_pending());
        assert_eq!(writes.load(Ordering::Relaxed), before + 1);
        server.abort();
    }

    #[tokio::test]
    async fn a_peer_that_is_gone_ends_the_connection() {
        let (ours, theirs) = tokio::io::duplex(1 << 16);
        let (socket, control) = WriteCoalescer::new(ours, Turns::OneWorker);
        let (_sender, connection) = h2::client::handshake(socket).await.unwrap();
        let mut driver = ConnectionDriver::new(connection, control, true);
        drop(theirs);
        let end = timeout(Duration::from_secs(60), poll_fn(|cx| driver.poll(cx, true)));
        assert!(end.await.expect("it ends").is_ok());
    }

    /// The error occurs only in the flush of the buffer, and must reach `h2`.
    #[tokio::test]
    async fn a_socket_whose_writes_fail_ends_the_connection() {
        let (ours, _theirs) = tokio::io::duplex(1 << 16);
        let broken = Arc::new(AtomicBool::new(false));
        let counting = CountingSocket { inner: ours, writes: Arc::default(), broken: Arc::clone(&broken) };
        let (socket, control) = WriteCoalescer::new(counting, Turns::OneWorker);
        let (_sender, connection) = h2::client::handshake(socket).await.unwrap();
        let mut driver = ConnectionDriver::new(connection, control, true);
        broken.store(true, Ordering::Relaxed);
        let end = timeout(Duration::from_secs(60), poll_fn(|cx| driver.poll(cx, true)));
        assert!(end.await.expect("it ends").is_err_and(|it| it.is_io()));
    }
}
