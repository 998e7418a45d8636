//! A socket whose writes are coalesced: the frames of several calls leave in one system call.
//!
//! `h2` writes each larger frame separately and flushes after it: at least one system call per
//! call, and a system call costs more than everything else that a connection does for a call. While
//! coalescing is on, writes and flushes only fill a buffer; the connection's driver sends the
//! buffer after each poll.
//!
//! Flushes are never delayed to batch more: that would serialise the two ends of the connection.
//!
//! `cargo xtask bench grpc ablation` compares it with `h2`'s own writes: on two processors these
//! take 1.0 to 1.3 times the CPU time for a call, and reading without turns up to 1.6 times
//! (`bench/README.md`).

use std::io::{self, IoSlice};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::runtime::Handle;

use super::features::Turns;

/// The capacity of the buffer. A write that does not fit sends the buffer first.
const MAX_BUFFERED: usize = 64 << 10;
/// Writes of this size or larger bypass the buffer: copying them does not pay.
const LARGE_WRITE: usize = 8 << 10;
/// The number of bytes read per turn on a runtime with one worker. The calls that the data belongs
/// to run before the next turn, so that the peer gets new work meanwhile; reading everything first
/// would make the two ends take turns instead of working concurrently. With several workers, other
/// workers run these calls anyway, and another turn would only move the connection between workers.
const READ_BUDGET: usize = 8 << 10;
/// The buffer capacity that an idle connection may keep.
const MAX_RETAINED: usize = 4 << 10;

/// The socket, for the HTTP/2 connection that writes to it.
#[derive(Debug)]
pub(crate) struct WriteCoalescer<T>(Arc<Mutex<CoalescerState<T>>>);

/// The control of the buffer, for the driver of the connection.
pub(crate) trait CoalescerControl: Send {
    /// Starts a turn. With `coalesce`, writes are buffered from here on; without, they go straight
    /// to the socket.
    fn start_turn(&mut self, coalesce: bool);

    /// Sends the buffer. An error is also returned from the next write or flush of the socket.
    fn poll_flush_buffer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
}

#[derive(Debug)]
struct CoalescerState<T> {
    socket: T,
    buffering: bool,
    buffer: Vec<u8>,
    /// The number of bytes of `buffer` that were sent.
    sent: usize,
    /// A writer is waiting for room in the buffer.
    writer_blocked: bool,
    failed: Option<io::ErrorKind>,
    /// The peer has closed its side. Nothing is sent any more: calls that were not sent by then are
    /// retried elsewhere, and a peer that still reads would execute them too.
    peer_closed: bool,
    /// The number of bytes that may be read per turn, and the rest of it in this turn.
    read_budget: usize,
    read_left: usize,
}

impl<T: AsyncRead + AsyncWrite + Send + Unpin + 'static> WriteCoalescer<T> {
    /// Wraps a socket. Must be called on a tokio runtime.
    pub(crate) fn new(socket: T, turns: Turns) -> (Self, Box<dyn CoalescerControl>) {
        let read_budget = match turns {
            Turns::Always => READ_BUDGET,
            Turns::OneWorker if Handle::current().metrics().num_workers() == 1 => READ_BUDGET,
            Turns::OneWorker | Turns::Never => usize::MAX,
        };
        let state = CoalescerState {
            socket,
            buffering: false,
            buffer: Vec::new(),
            sent: 0,
            writer_blocked: false,
            failed: None,
            peer_closed: false,
            read_budget,
            read_left: read_budget,
        };
        let state = Arc::new(Mutex::new(state));
        (Self(Arc::clone(&state)), Box::new(state))
    }
}

impl<T: AsyncWrite + Unpin> CoalescerState<T> {
    fn waiting(&self) -> usize {
        self.buffer.len() - self.sent
    }

    fn check(&self) -> io::Result<()> {
        self.failed.map_or(Ok(()), |kind| Err(kind.into()))
    }

    fn poll_send_buffer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.check()?;
        if self.peer_closed {
            (self.buffer, self.sent) = (Vec::new(), 0);
            return Poll::Ready(Ok(()));
        }
        let sent = self.poll_write_all(cx);
        if let Poll::Ready(Err(error)) = &sent {
            self.failed = Some(error.kind());
        }
        sent
    }

    fn poll_write_all(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.waiting() > 0 {
            match ready!(Pin::new(&mut self.socket).poll_write(cx, &self.buffer[self.sent..]))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                count => self.sent += count,
            }
        }
        self.buffer.clear();
        self.sent = 0;
        Pin::new(&mut self.socket).poll_flush(cx)
    }

    fn poll_write_parts(&mut self, cx: &mut Context<'_>, parts: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let size: usize = parts.iter().map(|it| it.len()).sum();
        let buffering = self.buffering && size < LARGE_WRITE;
        if !buffering || self.waiting() + size > MAX_BUFFERED {
            let sent = self.poll_send_buffer(cx);
            self.writer_blocked |= sent.is_pending();
            ready!(sent)?;
        }
        self.check()?;
        if self.peer_closed {
            return Poll::Ready(Ok(size));
        }
        if !buffering {
            return Pin::new(&mut self.socket).poll_write_vectored(cx, parts);
        }
        parts.iter().for_each(|it| self.buffer.extend_from_slice(it));
        Poll::Ready(Ok(size))
    }
}

impl<T: AsyncWrite + Send + Unpin> CoalescerControl for Arc<Mutex<CoalescerState<T>>> {
    fn start_turn(&mut self, coalesce: bool) {
        let mut state = self.lock();
        state.buffering = coalesce;
        state.read_left = state.read_budget;
    }

    fn poll_flush_buffer(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.lock();
        ready!(state.poll_send_buffer(cx))?;
        if !state.buffering && state.buffer.capacity() > MAX_RETAINED {
            state.buffer = Vec::new();
        }
        // A writer was refused because the buffer was full. Now that it is empty, no event of the
        // socket would wake that writer.
        if std::mem::take(&mut state.writer_blocked) {
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncRead + Unpin> AsyncRead for WriteCoalescer<T> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        // The budget of this turn is used up: yield, and be polled again.
        if state.read_left == 0 {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        let before = buf.filled().len();
        ready!(Pin::new(&mut state.socket).poll_read(cx, buf))?;
        let count = buf.filled().len() - before;
        state.peer_closed |= count == 0 && buf.remaining() > 0;
        state.read_left = state.read_left.saturating_sub(count);
        Poll::Ready(Ok(()))
    }
}

impl<T: AsyncWrite + Unpin> AsyncWrite for WriteCoalescer<T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.lock().poll_write_parts(cx, &[IoSlice::new(buf)])
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.0.lock().poll_write_parts(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    /// Sends nothing: the driver sends the buffer after it has polled the connection.
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.0.lock().check())
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut state = self.0.lock();
        ready!(state.poll_send_buffer(cx))?;
        Pin::new(&mut state.socket).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use futures_util::task::noop_waker_ref;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    use super::*;

    fn flush_buffer(control: &mut dyn CoalescerControl) -> Poll<io::Result<()>> {
        control.poll_flush_buffer(&mut Context::from_waker(noop_waker_ref()))
    }

    /// Returns the number of bytes that the other end can read now.
    fn readable_bytes(other: &mut DuplexStream) -> usize {
        let mut bytes = vec![0; 2 * MAX_BUFFERED];
        let mut buffer = ReadBuf::new(&mut bytes);
        let mut cx = Context::from_waker(noop_waker_ref());
        while Pin::new(&mut *other).poll_read(&mut cx, &mut buffer).is_ready() {}
        buffer.filled().len()
    }

    #[tokio::test]
    async fn buffered_writes_leave_on_the_next_flush_of_the_buffer() {
        let (one, mut other) = duplex(2 * MAX_BUFFERED);
        let (mut socket, mut control) = WriteCoalescer::new(one, Turns::OneWorker);
        control.start_turn(true);
        for _ in 0..3 {
            socket.write_all(b"hello").await.unwrap();
            socket.flush().await.unwrap();
        }
        assert_eq!(readable_bytes(&mut other), 0);
        assert!(flush_buffer(&mut *control).is_ready());
        assert_eq!(readable_bytes(&mut other), 15);
    }

    #[tokio::test]
    async fn without_coalescing_writes_leave_at_once_and_after_the_buffer() {
        let (one, mut other) = duplex(2 * MAX_BUFFERED);
        let (mut socket, mut control) = WriteCoalescer::new(one, Turns::OneWorker);
        control.start_turn(true);
        socket.write_all(b"one ").await.unwrap();
        control.start_turn(false);
        socket.write_all(b"two").await.unwrap();
        let mut both = [0; 7];
        other.read_exact(&mut both).await.unwrap();
        assert_eq!(&both, b"one two");
    }

    /// Data that was not sent when the peer closed its side is never sent, although the peer would
    /// accept it.
    #[tokio::test]
    async fn nothing_is_sent_after_the_peer_closed_its_side() {
        let (one, mut other) = duplex(2 * MAX_BUFFERED);
        let (mut socket, mut control) = WriteCoalescer::new(one, Turns::OneWorker);
        control.start_turn(true);
        socket.write_all(b"one").await.unwrap();
        other.shutdown().await.unwrap();
        assert_eq!(socket.read(&mut [0; 10]).await.unwrap(), 0);
        for coalesce in [true, false] {
            assert!(matches!(flush_buffer(&mut *control), Poll::Ready(Ok(()))));
            control.start_turn(coalesce);
            socket.write_all(b"two").await.unwrap();
            socket.write_all(&[2; LARGE_WRITE]).await.unwrap();
            socket.flush().await.unwrap();
        }
        socket.shutdown().await.unwrap();
        assert_eq!(other.read_to_end(&mut Vec::new()).await.unwrap(), 0);
    }

    #[tokio::test]
    async fn a_large_write_leaves_at_once_and_in_order() {
        let (one, mut other) = duplex(2 * MAX_BUFFERED);
        let (mut socket, mut control) = WriteCoalescer::new(one, Turns::OneWorker);
        control.start_turn(true);
        socket.write_all(&[1; 10]).await.unwrap();
        socket.write_all(&[2; LARGE_WRITE]).await.unwrap();
        let mut all = vec![0; LARGE_WRITE + 10];
        other.read_exact(&mut all).await.unwrap();
        assert_eq!((&all[..10], &all[10..]), (&[1; 10][..], &[2; LARGE_WRITE][..]));
    }

    #[tokio::test]
    async fn the_buffer_is_bounded() {
        let (one, mut other) = duplex(4 * MAX_BUFFERED);
        let (mut socket, mut control) = WriteCoalescer::new(one, Turns::OneWorker);
        control.start_turn(true);
        for _ in 0..100 {
            socket.write_all(&[7; 1_000]).await.unwrap();
        }
        let first = readable_bytes(&mut other);
        assert!((MAX_BUFFERED - 1_000..=MAX_BUFFERED).contains(&first), "{first}");
        assert!(flush_buffer(&mut *control).is_ready());
        assert_eq!(first + readable_bytes(&mut other), 100_000);
    }

    #[tokio::test]
    async fn a_writer_waits_while_the_peer_does_not_read_and_then_goes_on() {
        let (one, mut other) = duplex(MAX_BUFFERED / 4);
        let (mut socket, mut control) = WriteCoalescer::new(one, Turns::OneWorker);
        control.start_turn(true);
        let mut writing = poll_once(async move {
            for _ in 0..=MAX_BUFFERED / 1_000 {
                socket.write_all(&[7; 1_000]).await.unwrap();
            }
        });
        assert!(writing().is_pending(), "the buffer should be full");
        let mut read = 0;
        for _ in 0..4 {
            read += readable_bytes(&mut other);
            let _ = flush_buffer(&mut *control);
        }
        assert!(writing().is_ready(), "the buffer should have room");
        assert!(flush_buffer(&mut *control).is_ready());
        assert_eq!(read + readable_bytes(&mut other), (MAX_BUFFERED / 1_000 + 1) * 1_000);
    }

    /// Returns a function that polls the future once.
    fn poll_once(task: impl Future<Output = ()>) -> impl FnMut() -> Poll<()> {
        let mut task = Box::pin(task);
        move || task.as_mut().poll(&mut Context::from_waker(noop_waker_ref()))
    }

    #[tokio::test]
    async fn an_error_is_returned_from_the_buffer_flush_and_from_writes() {
        let (one, other) = duplex(64);
        let (mut socket, mut control) = WriteCoalescer::new(one, Turns::OneWorker);
        control.start_turn(true);
        socket.write_all(b"hello").await.unwrap();
        drop(other);
        assert!(matches!(flush_buffer(&mut *control), Poll::Ready(Err(_))));
        assert_eq!(socket.flush().await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
        assert_eq!(socket.write_all(b"more").await.unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn shutdown_sends_the_buffer() {
        let (one, mut other) = duplex(64);
        let (mut socket, mut control) = WriteCoalescer::new(one, Turns::OneWorker);
        control.start_turn(true);
        socket.write_all(b"goodbye").await.unwrap();
        socket.shutdown().await.unwrap();
        let mut all = Vec::new();
        other.read_to_end(&mut all).await.unwrap();
        assert_eq!(all, b"goodbye");
    }

    /// Test runtimes have one worker.
    #[tokio::test]
    async fn on_one_worker_a_turn_reads_a_limited_number_of_bytes() {
        let (one, mut other) = duplex(4 * READ_BUDGET);
        let (mut socket, mut control) = WriteCoalescer::new(one, Turns::OneWorker);
        other.write_all(&vec![7; 2 * READ_BUDGET + 1]).await.unwrap();
        let mut bytes = vec![0; READ_BUDGET];
        let mut turn = || {
            control.start_turn(true);
            let mut read = 0;
            let mut cx = Context::from_waker(noop_waker_ref());
            loop {
                let mut buffer = ReadBuf::new(&mut bytes);
                match Pin::new(&mut socket).poll_read(&mut cx, &mut buffer) {
                    Poll::Ready(result) => result.unwrap(),
                    Poll::Pending => return read,
                }
                read += buffer.filled().len();
            }
        };
        assert_eq!([turn(), turn(), turn(), turn()], [READ_BUDGET, READ_BUDGET, 1, 0]);
    }

    #[tokio::test]
    async fn an_idle_connection_keeps_little_memory() {
        let (one, mut other) = duplex(4 * MAX_BUFFERED);
        let (mut socket, mut control) = WriteCoalescer::new(one, Turns::OneWorker);
        let state = Arc::clone(&socket.0);
        control.start_turn(true);
        for _ in 0..20 {
            socket.write_all(&[7; 1_000]).await.unwrap();
        }
        assert!(flush_buffer(&mut *control).is_ready() && state.lock().buffer.capacity() > MAX_RETAINED);
        control.start_turn(false);
        assert!(flush_buffer(&mut *control).is_ready() && state.lock().buffer.capacity() == 0);
        assert_eq!(readable_bytes(&mut other), 20_000);
    }
}
